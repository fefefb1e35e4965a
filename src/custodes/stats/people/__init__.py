"""What several people say together, how far each can be trusted, and how far they agree."""
