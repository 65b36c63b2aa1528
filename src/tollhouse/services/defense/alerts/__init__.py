"""Alerts: rules over the live data that call a webhook when their condition is met."""
