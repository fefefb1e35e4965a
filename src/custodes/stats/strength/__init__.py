"""Strengths of systems from pairwise comparisons: Bradley-Terry with ties, ranks, correction of human strengths by a
metric."""
