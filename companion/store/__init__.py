"""Rows of results: written, stamped, read, adopted, compared."""
