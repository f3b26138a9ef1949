"""The modules a butler can load; each is a stranger to the others."""
