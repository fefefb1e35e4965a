"""The people examined."""
