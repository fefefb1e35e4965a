"""Scores of texts: definition, list and execution of metrics."""
