"""Mapping of columns to roles with other names than readers expect: roles, patterns, schema files, guesses."""
