"""Counts over stored events that callers put together themselves."""
