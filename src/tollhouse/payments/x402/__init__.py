"""Payments sent with a request (x402): challenge, verification, claim and settlement."""
