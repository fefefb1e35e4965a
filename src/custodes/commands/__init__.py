"""Commands that are not questions about a study. Each command has a file."""
