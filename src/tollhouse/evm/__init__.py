"""Ethereum primitives: hashes, addresses, signatures, and the two kinds of signed messages."""
