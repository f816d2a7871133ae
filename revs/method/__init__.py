"""The method (§3): Alg. 1 and 2, the vocabulary, the edit and its undo, variants and controls."""
