"""Measurements; each module is a script that prints a table and writes JSON to results/."""
