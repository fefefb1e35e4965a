"""How alike the judges are, and the parts of that question."""
