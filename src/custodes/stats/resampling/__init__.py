"""Chance, drawn again: bootstrap multiplicities, sign flips, families of tests."""
