"""Catalogues: a schema, items in the database, and a search index that follows them."""
