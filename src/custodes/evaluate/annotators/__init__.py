"""Agreement and reliability of the annotators."""
