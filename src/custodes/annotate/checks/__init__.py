"""Rules of `check`, by what they look at."""
