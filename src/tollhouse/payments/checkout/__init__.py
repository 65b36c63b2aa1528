"""Upgrades: a key's tier bought, kept, changed and ended through Stripe."""
