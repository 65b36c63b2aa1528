"""Who wants to be told of what, where: endpoints registered, changed, given new secrets, removed."""

import re
import secrets
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from tollhouse import clock
from tollhouse.storage.database import Database, Transaction
from tollhouse.webhooks import store
from tollhouse.webhooks.attempt import new_secret
from tollhouse.webhooks.target_validation import Resolve, Rules, vet

FORMER_SECRET_SECONDS = 24 * 3_600.0
MOST_TYPES = 15

Status = Literal["active", "failing", "disabled"]

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,30}(?:\.[a-z][a-z0-9_]{0,30})+")
_LONGEST_TYPE = 64
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_LONGEST_EMAIL = 254


class Endpoint(Struct, frozen=True):
    """Where someone is told. `types` empty: of everything. Never its secret.

    `failing` from the first refused attempt to the next one that is taken; `disabled` when the receiver answered 410.
    """

    id: str
    service: str
    url: str
    email: str
    types: tuple[str, ...]
    status: Status
    created_at: str
    disabled_reason: str | None
    failing_since: str | None
    consecutive_failures: int
    last_error: str | None
    last_success_at: str | None
    former_secret_until: str | None


class NewSecret(Struct, frozen=True):
    """An endpoint and its new secret: the only moment it is shown."""

    endpoint: Endpoint
    secret: str


class Subscriptions:
    """The endpoints of one server. What changes them takes the caller's transaction; names are resolved outside it."""

    def __init__(self, database: Database, rules: Rules, resolve: Resolve) -> None:
        self._database = database
        self._rules = rules
        self._resolve = resolve

    async def vetted(self, url: str) -> str:
        """The target as it will be called. Raises TargetRefused. Ask before the transaction: it waits for the DNS."""
        return await vet(url, self._rules, self._resolve)

    async def add(
        self, transaction: Transaction, service: str, vetted_url: str, email: str, types: Sequence[str] = ()
    ) -> NewSecret:
        """Register an endpoint. Raises ValueError for an email or a type that is none."""
        _check(email, types)
        endpoint_id, secret = f"whk_{secrets.token_hex(10)}", new_secret()
        await store.insert_endpoint(
            transaction,
            id=endpoint_id,
            service=service,
            url=vetted_url,
            email=email.strip(),
            types=",".join(types),
            secret=secret,
            created_at=clock.seconds(),
        )
        return NewSecret(await self._known(transaction, endpoint_id), secret)

    async def change(
        self,
        transaction: Transaction,
        endpoint_id: str,
        *,
        vetted_url: str | None = None,
        email: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Endpoint:
        """Alter what is given. Raises ValueError, also when there is no such endpoint."""
        _check(email, types or ())
        told = None if email is None else email.strip()
        changed = {"url": vetted_url, "email": told, "types": None if types is None else ",".join(types)}
        values: dict[str, Any] = {name: value for name, value in changed.items() if value is not None}
        if values:
            await store.change_endpoint(transaction, endpoint_id, **values)
        return await self._known(transaction, endpoint_id)

    async def rotate(self, transaction: Transaction, endpoint_id: str) -> NewSecret:
        """A new secret; for 24 hours deliveries are signed with the former one too. ValueError when there is none."""
        row, secret = await _row(transaction, endpoint_id), new_secret()
        await store.change_endpoint(
            transaction,
            endpoint_id,
            secret=secret,
            former_secret=row.secret,
            former_until=clock.seconds() + FORMER_SECRET_SECONDS,
        )
        return NewSecret(await self._known(transaction, endpoint_id), secret)

    async def enable(self, transaction: Transaction, endpoint_id: str) -> Endpoint:
        """Call an endpoint again that was disabled; what was parked meanwhile waits for a replay. Raises ValueError."""
        await store.change_endpoint(
            transaction, endpoint_id, disabled_at=None, disabled_reason=None, failing_since=None, failures=0
        )
        return await self._known(transaction, endpoint_id)

    async def remove(self, transaction: Transaction, endpoint_id: str) -> bool:
        """Tell it nothing more, what is pending included, and forget its secrets; False when there was none."""
        now = clock.seconds()
        await store.end_pending(transaction, endpoint_id, "cancelled", "removed", now)
        return await store.change_endpoint(transaction, endpoint_id, removed_at=now, secret="", former_secret=None)

    async def listed(self) -> list[Endpoint]:
        """Every endpoint, oldest first."""
        async with self._database.reading() as connection:
            return [_endpoint(row) for row in await store.all_endpoints(connection)]

    async def found(self, endpoint_id: str) -> Endpoint | None:
        """The endpoint of this id, unless it was removed."""
        async with self._database.reading() as connection:
            row = await store.endpoint_by_id(connection, endpoint_id)
        return None if row is None else _endpoint(row)

    async def _known(self, transaction: Transaction, endpoint_id: str) -> Endpoint:
        return _endpoint(await _row(transaction, endpoint_id))


async def _row(transaction: Transaction, endpoint_id: str) -> Any:
    row = await store.endpoint_by_id(transaction, endpoint_id)
    if row is None:
        raise ValueError(f"there is no endpoint {endpoint_id}")
    return row


def _check(email: str | None, types: Sequence[str]) -> None:
    if email is not None and (len(email) > _LONGEST_EMAIL or not _EMAIL.fullmatch(email.strip())):
        raise ValueError("this is no email address")
    for name in types:
        if len(name) > _LONGEST_TYPE or not _TYPE.fullmatch(name):
            raise ValueError(f"{name[:_LONGEST_TYPE]!r} is no type of event: write them as product.created")
    if len(types) > MOST_TYPES:
        raise ValueError(f"name at most {MOST_TYPES} types, or none for all")


def _endpoint(row: Any) -> Endpoint:
    until = row.former_until if row.former_until and row.former_until > clock.seconds() else None
    return Endpoint(
        id=row.id,
        service=row.service,
        url=row.url,
        email=row.email,
        types=tuple(row.types.split(",")) if row.types else (),
        status="disabled" if row.disabled_at else "failing" if row.failing_since else "active",
        created_at=clock.iso(clock.at(row.created_at)),
        disabled_reason=row.disabled_reason,
        failing_since=_iso(row.failing_since),
        consecutive_failures=row.failures,
        last_error=row.last_error,
        last_success_at=_iso(row.last_success_at),
        former_secret_until=_iso(until),
    )


def _iso(moment: float | None) -> str | None:
    return None if moment is None else clock.iso(clock.at(moment))
