"""The rows of payments, of the transactions that carry them, and of what gas costs. Times are seconds since 1970.

A payment is one row, (payer, nonce), changed only by the holder of its lease:
claimed -> settling (the response is stored) -> settled -> delivered; or failed, which may be claimed again. A claim
that is released, or whose payment can never be settled, has no row.
"""

import asyncio
import secrets
from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    and_,
    delete,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.storage.database import Database, Transaction, insert, metadata

CLAIMED, SETTLING, SETTLED, DELIVERED, FAILED = "claimed", "settling", "settled", "delivered", "failed"
NO_LEASE = ""
"""The lease of a payment that no process works on."""

payment = Table(
    "x402_payment",
    metadata,
    # Lower-case hex with 0x.
    Column("payer", String(42), primary_key=True),
    Column("nonce", String(66), primary_key=True),
    Column("state", String(10), nullable=False),
    Column("lease", String(32), nullable=False),
    Column("lease_until", Double, nullable=False),
    Column("version", Integer, nullable=False),
    Column("payment", LargeBinary, nullable=False),
    Column("requirement", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("payment_id", String(128)),
    Column("resource_url", Text, nullable=False),
    Column("since_block", BigInteger, nullable=False),
    Column("claimed_at", Double, nullable=False),
    Column("answer", LargeBinary),
    Column("reason", String(100)),
    Column("tx_hash", String(66)),
    Column("block_number", BigInteger),
    Column("receipt", Text),
    Column("settled_at", Double),
    Column("delivered_at", Double),
    Index("x402_payment_id", "payer", "payment_id", unique=True),
    Index("x402_payment_open", "state", "lease_until"),
    Index("x402_payment_settled", "settled_at"),
    Index(
        "x402_payment_answered",
        "settled_at",
        postgresql_where=text("answer IS NOT NULL"),
        sqlite_where=text("answer IS NOT NULL"),
    ),
)

attempt = Table(
    "x402_attempt",
    metadata,
    Column("payer", String(42), primary_key=True),
    Column("nonce", String(66), primary_key=True),
    # Empty for a request to a remote facilitator that has no reply yet.
    Column("tx_hash", String(66), primary_key=True),
    Column("requested_by", String(64), nullable=False),
    Column("sent_at", Double, nullable=False),
    Index("x402_attempt_sent", "sent_at"),
)

FIRST_REFUSAL_SECONDS = 86_400
MAX_REFUSAL_SECONDS = 30 * 86_400
MAX_REFUSED = 10_000

gas_day = Table(
    "x402_gas_day",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("spent_nanos", BigInteger, nullable=False),
)

refused = Table(
    "x402_refused",
    metadata,
    # A payer's address, or the hash of a wallet's code: lower-case hex with 0x.
    Column("subject", String(66), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("failed_at", Double, nullable=False),
    Column("refused_until", Double, nullable=False),
    Index("x402_refused_failed", "failed_at"),
)

Key = tuple[str, str]


async def find(connection: AsyncConnection, key: Key) -> Any:
    """The row of a payment, or None."""
    return (await connection.execute(select(payment).where(_is(key)))).one_or_none()


async def has_identifier(connection: AsyncConnection, key: Key, payment_id: str) -> bool:
    """Whether another payment of this payer has the same payment identifier."""
    query = select(payment.c.nonce).where(payment.c.payer == key[0], payment.c.payment_id == payment_id)
    return (await connection.execute(query.where(payment.c.nonce != key[1]))).first() is not None


async def insert_claim(transaction: Transaction, **values: object) -> bool:
    """Claim a payment that is new or failed before; False if it, or its identifier, is taken."""
    failed = delete(payment).where(payment.c.payer == values["payer"], payment.c.state == FAILED)
    is_same = payment.c.nonce == values["nonce"]
    if values["payment_id"] is not None:
        is_same = or_(is_same, payment.c.payment_id == values["payment_id"])
    await transaction.execute(failed.where(is_same))
    query = insert(transaction, payment).on_conflict_do_nothing().returning(payment.c.nonce)
    return (await transaction.execute(query.values(state=CLAIMED, **values))).first() is not None


async def release(transaction: Transaction, key: Key, lease: str) -> None:
    """The call ended without its response: delete a claim, or leave a paid response to the payer's next call."""
    is_held = and_(_is(key), payment.c.lease == lease)
    await transaction.execute(delete(payment).where(is_held, payment.c.state == CLAIMED))
    await transaction.execute(update(payment).where(is_held, payment.c.state == SETTLED).values(lease=NO_LEASE))


async def store_response(transaction: Transaction, key: Key, lease: str, answer: bytes, requirement: bytes) -> bool:
    """Store the response and what is taken for it: from here on money may move. False if the claim is lost."""
    query = update(payment).where(_is(key), payment.c.lease == lease, payment.c.state == CLAIMED)
    return (
        await transaction.execute(query.values(state=SETTLING, answer=answer, requirement=requirement))
    ).rowcount == 1


async def mark_settled(transaction: Transaction, key: Key, lease: str, *, keeps_lease: bool, **values: object) -> bool:
    """The money was moved and recorded in the ledger; whether the lease was still ours.

    Anyone who finds that out may say so, with or without a lease. Who keeps it sends the response.
    """
    query = update(payment).where(_is(key), payment.c.state.in_((SETTLING, FAILED)))
    query = query.values(state=SETTLED, reason=None, **values)
    ours = query.where(payment.c.lease == lease)
    if (await transaction.execute(ours if keeps_lease else ours.values(lease=NO_LEASE))).rowcount == 1:
        return True
    await transaction.execute(query)
    return False


async def mark_failed(transaction: Transaction, key: Key, lease: str, reason: str, recheck_at: float) -> None:
    """This attempt failed. The response stays until the authorization has expired."""
    query = update(payment).where(_is(key), payment.c.lease == lease, payment.c.state == SETTLING)
    await transaction.execute(query.values(state=FAILED, reason=reason, lease=NO_LEASE, lease_until=recheck_at))


async def delete_payment(transaction: Transaction, key: Key, lease: str) -> None:
    """Delete a payment that can never be settled, with its response."""
    states = payment.c.state.in_((SETTLING, FAILED))
    await transaction.execute(delete(payment).where(_is(key), payment.c.lease == lease, states))


async def mark_delivered(transaction: Transaction, key: Key, now: float) -> None:
    """The response was completely sent."""
    query = update(payment).where(_is(key), payment.c.state == SETTLED)
    await transaction.execute(query.values(state=DELIVERED, delivered_at=now, lease=NO_LEASE))


async def renew(transaction: Transaction, leases: Collection[str], until: float) -> None:
    """Renew leases."""
    states = payment.c.state.in_((CLAIMED, SETTLING, SETTLED))
    await transaction.execute(update(payment).where(payment.c.lease.in_(leases), states).values(lease_until=until))


async def take(transaction: Transaction, row: Any, lease: str, until: float) -> bool:
    """Take over the lapsed lease of a row; False if another call or process was first."""
    is_unchanged = payment.c.lease == row.lease, payment.c.state == row.state
    query = update(payment).where(_is((row.payer, row.nonce)), *is_unchanged)
    return (await transaction.execute(query.values(lease=lease, lease_until=until))).rowcount == 1


async def release_lease(transaction: Transaction, key: Key, lease: str, recheck_at: float) -> None:
    """Leave the payment to the next call that asks for it, or to recovery after that time."""
    states = payment.c.state.in_((SETTLING, FAILED))
    query = update(payment).where(_is(key), payment.c.lease == lease, states)
    await transaction.execute(query.values(lease=NO_LEASE, lease_until=recheck_at))


async def lapsed(connection: AsyncConnection, now: float, limit: int) -> list[Any]:
    """Unfinished rows whose lease has lapsed, the oldest first."""
    is_open = payment.c.state.in_((CLAIMED, SETTLING, FAILED))
    query = select(payment).where(is_open, payment.c.lease_until < now).order_by(payment.c.lease_until)
    return list(await connection.execute(query.limit(limit)))


async def pending_settlements(connection: AsyncConnection) -> tuple[int, float | None]:
    """How many payments are being settled, and when the oldest of them was claimed."""
    query = select(func.count(), func.min(payment.c.claimed_at)).where(payment.c.state == SETTLING)
    number, oldest = (await connection.execute(query)).one()
    return number, oldest


async def settled(connection: AsyncConnection, before: float, limit: int) -> list[Any]:
    """The payments settled before that time, newest first."""
    query = select(payment).where(payment.c.settled_at < before)
    return list(await connection.execute(query.order_by(payment.c.settled_at.desc(), payment.c.nonce).limit(limit)))


THIS_SERVER = ""
"""Who requested an attempt: this server for its own payments, or a caller of its facilitator service."""


class SettleRequest(Struct, frozen=True):
    """A request to a remote facilitator, first sent at that time, which has no reply yet."""

    idempotency_key: str
    at: float


class Attempts:
    """The transactions that may carry out a payment for us, each recorded before it is broadcast.

    They tell our use of an authorization from anybody else's: on the chain, who sent it proves nothing, and two servers
    may be paid at one address. Every method raises Problem `storage-unavailable`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, tx_hash: str, payments: Iterable[tuple[Key, str]]) -> None:
        """Record the payments that a transaction carries, in one write: each key with who requested it."""
        async with self._database.writing() as transaction:
            await insert_attempts(transaction, tx_hash, payments)

    async def hashes(self, key: Key, requested_by: str = THIS_SERVER) -> set[str]:
        """The transactions recorded for a payment and who requested them."""
        query = select(attempt.c.tx_hash).where(
            *_attempt_is(key), attempt.c.requested_by == requested_by, attempt.c.tx_hash != ""
        )
        async with self._database.reading() as connection:
            return set(await connection.scalars(query))

    async def begin_request(self, key: Key) -> tuple[SettleRequest, bool]:
        """Record a request to a remote facilitator; whether an earlier one has no reply yet, which it repeats."""
        async with self._database.writing() as transaction:
            before = await _open_request(transaction, key)
            if before is not None:
                return before, True
            request = SettleRequest(secrets.token_hex(16), clock.seconds())
            row = {"payer": key[0], "nonce": key[1], "tx_hash": "", "requested_by": request.idempotency_key}
            await transaction.execute(insert(transaction, attempt).values(**row, sent_at=request.at))
            return request, False

    async def open_request(self, key: Key) -> SettleRequest | None:
        """The request to a remote facilitator that has no reply yet."""
        async with self._database.reading() as connection:
            return await _open_request(connection, key)

    async def end_request(self, key: Key, tx_hash: str | None) -> None:
        """The remote facilitator replied: it sent that transaction, or none for us."""
        async with self._database.writing() as transaction:
            await transaction.execute(delete(attempt).where(*_attempt_is(key), attempt.c.tx_hash == ""))
            if tx_hash is not None:
                row = {"payer": key[0], "nonce": key[1], "tx_hash": tx_hash, "requested_by": THIS_SERVER}
                sent = insert(transaction, attempt).values(**row, sent_at=clock.seconds())
                await transaction.execute(sent.on_conflict_do_nothing())


async def insert_attempts(transaction: Transaction, tx_hash: str, payments: Iterable[tuple[Key, str]]) -> None:
    """Record the payments that a transaction carries: each key with who requested it."""
    now = clock.seconds()
    rows = [
        {"payer": key[0], "nonce": key[1], "tx_hash": tx_hash, "requested_by": requested_by, "sent_at": now}
        for key, requested_by in payments
    ]
    if rows:
        await transaction.execute(insert(transaction, attempt).on_conflict_do_nothing(), rows)


async def _open_request(connection: AsyncConnection, key: Key) -> SettleRequest | None:
    query = select(attempt.c.requested_by, attempt.c.sent_at).where(*_attempt_is(key), attempt.c.tx_hash == "")
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else SettleRequest(row.requested_by, row.sent_at)


async def spent(connection: AsyncConnection, day: str) -> int:
    """What gas cost on that day (`2026-11-22`), in nano-USD."""
    return int(await connection.scalar(select(gas_day.c.spent_nanos).where(gas_day.c.day == day)) or 0)


async def add_spent(transaction: Transaction, day: str, nanos: int) -> int:
    """Add to what gas cost on that day; the sum."""
    query = insert(transaction, gas_day).values(day=day, spent_nanos=max(0, nanos))
    summed = query.on_conflict_do_update(
        index_elements=["day"], set_={"spent_nanos": gas_day.c.spent_nanos + nanos}
    ).returning(gas_day.c.spent_nanos)
    return int((await transaction.execute(summed)).scalar_one())


async def refusals(connection: AsyncConnection, since: float) -> list[Any]:
    """The refusals stored since then, the newest first."""
    query = select(refused).where(refused.c.failed_at >= since).order_by(refused.c.failed_at.desc())
    return list(await connection.execute(query.limit(MAX_REFUSED)))


async def refuse(transaction: Transaction, subject: str, now: float) -> float:
    """Refuse a payer or a wallet's code for a day, and for twice as long each time; the end of it."""
    failures: int = await transaction.scalar(select(refused.c.failures).where(refused.c.subject == subject)) or 0
    until = now + float(min(FIRST_REFUSAL_SECONDS * 2**failures, MAX_REFUSAL_SECONDS))
    values = {"failures": failures + 1, "failed_at": now, "refused_until": until}
    query = insert(transaction, refused).values(subject=subject, **values)
    await transaction.execute(query.on_conflict_do_update(index_elements=["subject"], set_=values))
    return until


async def delete_old_refusals(transaction: Transaction, now: float) -> None:
    """Forget payers that have behaved since; of very many, keep the newest."""
    await transaction.execute(delete(refused).where(refused.c.refused_until < now - MAX_REFUSAL_SECONDS))
    oldest = select(refused.c.failed_at).order_by(refused.c.failed_at.desc()).offset(MAX_REFUSED).limit(1)
    await transaction.execute(delete(refused).where(refused.c.failed_at <= oldest.scalar_subquery()))


def _attempt_is(key: Key) -> tuple[Any, ...]:
    return attempt.c.payer == key[0], attempt.c.nonce == key[1]


def _is(key: Key) -> Any:
    return and_(payment.c.payer == key[0], payment.c.nonce == key[1])


log = logger("payments.x402")

LEASE_SECONDS = 12.0
RENEW_SECONDS = 3.0
MAX_HELD_SECONDS = 300.0
"""After this time a claim that was neither settled nor released is given up."""


class Leases:
    """The leases this process holds, renewed while it lives. Other processes take over what has lapsed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str, float] = {}
        self._renewing: asyncio.Task[None] | None = None

    @staticmethod
    def new_lease() -> tuple[str, float]:
        """A unique lease, and its expiry unless it is renewed."""
        return secrets.token_hex(16), clock.seconds() + LEASE_SECONDS

    def acquire(self, lease: str) -> None:
        """Start to renew it."""
        self._held[lease] = clock.seconds() + MAX_HELD_SECONDS
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())

    def hold(self, lease: str) -> None:
        """Renew it for longer, if it is held."""
        if lease in self._held:
            self._held[lease] = clock.seconds() + MAX_HELD_SECONDS

    def release(self, lease: str) -> None:
        """Stop to renew it."""
        self._held.pop(lease, None)

    async def close(self) -> None:
        """Stop to renew all of them."""
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
                    await renew(transaction, list(self._held), now + LEASE_SECONDS)
            except Problem as problem:
                log.warning("lease renewal failed", code=problem.code)
            await asyncio.sleep(RENEW_SECONDS)
