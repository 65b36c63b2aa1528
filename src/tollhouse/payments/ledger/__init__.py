"""The ledger: double entry in whole micro-USD, durable before a call returns."""
