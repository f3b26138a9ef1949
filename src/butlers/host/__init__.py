"""One butler: its home, its settings' modules, its database, and opening it."""
