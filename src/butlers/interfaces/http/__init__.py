"""The door for programs: the HTTP API, and who may call it."""
