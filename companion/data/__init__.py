"""Data sets and models by name."""
