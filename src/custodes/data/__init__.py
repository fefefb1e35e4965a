"""What was judged: ratings, verdicts, raters, items, texts, and the bridges from tables to arrays."""
