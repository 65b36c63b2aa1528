"""Alerts and analysis behind the real gate, over each kind of database, with events that a test makes up."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import httpx2
import msgspec
import pytest
from msgspec.structs import replace

from tests.fakes.receiver import Receiver, receiver
from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import endpoints_of
from tollhouse.http.service import Service
from tollhouse.services import EVERY_SERVICE
from tollhouse.services.defense import store
from tollhouse.services.defense.alerts.endpoints import AlertEndpoints
from tollhouse.services.defense.alerts.monitor import AlertMonitor
from tollhouse.services.defense.analysis.endpoints import AnalysisEndpoints
from tollhouse.services.defense.events.event import Geo, StoredEvent
from tollhouse.services.defense.gazetteer import find_country
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.services.defense.news import store as news
from tollhouse.services.defense.store import EVENTS_FEED, NEWS_FEED, bump_revision
from tollhouse.storage.database import Database

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
SLOT = timedelta(minutes=15)


def record(number, moment=NOON, category="Battles", country="Ethiopia", deaths=0, **members: Any) -> StoredEvent:
    """An event as stored, last reported at that moment."""
    found = find_country(country)
    values = {
        "id": f"conflict_{blake2b(str(number).encode(), digest_size=8).hexdigest()}",
        "title": f"Report number {number}",
        "title_basis": "url",
        "event_date": moment.date(),
        "category": category,
        "subcategory": "Use of force",
        "geo": Geo(found.name, "", 9.0, 39.0),
        "country_code": found.alpha2,
        "fatalities": deaths,
        "fatalities_basis": "headline" if deaths else "not_reported",
        "confidence": 0.9,
        "goldstein": -5.0,
        "is_state_on_state": False,
        "is_violent": False,
        "relevance": 0.5,
        "source_urls": [f"https://news.example/{number}"],
        "source_count": 1,
        "first_reported_at": moment,
        "last_reported_at": moment,
        "reasons": {},
        "reports": [],
    }
    return StoredEvent(**{**values, **members})


@dataclass
class House:
    """The server, its rooms and a key; what tests do again and again."""

    client: httpx2.AsyncClient
    context: AppContext
    key: str
    watch: AlertMonitor
    services: list[Any] = field(default_factory=list)

    @property
    def database(self) -> Database:
        return self.context.database

    async def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def make(self, url: str, **members: Any) -> dict[str, Any]:
        answer = await self.ask("POST", "/api/alerts", {**rule(), "name": "Fighting", "url": url, **members})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def alert(self, identity: str) -> dict[str, Any]:
        answer = await self.ask("GET", f"/api/alerts/{identity}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def put(self, *records: StoredEvent, slot: datetime = NOON, pool: str = "provider") -> None:
        """Store events, and the slot in which they came, as taking in an export does."""
        async with self.database.writing(lock="ingest") as connection:
            number = await bump_revision(connection, EVENTS_FEED)
            rows = [
                {
                    "pool": pool,
                    "id": one.id,
                    "last_slot": compact(one.last_reported_at),
                    "record": msgspec.json.encode(one),
                }
                for one in records
            ]
            await store.write_at(connection, store.event, rows, number)
            newest = await store.published_until(connection, pool)
            await store.set_published_until(connection, pool, max(slot, newest or slot))
            await store.write_slot(
                connection, slot=compact(slot), pool=pool, origin="file", md5=str(number), rows=1, bad_rows=0,
                ingested_at="2026-03-10T12:00:00Z",
            )  # fmt: skip

    async def remove(self, *records: StoredEvent, pool: str = "provider") -> None:
        async with self.database.writing(lock="ingest") as connection:
            number = await bump_revision(connection, EVENTS_FEED)
            await store.remove_at(connection, store.EVENTS, pool, [one.id for one in records], number)

    async def tell_story(
        self, number: int, records: list[StoredEvent], entities: list[dict[str, Any]], voices=1
    ) -> None:
        """Put these events into a story, and have that many publishers report them and name these entities."""
        named = tuple(entity["id"] for entity in entities)
        story = f"story_{number:016x}"
        async with self.database.writing(lock="ingest") as connection:
            stored = await store.bodies_by_id(connection, store.EVENTS, "provider", [one.id for one in records])
            events = [msgspec.json.decode(body, type=StoredEvent) for body in stored.values()]
            rows = [
                {
                    "pool": "provider",
                    "id": one.id,
                    "last_slot": compact(one.last_reported_at),
                    "record": msgspec.json.encode(replace(one, story_id=story, source_count=voices, entities=named)),
                }
                for one in events
            ]
            await store.write_at(connection, store.event, rows, await bump_revision(connection, EVENTS_FEED))
            now = await bump_revision(connection, NEWS_FEED)
            row = {"pool": "provider", "last_seen": compact(NOON)}
            rows = [{**row, "id": entity["id"], "body": msgspec.json.encode(entity)} for entity in entities]
            await store.write_at(connection, news.entity, rows, now)


def rule(**members: Any) -> dict[str, Any]:
    return {"metric": "event_count", "operator": ">=", "threshold": 2, **members}


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def settings(tmp_path, database_url) -> Settings:
    return Settings(
        data_dir=str(tmp_path), database_url=database_url, service="defense", background_work=False,
        webhook_allow_loopback=True,
    )  # fmt: skip


@pytest.fixture
async def house(settings, monkeypatch) -> AsyncIterator[House]:
    held: list[AppContext] = []

    async def opened(context: AppContext) -> Service:
        held.append(context)
        operations = [*endpoints_of(AlertEndpoints(context)), *endpoints_of(AnalysisEndpoints(context))]
        return Service("defense", "", "2.0", "", operations, _health, {"type": "object"})

    monkeypatch.setitem(EVERY_SERVICE, "defense", opened)
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        context = held[0]
        key = (await context.keys.create("ada@example.org", tier="enterprise")).text
        yield House(
            client, context, key, AlertMonitor(context.database, recorded=settings.recorded, plans=["enterprise"])
        )


async def _health() -> dict[str, Any]:
    return {"status": "ok"}
