"""What the memory module asks of PostgreSQL: a function is a statement."""
