"""Payments sent with the call itself (x402): how they are asked for, read, verified, claimed once and settled."""
