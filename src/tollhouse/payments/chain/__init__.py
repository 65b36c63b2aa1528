"""The chain on which people pay: a client for its node, and a local chain for tests."""
