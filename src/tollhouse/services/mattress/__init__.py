"""The mattress service: products of several retailers, found, compared and linked to (document 2)."""
