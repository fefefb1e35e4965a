"""One file, one function and one result type per question."""
