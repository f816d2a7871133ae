"""Drawings: one style, one look a method, the pictures that several pages share."""
