"""Rates of labels, such as pass rates."""
