"""The ledger in a SQLite file of its own."""
