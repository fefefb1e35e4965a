"""Strengths, ranks and groups of systems by annotators, by every metric, and by annotators with a metric correction."""
