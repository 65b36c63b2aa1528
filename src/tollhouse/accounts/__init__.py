"""API keys, wallets, plans and subscriptions: the accounts of every service."""
