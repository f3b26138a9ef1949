"""What agents' sessions take from a memory and what they leave there."""
