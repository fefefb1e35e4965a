"""Mapping of columns to the roles that readers expect: roles, patterns, schema files, guesses."""
