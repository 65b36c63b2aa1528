"""Readiness of a table: whether every row of its newest edit is in this process's index, and how many are."""

import asyncio
import time

from msgspec import Struct

from tollhouse.catalogue.catalogue import REFRESH_SECONDS, Catalogue
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.periodic import repeat
from tollhouse.services.tables.loader import TableLoader
from tollhouse.services.tables.questions import TableQuestions
from tollhouse.services.tables.store import LoadStatus

log = logger("tables")

DEFAULT_RETRY_SECONDS = 5
MAX_RETRY_SECONDS = 60
# A rate is stated once it was measured for so long.
MIN_MEASURED_SECONDS = 1.0
# A start waits for the index of a table of up to so many rows, and for so long for that of a larger one.
SMALL_TABLE_ROWS = 5_000
START_SECONDS = 1.0


class Indexing(Struct, frozen=True):
    """`done` rows of `total` are ready; `total`, `percent` and `seconds_left` are null until they are known."""

    done: int
    total: int | None
    percent: int | None
    seconds_left: int | None


class Readiness:
    """Follows the loading of one table and the index of this process."""

    def __init__(self, loader: TableLoader, catalogue: Catalogue, questions: TableQuestions) -> None:
        self._loader = loader
        self._catalogue = catalogue
        self._questions = questions
        self._status: LoadStatus | None = None
        self._is_complete = False
        # When the current phase was seen first, and how many rows it had.
        self._began: tuple[tuple[str, int], float, int] | None = None
        self._updating: asyncio.Task[None] | None = None

    @property
    def indexing(self) -> Indexing | None:
        """How far the index is; None when every row is in it."""
        if self._is_complete:
            return None
        phase, done, total = self._progress()
        if self._began is None or self._began[0] != (phase, total) or done < self._began[2]:
            self._began = (phase, total), time.monotonic(), done
        if not total:
            return Indexing(done, None, None, None)
        _, since, first = self._began
        seconds = time.monotonic() - since
        is_measured = done > first and seconds >= MIN_MEASURED_SECONDS
        seconds_left = round((total - done) * seconds / (done - first)) if is_measured else None
        return Indexing(done, total, 100 * done // total, seconds_left)

    def require_all(self) -> None:
        indexing = self.indexing
        if indexing is None:
            return
        seconds_left = indexing.seconds_left or DEFAULT_RETRY_SECONDS
        wait = max(1, min(seconds_left, MAX_RETRY_SECONDS))
        of = f" of {indexing.total:,}" if indexing.total else ""
        raise Problem(
            "indexing",
            f"The table is being indexed: {indexing.done:,}{of} rows are ready. This needs all rows. Try again later.",
            retry_after_seconds=wait,
            done=indexing.done,
            total=indexing.total,
        )

    async def update(self) -> None:
        """Bring the index to the newest revision, and see whether that is the whole table."""
        before = await self._loader.status()
        self._status = before
        await self._catalogue.refresh()
        self._status = after = await self._loader.status()
        was_complete, self._is_complete = self._is_complete, _is_complete(before) and _is_complete(after)
        if was_complete and not self._is_complete:
            log.info("table indexing", table=after.name, total=after.row_count)

    async def start(self) -> None:
        """Begin to follow, and wait for a small table, or for the first rows of a large one."""
        self._updating = asyncio.create_task(self.update())
        # Of a table that has never been read, the size is not known.
        is_small = 0 < (await self._loader.status()).row_count <= SMALL_TABLE_ROWS
        await asyncio.wait([self._updating], timeout=None if is_small else START_SECONDS)
        if self._updating.done():
            self._updating.result()

    async def follow(self) -> None:
        """Keep this process's index and vocabulary up to date until cancelled; then release the index."""
        tasks = [asyncio.create_task(each) for each in (self._loader.wait_for_first(), self._prepare_questions())]
        try:
            if self._updating is not None:
                await self._updating
            await repeat(self.update, REFRESH_SECONDS, log, "table not refreshed")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._catalogue.close()

    async def _prepare_questions(self) -> None:
        """Read the rows for questions before somebody asks one."""
        while True:
            if self._is_complete:
                await self._questions.prepare()
            await asyncio.sleep(REFRESH_SECONDS)

    def _progress(self) -> tuple[str, int, int]:
        if self._catalogue.filled:
            return "index", *self._catalogue.filled
        status = self._status
        if status is None or not status.row_count:
            return "read", len(self._catalogue), 0
        if status.loaded_at and status.pending_count:
            return "edit", status.row_count - status.pending_count, status.row_count
        return "load", min(len(self._catalogue), status.row_count), status.row_count


def _is_complete(status: LoadStatus) -> bool:
    """Whether what is stored is a whole edit, or the table cannot be read."""
    return not status.pending_count and bool(status.loaded_at or status.fault)
