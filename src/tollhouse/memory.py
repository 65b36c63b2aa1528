"""Returning memory to the system after work that needed much of it for a short time."""

import ctypes
from contextlib import suppress


def return_free_memory() -> None:
    """Give freed memory back to the system, which glibc would keep; does nothing with other C libraries."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
