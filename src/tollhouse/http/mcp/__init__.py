"""MCP (Model Context Protocol) over streamable HTTP."""
