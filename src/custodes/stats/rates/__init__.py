"""Rates of labels: error rates of a judge, corrected rates, agreement, thresholds of scores and sample sizes."""
