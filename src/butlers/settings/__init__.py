"""The settings files: their sections, how they are read, and their faults in words."""
