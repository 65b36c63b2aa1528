"""The Model Context Protocol: the same operations, limits and payments, for agents that speak it."""
