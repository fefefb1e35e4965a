"""Consistency and biases of judges."""
