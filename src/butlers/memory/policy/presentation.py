"""Rows as JSON can carry them."""

from butlers.kernel.json_values import as_json

__all__ = ["as_json"]
