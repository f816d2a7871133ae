"""Measures of an edited model beside the scores of §4.4: benchmarks, leaks, tokens elsewhere."""
