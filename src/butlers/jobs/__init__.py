"""Scheduled jobs: when they run, how they ended, and what they may cost."""
