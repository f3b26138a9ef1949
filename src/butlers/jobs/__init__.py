"""What runs on a schedule: when, how it went, and what it may cost."""
