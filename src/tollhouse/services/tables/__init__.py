"""Services without Python: a table of a user's, and a declaration that says how it is searched and sold."""
