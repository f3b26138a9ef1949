"""Back up a whole home into one file while it is used, check it, and restore it elsewhere."""
