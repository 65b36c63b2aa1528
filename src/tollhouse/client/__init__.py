"""Clients of a Tollhouse server: sign calls with a wallet, or pay for a single request."""

from tollhouse.client.agent import Agent
from tollhouse.client.payer import Payer

__all__ = ["Agent", "Payer"]
