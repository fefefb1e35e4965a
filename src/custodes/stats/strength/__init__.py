"""Strengths of systems from pairwise comparisons: Bradley-Terry model with ties, ranks, and human strengths estimated
with the help of a metric."""
