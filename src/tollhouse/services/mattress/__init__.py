"""The mattress service: a searchable catalogue of several retailers' mattresses (document 2)."""
