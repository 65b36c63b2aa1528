"""The ledger in PostgreSQL, beside everything else."""
