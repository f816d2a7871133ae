"""Rows of results, what they depend on, the paper's numbers, the project's folders."""
