"""The HTTP API, and who may call it."""
