"""Webhooks: subscriptions, the outbox of events, and signed delivery."""
