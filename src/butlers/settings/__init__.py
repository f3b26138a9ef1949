"""What files may say: sections, reading them, their faults, and their reference."""
