"""What is deleted of payments after their time, what never is, and their export before."""

import pytest
from sqlalchemy import func, select

from tests.payments.x402.purchases import bought, claim, delivered, later, reason, seller_holds
from tests.payments.x402.signed_payments import PRICE, authorization, v2
from tollhouse import clock
from tollhouse.payments.x402 import retention_store, store
from tollhouse.payments.x402.retention_store import delete_old_payments, delete_old_responses

DAY = 86_400.0


async def count(server, query) -> int:
    async with server.database.reading() as connection:
        return int(await connection.scalar(query))


def payments():
    return select(func.count()).select_from(store.payment)


@pytest.mark.both_databases
async def test_old_payment_is_deleted_and_can_neither_be_used_again_nor_is_it_missed(server, chain, monkeypatch):
    monkeypatch.setattr(retention_store, "ROWS_AT_ONCE", 2)
    sent = [v2() for _ in range(5)]
    for one in sent:
        await bought(server, one)
    await delivered(server, sent[0])
    waiting = v2()
    await claim(server, waiting)
    before, holds = await count(server, payments()), await seller_holds(chain)
    async with server.database.writing() as transaction:
        await store.insert_attempts(transaction, "0xaa", [(("0xold", "0x1"), "somebody")])
    later(monkeypatch, 30 * DAY + 60)
    await delete_old_responses(server.database)
    assert await count(server, payments().where(store.payment.c.answer.is_not(None))) == 0
    assert await delete_old_payments(server.database, 31) == 0
    assert await count(server, payments()) == before
    assert await delete_old_payments(server.database, 30) == 5
    assert await count(server, payments()) == 1, "what is not settled stays"
    assert await count(server, select(func.count()).select_from(store.attempt)) <= 1
    for one in sent:
        assert await reason(server, one) == "invalid_exact_evm_payload_authorization_valid_before"
    assert await seller_holds(chain) == holds
    assert (await server.ledger.verify()).balanced
    assert (await server.x402.reconcile()).agrees


async def test_payment_stays_while_its_authorization_is_valid(sqlite_server, monkeypatch):
    server = sqlite_server
    await bought(server, v2(authorization(validBefore=str(int(clock.seconds() + 90 * DAY)))))
    later(monkeypatch, 40 * DAY)
    await delete_old_responses(server.database)
    assert await delete_old_payments(server.database, 30) == 0
    later(monkeypatch, 60 * DAY)
    assert await delete_old_payments(server.database, 30) == 1


async def test_payments_of_a_period_are_exported_in_order_however_many_they_are(sqlite_server, monkeypatch):
    server = sqlite_server
    monkeypatch.setattr(retention_store, "ROWS_A_PAGE", 2)
    await bought(server, v2())
    begun = clock.seconds()
    for _ in range(5):
        await bought(server, v2())
    exported = [one async for one in server.x402.export(begun, clock.seconds() + 1)]
    assert len({one.nonce for one in exported}) == len(exported) == 5
    assert [one.settled_at for one in exported] == sorted(one.settled_at for one in exported)
    assert all(one.amount_micros == PRICE and one.receipt for one in exported)
    assert [one async for one in server.x402.export(0.0, begun - 3_600)] == []
