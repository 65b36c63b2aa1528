"""Work that a process does again and again while it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tollhouse.errors import Problem

FileStamp = tuple[int, int, int] | None


async def repeat(work: Callable[[], Awaitable[object]], every_seconds: float, log: Any, failure: str) -> None:
    """Do work, and again that many seconds after its end, until cancelled. A Problem of it is logged as a warning."""
    while True:
        try:
            await work()
        except Problem as problem:
            log.warning(failure, code=problem.code, detail=problem.detail)
        await asyncio.sleep(every_seconds)


def file_stamp(file: Path) -> FileStamp:
    """What changes with the file, whose replacement has another inode; None if it is not there."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
