"""A client of Tollhouse servers: `Client`, and `AsyncClient` with the same methods to be awaited.

from tollhouse.client import Client, LimitedPayer, Payer, SpendingLimit

wallet = LimitedPayer(Payer(private_key), SpendingLimit(per_call_micros=10_000, total_micros=1_000_000))
with Client("https://feeds.example", "mattress", wallet) as client:
    for product in client.items("/api/products", "products", size="Queen"):
        print(product["name"])
"""

from tollhouse.client.agent import Agent
from tollhouse.client.async_client import AsyncClient
from tollhouse.client.client import Client
from tollhouse.client.errors import (
    AuthenticationError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    PaymentError,
    ProblemError,
    RateLimitError,
    ServerError,
    SpendingLimitError,
    TollhouseError,
)
from tollhouse.client.exchange import Answer, Call, Retries, UnansweredError
from tollhouse.client.limits import LimitedPayer, SpendingLimit
from tollhouse.client.payer import Payer

__all__ = [
    "Agent",
    "Answer",
    "AsyncClient",
    "AuthenticationError",
    "Call",
    "Client",
    "ForbiddenError",
    "InvalidRequestError",
    "LimitedPayer",
    "NotFoundError",
    "Payer",
    "PaymentError",
    "ProblemError",
    "RateLimitError",
    "Retries",
    "ServerError",
    "SpendingLimit",
    "SpendingLimitError",
    "TollhouseError",
    "UnansweredError",
]
