"""What every answer is made of: declared tables, a result that tells how it was made, and how both are set as text."""
