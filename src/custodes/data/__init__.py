"""Ratings, verdicts, raters, items and texts of a study, and their conversion from tables to arrays."""
