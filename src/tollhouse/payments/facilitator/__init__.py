"""Settling payments on the chain: with a key of our own, or through somebody else's facilitator."""
