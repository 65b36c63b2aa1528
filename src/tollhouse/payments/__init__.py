"""Payments: the ledger, agents' credit, deposits, and x402."""
