"""How well each metric agrees with people, and the parts of that question."""
