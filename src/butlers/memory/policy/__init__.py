"""What the memory module decides: pure functions that take `now`."""
