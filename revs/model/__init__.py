"""The model (§4.1, §4.2): architectures, loading, text, targets."""
