"""What predicts people's ratings: folds, linear and boosted models, searches over weights."""
