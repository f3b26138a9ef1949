"""The pages of `docs/` that are written from the code, and checked against it by tests."""
