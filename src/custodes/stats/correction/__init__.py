"""Estimators of human win rates from few human ratings and many metric ratings; each file has one estimator."""
