"""The method (§3): Alg. 1 and 2, selection, the neuron's line, the vocabulary, the edit and its undo, variants and controls."""
