"""MCP: the interface for agents, over HTTP and stdio."""
