"""What does it all mean? The answer in plain words, a file per subject."""
