"""Places where a test makes this process die at once, as a power cut would: armed by the setting `failpoint` alone."""

import os
import threading

EXIT_STATUS = 137

_lock = threading.Lock()
_passes_left: dict[str, int] = {}


def arm(text: str) -> None:
    """`name` dies the first time the process comes to that place, `name:3` the third; the empty text disarms.

    Raises ValueError for a count that is not a number above zero.
    """
    name, _, count = text.partition(":")
    number = int(count or 1)
    if number < 1:
        raise ValueError(f"{text}: a process dies the first time or later")
    with _lock:
        _passes_left.clear()
        if name:
            _passes_left[name] = number


def reach(name: str) -> None:
    """Die here with status 137, no handler run and nothing flushed, if this place is armed and its time has come."""
    if name not in _passes_left:
        return
    with _lock:
        _passes_left[name] -= 1
        if not _passes_left[name]:
            os._exit(EXIT_STATUS)
