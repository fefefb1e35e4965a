"""A judge examined."""
