"""The queue of deliveries: events handed to many endpoints in parts, and endpoints taken when something is due."""

import asyncio

import pytest
from sqlalchemy import func, select, text, update

from tests.waiting import stop, until
from tollhouse import clock
from tollhouse.webhooks import outbox, store

pytestmark = pytest.mark.both_databases


async def count(sender, query) -> int:
    async with sender.database.reading() as connection:
        return int(await connection.scalar(query))


def deliveries():
    return select(func.count()).select_from(store.delivery)


async def test_change_that_causes_an_event_does_not_wait_for_its_deliveries(sender, hook):
    for number in range(3):
        await sender.register(hook.url(f"/{number}"))
    await sender.put()
    assert await count(sender, deliveries()) == 0
    assert await sender.webhooks.deliver_due() == 3
    assert {told.path for told in hook.taken} == {"/0", "/1", "/2"}


async def test_event_is_handed_to_many_endpoints_in_parts_and_to_each_once(sender, hook, monkeypatch):
    monkeypatch.setattr(outbox, "_ROWS_AT_ONCE", 14)
    monkeypatch.setattr(outbox, "_EVENTS_AT_ONCE", 2)
    for number in range(30):
        await sender.register(hook.url(f"/{number}"), ["product.created"] if number % 3 else [])
    for number in range(3):
        await sender.put(number)
    await sender.put(3, kind="product.removed")

    async def crash() -> None:
        async with sender.database.writing() as transaction:
            assert await outbox.fan_out(transaction)
            raise ZeroDivisionError

    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            await crash()
        async with sender.database.writing() as transaction:
            await outbox.fan_out(transaction)
    await asyncio.gather(sender.webhooks.fan_out(), sender.new_webhooks().fan_out())
    assert await count(sender, deliveries()) == 3 * 30 + 10
    assert await count(sender, select(func.count()).where(store.event.c.fan_out_after.is_not(None))) == 0


async def test_endpoint_registered_after_an_event_does_not_get_it(sender, hook):
    await sender.put()
    await sender.register(hook.url())
    assert await sender.webhooks.deliver_due() == 0


async def test_endpoint_gets_no_more_at_once_from_many_processes_than_from_one(sender, hook, eager):
    await sender.register(hook.url())
    hook.mode = "hang"
    for number in range(20):
        await sender.put(number)
    running = [asyncio.create_task(one.run_deliveries()) for one in (sender.webhooks, *map(new, [sender] * 2))]
    sending = deliveries().where(store.delivery.c.lease.is_not(None))
    await until(lambda: hook.told)
    for _ in range(10):
        assert await count(sender, sending) <= 2
        await asyncio.sleep(0.02)
    hook.mode = "ok"
    await stop(*running)


def new(sender):
    return sender.new_webhooks()


async def test_delivery_that_a_server_of_an_earlier_version_made_is_sent(sender, hook):
    made = await sender.register(hook.url())
    await sender.put()
    async with sender.database.writing() as transaction:
        await transaction.execute(update(store.event).values(fan_out_after=None))
        row = {"id": "dlv_1", "event_id": await transaction.scalar(select(store.event.c.id)), "state": "pending"}
        row |= {"endpoint_id": made.endpoint.id, "created_at": clock.seconds(), "due_at": clock.seconds()}
        await store.insert_deliveries(transaction, [row])
    assert await sender.webhooks.deliver_due() == 0
    running = [asyncio.create_task(one) for one in (sender.webhooks.run_deliveries(), sender.webhooks.maintain())]
    await until(lambda: hook.taken)
    await stop(*running)


async def test_old_records_are_deleted_in_small_parts_and_what_waits_stays(sender, hook):
    await sender.register(hook.url("/a"))
    await sender.register(hook.url("/b"))
    for number in range(5):
        await sender.put(number)
    await sender.webhooks.deliver_due()
    hook.modes = {"/b": "error"}
    await sender.put(5)
    await sender.webhooks.deliver_due()
    rounds, more = 0, True
    while more:
        async with sender.database.writing() as transaction:
            more = await store.delete_some_before(transaction, clock.seconds() + 1, limit=3)
        rounds += 1
    assert rounds > 4
    assert {one.subject_id for one in await sender.deliveries()} == {"prod_5"}
    assert await count(sender, select(func.count()).select_from(store.attempt)) == 2


async def test_poll_looks_at_the_first_row_of_each_index(sender):
    async with sender.database.reading() as connection:
        query = store.work_query(clock.seconds())
        literal = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        if sender.database.is_sqlite:
            prefix = "EXPLAIN QUERY PLAN"
        else:
            # Of an empty table, the planner would read the only page.
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            prefix = "EXPLAIN"
        plan = " ".join(str(row) for row in await connection.execute(text(f"{prefix} {literal}")))
    assert plan.count("webhook_endpoint_due") == 2
    assert plan.count("webhook_event_fan_out") == 1


async def test_backlog_is_counted_with_every_change(sender, hook):
    await sender.register(hook.url("/a"))
    failing, gone = [await sender.register(hook.url(path)) for path in ("/b", "/gone")]
    hook.modes = {"/b": "error", "/gone": "gone"}

    async def check() -> None:
        grouped = select(store.delivery.c.endpoint_id, store.delivery.c.state, func.count(),
                         func.min(store.delivery.c.created_at)).group_by("endpoint_id", "state")  # fmt: skip
        async with sender.database.reading() as connection:
            rows = [tuple(row) for row in await connection.execute(grouped)]
            assert sorted(tuple(row) for row in await store.backlog(connection)) == sorted(rows)
        assert rows

    for number in range(3):
        await sender.put(number)
    await sender.webhooks.fan_out()
    await check()
    await sender.webhooks.deliver_due()
    await check()
    assert {one.state for one in await sender.webhooks.deliveries.backlog()} == {"delivered", "pending", "parked"}
    await sender.change(sender.webhooks.subscriptions.enable, gone.endpoint.id)
    assert await sender.change(sender.webhooks.deliveries.replay_parked, gone.endpoint.id) == 3
    await check()
    for removed in (failing, gone):
        await sender.change(sender.webhooks.subscriptions.remove, removed.endpoint.id)
    await check()
    await sender.webhooks.deliveries.delete_before(clock.seconds() + 1)
    async with sender.database.reading() as connection:
        assert await store.backlog(connection) == []
    assert await count(sender, select(func.count()).where(store.counted.c.endpoint_id == gone.endpoint.id)) == 0
