"""The events feed with more and more events in its window, against a list of all of them in memory.

`python benchmarks/events_scale.py [SIZE...]` (1,000, 10,000 and 100,000 unless sizes are given; 1000000 takes some
minutes, 2 GB of memory for the list and 3 GB of disk) prints one JSON object a size. The events are made up, in a
temporary folder. Each design runs in a process of its own. A question is a random mix of one to three filters, one of
three orders, sometimes a cursor; `facets` is the same with three facets. Times are of the processor for the search and
encoding of one page, since other programs take turns with this one; `wall` includes those turns. A batch is 500 new or
changed events: the time from its commit until it is served, and the longest pause of the event loop meanwhile, again
beside that of a loop in a process that does nothing. Goals at any size: p99 of a page 25 ms, with facets 40 ms, pause
50 ms, memory of a server 400 MB, start 3 s.
"""

import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any, get_args

import msgspec
import psutil
from baselines.listed_events import ListedEvents
from measuring.servers import BIN, first_answer, free_port, running

from tollhouse import logs
from tollhouse.config.settings import Settings
from tollhouse.http.endpoint import JSON, Request
from tollhouse.services.defense import store
from tollhouse.services.defense.events.event import Category, EventEntry, EventRecord, Geo, SeverityTier
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.events.history import SyncedEvents, served_pool
from tollhouse.services.defense.events.pages import EventsQuery
from tollhouse.services.defense.gazetteer import Country, find_country
from tollhouse.services.defense.ingest.batches import VERSION
from tollhouse.services.defense.ingest.export_parser import compact
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

SIZES = (1_000, 10_000, 100_000)
QUESTIONS, LIST_SECONDS = 300, 20
BATCH, BATCHES = 500, 5
END = datetime(2026, 3, 10, 12, tzinfo=UTC)
SLOT = timedelta(minutes=15)
GOALS = {"page_p99_ms": 25, "facets_p99_ms": 40, "pause_ms": 50, "memory_mb": 400, "start_s": 3}
FACETS = "country,category,severity_tier"
COUNTRIES = (
    "Ukraine", "Israel", "Sudan", "Syria", "Iran", "Russia", "United States", "Ethiopia", "Yemen", "Myanmar", "Mali",
    "Nigeria", "Somalia", "Iraq", "India", "Pakistan", "China", "Kenya", "Lebanon", "Afghanistan", "Mexico", "Brazil",
    "France", "Germany", "Poland", "Turkey", "Egypt", "Libya", "Chad", "Niger", "Colombia", "Haiti", "Japan", "Peru",
)  # fmt: skip


class World:
    """Made-up events, in words as unevenly frequent as English ones (Zipf), in countries with regions."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.words = [self._word() for _ in range(20_000)]
        self.weights = list(accumulate(1 / (rank + 20) for rank in range(len(self.words))))
        self.countries = [country for name in COUNTRIES if (country := find_country(name))]
        self.shares = list(accumulate(1 / (rank + 2) for rank in range(len(self.countries))))
        self.places = {
            country.name: [(self._word().title(), self.chance.uniform(-55, 68), self.chance.uniform(-180, 180))
                           for _ in range(60)] for country in self.countries
        }  # fmt: skip

    def record(self, number: int, slot: datetime) -> EventRecord:
        chance = self.chance
        country = self.country()
        region, latitude, longitude = chance.choice(self.places[country.name])
        deaths = 0 if chance.random() < 0.93 else int(chance.expovariate(0.1))
        return EventRecord(
            id=f"conflict_{self.identity(number):016x}",
            title=" ".join(self.some_words(9)).capitalize(),
            title_basis="page",
            event_date=slot.date(),
            category=chance.choices(get_args(Category), (10, 8, 62, 20))[0],
            subcategory="Use of force",
            geo=Geo(country.name, region, latitude, longitude),
            country_code=country.alpha2,
            fatalities=deaths,
            fatalities_basis="headline" if deaths else "not_reported",
            confidence=round(chance.betavariate(5, 2), 4),
            goldstein=round(chance.uniform(-10, 10), 1),
            is_state_on_state=False,
            is_violent=chance.random() < 0.2,
            relevance=round(chance.random(), 4),
            source_urls=[f"https://news.example/{number}/{self.words[number % 997]}"],
            source_count=1 + int(chance.expovariate(0.7)),
            first_reported_at=slot,
            last_reported_at=slot,
            reasons={"category": "made up"},
            is_relevant=chance.random() < 0.8,
            entities=tuple(f"entity_{int(chance.paretovariate(0.6)) % 50_000:016x}" for _ in range(3)),
        )

    def country(self) -> Country:
        return self.chance.choices(self.countries, cum_weights=self.shares)[0]

    def some_words(self, count: int) -> list[str]:
        return self.chance.choices(self.words, cum_weights=self.weights, k=count)

    @staticmethod
    def identity(number: int) -> int:
        """A number of 64 bits without order (splitmix64)."""
        mixed = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        return mixed ^ mixed >> 31

    def questions(self) -> Iterator[EventsQuery]:
        """Mixes of one to three filters."""
        chance = self.chance
        while True:
            moment = END - timedelta(seconds=chance.randrange(86_400))
            west, south = chance.uniform(-180, 120), chance.uniform(-60, 10)
            choices: dict[str, Any] = {
                "category": chance.choice(get_args(Category)),
                "country": self.country().name,
                "region": chance.choice(self.places[self.country().name])[0],
                "severity_tier": chance.choice(get_args(SeverityTier)),
                "min_confidence": round(chance.random(), 2),
                "min_sources": chance.randrange(1, 6),
                "bbox": (west, south, west + chance.uniform(10, 60), south + chance.uniform(10, 60)),
                "q": " ".join(self.some_words(chance.choice((1, 1, 2)))),
                "since": moment,
                "until": moment,
            }
            names = chance.sample(sorted(choices), chance.choice((1, 2, 3)))
            sort = chance.choice(("significance", "recent", "fatalities"))
            values = {
                "significance": chance.randrange(1, 6_000),
                "recent": int(f"{moment:%Y%m%d%H%M%S}"),
                "fatalities": 1,
            }
            cursor = f"{values[sort]}-{chance.getrandbits(64):016x}" if chance.random() < 0.3 else None
            yield EventsQuery(**{name: choices[name] for name in names}, sort=sort, cursor=cursor)

    def _word(self) -> str:
        return "".join(self.chance.choices("aeioubcdfglmnprst", k=self.chance.randrange(3, 9)))


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Database]:
    database = open_database(settings)
    try:
        yield database
    finally:
        await database.close()


async def write(database: Database, records: Sequence[EventRecord], *, end: datetime = END) -> None:
    """Store records as the publisher does."""
    rows: list[dict[str, object]] = [
        {"pool": "provider", "id": record.id, "last_slot": compact(record.last_reported_at),
         "record": msgspec.json.encode(record)} for record in records
    ]  # fmt: skip
    async with database.writing() as connection:
        number = await store.bump_revision(connection, store.EVENTS_FEED)
        await store.write_at(connection, store.event, rows, number)
        await store.set_published_until(connection, "provider", end)


async def fill(folder: Path, size: int) -> None:
    """A database with this many events in the window, and a tenth as many in the day before."""
    settings = Settings(data_dir=str(folder))
    async with opened(settings) as database:
        await migrate(database)
        world, batch = World(1), []
        for number in range(size + size // 10):
            ago = SLOT * world.chance.randrange(96) + (timedelta(hours=24) if number >= size else timedelta())
            batch.append(world.record(number, END - ago))
            if len(batch) == 5_000:
                await write(database, batch)
                batch.clear()
        await write(database, batch)
        async with database.writing() as connection:
            # Otherwise a server would build the events from reports again.
            await store.set_revision(connection, "read:provider", VERSION)


class Loop:
    """The longest time in which the event loop ran nothing."""

    def __init__(self) -> None:
        self.pause = 0.0
        self._task = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            begun = perf_counter()
            await asyncio.sleep(0.001)
            self.pause = max(self.pause, perf_counter() - begun - 0.001)

    async def longest(self) -> float:
        await asyncio.sleep(0.01)
        pause, self.pause = self.pause, 0.0
        return 1_000 * pause


def spread(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    shares = {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}
    return {name: round(1_000 * value, 2) for name, value in shares.items()}


async def measured(ask: Callable[[EventsQuery], Any], questions: Iterator[EventsQuery]) -> dict[str, Any]:
    """The time of questions, each new."""
    used, wall, begun = [], [], perf_counter()
    while len(used) < QUESTIONS and (perf_counter() - begun < LIST_SECONDS or len(used) < 20):
        query = next(questions)
        at, at_using = perf_counter(), process_time()
        reply = ask(query)
        if asyncio.iscoroutine(reply):
            await reply
        used.append(process_time() - at_using)
        wall.append(perf_counter() - at)
    return {"questions": len(used), "ms": spread(used), "wall_ms": spread(wall)}


async def of_index(folder: Path) -> dict[str, Any]:
    """The feed as it is served, first without an index on disk and then with one."""
    async with opened(Settings(data_dir=str(folder))) as database:
        begun, begun_using = perf_counter(), process_time()
        feed = EventsFeed(database, recorded=False, folder=folder / "events-index")
        await feed.refresh()
        built, built_using = perf_counter() - begun, process_time() - begun_using
        feed._index.close()  # noqa: SLF001 - as a process that ends
        begun = perf_counter()
        feed = EventsFeed(database, recorded=False, folder=folder / "events-index")
        await feed.refresh()
        read = perf_counter() - begun
        world = World(2)
        questions = world.questions()
        replies: list[bytes] = []

        async def page(query: EventsQuery) -> None:
            replies.append((await feed.page(Request(query, None, {}, None, "", JSON))).body)

        pages = await measured(page, questions)
        with_facets = (msgspec.structs.replace(query, facets=FACETS) for query in questions)
        facets = await measured(page, with_facets)
        batches = await batches_of(database, world, feed.refresh)
    index = folder / "events-index"
    # Publications are hard links of the same files.
    files = [path.stat() for path in index.rglob("*") if path.is_file()]
    sizes = {file.st_ino: file.st_size for file in files}
    disk = sum(sizes.values())
    return {
        "build_s": round(built, 1),
        "build_processor_s": round(built_using, 1),
        "open_s": round(read, 2),
        "disk_mb": round(disk / 2**20),
        "page": pages,
        "facets": facets,
        **batches,
        "memory_mb": peak_megabytes(),
    }


async def of_list(folder: Path) -> dict[str, Any]:
    """All events in memory, read again only where they changed."""
    async with opened(Settings(data_dir=str(folder))) as database:
        synced: SyncedEvents[EventEntry] = SyncedEvents(lambda entry: entry)
        held: list[ListedEvents] = []

        async def refresh() -> None:
            async with database.reading() as connection:
                served = await served_pool(connection, recorded=False)
                assert served
                await synced.sync(connection, served, compact(END - timedelta(days=2)))
            begin = END - timedelta(days=1)
            entries = [entry for entry in synced.items.values() if entry.reported_at > begin]
            held[:] = [await asyncio.to_thread(ListedEvents, entries)]

        begun = perf_counter()
        await refresh()
        read = perf_counter() - begun
        world = World(2)
        questions = world.questions()
        pages = await measured(lambda query: msgspec.json.encode(held[0].page(query)), questions)
        facets = await measured(lambda query: held[0].facets(query, FACETS.split(",")), questions)
        batches = await batches_of(database, world, refresh)
    return {"open_s": round(read, 2), "page": pages, "facets": facets, **batches, "memory_mb": peak_megabytes()}


async def batches_of(database: Database, world: World, refresh: Callable[[], Any]) -> dict[str, Any]:
    """New and changed events: until they are served, and how long the loop stands still."""
    loop, seconds, pauses = Loop(), [], []
    for number in range(BATCHES):
        records = [world.record(10**9 + number * BATCH + at, END) for at in range(BATCH - 100)]
        records += [world.record(at, END) for at in range(100)]
        await write(database, records)
        await loop.longest()
        begun = perf_counter()
        await refresh()
        seconds.append(perf_counter() - begun)
        pauses.append(await loop.longest())
    idle = [await loop.longest() for _ in range(BATCHES)]
    return {
        "batch_ms": round(1_000 * sorted(seconds)[BATCHES // 2]),
        "pause_ms": round(sorted(pauses)[BATCHES // 2], 1),
        "most_pause_ms": round(max(pauses), 1),
        "idle_pause_ms": round(max(idle), 1),
    }


def peak_megabytes() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def of_server(folder: Path) -> dict[str, Any]:
    """A server on the index that is there: until its first answer, and its memory after some pages."""
    port = free_port()
    command = [BIN / "tollhouse", "serve", "defense", "--no-worker", "--port", str(port), "--data-dir", str(folder)]
    settings = {"TOLLHOUSE_RECORDED": "false"}
    begun = perf_counter()
    with running([str(one) for one in command], folder / "server.log", **settings) as process:
        first_answer(process, port, "/health", {})
        started = perf_counter() - begun
        sleep(2)
        parent = psutil.Process(process.pid)
        each = [one.memory_full_info() for one in [parent, *parent.children(recursive=True)]]
    return {
        "start_s": round(started, 2),
        "rss_mb": round(sum(one.rss for one in each) / 2**20),
        "own_mb": round(sum(one.uss for one in each) / 2**20),
    }


def child(part: str, folder: Path) -> dict[str, Any]:
    result = subprocess.run([sys.executable, __file__, part, folder], check=True, stdout=subprocess.PIPE)
    reply: dict[str, Any] = json.loads(result.stdout)
    return reply


def compare(size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(fill(folder, size))
        listed, indexed = child("list", folder), child("index", folder)
        server = of_server(folder)
    ratios = {
        "page_p50": listed["page"]["ms"]["p50"] / indexed["page"]["ms"]["p50"],
        "page_p99": listed["page"]["ms"]["p99"] / indexed["page"]["ms"]["p99"],
        "facets_p99": listed["facets"]["ms"]["p99"] / indexed["facets"]["ms"]["p99"],
        "pause": listed["pause_ms"] / max(indexed["pause_ms"], 0.1),
        "open": listed["open_s"] / max(indexed["open_s"], 0.01),
        "memory": listed["memory_mb"] / indexed["memory_mb"],
    }
    return {
        "events": size,
        "index": indexed,
        "list": listed,
        "server": server,
        "list_over_index": {name: round(ratio, 2) for name, ratio in ratios.items()},
        "goals": GOALS,
    }


def main() -> None:
    """Print the figures as JSON, one line a size."""
    logs.configure("warning")
    if sys.argv[1:2] and sys.argv[1] in {"index", "list"}:
        part = of_index if sys.argv[1] == "index" else of_list
        print(json.dumps(asyncio.run(part(Path(sys.argv[2])))))
        return
    for size in map(int, islice(sys.argv, 1, None)) if len(sys.argv) > 1 else SIZES:
        print(json.dumps(compare(size), indent=2), flush=True)


if __name__ == "__main__":
    main()
