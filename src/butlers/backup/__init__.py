"""A whole home in one file: made while it is used, checked, and restored elsewhere."""
