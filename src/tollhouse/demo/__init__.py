"""A guided tour of a server on a chain of its own."""
