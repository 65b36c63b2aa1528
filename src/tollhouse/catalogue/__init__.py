"""A searchable table of things: a schema, rows in the database, and an index that follows them."""
