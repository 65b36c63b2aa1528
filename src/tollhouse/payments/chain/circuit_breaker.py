"""A circuit breaker: after some failures in a row nobody waits for the node, until one probe finds it well."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tollhouse.payments.chain.errors import CIRCUIT_IS_OPEN, ChainUnavailable


class Breaker:
    """Opens after `most_failures` in a row; after `pause_seconds` one call may try, and its success closes it."""

    def __init__(self, most_failures: int, pause_seconds: float) -> None:
        self._most_failures = most_failures
        self._pause_seconds = pause_seconds
        self._failures = 0
        self._opened_at = 0.0
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether so many attempts failed in a row that the next has to wait."""
        return self._failures >= self._most_failures

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """One attempt. ChainUnavailable at once while open; one raised inside counts as the node's failure."""
        is_probe = self._admit()
        try:
            yield
        except ChainUnavailable:
            self._failures += 1
            self._opened_at = _now()
            raise
        except asyncio.CancelledError:
            raise  # the caller went away: that says nothing about the node
        except BaseException:
            self._failures = 0
            raise
        else:
            self._failures = 0
        finally:
            if is_probe:
                self._is_probed = False

    def _admit(self) -> bool:
        """Whether this attempt is the probe."""
        if not self.is_open:
            return False
        if self._is_probed or _now() < self._opened_at + self._pause_seconds:
            raise ChainUnavailable(CIRCUIT_IS_OPEN)
        self._is_probed = True
        return True


def _now() -> float:
    return asyncio.get_running_loop().time()
