"""Consolidation: a language model or an agent turns episodes into facts and rules."""
