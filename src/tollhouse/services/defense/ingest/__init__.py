"""Ingestion: download, parse, classify and score provider data."""
