"""The usage counts that earlier versions have in SQLite, to take over when the counts file is made."""

import contextlib
import sqlite3
from array import array
from collections.abc import Iterator
from pathlib import Path

from tollhouse import clock
from tollhouse.logs import logger
from tollhouse.storage.counters import MOST_PER_BUCKET, Tally

log = logger("storage")

FORMER_FILE = "usage.db"
_BUCKETS = 60
_READ = "SELECT subject, day, used, recent FROM tally WHERE day >= ?"


def former_tallies(file: Path) -> Iterator[tuple[str, Tally]]:
    """The subjects that were counted yesterday or today, and their tallies; none if the file cannot be read."""
    if not file.exists():
        return
    now = clock.seconds()
    try:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            for subject, day, used, recent in connection.execute(_READ, (int(now // 86_400) - 1,)):
                yield subject, _tally(day, used, array("d", recent[: len(recent) // 8 * 8]), now)
    except sqlite3.Error as error:
        log.warning("usage counts of an earlier version not taken over", error=str(error), file=str(file))


def remove_former(file: Path) -> None:
    """Remove the file, once its counts are taken over."""
    for suffix in ("", "-wal", "-shm"):
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)


def _tally(day: int, used: int, recent: "array[float]", now: float) -> Tally:
    """The calls of `recent` (seconds since 1970, ascending) in buckets of a second, or of a minute in an hour's."""
    tally = Tally(day, used)
    if not recent:
        return tally
    newest = recent[-1]
    tally.newest, tally.width = newest, 60 if newest - recent[0] > _BUCKETS or now - newest > _BUCKETS else 1
    counts = [0] * (_BUCKETS + 1)
    for moment in recent:
        back = int((newest - moment) // tally.width)
        if 0 <= back <= _BUCKETS:
            counts[_BUCKETS - back] = min(counts[_BUCKETS - back] + 1, MOST_PER_BUCKET)
    first = next(place for place, count in enumerate(counts) if count)
    tally.buckets, tally.total = array("H", counts[first:]), sum(counts)
    return tally
