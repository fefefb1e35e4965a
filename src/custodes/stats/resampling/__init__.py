"""Chance, drawn again: bootstrap multiplicities, sign flips, swaps of two metrics."""
