"""Measurements: retrieval quality and speed. `python -m bench` runs them all."""
