"""Rates of labels: a judge's errors, corrected rates, agreement of labels, thresholds of scores, sample sizes."""
