"""Values in a temporary file on disk, for what an import has to look up or to group and cannot hold in memory."""

import sqlite3
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Spool(Collection[T]):
    """Values with a key each, which repeats or not. SQLite removes the file with the object, and holds 2 MB in memory.

    Iterates the values in the order in which they were added. For one thread at a time. Every method raises OSError
    where the file cannot be written or read.
    """

    def __init__(self, kind: type[T]) -> None:
        # A database without a name is a temporary file. It is never committed, so there is no journal.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
            "CREATE TABLE value (place INTEGER PRIMARY KEY, key TEXT NOT NULL, content BLOB NOT NULL); "
            "CREATE INDEX by_key ON value (key); BEGIN"
        )
        weakref.finalize(self, self._database.close)
        self._decoder = msgspec.json.Decoder(kind)
        self._count = 0

    def add(self, key: str, value: T) -> None:
        row = key, msgspec.json.encode(value)
        with _file_errors():
            self._database.execute("INSERT INTO value (key, content) VALUES (?, ?)", row)
        self._count += 1

    def get(self, key: str) -> T | None:
        """The newest value with this key."""
        query = "SELECT content FROM value WHERE key = ? ORDER BY place DESC LIMIT 1"
        content = self._first(query, key)
        return None if content is None else self._decoder.decode(content)

    def has(self, key: str) -> bool:
        query = "SELECT 1 FROM value WHERE key = ? LIMIT 1"
        return self._first(query, key) is not None

    def __contains__(self, value: object) -> bool:
        return any(each == value for each in self)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return self._values("SELECT content FROM value ORDER BY place")

    def groups(self) -> Iterator[list[T]]:
        """The values of each key, in the order in which the keys were added first."""
        for key in self._column("SELECT key FROM value GROUP BY key ORDER BY MIN(place)"):
            yield list(self._values("SELECT content FROM value WHERE key = ? ORDER BY place", key))

    def _values(self, query: str, *parameters: str) -> Iterator[T]:
        return map(self._decoder.decode, self._column(query, *parameters))

    def _first(self, query: str, *parameters: str) -> Any:
        return next(self._column(query, *parameters), None)

    def _column(self, query: str, *parameters: str) -> Iterator[Any]:
        with _file_errors():
            for (value,) in self._database.execute(query, parameters):
                yield value


@contextmanager
def _file_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(f"the temporary file cannot be used: {error}") from None
