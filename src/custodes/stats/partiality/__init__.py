"""Partiality: does a metric rate a system higher than its quality explains? From scores or from verdicts."""
