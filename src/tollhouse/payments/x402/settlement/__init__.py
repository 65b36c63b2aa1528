"""Settlement of x402 payments on the chain, by our own account or a remote facilitator."""
