"""The HTTP API and the pages: a door for programs and people to a butler's own flows."""
