"""What this process works on, said to the others every few seconds, so that they know what the dead left behind."""

import asyncio
import secrets

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.x402 import store
from tollhouse.storage.database import Database

log = logger("payments.x402")

LEASE_SECONDS = 12.0
RENEW_SECONDS = 3.0
LONGEST_SECONDS = 300.0
"""After so long a claim that was neither settled nor released is left to the others: whoever had it has lost it."""


class Leases:
    """The leases this process holds, renewed for as long as it lives."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str, float] = {}
        self._renewing: asyncio.Task[None] | None = None

    @staticmethod
    def fresh() -> tuple[str, float]:
        """A lease nobody else has, and until when it holds unless it is renewed."""
        return secrets.token_hex(16), clock.seconds() + LEASE_SECONDS

    def hold(self, lease: str) -> None:
        """Renew it from now on."""
        self._held[lease] = clock.seconds() + LONGEST_SECONDS
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())

    def drop(self, lease: str) -> None:
        """Renew it no more."""
        self._held.pop(lease, None)

    async def close(self) -> None:
        """Renew nothing any more."""
        self._held.clear()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    async def _renew(self) -> None:
        await asyncio.sleep(RENEW_SECONDS)
        while self._held:
            now = clock.seconds()
            self._held = {lease: until for lease, until in self._held.items() if until > now}
            try:
                async with self._database.writing() as transaction:
                    await store.renew(transaction, list(self._held), now + LEASE_SECONDS)
            except Problem as problem:
                log.warning("leases not renewed", code=problem.code)
            await asyncio.sleep(RENEW_SECONDS)
