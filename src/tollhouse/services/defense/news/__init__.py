"""News: import articles, build and publish stories and entities, serve their feeds."""
