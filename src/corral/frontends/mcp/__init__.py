"""The MCP server: each tool turns its arguments into Engine calls."""
