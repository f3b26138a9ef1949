"""What the memory module does, one file per flow, readable from the top."""
