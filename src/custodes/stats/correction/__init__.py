"""Estimators of human win rates from few human and many metric ratings, one per file."""
