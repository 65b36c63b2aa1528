"""A preview runs the rule over what is stored, window by window, with the decisions that serve."""

from datetime import timedelta
from typing import Any

from tests.services.defense.alerts.conftest import NOON, record, rule
from tollhouse.services.defense import store

STEP = timedelta(hours=1)


async def preview(house, **members: Any):
    answer = await house.ask("POST", "/api/alerts/preview", rule(**members))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def store_six_hours(house):
    """One event an hour, three in the fourth, none in the fifth and sixth."""
    for hour, number in enumerate([1, 1, 1, 3, 0, 0]):
        at = NOON + STEP * hour
        events = [record(f"{hour}-{n}", at, deaths=hour, title="Drone strike") for n in range(number)]
        await house.put(*events, slot=at)


async def test_preview_tells_when_it_would_have_fired(house, hook):
    await store_six_hours(house)
    told = await preview(house, window_hours=1, threshold=2, name="x", url=hook.url())
    assert [point["value"] for point in told["values"]] == [1, 1, 1, 3, 0, 0]
    (fired,) = told["fired"]
    assert (fired["at"], fired["value"]) == ("2026-03-10T15:00:00Z", 3)
    assert fired["window"] == {"from": "2026-03-10T14:00:00Z", "to": "2026-03-10T15:00:00Z", "hours": 1}
    assert set(fired["event_ids"]) == {record(f"3-{n}").id for n in range(3)}
    assert (told["would_fire"], told["from"], told["to"]) == (1, "2026-03-10T12:00:00Z", "2026-03-10T17:00:00Z")
    assert (await house.ask("GET", "/api/alerts")).json()["count"] == 0
    assert await house.context.webhooks.deliver_due() == 0


async def test_preview_minds_the_cool_down_in_the_time_of_the_data(house):
    await store_six_hours(house)
    told = await preview(house, threshold=1, cooldown_minutes=120)
    assert [fired["at"][11:13] for fired in told["fired"]] == ["12", "14", "16"]
    assert (await preview(house, threshold=1, cooldown_minutes=120, hours=2))["would_fire"] == 1


async def test_preview_knows_every_metric(house):
    await store_six_hours(house)

    async def values(**members: Any) -> list[float | None]:
        return [point["value"] for point in (await preview(house, **members))["values"]]

    assert await values(metric="fatalities", window_hours=1) == [0, 1, 2, 9, 0, 0]
    assert await values(metric="fatalities", window_hours=24) == [0, 1, 3, 12, 12, 12]
    assert await values(metric="max_severity", threshold="low", window_hours=2) == [1, 1, 1, 1, 1, 0]
    assert await values(metric="staleness_minutes") == [60] * 5
    assert await values(metric="brief:battle_events_24h") == [1, 2, 3, 6, 6, 6]
    assert await values(metric="brief:gap_score.uas_cca") == [None] * 6
    assert await values(metric="brief:total_market_value_b") == [72.275611] * 6
    assert await values(filters={"country": "Kenya"}) == [0] * 6
    assert (await values(metric="spike", window_hours=1))[:2] == [None, 0]


async def test_preview_counts_what_stories_name(house):
    await store_six_hours(house)
    nato = {"id": "entity_00000000000000aa", "name": "NATO", "aliases": []}
    await house.tell_story(1, [record("3-0"), record("3-1")], [nato])
    told = await preview(house, filters={"entity": "Nato"}, threshold=2)
    assert [point["value"] for point in told["values"]] == [0, 0, 0, 2, 2, 2]


async def test_preview_of_a_single_source_is_refused(house):
    async with house.database.writing() as connection:
        await store.write_health(connection, source="gdelt events", last_success_at="2026-03-10T12:00:00Z", failures=0)
    body = rule(metric="staleness_minutes", filters={"source": "gdelt events"})
    answer = await house.ask("POST", "/api/alerts/preview", body)
    assert (answer.status_code, answer.json()["parameter"]) == (400, "filters.source")


async def test_preview_without_anything_stored_says_so(house):
    answer = await house.ask("POST", "/api/alerts/preview", rule())
    assert (answer.status_code, answer.json()["upstream"]) == (502, "gdelt")


async def test_preview_agrees_with_what_was_told_live(house, hook):
    made = await house.make(hook.url(), window_hours=2, threshold=2, cooldown_minutes=60)
    now, told = 1_900_000_000.0, []
    for hour, number in enumerate([1, 1, 0, 2, 1, 0, 0, 4]):
        at = NOON + STEP * hour
        await house.put(*(record(f"{hour}-{n}", at) for n in range(number)), slot=at)
        if await house.watch.run_once(now + 3_600.0 * hour):
            told.append(at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    foretold = await preview(house, window_hours=2, threshold=2, cooldown_minutes=60)
    assert [fired["at"] for fired in foretold["fired"]] == told
    assert len(told) > 1
    assert (await house.alert(made["id"]))["state"]["value"] == foretold["values"][-1]["value"]
