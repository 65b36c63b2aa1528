"""Alerts over HTTP: made, changed, listed, tested, deleted; each key its own."""

import pytest

from tests.services.defense.alerts.conftest import NOON, record, rule

BODY = {**rule(), "name": "Fighting", "url": "https://hooks.example/x"}


@pytest.mark.both_databases
async def test_alert_is_made_with_its_secret_this_once(house, hook):
    filters = {"category": "Battles", "country": "eth", "entity": "NATO", "severity_tier": "high"}
    made = await house.make(hook.url(), filters=filters, window_hours=6, cooldown_minutes=30)
    assert made["id"].startswith("alert_")
    assert made["version"] == 1
    assert made["secret"].startswith("whsec_")
    assert made["filters"] == {**filters, "country": "Ethiopia"}
    assert (made["threshold"], made["window_hours"], made["cooldown_minutes"]) == (2, 6, 30)
    assert made["state"] == {"status": "pending", "value": None, "since": None, "last_triggered_at": None}
    del made["secret"]
    assert await house.alert(made["id"]) == made
    listed = (await house.ask("GET", "/api/alerts")).json()
    assert (listed["alerts"], listed["count"]) == ([made], 1)


BAD_MEMBERS = [
    ({"name": ""}, "name"),
    ({"name": None}, "name"),
    ({"metric": "happiness"}, "metric"),
    ({"metric": "brief:gap_score.nothing"}, "metric"),
    ({"operator": "!="}, "operator"),
    ({"threshold": "many"}, "threshold"),
    ({"threshold": "critical"}, "threshold"),
    ({"threshold": 1e13}, "threshold"),
    ({"threshold": True}, "threshold"),
    ({"window_hours": 0}, "window_hours"),
    ({"window_hours": 25}, "window_hours"),
    ({"cooldown_minutes": 0}, "cooldown_minutes"),
    ({"cooldown_minutes": 100_000}, "cooldown_minutes"),
    ({"filters": {"category": "War"}}, "filters.category"),
    ({"filters": {"country": "Etiopia"}}, "filters.country"),
    ({"filters": {"severity_tier": "awful"}}, "filters.severity_tier"),
    ({"filters": {"entity": ""}}, "filters.entity"),
    ({"filters": {"source": "gdelt events"}}, "filters.source"),
    ({"filters": {"colour": "red"}}, "filters.colour"),
    ({"filters": []}, "filters"),
    ({"metric": "staleness_minutes", "filters": {"country": "Ethiopia"}}, "filters.country"),
    ({"metric": "staleness_minutes", "filters": {"source": "nobody"}}, "filters.source"),
    ({"metric": "brief:events_24h", "window_hours": 6}, "window_hours"),
    ({"url": "http://hooks.example/x"}, "url"),
    ({"url": "https://10.0.0.1/x"}, "url"),
    ({"url": "https://169.254.169.254/latest"}, "url"),
    ({"url": "https://[::ffff:192.168.1.1]/x"}, "url"),
    ({"url": "https://localhost.internal/x"}, "url"),
    ({"url": ""}, "url"),
    ({"colour": "red"}, "colour"),
]


async def test_bad_member_is_named(house):
    for members, parameter in BAD_MEMBERS:
        for path in ("/api/alerts", "/api/alerts/preview"):
            if path.endswith("preview") and ("url" in members or members.get("name", "x") is None):
                continue  # A preview neither calls the address nor needs the name.
            answer = await house.ask("POST", path, {**BODY, "url": "https://93.184.215.14/x", **members})
            assert answer.status_code == 400, (path, members)
            assert answer.json()["code"] == "invalid-body", (path, members)
            assert answer.json()["parameter"] == parameter, (path, members)
        assert (await house.ask("GET", "/api/alerts")).json()["count"] == 0, members


async def test_missing_member_is_named(house):
    for missing in ("name", "metric", "operator", "threshold", "url"):
        body = {name: value for name, value in BODY.items() if name != missing}
        answer = await house.ask("POST", "/api/alerts", body)
        assert (answer.status_code, answer.json()["parameter"]) == (400, missing)


async def test_unknown_country_comes_with_near_matches(house, hook):
    answer = await house.ask("POST", "/api/alerts", {**BODY, "filters": {"country": "Etiopia"}})
    assert "Ethiopia" in answer.json()["allowed"]


async def test_tier_may_be_the_threshold_of_severity(house, hook):
    made = await house.make(hook.url(), metric="max_severity", threshold="high")
    assert made["threshold"] == 3


async def test_another_keys_alert_is_not_found(house, hook):
    made = await house.make(hook.url())
    test = (await house.ask("POST", f"/api/alerts/{made['id']}/test")).json()
    other = (await house.context.keys.create("bob@example.org", tier="enterprise")).text
    assert (await house.ask("GET", "/api/alerts", key=other)).json()["count"] == 0
    for method, path, body in (
        ("GET", "", None), ("PATCH", "", {"threshold": 3}), ("DELETE", "", None), ("POST", "/test", None),
        ("GET", "/deliveries", None), ("POST", f"/deliveries/{test['id']}/replay", None),
    ):  # fmt: skip
        answer = await house.ask(method, f"/api/alerts/{made['id']}{path}", body, key=other)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found"), path
    mine = (await house.ask("POST", "/api/alerts", {**BODY, "url": hook.url("/mine")}, key=other)).json()
    answer = await house.ask("POST", f"/api/alerts/{mine['id']}/deliveries/{test['id']}/replay", key=other)
    assert answer.status_code == 404
    assert (await house.alert(made["id"]))["version"] == 1


async def test_lower_tiers_are_told_which_tier_it_needs(house):
    for tier in ("free", "pro"):
        key = (await house.context.keys.create("bob@example.org", tier=tier)).text
        for method, path in (("GET", "/api/alerts"), ("POST", "/api/alerts/preview"), ("POST", "/api/analysis")):
            answer = await house.ask(method, path, key=key)
            assert answer.status_code == 403
            assert answer.json()["required_tier"] == "enterprise"
    assert (await house.client.get("/api/alerts")).status_code == 401


@pytest.mark.both_databases
async def test_every_change_makes_a_version_and_no_change_makes_none(house, hook):
    made = await house.make(hook.url())
    path = f"/api/alerts/{made['id']}"
    for version, patch in enumerate(
        [{"threshold": 3}, {"name": "War"}, {"filters": {"country": "ET"}}, {"url": hook.url("/b")}], start=2
    ):
        changed = (await house.ask("PATCH", path, patch)).json()
        assert changed["version"] == version
    assert (changed["threshold"], changed["name"], changed["filters"]) == (3, "War", {"country": "Ethiopia"})
    assert changed["url"] == hook.url("/b")
    for patch in ({}, {"threshold": 3, "filters": {"country": "Ethiopia"}}, {"url": hook.url("/b")}):
        assert (await house.ask("PATCH", path, patch)).json()["version"] == version
    assert "secret" not in changed


async def test_bad_change_is_refused_and_changes_nothing(house, hook):
    made = await house.make(hook.url(), filters={"country": "Ethiopia"})
    del made["secret"]
    patches = [
        ({"threshold": None}, "threshold"),
        ({"metric": "staleness_minutes"}, "filters.country"),
        ({"metric": "x"}, "metric"),
        ({"url": "https://127.0.0.1.nip.internal/x"}, "url"),
        ({"id": "alert_1"}, "id"),
    ]
    for patch, parameter in patches:
        answer = await house.ask("PATCH", f"/api/alerts/{made['id']}", patch)
        assert (answer.status_code, answer.json()["parameter"]) == (400, parameter), patch
        assert await house.alert(made["id"]) == made, patch


@pytest.mark.both_databases
async def test_deleted_alert_is_gone_and_tells_nothing_more(house, hook):
    made = await house.make(hook.url())
    await house.put(record(1), record(2))
    assert await house.watch.run_once() == 1
    answer = await house.ask("DELETE", f"/api/alerts/{made['id']}")
    assert answer.json() == {"deleted": True, "id": made["id"]}
    assert (await house.ask("GET", f"/api/alerts/{made['id']}")).status_code == 404
    assert (await house.ask("DELETE", f"/api/alerts/{made['id']}")).status_code == 404
    await house.put(record(3))
    assert await house.watch.run_once() == 0
    assert await house.context.webhooks.deliver_due() == 0
    assert hook.told == []


@pytest.mark.both_databases
async def test_key_has_a_bounded_number_of_alerts(house, hook, monkeypatch):
    monkeypatch.setattr("tollhouse.services.defense.alerts.endpoints.MOST_ALERTS_PER_KEY", 2)
    first = await house.make(hook.url())
    await house.make(hook.url())
    answer = await house.ask("POST", "/api/alerts", {**BODY, "url": hook.url()})
    assert (answer.status_code, answer.json()["limit"]) == (400, 2)
    await house.ask("DELETE", f"/api/alerts/{first['id']}")
    await house.make(hook.url())


async def test_unknown_alert_and_delivery_are_not_found(house, hook):
    made = await house.make(hook.url())
    assert (await house.ask("GET", "/api/alerts/alert_0")).status_code == 404
    assert (await house.ask("POST", f"/api/alerts/{made['id']}/deliveries/dlv_0/replay")).status_code == 404


async def test_secret_is_in_no_later_answer(house, hook):
    made = await house.make(hook.url())
    await house.put(record(1), record(2), slot=NOON)
    await house.watch.run_once()
    for path in ("/api/alerts", f"/api/alerts/{made['id']}", f"/api/alerts/{made['id']}/deliveries"):
        assert made["secret"] not in (await house.ask("GET", path)).text
