"""Scores of texts: the definition, the list and the execution of metrics."""
