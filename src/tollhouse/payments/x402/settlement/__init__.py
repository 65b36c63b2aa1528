"""Settling x402 payments on the chain, through our own account or a remote facilitator."""
