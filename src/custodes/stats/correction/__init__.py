"""Estimators of human win rates from few human ratings and many metric ratings; each estimator has its own file."""
