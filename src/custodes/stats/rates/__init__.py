"""Rates of labels: errors of a judge, corrected rates, agreement, thresholds of scores, sample sizes."""
