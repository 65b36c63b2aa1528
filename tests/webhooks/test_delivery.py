import asyncio
import json
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import pairwise

import pytest
from sqlalchemy import text
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.waiting import stop, until
from tests.webhooks.conftest import IMPATIENT, is_signed
from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.webhooks import attempt, deliverer, outbox
from tollhouse.webhooks.schedule import Capacity

HOUR = 3_600.0
DAYS_3 = 3 * 24 * HOUR


@pytest.mark.both_databases
async def test_event_arrives_signed_in_the_form_of_standard_webhooks(sender, hook):
    made = await sender.register(hook.url())
    event_id = await sender.put()
    assert await sender.webhooks.deliver_due() == 1
    (told,) = hook.taken
    body = Webhook(made.secret).verify(told.body, told.headers)
    assert set(body) == {"type", "timestamp", "data"}
    assert body["type"] == "product.created"
    assert body["data"] == {"number": 1}
    assert datetime.fromisoformat(body["timestamp"])
    assert told.id == event_id
    assert told.headers["content-type"] == "application/json"
    assert told.headers["user-agent"].startswith("tollhouse/")
    (delivery,) = await sender.deliveries()
    assert (delivery.state, delivery.last_status, delivery.last_error) == ("delivered", 204, None)
    assert (delivery.subject_id, delivery.type) == ("prod_1", "product.created")
    assert await sender.webhooks.deliver_due() == 0


async def test_signature_is_of_this_body_and_this_secret(sender, hook):
    await sender.register(hook.url())
    await sender.put()
    await sender.webhooks.deliver_due()
    (told,) = hook.taken
    with pytest.raises(WebhookVerificationError):
        Webhook(attempt.new_secret()).verify(told.body, told.headers)


@pytest.mark.both_databases
async def test_change_that_is_rolled_back_tells_nobody(sender, hook):
    await sender.register(hook.url())

    async def change() -> None:
        async with sender.database.writing() as transaction:
            await outbox.put(transaction, "mattress", "product.created", {}, "prod_1")
            raise LookupError

    with pytest.raises(LookupError):
        await change()
    assert await sender.webhooks.deliver_due() == 0
    assert hook.told == []


@pytest.mark.both_databases
async def test_same_event_put_again_is_told_once(sender, hook):
    await sender.register(hook.url())
    first = await sender.put()
    assert await sender.put() == first
    assert await sender.put(2, event_id="evt_given") == "evt_given"
    await sender.put(2, event_id="evt_given")
    await asyncio.gather(*(sender.put(3) for _ in range(5)))
    assert await sender.webhooks.deliver_due() == 3
    assert await sender.put() == first
    assert await sender.webhooks.deliver_due() == 0
    assert len({told.id for told in hook.taken}) == len(hook.taken) == 3


@pytest.mark.both_databases
async def test_id_of_another_event_is_refused_rather_than_lost(sender):
    await sender.put(event_id="evt_1")
    with pytest.raises(AssertionError, match="evt_1"):
        await sender.put(kind="product.removed", event_id="evt_1")


@pytest.mark.both_databases
async def test_event_goes_once_to_each_endpoint_subscribed_at_that_moment(sender, hook):
    await sender.register(hook.url("/all"))
    await sender.register(hook.url("/prices"), ["product.price_changed"])
    await sender.register(hook.url("/both"), ["product.created", "product.price_changed"])
    await sender.register(hook.url("/other"), service="defense")
    gone = await sender.register(hook.url("/removed"))
    await sender.change(sender.webhooks.subscriptions.remove, gone.endpoint.id)
    await sender.put(1)
    await sender.put(2, kind="product.price_changed")
    await sender.register(hook.url("/late"))
    await sender.put(1)
    await sender.webhooks.deliver_due()
    assert Counter(told.path for told in hook.taken) == {"/all": 2, "/prices": 1, "/both": 2}


@pytest.mark.both_databases
async def test_event_for_one_endpoint_reaches_no_other(sender, hook):
    made = await sender.register(hook.url("/mine"), ["alert.triggered"])
    await sender.register(hook.url("/theirs"))
    await sender.put(kind="alert.test", to=made.endpoint.id)
    await sender.webhooks.deliver_due()
    assert [told.path for told in hook.taken] == ["/mine"]


@pytest.mark.both_databases
async def test_many_events_are_put_at_once(sender, hook):
    await sender.register(hook.url())
    events = [outbox.Event("product.created", {"number": n}, f"prod_{n}") for n in range(600)]
    async with sender.database.writing() as transaction:
        assert await outbox.put_all(transaction, "mattress", [*events, events[0]]) == 600
        assert await outbox.put_all(transaction, "mattress", events) == 0
    assert await sender.webhooks.deliver_due() == 600
    assert sorted(json.loads(told.body)["data"]["number"] for told in hook.taken) == list(range(600))


@pytest.mark.parametrize(
    ("mode", "status", "error"),
    [
        ("error", 500, "status 500"),
        ("busy", 429, "status 429"),
        ("redirect", 307, "redirect 307"),
        ("hang", None, "timeout"),
        ("drip", None, "timeout"),
        ("disconnect", None, "protocol"),
        ("garbage", None, "protocol"),
    ],
)
async def test_refusal_is_recorded_and_tried_again_under_the_same_id(sender, hook, mode, status, error):
    made = await sender.register(hook.url())
    event_id = await sender.put()
    hook.mode = mode
    now = clock.seconds()
    webhooks = sender.new_webhooks(capacity=IMPATIENT) if error == "timeout" else sender.webhooks
    assert await webhooks.deliver_due(now) == 1
    (delivery,) = await sender.deliveries()
    assert (delivery.state, delivery.last_status, delivery.last_error) == ("pending", status, error)
    (attempt,) = delivery.attempts
    assert (attempt.status, attempt.error) == (status, error.split()[0])
    assert attempt.duration_ms < 15_000
    endpoint = await sender.endpoint(made.endpoint.id)
    assert (endpoint.status, endpoint.consecutive_failures, endpoint.last_error) == ("failing", 1, error)
    assert endpoint.failing_since
    hook.mode = "ok"
    assert await sender.webhooks.deliver_due(now + HOUR) == 1
    assert {told.id for told in hook.told} == {event_id}
    assert all(is_signed(told, made.secret) for told in hook.told)
    endpoint = await sender.endpoint(made.endpoint.id)
    assert (endpoint.status, endpoint.consecutive_failures, endpoint.failing_since) == ("active", 0, None)


async def test_nobody_listening_is_a_failed_connection(sender, hook):
    await sender.register(hook.url().replace(str(hook.port), "1025"))
    await sender.put()
    await sender.webhooks.deliver_due()
    (delivery,) = await sender.deliveries()
    assert (delivery.state, delivery.last_error) == ("pending", "connection")


@pytest.mark.parametrize("mode", ["huge", "drip-body"])
async def test_answer_without_an_end_counts_by_its_status_and_is_not_read(sender, hook, mode):
    await sender.register(hook.url())
    await sender.put()
    hook.mode = mode
    assert await asyncio.wait_for(sender.webhooks.deliver_due(), 5) == 1
    (delivery,) = await sender.deliveries()
    assert (delivery.state, delivery.last_status) == ("delivered", 200)


async def test_redirect_is_not_followed(sender, hook):
    await sender.register(hook.url())
    await sender.put()
    hook.mode, hook.modes = "redirect", {"/elsewhere": "ok"}
    await sender.webhooks.deliver_due()
    assert [told.path for told in hook.told] == ["/hook"]


async def attempts_until_parked(sender) -> list[float]:
    """The moments of all attempts, by a clock that is moved to whenever something is due."""
    now, moments = clock.seconds(), []
    for _ in range(60 * 24 * 5):
        if await sender.webhooks.deliver_due(now):
            moments.append(now)
        (delivery,) = await sender.deliveries()
        if delivery.state == "parked":
            return moments
        now = max(now + 1, datetime.fromisoformat(delivery.due_at).timestamp() + 1)
    raise AssertionError("never parked")


@pytest.mark.both_databases
async def test_ten_attempts_over_three_days_then_it_is_parked_and_can_be_replayed(sender, hook):
    made = await sender.register(hook.url())
    await sender.put()
    hook.mode = "error"
    moments = await attempts_until_parked(sender)
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    wanted = [5, 300, 1_800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]
    assert pauses == [pytest.approx(pause, rel=0.11, abs=3) for pause in wanted]
    assert moments[-1] - moments[0] == pytest.approx(DAYS_3, rel=0.2)
    (delivery,) = await sender.deliveries(state="parked")
    assert (delivery.attempt_count, len(delivery.attempts), delivery.due_at) == (10, 10, None)
    assert await sender.webhooks.deliver_due(moments[-1] + 30 * DAYS_3) == 0
    replayed = await sender.change(sender.webhooks.deliveries.replay, delivery.id)
    assert (replayed.state, replayed.attempt_count) == ("pending", 10)
    hook.mode = "ok"
    assert await sender.webhooks.deliver_due() == 1
    (delivery,) = await sender.deliveries()
    assert (delivery.state, delivery.attempt_count) == ("delivered", 11)
    (told,) = hook.taken
    assert Webhook(made.secret).verify(told.body, told.headers)
    assert len({told.id for told in hook.told}) == 1


@pytest.mark.both_databases
async def test_recorded_attempts_are_bounded(sender, hook):
    await sender.register(hook.url())
    await sender.put()
    await sender.webhooks.deliver_due()
    (delivery,) = await sender.deliveries()
    for _ in range(25):
        await sender.change(sender.webhooks.deliveries.replay, delivery.id)
        assert await sender.webhooks.deliver_due() == 1
    (delivery,) = await sender.deliveries()
    assert (delivery.attempt_count, len(delivery.attempts)) == (26, 20)


@pytest.mark.both_databases
async def test_gone_disables_the_endpoint_and_parks_what_it_misses(sender, hook):
    made = await sender.register(hook.url())
    endpoint_id = made.endpoint.id
    await sender.put(1)
    hook.mode = "gone"
    assert await sender.webhooks.deliver_due() == 1
    await sender.put(2)
    assert await sender.webhooks.deliver_due(clock.seconds() + DAYS_3) == 0
    endpoint = await sender.endpoint(endpoint_id)
    assert endpoint.status == "disabled"
    assert "410" in endpoint.disabled_reason
    parked = await sender.deliveries(endpoint_id=endpoint_id, state="parked")
    assert {(one.subject_id, one.last_error) for one in parked} == {("prod_1", "disabled"), ("prod_2", "disabled")}
    with pytest.raises(ValueError, match="enable it first"):
        await sender.change(sender.webhooks.deliveries.replay, parked[0].id)
    hook.mode = "ok"
    assert (await sender.change(sender.webhooks.subscriptions.enable, endpoint_id)).status == "active"
    assert await sender.change(sender.webhooks.deliveries.replay_parked, endpoint_id) == 2
    assert await sender.webhooks.deliver_due() == 2
    assert len(hook.taken) == 2


@pytest.mark.both_databases
async def test_removed_endpoint_is_told_nothing_more(sender, hook):
    made = await sender.register(hook.url())
    await sender.put()
    assert [one.state for one in await sender.deliveries()] == ["pending"]
    assert await sender.change(sender.webhooks.subscriptions.remove, made.endpoint.id)
    assert not await sender.change(sender.webhooks.subscriptions.remove, made.endpoint.id)
    assert await sender.webhooks.deliver_due(clock.seconds() + HOUR) == 0
    assert await sender.webhooks.subscriptions.all() == []
    (delivery,) = await sender.deliveries()
    assert (delivery.state, delivery.last_error) == ("cancelled", "removed")
    with pytest.raises(ValueError, match="does not exist"):
        await sender.change(sender.webhooks.deliveries.replay, delivery.id)


async def test_receiver_that_asks_for_a_pause_is_left_alone_for_it(sender, hook):
    await sender.register(hook.url())
    for number in range(20):
        await sender.put(number)
    hook.mode, hook.retry_after = "busy", "600"
    now = clock.seconds()
    first = await sender.webhooks.deliver_due(now)
    assert 1 <= first <= 2
    assert await sender.webhooks.deliver_due(now + 500) == 0
    hook.mode = "ok"
    assert await sender.webhooks.deliver_due(now + 700) == 20
    assert len({told.id for told in hook.taken}) == 20


async def test_pause_asked_for_without_measure_is_bounded(sender, hook):
    await sender.register(hook.url())
    await sender.put()
    hook.mode, hook.retry_after = "busy", "99999999999"
    now = clock.seconds()
    await sender.webhooks.deliver_due(now)
    (delivery,) = await sender.deliveries()
    assert datetime.fromisoformat(delivery.due_at).timestamp() <= now + 24 * HOUR + 60
    await sender.put(2)
    assert await sender.webhooks.deliver_due(now + HOUR + 60) == 1


@pytest.mark.both_databases
async def test_rotated_secret_signs_beside_the_former_for_a_day(sender, hook, monkeypatch):
    made = await sender.register(hook.url())
    rotated = await sender.change(sender.webhooks.subscriptions.rotate, made.endpoint.id)
    assert rotated.secret != made.secret
    assert rotated.endpoint.former_secret_until
    await sender.put(1)
    await sender.webhooks.deliver_due()
    (told,) = hook.taken
    assert len(told.headers["webhook-signature"].split(" ")) == 2
    assert Webhook(made.secret).verify(told.body, told.headers)
    assert Webhook(rotated.secret).verify(told.body, told.headers)
    await sender.put(2)
    await sender.webhooks.deliver_due(clock.seconds() + 24 * HOUR + 1)
    late = hook.taken[-1]
    assert is_signed(late, rotated.secret)
    assert not is_signed(late, made.secret)


@pytest.mark.both_databases
async def test_secret_is_shown_once_and_in_no_listing(sender, hook):
    made = await sender.register(hook.url())
    assert made.secret.startswith("whsec_")
    assert len(b64decode(made.secret.removeprefix("whsec_"))) == 32
    await sender.put()
    await sender.webhooks.deliver_due()
    shown = [
        *await sender.webhooks.subscriptions.all(),
        *await sender.deliveries(),
        await sender.endpoint(made.endpoint.id),
    ]
    assert "whsec_" not in repr(shown)
    assert made.secret.removeprefix("whsec_") not in repr(shown)


@pytest.mark.both_databases
async def test_secret_is_stored_encrypted_and_bound_to_its_endpoint(sender, hook, tmp_path):
    first, second = await sender.register(hook.url()), await sender.register(hook.url())
    rotated = await sender.change(sender.webhooks.subscriptions.rotate, second.endpoint.id)
    stored = await secrets_of(sender)
    known = [made.secret for made in (first, second, rotated)]
    assert not any(secret.removeprefix("whsec_") in repr(stored) for secret in known)
    key = tmp_path / "encryption.key"
    assert key.stat().st_mode & 0o777 == 0o600
    # Copied to another row, or read with another key, it signs nothing.
    async with sender.database.writing() as transaction:
        await transaction.execute(
            text("UPDATE webhook_endpoint SET secret = :secret WHERE id = :id"),
            {"secret": stored[first.endpoint.id][0], "id": second.endpoint.id},
        )
    await sender.put()
    await sender.webhooks.deliver_due()
    assert [is_signed(told, first.secret) for told in hook.taken] == [True]
    key.write_text("ab" * 32)
    await sender.put(2)
    await sender.new_webhooks().deliver_due()
    assert len(hook.taken) == 1
    assert {(await sender.endpoint(made.endpoint.id)).last_error for made in (first, second)} == {"secret"}


@pytest.mark.both_databases
async def test_secrets_that_an_earlier_version_stored_are_encrypted(sender, hook, eager):
    made = await sender.register(hook.url())
    async with sender.database.writing() as transaction:
        await transaction.execute(text("UPDATE webhook_endpoint SET secret = :secret"), {"secret": made.secret})
    running = [asyncio.create_task(one) for one in (sender.webhooks.run_deliveries(), sender.webhooks.maintain())]
    await sender.put()
    await until(lambda: hook.taken)
    await stop(*running)
    assert is_signed(hook.taken[0], made.secret)
    assert (await secrets_of(sender))[made.endpoint.id][0].startswith("enc1:")


async def _is(value: Awaitable[object], expected: object) -> bool:
    return await value == expected


async def secrets_of(sender) -> dict[str, tuple[str, str]]:
    async with sender.database.reading() as connection:
        rows = await connection.execute(text("SELECT id, secret, former_secret FROM webhook_endpoint"))
        return {row.id: (row.secret, row.former_secret) for row in rows}


@pytest.mark.both_databases
async def test_two_processes_at_once_send_each_delivery_once(sender, hook):
    await sender.register(hook.url())
    hook.mode, hook.slow_seconds = "slow", 0.02
    for number in range(60):
        await sender.put(number)
    now = clock.seconds()
    context = [sender.webhooks, sender.new_webhooks(), sender.new_webhooks()]
    made = await asyncio.gather(*(webhooks.deliver_due(now) for webhooks in context))
    assert sum(made) == 60
    assert Counter(Counter(told.id for told in hook.told).values()) == {1: 60}


@pytest.mark.both_databases
async def test_attempt_cut_short_is_made_again_when_its_lease_is_over(sender, hook):
    await sender.register(hook.url())
    event_id = await sender.put()
    hook.mode = "hang"
    now = clock.seconds()
    dying = asyncio.create_task(sender.new_webhooks().deliver_due(now))
    await until(lambda: hook.told)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    hook.mode = "ok"
    (waiting,) = await sender.deliveries()
    await sender.change(sender.webhooks.deliveries.replay, waiting.id)
    assert await sender.webhooks.deliver_due(now + 30) == 0
    assert await sender.webhooks.deliver_due(now + 61) == 1
    assert [told.id for told in hook.taken] == [event_id]


async def test_dead_and_slow_receivers_delay_nobody_else(sender, hook, eager):
    """Thirty receivers that hang, with plenty due for each, and one that is well."""
    webhooks = sender.new_webhooks(capacity=Capacity(overall=70, suspects=20))
    hook.modes = {f"/dead{number}": "hang" for number in range(30)}
    for path in hook.modes:
        await sender.register(hook.url(path), ["product.removed"])
    await sender.register(hook.url("/well"), ["product.created"])
    for number in range(20):
        await sender.put(number, kind="product.removed")
    delivering = asyncio.create_task(webhooks.run_deliveries())
    await until(lambda: hook.told)
    for number in range(50):
        await sender.put(number)
    await until(lambda: len(hook.taken) == 50)
    assert {told.path for told in hook.taken} == {"/well"}
    assert Counter(told.path for told in hook.told if told.path != "/well").most_common(1)[0][1] <= 2
    await stop(delivering)


@pytest.mark.both_databases
async def test_loop_delivers_what_comes_while_it_runs_and_stops_when_told(sender, hook, monkeypatch):
    monkeypatch.setattr(deliverer, "POLL_SECONDS", 0.05)
    made = await sender.register(hook.url())
    delivering = asyncio.create_task(sender.webhooks.run_deliveries())
    await asyncio.sleep(0.2)
    await sender.put()
    await until(lambda: hook.taken)
    hook.mode, hook.slow_seconds = "slow", 0.2
    await sender.put(2)
    await until(lambda: len(hook.told) == 2)
    delivering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivering
    assert [one.state for one in await sender.deliveries()] == ["delivered", "delivered"]
    assert (await sender.endpoint(made.endpoint.id)).last_success_at


@pytest.mark.both_databases
async def test_attempts_that_end_while_the_storage_is_away_are_settled_when_it_is_back(
    sender, hook, eager, monkeypatch
):
    monkeypatch.setattr(deliverer, "STORAGE_PAUSE_SECONDS", 0.05)
    await sender.register(hook.url())
    for number in range(2):
        await sender.put(number)
    hook.mode, hook.slow_seconds = "slow", 0.2
    delivering = asyncio.create_task(sender.webhooks.run_deliveries())
    await until(lambda: len(hook.told) == 2)
    refused = []

    @asynccontextmanager
    async def unavailable(lock=None) -> AsyncIterator[None]:
        refused.append(lock)
        raise Problem("storage-unavailable", "The disk is full.")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(sender.database, "writing", unavailable)
        await until(lambda: len(refused) >= 3)
    assert [one.state for one in await sender.deliveries()] == ["pending", "pending"]
    await sender.put(3)
    await until(lambda: len(hook.taken) == 3)
    assert Counter(one.state for one in await sender.deliveries())["delivered"] >= 2
    assert len(hook.told) == 3
    await stop(delivering)


@pytest.mark.both_databases
async def test_old_events_are_forgotten_with_all_about_them(sender, hook, eager, monkeypatch):
    await sender.register(hook.url("/ok"), ["product.created"])
    hook.modes = {"/bad": "error"}
    await sender.register(hook.url("/bad"), ["product.removed"])
    await sender.put(1)
    await sender.put(2, kind="product.removed")
    await sender.webhooks.deliver_due()
    told, now = len(hook.told), clock.seconds()
    monkeypatch.setattr(clock, "seconds", lambda: now + 31 * 24 * HOUR)
    hook.modes = {"/bad": "hang"}
    running = [asyncio.create_task(one) for one in (sender.webhooks.run_deliveries(), sender.webhooks.maintain())]
    await until(lambda: len(hook.told) > told)
    hook.modes = {}
    await sender.put(3)
    await until(lambda: len(hook.taken) == 2)

    async def subjects() -> list[str]:
        return [one.subject_id for one in await sender.deliveries()]

    await until(lambda: _is(subjects(), ["prod_3", "prod_2"]))
    await stop(*running)


@pytest.mark.parametrize(
    ("email", "types"),
    [("nobody", []), ("a b@example.org", []), ("a@example", []), ("ada@example.org", ["created"]),
     ("ada@example.org", ["Product.Created"]), ("ada@example.org", ["a.b"] * 16), ("ada@example.org", ["a,b.c"])],
)  # fmt: skip
async def test_wrong_email_or_type_is_refused(sender, email, types):
    with pytest.raises(ValueError, match=r"email|type"):
        await sender.change(sender.webhooks.subscriptions.add, "mattress", "https://good.example/", email, types)


@pytest.mark.both_databases
async def test_endpoint_is_changed_in_place(sender, hook):
    made = await sender.register(hook.url("/old"))
    async with sender.database.writing() as transaction:
        changed = await sender.webhooks.subscriptions.change(
            transaction, made.endpoint.id, target=hook.url("/new"), types=["product.created"]
        )
    assert (changed.url, changed.types, changed.email) == (hook.url("/new"), ("product.created",), "ada@example.org")
    await sender.put()
    await sender.webhooks.deliver_due()
    assert [told.path for told in hook.taken] == ["/new"]
    assert Webhook(made.secret).verify(hook.taken[0].body, hook.taken[0].headers)
