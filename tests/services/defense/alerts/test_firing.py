"""When alerts are told, to the letter of docs/alerts.md: once for each window state, never lost, never doubled."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
from standardwebhooks.webhooks import Webhook

from tests.servers.processes import run
from tests.services.defense.alerts.conftest import NOON, SLOT, record
from tests.services.defense.alerts.dying_monitor import evaluate_once
from tests.services.defense.served import survey
from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.services.defense.alerts.monitor import AlertMonitor
from tollhouse.services.defense.brief.capability import capability_gaps
from tollhouse.services.defense.brief.production import CATEGORIES, bundled_lines
from tollhouse.services.defense.events.event import to_event
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.pages import EventsQuery
from tollhouse.services.defense.ingest import source_health
from tollhouse.services.defense.ingest.recording import load_recording
from tollhouse.services.defense.news import store as news

HOUR, MINUTE = 3_600.0, 60.0


async def delivered(house, hook, now=None):
    """Bodies that arrive once all that is due was delivered."""
    seen = len(hook.taken)
    await house.context.webhooks.deliver_due(now)
    return [msgspec.json.decode(told.body) for told in hook.taken[seen:]]


@pytest.mark.both_databases
async def test_alert_is_told_signed_with_its_events(house, hook):
    made = await house.make(hook.url(), filters={"country": "ETH", "category": "Battles"}, threshold=3)
    await house.put(record(1), record(2), record(3, country="Kenya"), record(4, category="Protests"))
    assert await house.watch.run_once() == 0
    await house.put(record(5, deaths=30))
    assert await house.watch.run_once() == 1
    await delivered(house, hook)
    told = hook.taken[0]
    body = Webhook(made["secret"]).verify(told.body, told.headers)
    assert set(body) == {"type", "timestamp", "data"}
    assert body["type"] == "alert.triggered"
    data = body["data"]
    events = data.pop("events")
    assert data == {
        "alert_id": made["id"], "name": "Fighting", "version": 1, "metric": "event_count", "value": 3, "threshold": 3,
        "window": {"from": "2026-03-09T12:00:00Z", "to": "2026-03-10T12:00:00Z", "hours": 24},
    }  # fmt: skip
    assert {event["id"] for event in events} == {record(number).id for number in (1, 2, 5)}
    assert events[0]["fatalities"] == 30
    assert events[0]["metrics"]["severity_tier"] == "critical"
    state = (await house.alert(made["id"]))["state"]
    assert (state["status"], state["value"]) == ("met", 3)
    assert state["last_triggered_at"]


@pytest.mark.both_databases
async def test_same_window_state_is_told_once_however_often_it_is_looked_at(house, hook):
    await house.make(hook.url(), cooldown_minutes=1)
    await house.put(record(1), record(2))
    now = clock.seconds()
    assert [await house.watch.run_once(now + HOUR * hours) for hours in range(4)] == [1, 0, 0, 0]
    # Another process, or the same one started again.
    assert await AlertMonitor(house.database, recorded=None, plans=["enterprise"]).run_once(now + 9 * HOUR) == 0
    assert len(await delivered(house, hook)) == 1


@pytest.mark.both_databases
async def test_rule_that_stays_true_is_told_again_after_its_cool_down_of_what_is_new(house, hook):
    await house.make(hook.url(), cooldown_minutes=60)
    now = clock.seconds()
    await house.put(record(1), record(2))
    assert await house.watch.run_once(now) == 1
    await house.put(record(3, NOON + SLOT), slot=NOON + SLOT)
    assert await house.watch.run_once(now + 15 * MINUTE) == 0
    assert await house.watch.run_once(now + 59 * MINUTE) == 0
    assert await house.watch.run_once(now + 60 * MINUTE) == 1
    assert {body["data"]["value"] for body in await delivered(house, hook)} == {2, 3}


async def test_rule_comes_true_again_after_it_was_not(house, hook):
    await house.make(hook.url(), window_hours=1, cooldown_minutes=60)
    now = clock.seconds()
    await house.put(record(1), record(2))
    assert await house.watch.run_once(now) == 1
    later = NOON + timedelta(hours=1)
    # Nothing new came; what had come has left the window.
    await house.put(slot=later)
    assert await house.watch.run_once(now + 61 * MINUTE) == 0
    await house.put(record(3, later + SLOT), record(4, later + SLOT), slot=later + SLOT)
    assert await house.watch.run_once(now + 62 * MINUTE) == 1


async def test_few_events_are_noticed_when_events_leave_the_window(house, hook):
    made = await house.make(hook.url(), operator="<", threshold=2, window_hours=2)
    await house.put(record(1), record(2), record(3, country="Kenya"))
    assert await house.watch.run_once() == 0
    await house.put(slot=NOON + timedelta(hours=1))
    assert await house.watch.run_once() == 0
    await house.put(slot=NOON + timedelta(hours=2))
    assert await house.watch.run_once() == 1
    assert (await house.alert(made["id"]))["state"]["value"] == 0


@pytest.mark.both_databases
async def test_removed_event_counts_no_more(house, hook):
    made = await house.make(hook.url(), threshold=3)
    await house.put(record(1), record(2))
    await house.watch.run_once()
    await house.remove(record(1))
    await house.watch.run_once()
    assert (await house.alert(made["id"]))["state"] == {
        "status": "not_met", "value": 1, "since": (await house.alert(made["id"]))["state"]["since"],
        "last_triggered_at": None,
    }  # fmt: skip


@pytest.mark.both_databases
async def test_changed_rule_starts_anew_under_its_new_version(house, hook):
    made = await house.make(hook.url(), cooldown_minutes=600)
    await house.put(record(1), record(2), record(3))
    assert await house.watch.run_once() == 1
    await house.ask("PATCH", f"/api/alerts/{made['id']}", {"threshold": 3})
    assert await house.watch.run_once() == 1
    assert {body["data"]["version"] for body in await delivered(house, hook)} == {1, 2}


async def test_renamed_rule_is_not_told_a_second_time(house, hook):
    made = await house.make(hook.url())
    await house.put(record(1), record(2))
    assert await house.watch.run_once() == 1
    await house.ask("PATCH", f"/api/alerts/{made['id']}", {"name": "War", "cooldown_minutes": 5})
    assert await house.watch.run_once(clock.seconds() + HOUR) == 0
    assert (await house.alert(made["id"]))["state"]["status"] == "met"


async def test_alert_made_when_it_is_true_already_is_told_at_once(house, hook):
    await house.put(record(1), record(2))
    assert await house.watch.run_once() == 0
    await house.make(hook.url())
    assert await house.watch.run_once() == 1


@pytest.mark.parametrize(
    ("members", "value"),
    [
        ({"metric": "fatalities", "threshold": 7}, 7),
        ({"metric": "fatalities", "threshold": 7, "filters": {"country": "Kenya"}}, 2),
        ({"metric": "max_severity", "threshold": "high"}, 3),
        ({"metric": "max_severity", "threshold": "high", "filters": {"category": "Protests"}}, 1),
        ({"metric": "max_severity", "operator": "==", "threshold": 0, "filters": {"country": "Peru"}}, 0),
        ({"filters": {"severity_tier": "low"}}, 2),
        ({"filters": {"country": "Kenya", "category": "Protests"}}, 1),
        ({"metric": "brief:battle_events_24h"}, 2),
        ({"metric": "brief:events_24h"}, 3),
        ({"metric": "brief:by_severity.high"}, 1),
        ({"metric": "brief:total_market_value_b", "threshold": 70}, 72.275611),
        ({"metric": "brief:gap_score.fighters"}, None),
        ({"metric": "spike", "threshold": 3}, None),
    ],
)
async def test_metric_has_its_value(house, hook, members, value):
    made = await house.make(hook.url(), **members)
    await house.put(record(1, deaths=5), record(2), record(3, category="Protests", country="Kenya", deaths=2))
    told = await house.watch.run_once()
    state = (await house.alert(made["id"]))["state"]
    assert state["value"] == value
    assert state["status"] == ("no_data" if value is None else "met" if told else "not_met")
    compared = {">=": float.__ge__, "==": float.__eq__}[made["operator"]]
    assert told == int(value is not None and compared(float(value), float(made["threshold"])))


async def test_gap_score_is_the_briefs(house, hook):
    battles = [record(n, title="Drone strike" if n % 2 else "Shelling") for n in range(40)]
    made = await house.make(hook.url(), metric="brief:gap_score.uas_cca", threshold=0.01)
    await house.put(*battles)
    assert await house.watch.run_once() == 1
    gaps = capability_gaps(bundled_lines(), survey(to_event(one) for one in battles))
    expected = next(gap.gap_score for gap in gaps if gap.area == CATEGORIES["uas_cca"])
    assert expected > 0
    assert (await house.alert(made["id"]))["state"]["value"] == expected


async def test_spike_is_seen_against_the_hours_before(house, hook):
    made = await house.make(hook.url(), metric="spike", threshold=5, window_hours=1, filters={"country": "ET"})
    usual = [record(f"{hour}-{n}", NOON - timedelta(hours=hour)) for hour in range(1, 11) for n in range(4)]
    for hour in range(1, 11):
        await house.put(slot=NOON - timedelta(hours=hour))
    await house.put(*usual, *(record(n) for n in range(5)))
    assert await house.watch.run_once() == 0
    # Five where four are usual: one more than usual, over the root of 4 x (1 + 1/10).
    assert (await house.alert(made["id"]))["state"]["value"] == 0.48
    await house.put(*(record(100 + n) for n in range(20)))
    assert await house.watch.run_once() == 1


async def test_entity_is_known_by_id_name_and_alias_and_after_a_merger(house, hook):
    nato = {"id": "entity_00000000000000aa", "name": "NATO", "aliases": ["Atlantic Alliance"]}
    events = [record(1), record(2), record(3)]
    wanted = ["entity_00000000000000aa", "nato", "atlantic alliance", "entity_00000000000000bb", "Warsaw Pact"]
    made = [await house.make(hook.url(), filters={"entity": text}) for text in wanted]
    await house.put(*events)
    assert await house.watch.run_once() == 0
    async with house.database.writing() as connection:
        pair = {"entity_00000000000000bb": nato["id"]}
        await news.write_successors(connection, "provider", "merged", pair, "20260310120000")
    await house.tell_story(1, events[:2], [nato])
    assert await house.watch.run_once() == 4
    values = [(await house.alert(one["id"]))["state"]["value"] for one in made]
    assert values == [2, 2, 2, 2, 0]
    bodies = await delivered(house, hook)
    assert {event["story_id"] for body in bodies for event in body["data"]["events"]} == {"story_0000000000000001"}


async def test_more_voices_make_an_event_worse_and_the_alert_true(house, hook):
    await house.make(hook.url(), metric="max_severity", threshold="high")
    await house.put(record(1), record(2))
    assert await house.watch.run_once() == 0
    await house.tell_story(1, [record(1)], [], voices=3)
    assert await house.watch.run_once() == 1


async def test_stale_feed_is_told_once_an_outage(house, hook):
    fresh = clock.now().replace(microsecond=0)
    made = await house.make(hook.url(), metric="staleness_minutes", threshold=60, cooldown_minutes=5)
    await house.put(record(1, fresh), slot=fresh)
    begun = fresh.timestamp()
    assert await house.watch.run_once(begun + 10 * MINUTE) == 0
    assert [await house.watch.run_once(begun + minute * MINUTE) for minute in (58, 60, 66, 90, 119)] == [0, 1, 0, 0, 0]
    assert (await house.alert(made["id"]))["state"]["value"] == 119
    assert hook.told == []
    await house.put(slot=fresh + timedelta(minutes=120))
    assert await house.watch.run_once(begun + 121 * MINUTE) == 0
    assert await house.watch.run_once(begun + 182 * MINUTE) == 1
    bodies = await delivered(house, hook)
    assert {body["data"]["value"] for body in bodies} == {60, 62}
    assert bodies[0]["data"]["events"] == []


async def test_stale_source_is_told(house, hook):
    await house.put(record(1))
    await source_health.succeeded(house.database, "gdelt events")
    await house.make(hook.url(), metric="staleness_minutes", threshold=30, filters={"source": "gdelt events"})
    assert await house.watch.run_once() == 0
    assert await house.watch.run_once(clock.seconds() + 31 * MINUTE) == 1


@pytest.mark.both_databases
async def test_two_processes_at_once_tell_once(house, hook):
    for number in range(30):
        await house.make(hook.url(f"/{number}"))
    await house.put(record(1), record(2))
    watches = [AlertMonitor(house.database, recorded=None, plans=["enterprise"]) for _ in range(2)]
    told = await asyncio.gather(*(watch.run_once() for watch in watches))
    assert sum(told) == 30
    await delivered(house, hook)
    assert sorted(told.path for told in hook.taken) == sorted(f"/{number}" for number in range(30))


@pytest.mark.both_databases
async def test_alert_of_a_key_that_lost_its_tier_is_silent_until_it_has_it_again(house, hook):
    await house.make(hook.url())
    await house.put(record(1), record(2))
    key_id = (await house.context.keys.holder(house.key)).key_id
    await house.context.keys.set_tier(key_id, "free")
    now = clock.seconds()
    assert await house.watch.run_once(now) == 0
    await house.context.keys.set_tier(key_id, "enterprise")
    assert await house.watch.run_once(now + 61) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize("place", ["alert.claimed", "alert.put"])
async def test_process_that_dies_while_telling_neither_loses_nor_doubles(house, hook, settings, tmp_path, place):
    await house.make(hook.url())
    await house.put(record(1), record(2))
    process = await asyncio.to_thread(run, evaluate_once, settings.database_url, place, cwd=tmp_path)
    assert process.returncode == 137
    assert await delivered(house, hook) == []
    assert [await house.watch.run_once(), await house.watch.run_once()] == [1, 0]
    assert len(await delivered(house, hook)) == 1


@pytest.mark.both_databases
async def test_failed_look_is_made_up_for(house, hook, monkeypatch):
    await house.make(hook.url())
    await house.put(record(1))
    await house.watch.run_once()
    await house.put(record(2))

    async def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(house.watch, "_write", fail)
        with pytest.raises(OSError, match="disk"):
            await house.watch.run_once()
    assert await house.watch.run_once() == 0, "it was told before the write failed"
    assert len(await delivered(house, hook)) == 1


@pytest.mark.both_databases
@pytest.mark.timeout(240)
async def test_recording_makes_an_alert_true_once(house, hook, settings):
    recorded = Settings(data_dir=settings.data_dir, database_url=settings.database_url, recorded=True)
    await load_recording(house.database, recorded)
    watch = AlertMonitor(house.database, recorded=True, plans=["enterprise"])
    made = await house.make(hook.url(), filters={"category": "Battles", "country": "Ethiopia"}, threshold=3)
    never = await house.make(hook.url("/never"), filters={"country": "Tuvalu"}, threshold=1_000)
    stale = await house.make(hook.url("/stale"), metric="staleness_minutes", threshold=60)
    now = clock.seconds()
    assert [await watch.run_once(now + HOUR * hours) for hours in range(5)] == [1, 0, 0, 0, 0]
    (body,) = await delivered(house, hook)
    assert body["data"]["alert_id"] == made["id"]
    assert body["data"]["window"] == {"from": "2020-11-14T11:00:00Z", "to": "2020-11-15T11:00:00Z", "hours": 24}
    events = body["data"]["events"]
    assert 0 < len(events) <= 20
    assert {(event["category"], event["geo"]["country"]) for event in events} == {("Battles", "Ethiopia")}
    states = [(await house.alert(one["id"]))["state"]["status"] for one in (made, never, stale)]
    assert states == ["met", "not_met", "not_met"]
    feed = EventsFeed(house.database, recorded=True)
    await feed.refresh()
    page = feed.window.page(EventsQuery(category="Battles", country="Ethiopia", limit=100))
    seen = page.items
    assert (await house.alert(made["id"]))["state"]["value"] == len(seen)
    assert [event["id"] for event in events] == [one.id for one in seen[:20]]

    body = {"metric": "event_count", "filters": {"category": "Battles", "country": "Ethiopia"}, "operator": ">=",
            "threshold": 3, "hours": 168}  # fmt: skip
    preview = (await house.ask("POST", "/api/alerts/preview", body)).json()
    assert (preview["from"], preview["to"]) == ("2020-11-13T00:15:00Z", "2020-11-15T11:00:00Z")
    assert len(preview["values"]) == 32
    last = preview["values"][-1]
    assert (last["value"], last["is_met"]) == ((await house.alert(made["id"]))["state"]["value"], True)
    assert preview["would_fire"] == len(preview["fired"]) >= 1
    assert await delivered(house, hook) == [], "a preview sends nothing"
