"""A receiver that is down for a day or says it is gone: the owner is told, nothing is lost, replay works."""

from tests.services.defense.alerts.conftest import record
from tests.webhooks.conftest import is_signed
from tollhouse import clock

HOUR = 3_600.0


async def deliveries(house, alert, query=""):
    answer = await house.ask("GET", f"/api/alerts/{alert['id']}/deliveries{query}")
    assert answer.status_code == 200
    return answer.json()["deliveries"]


async def test_owner_is_told_that_an_endpoint_fails_and_replay_works_after_a_day(house, hook):
    made = await house.make(hook.url())
    await house.put(record(1), record(2))
    assert await house.watch.run_once() == 1
    hook.mode = "error"
    start = clock.seconds()
    for hours in range(25):
        await house.context.webhooks.deliver_due(start + HOUR * hours)
    endpoint = (await house.alert(made["id"]))["endpoint"]
    assert endpoint["status"] == "failing"
    assert endpoint["failing_since"]
    assert endpoint["last_error"] == "status 500"
    assert endpoint["consecutive_failures"] >= 5
    (waiting,) = await deliveries(house, made)
    assert (waiting["state"], waiting["type"], waiting["last_status"]) == ("pending", "alert.triggered", 500)
    assert waiting["attempt_count"] == len(waiting["attempts"]) == endpoint["consecutive_failures"]

    hook.mode = "ok"
    replayed = await house.ask("POST", f"/api/alerts/{made['id']}/deliveries/{waiting['id']}/replay")
    assert replayed.json()["state"] == "pending"
    assert await house.context.webhooks.deliver_due() == 1
    (told,) = hook.taken
    assert is_signed(told, made["secret"])
    assert told.id == waiting["event_id"]
    endpoint = (await house.alert(made["id"]))["endpoint"]
    assert (endpoint["status"], endpoint["failing_since"], endpoint["consecutive_failures"]) == ("active", None, 0)
    assert endpoint["last_success_at"]
    (done,) = await deliveries(house, made, "?state=delivered")
    assert done["id"] == waiting["id"]
    assert await deliveries(house, made, "?state=parked") == []


async def test_what_was_given_up_on_is_parked_and_counted_until_it_is_replayed(house, hook):
    made = await house.make(hook.url())
    await house.put(record(1), record(2))
    await house.watch.run_once()
    hook.mode = "error"
    start = clock.seconds()
    for hours in range(0, 24 * 5, 2):
        await house.context.webhooks.deliver_due(start + HOUR * hours)
    assert (await house.alert(made["id"]))["endpoint"]["parked_count"] == 1
    (parked,) = await deliveries(house, made, "?state=parked")
    hook.mode = "ok"
    await house.ask("POST", f"/api/alerts/{made['id']}/deliveries/{parked['id']}/replay")
    await house.context.webhooks.deliver_due()
    assert len(hook.taken) == 1
    assert (await house.alert(made["id"]))["endpoint"]["parked_count"] == 0


async def test_disabled_endpoint_is_told_and_enabled_by_naming_its_url(house, hook):
    made = await house.make(hook.url())
    hook.mode = "gone"
    test = (await house.ask("POST", f"/api/alerts/{made['id']}/test")).json()
    await house.context.webhooks.deliver_due()
    endpoint = (await house.alert(made["id"]))["endpoint"]
    assert endpoint["status"] == "disabled"
    assert endpoint["disabled_at"]
    assert endpoint["disabled_reason"]
    assert endpoint["parked_count"] == 1
    replay = f"/api/alerts/{made['id']}/deliveries/{test['id']}/replay"
    assert (await house.ask("POST", replay)).status_code == 400
    # What it misses while it is disabled waits for it.
    await house.put(record(1), record(2))
    assert await house.watch.run_once() == 1
    hook.mode = "ok"
    changed = (await house.ask("PATCH", f"/api/alerts/{made['id']}", {"url": hook.url()})).json()
    assert changed["endpoint"]["status"] == "active"
    for parked in await deliveries(house, made, "?state=parked"):
        await house.ask("POST", f"/api/alerts/{made['id']}/deliveries/{parked['id']}/replay")
    await house.context.webhooks.deliver_due()
    assert len(hook.taken) == 2


async def test_test_delivery_says_that_it_is_one(house, hook):
    made = await house.make(hook.url(), metric="max_severity", threshold="critical")
    for _ in range(2):
        test = (await house.ask("POST", f"/api/alerts/{made['id']}/test")).json()
        assert (test["type"], test["state"], test["subject_id"]) == ("alert.test", "pending", made["id"])
    assert await house.context.webhooks.deliver_due() == 2
    assert len({told.id for told in hook.taken}) == 2
    assert all(is_signed(told, made["secret"]) for told in hook.taken)
    assert b'"type":"alert.test"' in hook.taken[0].body
    assert [one["state"] for one in await deliveries(house, made)] == ["delivered", "delivered"]
    assert (await house.alert(made["id"]))["state"]["last_triggered_at"] is None
    answer = await house.ask("GET", f"/api/alerts/{made['id']}/deliveries?limit=0")
    assert (answer.status_code, answer.json()["parameter"]) == (400, "limit")
