"""How calls are paid for: the ledger, agents' credit, deposits, x402, checkout."""
