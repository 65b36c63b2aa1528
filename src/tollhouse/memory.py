"""How often garbage is collected, and returning memory to the system after work that needed much of it."""

import ctypes
import gc
from contextlib import suppress

COLLECT_AFTER_OBJECTS = 20_000


def collect_rarely() -> None:
    """Collect young objects less often: imports and start-up objects stay, and requests leave no cycles."""
    gc.set_threshold(COLLECT_AFTER_OBJECTS)


def return_free_memory() -> None:
    """Give freed memory back to the system, which glibc would keep; does nothing with other C libraries."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
