"""Partiality: does a metric place a system higher than its quality explains? By scores, by verdicts, and the test."""
