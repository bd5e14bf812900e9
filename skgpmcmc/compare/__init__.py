"""Comparison of a Bayesian GP classifier with its rivals on the same splits of real data."""
