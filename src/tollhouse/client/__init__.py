"""For those who call a Tollhouse server: sign a call with a wallet, or pay for a single request."""

from tollhouse.client.agent import Agent
from tollhouse.client.payer import Payer

__all__ = ["Agent", "Payer"]
