"""How much SQLite does: steps of its virtual machine, of which each row that it reads, sorts or counts takes some."""

from typing import Any

from sqlalchemy import event

from tollhouse.storage.database import Database

GRAIN = 10


class SqliteWork:
    """Counts the steps of all connections of a database, which has none yet."""

    def __init__(self, database: Database) -> None:
        self.steps = 0
        event.listen(database._engine.sync_engine, "connect", self._follow)

    def _follow(self, connection: Any, _record: Any) -> None:
        connection.run_async(lambda driver: driver.set_progress_handler(self._count, GRAIN))

    def _count(self) -> int:
        self.steps += GRAIN
        return 0
