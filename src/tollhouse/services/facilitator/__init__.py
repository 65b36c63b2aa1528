"""Our facilitator for others: their resource servers' x402 payments, verified and settled over HTTP."""
