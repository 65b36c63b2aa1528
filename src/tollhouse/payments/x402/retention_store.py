"""What is deleted of x402 payments, and when: in small transactions, so that no payment waits for one.

A settled payment is deleted some days after it was settled, once its authorization has expired. Nothing that protects
from a replay or that the ledger needs is lost with it:

- An expired authorization is refused before anything else, and by the token contract; so its nonce cannot be used
  again, also where nothing was taken (scheme `upto`, cost 0) and the chain therefore does not know the nonce.
- The ledger keeps the transfer `x402:<payer>:<nonce>` permanently. It is entered once, and its memo has what
  `ledger verify` compares with the chain.
- Reorganisations are looked for in the transfers of the last hour.
- Payments that are not settled stay until they are, or until they never can be.

What goes is the receipt (export it before) and the reservation of the payer's own payment identifier.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any

from sqlalchemy import and_, bindparam, delete, exists, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tollhouse import clock
from tollhouse.payments.ledger.types import RESPONSE_TTL_SECONDS
from tollhouse.payments.x402.claims import SettledPayment, settled_payment_from_row
from tollhouse.payments.x402.headers import decode_payment
from tollhouse.payments.x402.store import DELIVERED, SETTLED, Key, attempt, payment
from tollhouse.storage.database import Database, Transaction

DAY_SECONDS = 86_400.0
EXPIRED_SECONDS = 3_600.0
"""How long an authorization has expired before its payment is deleted: more than any clock is wrong."""
ROWS_AT_ONCE = 25
"""So many are deleted in one transaction."""
ROWS_A_PAGE = 100
PAUSE_SECONDS = 0.02
_START = (0.0, "", "")


async def delete_old_responses(database: Database) -> None:
    """Delete the responses that their payers no longer can fetch."""
    before, number = clock.seconds() - RESPONSE_TTL_SECONDS, ROWS_AT_ONCE
    while number == ROWS_AT_ONCE:
        async with database.writing() as transaction:
            number = await delete_responses(transaction, before, ROWS_AT_ONCE)


async def delete_old_payments(database: Database, retention_days: int) -> int:
    """Delete settled payments and recorded transactions that are older; the number of payments."""
    now = clock.seconds()
    before, deleted = now - retention_days * DAY_SECONDS, 0
    async for rows in _pages(database, _START, before, ROWS_AT_ONCE):
        keys = [(row.payer, row.nonce) for row in rows if _has_expired(row, now)]
        if keys:
            async with database.writing() as transaction:
                await delete_settled(transaction, keys)
        deleted += len(keys)
        # Let others have their turn.
        await asyncio.sleep(PAUSE_SECONDS)
    number = ROWS_AT_ONCE
    while number == ROWS_AT_ONCE:
        async with database.writing() as transaction:
            number = await delete_attempts(transaction, before, ROWS_AT_ONCE)
        await asyncio.sleep(PAUSE_SECONDS)
    return deleted


async def export_payments(database: Database, since: float, until: float) -> AsyncIterator[SettledPayment]:
    """The payments settled in that time (seconds since 1970), the oldest first, however many they are."""
    async for rows in _pages(database, (since, "", ""), until, ROWS_A_PAGE):
        for row in rows:
            yield settled_payment_from_row(row)


async def _pages(
    database: Database, after: tuple[float, str, str], before: float, limit: int
) -> AsyncIterator[list[Any]]:
    while True:
        async with database.reading() as connection:
            rows = await settled_between(connection, after, before, limit)
        if not rows:
            return
        yield rows
        after = rows[-1].settled_at, rows[-1].payer, rows[-1].nonce


def _has_expired(row: Any, now: float) -> bool:
    is_done = row.state in {SETTLED, DELIVERED} and row.answer is None
    return is_done and decode_payment(row.payment, row.version).authorization.valid_before < now - EXPIRED_SECONDS


async def delete_responses(transaction: Transaction, before: float, limit: int) -> int:
    """Delete at most `limit` responses of payments settled before that time; their number."""
    old = select(payment.c.payer, payment.c.nonce).where(payment.c.settled_at < before, payment.c.answer.is_not(None))
    keys = await _keys(transaction, old.order_by(payment.c.settled_at).limit(limit))
    if keys:
        await transaction.execute(update(payment).where(_is_key()).values(answer=None), keys)
    return len(keys)


async def delete_settled(transaction: Transaction, keys: Collection[Key]) -> None:
    """Delete payments that are settled, with the transactions recorded for them. See retention."""
    values = _bound(keys)
    is_done = or_(payment.c.state == SETTLED, payment.c.state == DELIVERED)
    await transaction.execute(delete(attempt).where(_is_attempt()), values)
    await transaction.execute(delete(payment).where(_is_key(), is_done), values)


async def delete_attempts(transaction: Transaction, before: float, limit: int) -> int:
    """Delete at most `limit` transactions recorded before that time for payments that have no row; their number."""
    is_ours = and_(payment.c.payer == attempt.c.payer, payment.c.nonce == attempt.c.nonce)
    old = select(attempt.c.payer, attempt.c.nonce).where(attempt.c.sent_at < before, ~exists().where(is_ours))
    keys = await _keys(transaction, old.order_by(attempt.c.sent_at).limit(limit))
    if keys:
        await transaction.execute(delete(attempt).where(_is_attempt(), attempt.c.sent_at < before), keys)
    return len(keys)


async def settled_between(
    connection: AsyncConnection, after: tuple[float, str, str], before: float, limit: int
) -> list[Any]:
    """Payments settled before that time, the oldest first, that come after this settled_at, payer and nonce."""
    position = tuple_(payment.c.settled_at, payment.c.payer, payment.c.nonce)
    query = select(payment).where(payment.c.settled_at >= after[0], payment.c.settled_at < before, position > after)
    order = payment.c.settled_at, payment.c.payer, payment.c.nonce
    return list(await connection.execute(query.order_by(*order).limit(limit)))


async def _keys(connection: AsyncConnection, query: Any) -> list[dict[str, str]]:
    return _bound(dict.fromkeys((row.payer, row.nonce) for row in await connection.execute(query)))


def _bound(keys: Iterable[Key]) -> list[dict[str, str]]:
    return [{"b_payer": payer, "b_nonce": nonce} for payer, nonce in keys]


def _is_key() -> Any:
    return and_(payment.c.payer == bindparam("b_payer"), payment.c.nonce == bindparam("b_nonce"))


def _is_attempt() -> Any:
    return and_(attempt.c.payer == bindparam("b_payer"), attempt.c.nonce == bindparam("b_nonce"))
