"""How much SQLite does: steps of its virtual machine, of which each row that it reads, sorts or counts takes some."""

from typing import Any

from sqlalchemy import Engine, event

GRAIN = 10


class SqliteWork:
    """Counts the steps of all connections that an engine, or every engine, opens from now on."""

    def __init__(self, engine: Engine | type[Engine]) -> None:
        self.steps = 0
        self._engine = engine
        event.listen(engine, "connect", self._follow)

    def follow(self, driver: Any) -> None:
        """Count the steps of a connection that no engine opened, too."""
        driver.set_progress_handler(self._count, GRAIN)

    def end(self) -> None:
        event.remove(self._engine, "connect", self._follow)

    def _follow(self, connection: Any, _record: Any) -> None:
        connection.run_async(lambda driver: driver.set_progress_handler(self._count, GRAIN))

    def _count(self) -> int:
        self.steps += GRAIN
        return 0
