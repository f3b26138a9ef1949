"""The databases: PostgreSQL, embedded or external, and SQLite."""
