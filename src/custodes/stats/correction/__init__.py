"""How often people prefer one system, from few people and many automatic ratings: one estimator a file."""
