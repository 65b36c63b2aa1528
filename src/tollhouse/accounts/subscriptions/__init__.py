"""Stripe subscriptions: checkout, webhooks, and which plan a customer has paid for."""
