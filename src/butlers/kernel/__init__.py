"""Pure functions on text, vectors, ranks and time spans."""
