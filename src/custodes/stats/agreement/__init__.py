"""How alike two raters rank the same outputs: accuracies, correlations, people's own reliability."""
