"""The background leader's watch over the alerts: what changed, which rules that touches, whom to tell."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse import clock, failpoints
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.alerts import store
from tollhouse.services.defense.alerts.entity_stories import EntityNames
from tollhouse.services.defense.alerts.evaluation_result import Told, Verdict, is_due
from tollhouse.services.defense.alerts.evaluator import Active, Ages, Evaluator
from tollhouse.services.defense.alerts.event_samples import FollowedMarks, Mark, minute_of
from tollhouse.services.defense.alerts.metrics import BINS, MINUTES_PER_BIN
from tollhouse.services.defense.alerts.notifications import SERVICE, triggered
from tollhouse.services.defense.alerts.rule import STALENESS, Rule
from tollhouse.services.defense.analysis.history import Served, entry_of, served
from tollhouse.services.defense.brief.production import Line, bundled_lines
from tollhouse.services.defense.events.event import Event
from tollhouse.services.defense.ingest.batches import slot_before, slot_time
from tollhouse.services.defense.store import EVENTS_FEED, FATALITIES_FEED, NEWS_FEED, WIDEST_WINDOW
from tollhouse.storage.database import Database, Transaction
from tollhouse.webhooks import outbox

log = logger("alerts")

LOOK_EVERY_SECONDS = 1.0
STALENESS_EVERY_SECONDS = 60.0
ASK_AGAIN_SECONDS = 60.0
# Few enough that a transaction stays short, each with up to 20 events.
TOLD_AT_ONCE = 100
WRITTEN_AT_ONCE = 1_000

_FEEDS = (EVENTS_FEED, NEWS_FEED, FATALITIES_FEED)


class _Kept(Struct, frozen=True):
    """What is stored of an alert's last evaluation."""

    is_met: bool
    value: float | None
    since: float | None


class AlertMonitor:
    """The alerts of one server. `recorded` as the events feed has it; `plans` are those that include alerts."""

    def __init__(self, database: Database, *, recorded: bool | None, plans: Collection[str]) -> None:
        self._database = database
        self._plans = plans
        self._recorded = recorded
        self._forget()

    def _forget(self) -> None:
        """Hold nothing: the next look reads and evaluates everything. What was told stands in the database."""
        self._evaluator = Evaluator()
        self._marks = FollowedMarks()
        self._entities = EntityNames()
        self._served: Served | None = None
        self._rules_at = 0
        self._feeds_at: list[int] | None = None
        self._lines: bytes | None = None
        self._aged_at = 0.0
        self._kept: dict[str, _Kept] = {}
        self._told: dict[str, Told] = {}
        self._met: dict[str, Verdict] = {}
        self._ask_again_at: dict[str, float] = {}

    async def work(self) -> None:
        """Watch for ever."""
        while True:
            try:
                await self.once()
            except Problem as problem:
                log.warning("alerts not evaluated", detail=problem.detail)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def once(self, now: float | None = None) -> int:
        """Evaluate what changed since the last time and tell what is due at `now`; how many alerts that was."""
        try:
            return await self._once(clock.seconds() if now is None else now)
        except BaseException:
            self._forget()
            raise

    async def _once(self, now: float) -> int:
        evaluator = self._evaluator
        async with self._database.reading() as connection:
            await self._look_at_rules(connection)
            if not evaluator.rules:
                return 0
            await self._look_at_feeds(connection)
            ages = await self._ages(connection, now)
        chosen, evaluator.touched = evaluator.touched, set()
        verdicts = await asyncio.to_thread(evaluator.evaluated, chosen, ages)
        for identity, verdict in verdicts.items():
            if verdict.is_met:
                self._met[identity] = verdict
            else:
                self._met.pop(identity, None)
        told = await self._tell(now)
        await self._write(verdicts, now)
        return told

    async def _look_at_rules(self, connection: Transaction) -> None:
        number = await events_store.revision(connection, store.ALERTS)
        if number == self._rules_at:
            return
        ids = await store.ids_if_removed(connection, self._rules_at)
        if ids is not None:
            for identity in self._evaluator.rules.keys() - ids:
                self._drop(identity)
        for row in await store.changed_since(connection, self._rules_at):
            self._drop(row.id)
            self._evaluator.set_rule(active_of(row))
            self._told[row.id] = Told(row.told_at, row.told_state)
            self._kept[row.id] = _Kept(row.is_met, row.value, row.is_met_since)
        self._rules_at = number

    def _drop(self, identity: str) -> None:
        self._evaluator.drop_rule(identity)
        for held in (self._told, self._kept, self._met, self._ask_again_at):
            held.pop(identity, None)

    async def _look_at_feeds(self, connection: Transaction) -> None:
        evaluator, feeds_at = self._evaluator, [await events_store.revision(connection, feed) for feed in _FEEDS]
        if feeds_at != self._feeds_at:
            self._entities.forget()
            now_served = await served(connection, recorded=self._recorded)
            if now_served is not None:
                await self._take(connection, now_served)
            self._served, self._feeds_at = now_served, feeds_at
        if self._served is not None:
            wanted, stories = evaluator.entities, self._marks.stories
            evaluator.name_stories(await self._entities.naming(connection, self._served.pool, wanted, stories))

    async def _take(self, connection: Transaction, now_served: Served) -> None:
        evaluator, marks = self._evaluator, self._marks
        seen = await marks.look(connection, now_served)
        after = slot_before(now_served.newest, WIDEST_WINDOW)
        slots = await store.slots_after(connection, now_served.pool, after)
        await self._look_at_lines(connection)
        as_of = minute_of(now_served.as_of)
        changed: Mapping[str, Mark | None] = {
            identity: marks.marks.get(identity) for identity in (*seen.changed, *seen.gone)
        }
        window_name = f"{now_served.pool}:{now_served.newest}"
        if window_name != evaluator.window_name:
            # Still true, but of a window that has moved.
            evaluator.touched |= self._met.keys()
        await asyncio.to_thread(evaluator.take, changed, as_of, window_name, read_bins(slots, as_of))

    async def _look_at_lines(self, connection: Transaction) -> None:
        packed = await events_store.read_document_body(connection, events_store.PRODUCTION_LINES) or b""
        if packed != self._lines:
            self._evaluator.take_lines(production_lines(packed))
            self._lines = packed

    async def _ages(self, connection: Transaction, now: float) -> Ages:
        stale = self._evaluator.of_kind(STALENESS)
        if now - self._aged_at >= STALENESS_EVERY_SECONDS:
            self._aged_at = now
            self._evaluator.touched |= stale
        if stale.isdisjoint(self._evaluator.touched):
            return Ages(now)
        sources = {row.source: _seconds(row.last_success_at) for row in await events_store.list_health(connection)}
        if self._served is None:
            return Ages(now, None, sources)
        return Ages(now, self._served.as_of.timestamp(), sources, self._served.pool == "local")

    async def _tell(self, now: float) -> int:
        rules = self._evaluator.rules
        due = sorted(
            identity
            for identity, verdict in self._met.items()
            if is_due(rules[identity].rule, verdict, self._told[identity], now)
            and now >= self._ask_again_at.get(identity, 0.0)
        )
        told = 0
        for start in range(0, len(due), TOLD_AT_ONCE):
            told += await self._tell_some(due[start : start + TOLD_AT_ONCE], now)
        return told

    async def _tell_some(self, due: Sequence[str], now: float) -> int:
        """Decision, state and outbox entry land together, or not at all."""
        rules = [self._evaluator.rules[identity] for identity in due]
        ids = {active.id: self._evaluator.telling(active.rule) for active in rules}
        events = await self._events({identity for found in ids.values() for identity in found})
        async with self._database.writing() as transaction:
            entitled = await store.entitled(transaction, due, self._plans)
            claimed = [one for one in rules if one.id in entitled and await self._claim(transaction, one, now)]
            failpoints.reach("alert.claimed")
            found = [
                triggered(
                    one,
                    self._met[one.id],
                    self._until(one.rule, now),
                    [events[each] for each in ids[one.id] if each in events],
                )
                for one in claimed
            ]
            await outbox.put_all(transaction, SERVICE, found)
            tellings = await store.tellings(transaction, due)
            failpoints.reach("alert.put")
        for identity, row in tellings.items():
            self._told[identity] = Told(row.told_at, row.told_state)
        # Whose key may not be told now is asked about again in a while.
        self._ask_again_at |= {one.id: now + ASK_AGAIN_SECONDS for one in rules if one.id not in entitled}
        for one in claimed:
            self._kept[one.id] = self._after(one.id, self._met[one.id], now)
            log.info("alert triggered", alert=one.id, version=one.version, metric=one.rule.metric)
        return len(claimed)

    async def _claim(self, transaction: Transaction, active: Active, now: float) -> bool:
        verdict = self._met[active.id]
        not_after = now - 60 * active.rule.cooldown_minutes
        claim = store.Claim(active.id, active.version, verdict.window_state, now, not_after)
        is_ours = await store.claim_telling(transaction, claim)
        if is_ours:
            await store.write_values(transaction, [_row(active, self._after(active.id, verdict, now))])
        return is_ours

    def _until(self, rule: Rule, now: float) -> float:
        """Where the window of a value ends: staleness is measured at the present."""
        return now if rule.metric == STALENESS or self._served is None else self._served.as_of.timestamp()

    async def _events(self, ids: Iterable[str]) -> dict[str, Event]:
        if self._served is None:
            return {}
        events: dict[str, Event] = {}
        marks = self._marks
        async with self._database.reading() as connection:
            pool, wanted = self._served.pool, sorted(ids)
            async for rows in events_store.rows_by_id(connection, events_store.EVENTS, pool, wanted):
                events |= {identity: entry_of(body, marks.told, marks.counted).event for identity, _, body in rows}
        return events

    def _after(self, identity: str, verdict: Verdict, now: float) -> _Kept:
        kept = self._kept[identity]
        is_same = kept.since is not None and kept.is_met == verdict.is_met
        return _Kept(verdict.is_met, verdict.value, kept.since if is_same else now)

    async def _write(self, verdicts: Mapping[str, Verdict], now: float) -> None:
        """Keep what changed of what rules came to, for their owners' eyes."""
        changed = {}
        for identity, verdict in verdicts.items():
            kept = self._after(identity, verdict, now)
            if kept != self._kept[identity]:
                changed[identity] = kept
        rows = [_row(self._evaluator.rules[identity], kept) for identity, kept in sorted(changed.items())]
        for start in range(0, len(rows), WRITTEN_AT_ONCE):
            async with self._database.writing() as transaction:
                await store.write_values(transaction, rows[start : start + WRITTEN_AT_ONCE])
        self._kept |= changed


def active_of(row: Any) -> Active:
    """A stored alert as it is evaluated."""
    rule = msgspec.json.decode(row.rule, type=Rule)
    return Active(row.id, row.version, row.name, row.endpoint_id, rule, row.stated_at)


def production_lines(packed: bytes) -> Sequence[Line]:
    """The operator's procurement lines, the bundled ones where there are none."""
    return msgspec.json.decode(packed, type=tuple[Line, ...]) if packed else bundled_lines()


def read_bins(slots: Iterable[str], as_of: int) -> list[bool]:
    """Which quarters of an hour before the minute `as_of` have a slot."""
    read = [False] * BINS
    for slot in slots:
        moment = slot_time(slot)
        assert moment is not None, "a slot's name is a moment"
        age = (as_of - minute_of(moment)) // MINUTES_PER_BIN
        if 0 <= age < BINS:
            read[age] = True
    return read


def _row(active: Active, kept: _Kept) -> dict[str, object]:
    return {
        "b_id": active.id,
        "b_version": active.version,
        "b_is_met": kept.is_met,
        "b_value": kept.value,
        "b_since": kept.since,
    }


def _seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()
