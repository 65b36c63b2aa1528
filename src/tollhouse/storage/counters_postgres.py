"""Tallies in PostgreSQL: a row a subject, locked while its rule runs."""

from collections.abc import Callable

from sqlalchemy import text

from tollhouse.storage.counters import Result, Tally
from tollhouse.storage.database import Database

_MAKE = text("INSERT INTO tally VALUES (:subject, 0, 0, :nothing) ON CONFLICT (subject) DO NOTHING")
_READ = text("SELECT day, used, recent FROM tally WHERE subject = :subject FOR UPDATE")
_WRITE = text("UPDATE tally SET day = :day, used = :used, recent = :recent WHERE subject = :subject")


class PostgresCounters:
    """Every process's tallies, through the database they share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def change(self, subject: str, rule: Callable[[Tally], Result]) -> Result:
        """See Tallies."""
        async with self._database.writing() as connection:
            await connection.execute(_MAKE, {"subject": subject, "nothing": b""})
            found = (await connection.execute(_READ, {"subject": subject})).one()
            tally = Tally.of(found.day, found.used, found.recent)
            result = rule(tally)
            row = {"subject": subject, "day": tally.day, "used": tally.used, "recent": tally.packed()}
            await connection.execute(_WRITE, row)
        return result

    async def close(self) -> None:
        """Nothing to write: the database has it all."""
