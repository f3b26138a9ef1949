"""The embedded PostgreSQL server: its programs, its data, its account, and who holds it."""
