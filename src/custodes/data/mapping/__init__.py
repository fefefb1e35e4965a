"""What the columns of a table mean, where they are not named as a reader expects: roles, patterns, a schema file."""
