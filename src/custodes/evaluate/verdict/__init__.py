"""Summary of the results in sentences, one file per subject."""
