"""A day's articles told as stories and entities, and one more slot from its file to what is served.

One process takes in, tells and serves, as a server with one worker does; the slot's time runs until its events, stories
and entities are in the windows that calls are answered from. Its parts are given, too.

The day is made from the bundled recording: 96 slots, about 45,000 articles, and in each turn through the recording the
letters of the addresses' words are changed, so that one turn's headlines tell other stories than the next's. The
baseline clusters the same headlines alone, with nothing named, told or stored. Making the files is not timed. Goals:
the day read and told in at most 90 s and 600 MB, what is served of it included, the slot in at most 3 s. Processor
seconds are given beside the time: other programs that use the same cores change them less.
"""

import asyncio
import gc
import json
import resource
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from ingest import FIRST_SLOT, ROWS, SLOTS, recorded_rows, shifted

from tollhouse import logs, memory
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.services.defense.events.feed import EventsFeed
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.news.feeds import NewsFeeds
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.stories.clusterer import Clusterer
from tollhouse.storage.database import Database

MORE_SLOTS = 3
RETENTION_DAYS = 8
GOAL_DAY_SECONDS = 90
GOAL_SLOT_SECONDS = 3
GOAL_MEGABYTES = 600

_CONSONANTS = "bcdfghjklmnpqrstvwxz"


def other_words(line: str, turn: int) -> str:
    """The row with its address's words in another alphabet of consonants."""
    moved = turn % len(_CONSONANTS)
    rotated = _CONSONANTS[moved:] + _CONSONANTS[:moved]
    head, _, url = line.rpartition("\t")
    host, slash, path = url.partition("//")[2].partition("/")
    table = str.maketrans(_CONSONANTS + _CONSONANTS.upper(), rotated + rotated.upper())
    return f"{head}\thttps://{host}{slash}{path.translate(table)}"


def slots() -> Iterator[tuple[str, bytes]]:
    """The day's exports and a few more, by name."""
    # As lines, because a list for each row would take 30 MB of the process that is measured.
    recorded = ["\t".join(columns) for columns in recorded_rows()]
    for index in range(SLOTS + MORE_SLOTS):
        slot = FIRST_SLOT + timedelta(minutes=15 * index)
        numbers = range(ROWS * index // SLOTS, ROWS * (index + 1) // SLOTS)
        turns = ((number, number // len(recorded)) for number in numbers)
        lines = [
            other_words(shifted(recorded[n % len(recorded)].split("\t"), n, turn, slot), turn) for n, turn in turns
        ]
        yield f"{slot:%Y%m%d%H%M%S}.export.CSV", ("\n".join(lines) + "\n").encode()


class Reader:
    """The serving side: what calls for events, stories and entities are answered from."""

    def __init__(self, database: Database) -> None:
        self.events = EventsFeed(database, recorded=None)
        self.news = NewsFeeds(database, self.events)

    async def refresh(self) -> None:
        await self.events.refresh()
        await self.news.refresh()


async def measure(data_dir: Path) -> dict[str, Any]:
    """Ingest the day, tell it, then each of a few more slots."""
    made = slots()
    settings = Settings(data_dir=str(data_dir), background_work=False)
    # As a server does once it has started.
    gc.set_threshold(memory.COLLECT_AFTER_OBJECTS)
    async with open_context(settings, answers_calls=False) as context:
        ingesting = ingesting_used = 0.0
        for name, raw in islice(made, SLOTS):
            begun, begun_using = perf_counter(), process_time()
            await ingest_export(context.database, name, raw, "file")
            ingesting += perf_counter() - begun
            ingesting_used += process_time() - begun_using
        ingested, ingested_used = perf_counter(), process_time()
        desk, reader = Publisher(context.database, RETENTION_DAYS), Reader(context.database)
        await desk.update("local")
        told, told_used = perf_counter(), process_time()
        told_megabytes = peak_megabytes()
        await reader.refresh()
        served = perf_counter()
        further, used = [], []
        for name, raw in made:
            parts, begun_using = [perf_counter()], process_time()
            await ingest_export(context.database, name, raw, "file")
            parts.append(perf_counter())
            await desk.update("local")
            parts.append(perf_counter())
            await reader.refresh()
            parts.append(perf_counter())
            used.append(process_time() - begun_using)
            further.append([later - sooner for sooner, later in pairwise(parts)])
        megabytes = peak_megabytes()
        room = desk.builder("local")
        headlines = room.articles() if room else []
    again_begun, again = perf_counter(), Clusterer()
    again.add(headlines)
    alone = perf_counter() - again_begun
    return {
        "articles": len(headlines),
        "ingest_seconds": round(ingesting, 1),
        "ingest_processor_seconds": round(ingesting_used, 1),
        "telling_seconds": round(told - ingested, 1),
        "telling_processor_seconds": round(told_used - ingested_used, 1),
        "articles_per_second": round(len(headlines) / (told - ingested)),
        "reading_all_seconds": round(served - told, 2),
        "slot_seconds": round(median(map(sum, further)), 2),
        "slot_processor_seconds": round(median(used), 2),
        "slot_of_day": round(median(map(sum, further)) / (ingesting + served - ingested), 3),
        "slot_parts": {
            part: round(median(seconds), 2)
            for part, seconds in zip(("ingest", "tell", "serve"), zip(*further, strict=True), strict=True)
        },
        "told_megabytes": told_megabytes,
        "peak_megabytes": megabytes,
        "clustering_alone_seconds": round(alone, 1),
        "of_clustering_alone": round((told - ingested) / alone, 2),
    }


def peak_megabytes() -> int:
    """The most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes on Linux, bytes on macOS.
    return round(peak / (1024 if sys.platform == "linux" else 1024 * 1024))


def main() -> None:
    """Print the figures as JSON."""
    logs.configure("warning")
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder) / "data"))
    is_met = (
        figures["ingest_seconds"] + figures["telling_seconds"] <= GOAL_DAY_SECONDS
        and figures["slot_seconds"] <= GOAL_SLOT_SECONDS
        and figures["peak_megabytes"] <= GOAL_MEGABYTES
    )
    print(json.dumps({**figures, "is_met": is_met}, indent=2))


if __name__ == "__main__":
    main()
