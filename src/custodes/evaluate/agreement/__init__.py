"""Agreement of each metric with the annotators."""
