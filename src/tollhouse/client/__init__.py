"""For those who call a Tollhouse server: sign a call with a wallet."""

from tollhouse.client.agent import Agent

__all__ = ["Agent"]
