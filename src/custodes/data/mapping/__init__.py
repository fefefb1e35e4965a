"""Mapping of columns to roles if their names are not the expected ones: roles, patterns, schema files, guesses."""
