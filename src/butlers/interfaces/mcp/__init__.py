"""The door for agents: MCP over HTTP and over standard input and output."""
