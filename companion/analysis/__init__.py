"""From rows to the tables and figures of the book."""
