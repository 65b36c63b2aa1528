"""Providers of researched fatality figures, and matching their records to events."""
