"""The ledger's migrations, in the order of their numbers."""
