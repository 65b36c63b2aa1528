"""Visits: what people read in this server's pages without a key, on a daily budget of their address.

A page shows a visit token. It proves no more than that this server gave it to this address within the hour: what
limits a program that asks for one is the budget, which is neither the API's allowance nor a plan.
"""

import hmac
from hashlib import sha256

from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.request import HttpRequest
from tollhouse.metering.meter import Reservation, Windows

VISIT_HEADER = b"x-visit-token"
VISIT_SECONDS = 3_600
VISIT_REQUESTS_PER_MINUTE = 240
"""A person does not reach it: 16 actions in 43 seconds, of 6 requests each, are 96."""


class Visits:
    """Gives and checks visit tokens."""

    def __init__(self, settings: Settings, secret: bytes) -> None:
        self._secret = secret
        self._hosts = OwnHosts(settings)
        self.windows = Windows(settings.console_free, VISIT_REQUESTS_PER_MINUTE)

    def new_token(self, request: HttpRequest, address: str) -> str:
        """A token for a page that this address reads. Raises Problem `not-configured` or `origin-not-allowed`."""
        if not self.windows.per_day:
            detail = "This server's pages need an API key: `console_free` is 0."
            raise Problem("not-configured", detail, setting="console_free")
        # A name of another site that leads here (DNS rebinding) would open a server that only its neighbours reach.
        self._hosts.check_host(request)
        self._hosts.check_same_origin(request)
        expires_at = str(int(clock.seconds()) + VISIT_SECONDS)
        return f"{expires_at}.{self._signature(expires_at, address)}"

    def check(self, request: HttpRequest, address: str) -> None:
        """Raises Problem `invalid-visit`, or `origin-not-allowed` for a page of another origin."""
        self._hosts.check_same_origin(request)
        expires_at, _, signature = request.header(VISIT_HEADER).partition(".")
        is_signed = hmac.compare_digest(signature.encode(), self._signature(expires_at, address).encode())
        if not is_signed or int(expires_at) < clock.seconds():
            raise Problem(
                "invalid-visit",
                "This visit token has expired, or belongs to another address or server. The pages of this server get "
                "a new one by themselves; a program sends an API key: create one with POST /api/keys/create.",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _signature(self, expires_at: str, address: str) -> str:
        return hmac.digest(self._secret, f"visit {expires_at} {address}".encode(), sha256).hex()


def over_budget(reservation: Reservation) -> Problem:
    """A 429 for a visitor whose budget is used up."""
    verdict = reservation.verdict
    again = "It starts again at midnight UTC. " if verdict.refused_by == verdict.day else ""
    return verdict.refusal(
        "quota-exceeded" if again else "rate-limited",
        "The budget of the pages is used up: {limit:,} requests per {window} and address without a key. "
        f"{again}Retry after {{wait}} s. A program needs an API key: create one with POST /api/keys/create.",
    )
