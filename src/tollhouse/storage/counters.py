"""Usage counters: how often each caller has called today and in the last moments."""

from array import array
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from sqlalchemy import text

from tollhouse.storage.database import Database

Result = TypeVar("Result")

_MAKE = text("INSERT INTO tally VALUES (:subject, 0, 0, :nothing) ON CONFLICT (subject) DO NOTHING")
_READ = text("SELECT day, used, recent FROM tally WHERE subject = :subject FOR UPDATE")
_WRITE = text("UPDATE tally SET day = :day, used = :used, recent = :recent WHERE subject = :subject")

_SAVE = text("""INSERT INTO tally VALUES (:subject, :day, :used, :nothing) ON CONFLICT (subject) DO UPDATE SET
    used = CASE WHEN tally.day = excluded.day AND tally.used > excluded.used THEN tally.used ELSE excluded.used END,
    day = excluded.day""")
_SAVED = text("SELECT subject, day, used FROM tally WHERE day >= :day")
_FORGET = text("DELETE FROM tally WHERE day < :day")


class Tally:
    """Usage of one subject: `used` calls on `day` (days since 1970), and the Unix times of its recent calls.

    The first `past` of them are recent no more. They are removed many at a time: each removal moves all that follow.
    """

    __slots__ = ("day", "past", "recent", "used")

    def __init__(self, day: int = 0, used: int = 0, packed: bytes = b"") -> None:
        self.day = day
        self.used = used
        self.recent = array("d", packed)
        self.past = 0

    def packed(self) -> bytes:
        """The recent times as 8-byte floats, for a column."""
        return self.recent[self.past :].tobytes()

    @classmethod
    def from_row(cls, day: int, used: int, packed: bytes) -> "Tally":
        """The tally of a database row."""
        return cls(day, used, packed[: len(packed) // 8 * 8])


class Counters(Protocol):
    """Stores tallies. `change` has exclusive access to its subject, across processes."""

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """Apply `rule`, which may modify the tally, and store it. Raises Problem `storage-unavailable`."""

    async def close(self) -> None:
        """Write pending changes."""


class NoCounters:
    """For a process that handles no requests and so counts none."""

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Counters."""
        raise AssertionError(f"{subject} was counted by {rule} in a process that handles no requests")

    async def close(self) -> None:
        """Nothing to write."""


class PostgresCounters:
    """The counters of all processes that share a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Counters."""
        async with self._database.writing() as connection:
            await connection.execute(_MAKE, {"subject": subject, "nothing": b""})
            row = (await connection.execute(_READ, {"subject": subject})).one()
            tally = Tally.from_row(row.day, row.used, row.recent)
            result = rule(tally)
            values = {"subject": subject, "day": tally.day, "used": tally.used, "recent": tally.packed()}
            await connection.execute(_WRITE, values)
        return result

    async def close(self) -> None:
        """Nothing to write."""


class StoredCounts:
    """Copies of the day's counts that are kept elsewhere, such as in Redis, in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, counts: Mapping[str, tuple[int, int]]) -> None:
        """Store (day, used) by subject; of the same day the larger count stays. Raises Problem."""
        rows = [
            {"subject": subject, "day": day, "used": used, "nothing": b""}
            # In one order: two processes that save the same subjects must not wait for each other.
            for subject, (day, used) in sorted(counts.items())
        ]
        async with self._database.writing() as connection:
            await connection.execute(_SAVE, rows)

    async def since(self, day: int) -> list[tuple[str, int, int]]:
        """The subject, day and count of every copy of that day (days since 1970) or later. Raises Problem."""
        async with self._database.reading() as connection:
            return [(row.subject, row.day, row.used) for row in await connection.execute(_SAVED, {"day": day})]

    async def forget_before(self, day: int) -> None:
        """Delete the copies of earlier days. Raises Problem."""
        async with self._database.writing() as connection:
            await connection.execute(_FORGET, {"day": day})
