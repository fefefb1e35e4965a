"""Rates of labels; the parts of the question `rates`."""
