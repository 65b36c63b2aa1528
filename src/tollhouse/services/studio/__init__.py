"""The studio service: one document that the operator edits, served as it was last right."""
