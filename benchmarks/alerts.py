"""10,000 alert rules evaluated against one more slot of 15 minutes, on a day of 45,000 events and the day before it.

`slot_seconds` is what one slot costs: taking its events in, finding the rules they touch, and evaluating those.
`all_seconds` evaluates every rule, as a start does. The baseline goes through all events for each rule, on a sample of
the rules, scaled up to all of them (`naive_seconds`); both must agree on every rule of the sample. Goal: a slot in at
most 1 s.

`stored_slot_seconds` is the same slot through a whole watch on a SQLite file, with what the database takes: rows read
by revision, 10,000 rules of which those touched are written back, nothing told.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import msgspec

from tollhouse import logs
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.alerts.aggregates import BINS, EventSample, to_minute
from tollhouse.services.defense.alerts.evaluator import ActiveAlert, Evaluator, LastSuccess
from tollhouse.services.defense.alerts.monitor import AlertMonitor
from tollhouse.services.defense.alerts.rule import SEVERITY, AlertFilters, Rule
from tollhouse.services.defense.events.event import EventRecord, Geo
from tollhouse.services.defense.gazetteer import COUNTRIES, find_country
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.services.defense.store import EVENTS_FEED, bump_revision

RULES = 10_000
EVENTS_PER_SLOT = 470
SLOTS = 192
MORE_SLOTS = 5
SAMPLE = 100
GOAL_SLOT_SECONDS = 1.0

END = datetime(2026, 3, 10, 12, tzinfo=UTC)
SLOT = timedelta(minutes=15)
ALL_READ = [True] * BINS
# As unevenly as the world's press reports: the first countries of the list make most of the news.
CATEGORIES = ("Battles", "Protests", "Political", "Economic")
CATEGORY_WEIGHTS = (6, 10, 64, 20)
COUNTRY_WEIGHTS = [1 / (number + 1) for number in range(len(COUNTRIES))]


def made_rules(chance: random.Random) -> list[ActiveAlert]:
    """Rules as analysts write them: most name a country, some everything, a few nothing."""
    rules = []
    for number in range(RULES):
        country = chance.choices(COUNTRIES, COUNTRY_WEIGHTS)[0].name if chance.random() < 0.85 else None
        filters = AlertFilters(
            category=chance.choice([None, *CATEGORIES]),
            country=country,
            severity_tier=chance.choice([None, None, None, *SEVERITY]),
        )
        metric = chance.choice(["event_count", "event_count", "fatalities", "max_severity", "spike"])
        rule = Rule(metric, filters, ">=", 1e9, chance.choice([1, 3, 6, 12, 24, 24]), 60)
        rules.append(ActiveAlert(f"alert_{number}", 1, "", "", rule, 0.0))
    return rules


def made_slot(chance: random.Random, moment: datetime) -> list[tuple[str, str, str, int]]:
    """Id, category, country and deaths of a slot's events."""
    countries = chance.choices(COUNTRIES, COUNTRY_WEIGHTS, k=EVENTS_PER_SLOT)
    categories = chance.choices(CATEGORIES, CATEGORY_WEIGHTS, k=EVENTS_PER_SLOT)
    return [
        (f"conflict_{compact(moment)}{number:02x}", category, country.name, chance.choice([0] * 20 + [1, 5, 30]))
        for number, (category, country) in enumerate(zip(categories, countries, strict=True))
    ]


def samples_of(
    events: list[tuple[str, str, str, int]], moment: datetime, chance: random.Random
) -> dict[str, EventSample]:
    """The marks of a slot's events."""
    found = {}
    for identity, category, name, deaths in events:
        country = find_country(name)
        assert country is not None
        tier = chance.choices(list(SEVERITY), (85, 10, 4, 1))[0]
        found[identity] = EventSample(
            category,
            country.alpha2,
            tier,
            deaths,
            chance.random(),
            to_minute(moment),
            entities=(),
            is_relevant=True,
            entry=None,
        )
    return found


def in_memory() -> dict[str, Any]:
    """The evaluator alone, and the naive evaluation of the same rules."""
    chance, evaluator = random.Random(1), Evaluator()
    for active in made_rules(chance):
        evaluator.set_alert(active)
    moments = [END + SLOT * number for number in range(1 - SLOTS, 1 + MORE_SLOTS)]
    slots = [samples_of(made_slot(chance, moment), moment, chance) for moment in moments]
    before: dict[str, EventSample] = {identity: mark for slot in slots[:SLOTS] for identity, mark in slot.items()}
    evaluator.apply(before, to_minute(END), "0", ALL_READ)
    begun = perf_counter()
    evaluator.affected = set()
    evaluator.evaluate(evaluator.alerts, LastSuccess(0.0))
    all_seconds = perf_counter() - begun
    seconds, touched = [], []
    for number in range(MORE_SLOTS):
        left: dict[str, EventSample | None] = dict.fromkeys(slots[number])
        begun = perf_counter()
        evaluator.apply(
            {**left, **slots[SLOTS + number]}, to_minute(moments[SLOTS + number]), str(number + 1), ALL_READ
        )
        chosen, evaluator.affected = evaluator.affected, set()
        evaluator.evaluate(chosen, LastSuccess(0.0))
        seconds.append(perf_counter() - begun)
        touched.append(len(chosen))
    naive_seconds, disagreeing = naive(evaluator)
    slot_seconds = median(seconds)
    return {
        "rules": RULES,
        "events": len(evaluator.aggregates.samples),
        "slot_seconds": round(slot_seconds, 3),
        "rules_touched": int(median(touched)),
        "all_seconds": round(all_seconds, 3),
        "naive_seconds": round(naive_seconds, 1),
        "of_naive": round(slot_seconds / naive_seconds, 4),
        "disagreeing": disagreeing,
    }


def naive(evaluator: Evaluator) -> tuple[float, int]:
    """Every event looked at for each rule of a sample without spikes: seconds for all rules, and how many differ."""
    plain = [active for active in evaluator.alerts.values() if active.rule.metric != "spike"][:SAMPLE]
    expected = evaluator.evaluate([active.id for active in plain], LastSuccess(0.0))
    marks, as_of = evaluator.aggregates.samples, evaluator.aggregates.as_of
    begun = perf_counter()
    values = {active.id: _by_hand(active.rule, marks, as_of) for active in plain}
    seconds = (perf_counter() - begun) * RULES / SAMPLE
    return seconds, sum(expected[identity].value != value for identity, value in values.items())


def _by_hand(rule: Rule, marks: Mapping[str, EventSample], as_of: int) -> float:
    category, country, tier, is_relevant = rule.key
    since = as_of - 60 * rule.window_hours
    meant = [
        mark
        for mark in marks.values()
        if mark.minute > since
        and (category is None or mark.category == category)
        and (country is None or mark.country_code == country)
        and (tier is None or mark.severity_tier == tier)
        and (is_relevant is None or mark.is_relevant == is_relevant)
    ]
    if rule.metric == "event_count":
        return len(meant)
    if rule.metric == "fatalities":
        return sum(mark.fatalities for mark in meant)
    return max((SEVERITY[mark.severity_tier] for mark in meant), default=0)


def record(event: tuple[str, str, str, int], moment: datetime) -> EventRecord:
    """An event as stored."""
    identity, category, name, deaths = event
    country = find_country(name)
    assert country is not None
    return EventRecord(
        id=identity, source_urls=[f"https://news.example/{identity}"], source_count=1,
        title="A report of some length about what happened",
        title_basis="url", event_date=moment.date(), category=category, subcategory="",  # type: ignore[arg-type]
        geo=Geo(name, "", 0.0, 0.0), country_code=country.alpha2, fatalities=deaths, fatalities_basis="headline",
        confidence=0.9, goldstein=-2.0, is_state_on_state=False, is_violent=False, relevance=0.3,
        first_reported_at=moment, last_reported_at=moment, reasons={},
    )  # fmt: skip


async def stored(data_dir: Path) -> dict[str, Any]:
    """The same through a watch over a database."""
    chance = random.Random(1)
    settings = Settings(data_dir=str(data_dir), background_work=False)
    async with open_context(settings, answers_calls=False) as context:

        async def ingest_recording(moments: list[datetime]) -> None:
            async with context.database.writing() as connection:
                now = await bump_revision(connection, EVENTS_FEED)
                for moment in moments:
                    name = compact(moment)
                    rows = [
                        {"pool": "provider", "id": event[0], "last_slot": name,
                         "record": msgspec.json.encode(record(event, moment))}
                        for event in made_slot(chance, moment)
                    ]  # fmt: skip
                    await events_store.write_at(connection, events_store.event, rows, now)
                    await events_store.write_slot(
                        connection,
                        slot=name,
                        pool="provider",
                        origin="file",
                        md5="",
                        rows=0,
                        bad_rows=0,
                        ingested_at="",
                    )
                await events_store.set_published_until(connection, "provider", moments[-1])

        async with context.database.writing() as connection:
            now = await bump_revision(connection, store.ALERTS)
            rows = [
                {"id": active.id, "key_id": "key", "name": "", "version": 1, "rule": msgspec.json.encode(active.rule),
                 "endpoint_id": "", "created_at": 0.0, "changed_at": 0.0, "stated_at": 0.0, "revision": now,
                 "is_met": False}
                for active in made_rules(chance)
            ]  # fmt: skip
            await connection.execute(store.alert.insert(), rows)
        await ingest_recording([END + SLOT * number for number in range(1 - SLOTS, 1)])
        watch = AlertMonitor(context.database, recorded=None, plans=["enterprise"])
        begun = perf_counter()
        await watch.run_once()
        first = perf_counter() - begun
        seconds = []
        for number in range(1, 1 + MORE_SLOTS):
            await ingest_recording([END + SLOT * number])
            begun = perf_counter()
            await watch.run_once()
            seconds.append(perf_counter() - begun)
    return {"stored_start_seconds": round(first, 2), "stored_slot_seconds": round(median(seconds), 2)}


def main() -> None:
    """Print the figures as JSON."""
    logs.configure("warning")
    figures = in_memory()
    with tempfile.TemporaryDirectory() as folder:
        figures |= asyncio.run(stored(Path(folder) / "data"))
    is_met = figures["slot_seconds"] <= GOAL_SLOT_SECONDS and not figures["disagreeing"]
    print(json.dumps({**figures, "is_met": is_met}, indent=2))


if __name__ == "__main__":
    main()
