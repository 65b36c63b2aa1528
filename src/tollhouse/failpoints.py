"""Failpoints: places where a test kills this process, as a power cut would. The setting `failpoint` arms one."""

import os
import threading

EXIT_STATUS = 137

_lock = threading.Lock()
_passes_left: dict[str, int] = {}


def arm(text: str) -> None:
    """Arm a failpoint: `name` kills the process at the first pass, `name:3` at the third. An empty text disarms it.

    Raises ValueError for a count that is not a number above zero.
    """
    name, _, count = text.partition(":")
    number = int(count or 1)
    if number < 1:
        raise ValueError(f"{text}: the count must be at least 1")
    with _lock:
        _passes_left.clear()
        if name:
            _passes_left[name] = number


def reach(name: str) -> None:
    """Kill the process with status 137, without running handlers or flushing, if this failpoint is due."""
    if name not in _passes_left:
        return
    with _lock:
        _passes_left[name] -= 1
        if not _passes_left[name]:
            os._exit(EXIT_STATUS)
