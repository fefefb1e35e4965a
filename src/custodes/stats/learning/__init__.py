"""Models that predict human ratings: folds, linear and boosted models, searches over weights."""
