"""Webhook endpoints: register, change, rotate secrets, enable and remove."""

import re
import secrets
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from tollhouse import clock
from tollhouse.http_client.targets import Resolve, TargetRules, validate_target
from tollhouse.storage.database import Database, Transaction
from tollhouse.storage.secret_box import PREFIX, SecretBox
from tollhouse.webhooks import store
from tollhouse.webhooks.attempt import new_secret

FORMER_SECRET_SECONDS = 24 * 3_600.0
MAX_TYPES = 15

Status = Literal["active", "failing", "disabled"]

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,30}(?:\.[a-z][a-z0-9_]{0,30})+")
_MAX_TYPE = 64
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_MAX_EMAIL = 254


class Endpoint(Struct, frozen=True):
    """A webhook endpoint, without its secret. With empty `types` it gets every event.

    `failing` from the first failed attempt to the next success; `disabled` after the receiver answered 410.
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
    """An endpoint and its new secret, which is shown only once."""

    endpoint: Endpoint
    secret: str


class Subscriptions:
    """The endpoints of one server. Changes take the caller's transaction."""

    def __init__(self, database: Database, rules: TargetRules, resolve: Resolve, box: SecretBox) -> None:
        self._box = box
        self._database = database
        self._rules = rules
        self._resolve = resolve

    async def validate(self, url: str) -> str:
        """The URL as it will be called. Raises TargetRefused. Call it before the transaction: it waits for DNS."""
        return await validate_target(url, self._rules, self._resolve)

    async def add(
        self, transaction: Transaction, service: str, target: str, email: str, types: Sequence[str] = ()
    ) -> NewSecret:
        """Register an endpoint. Raises ValueError for an invalid email or type."""
        _check(email, types)
        endpoint_id, secret = f"whk_{secrets.token_hex(10)}", new_secret()
        await store.insert_endpoint(
            transaction,
            id=endpoint_id,
            service=service,
            url=target,
            email=email.strip(),
            types=",".join(types),
            secret=self._box.seal(secret, endpoint_id),
            created_at=clock.seconds(),
        )
        return NewSecret(await self._known(transaction, endpoint_id), secret)

    async def change(
        self,
        transaction: Transaction,
        endpoint_id: str,
        *,
        target: str | None = None,
        email: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Endpoint:
        """Change what is given. Raises ValueError, also if the endpoint does not exist."""
        _check(email, types or ())
        changed = {
            "url": target,
            "email": None if email is None else email.strip(),
            "types": None if types is None else ",".join(types),
        }
        values: dict[str, Any] = {name: value for name, value in changed.items() if value is not None}
        if values:
            await store.change_endpoint(transaction, endpoint_id, **values)
        return await self._known(transaction, endpoint_id)

    async def rotate(self, transaction: Transaction, endpoint_id: str) -> NewSecret:
        """Create a new secret; deliveries are signed with both for 24 hours. Raises ValueError without endpoint."""
        row, secret = await _row(transaction, endpoint_id), new_secret()
        await store.change_endpoint(
            transaction,
            endpoint_id,
            secret=self._box.seal(secret, endpoint_id),
            former_secret=row.secret,
            former_until=clock.seconds() + FORMER_SECRET_SECONDS,
        )
        return NewSecret(await self._known(transaction, endpoint_id), secret)

    async def enable(self, transaction: Transaction, endpoint_id: str) -> Endpoint:
        """Enable a disabled endpoint. Parked deliveries wait for a replay. Raises ValueError."""
        reset = {"disabled_at": None, "disabled_reason": None, "failing_since": None, "failures": 0, "is_suspect": 0}
        await store.change_endpoint(transaction, endpoint_id, **reset, next_due_at=clock.seconds())
        return await self._known(transaction, endpoint_id)

    async def remove(self, transaction: Transaction, endpoint_id: str) -> bool:
        """Remove an endpoint with its pending deliveries and secrets; False if it does not exist."""
        now = clock.seconds()
        await store.end_pending(transaction, endpoint_id, "cancelled", "removed", now)
        return await store.change_endpoint(transaction, endpoint_id, removed_at=now, secret="", former_secret=None)

    async def encrypt_stored(self) -> None:
        """Encrypt the secrets that an earlier version stored in clear."""
        async with self._database.writing() as transaction:
            for row in await store.endpoints_in_clear(transaction, PREFIX):
                stored = {"secret": row.secret, "former_secret": row.former_secret}
                clear = {name: text for name, text in stored.items() if text and not self._box.is_sealed(text)}
                if clear:
                    sealed = {name: self._box.seal(text, row.id) for name, text in clear.items()}
                    await store.change_endpoint(transaction, row.id, **sealed)

    async def all(self) -> list[Endpoint]:
        """Every endpoint, oldest first."""
        async with self._database.reading() as connection:
            return [_endpoint(row) for row in await store.all_endpoints(connection)]

    async def find(self, endpoint_id: str) -> Endpoint | None:
        """The endpoint with this id, unless it was removed."""
        async with self._database.reading() as connection:
            row = await store.endpoint_by_id(connection, endpoint_id)
        return None if row is None else _endpoint(row)

    async def _known(self, transaction: Transaction, endpoint_id: str) -> Endpoint:
        return _endpoint(await _row(transaction, endpoint_id))


async def _row(transaction: Transaction, endpoint_id: str) -> Any:
    row = await store.endpoint_by_id(transaction, endpoint_id)
    if row is None:
        raise ValueError(f"endpoint {endpoint_id} does not exist")
    return row


def _check(email: str | None, types: Sequence[str]) -> None:
    if email is not None and (len(email) > _MAX_EMAIL or not _EMAIL.fullmatch(email.strip())):
        raise ValueError("invalid email address")
    for name in types:
        if len(name) > _MAX_TYPE or not _TYPE.fullmatch(name):
            raise ValueError(f"{name[:_MAX_TYPE]!r} is not a valid event type. Example: product.created")
    if len(types) > MAX_TYPES:
        raise ValueError(f"at most {MAX_TYPES} types are allowed; none means all")


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
