"""Similarity of raters."""
