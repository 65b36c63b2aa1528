"""Tollhouse publishes data feeds and catalogues, meters every call, and gets paid for it."""

__version__ = "0.1.0"
