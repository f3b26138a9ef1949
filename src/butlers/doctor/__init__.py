"""What could be wrong with a home, and what to do about it."""
