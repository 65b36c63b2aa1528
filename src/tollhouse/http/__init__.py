"""The HTTP framework: server, router, requests, responses, OpenAPI and MCP. No business rules."""
