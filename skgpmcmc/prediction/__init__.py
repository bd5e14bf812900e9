"""Averages over the posterior draws."""
