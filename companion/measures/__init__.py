"""Measures of an edited model beyond the scores of §4.4: benchmarks, leaks, tokens elsewhere."""
