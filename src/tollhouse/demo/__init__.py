"""A tour of a server on a local chain."""
