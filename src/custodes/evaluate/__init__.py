"""The questions: one file, one function and one result type each."""
