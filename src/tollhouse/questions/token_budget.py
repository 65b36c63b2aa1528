"""What a model may cost one caller in a UTC day, in tokens: reserved before an answer, settled after it."""

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.meter import Meter, Reservation
from tollhouse.metering.windows import Windows

# The meter counts calls: one of its calls stands for so many tokens here.
TOKENS_PER_UNIT = 4_000


class Held(Struct, frozen=True):
    """What is reserved for one answer."""

    units: tuple[Reservation, ...]


class Budget:
    """`tokens_per_day` for each caller; 0 is no ceiling."""

    def __init__(self, meter: Meter, tokens_per_day: int) -> None:
        self._meter = meter
        self._windows = Windows(tokens_per_day // TOKENS_PER_UNIT, None) if tokens_per_day else None

    async def hold(self, subject: str, most_tokens: int) -> Held:
        """Reserve what an answer may cost at most. Raises Problem `quota-exceeded` when it does not fit the day."""
        held: list[Reservation] = []
        for _ in range(ceil(most_tokens / TOKENS_PER_UNIT) if self._windows else 0):
            assert self._windows is not None
            unit = await self._meter.reserve(f"chat-tokens:{subject}", self._windows)
            if unit.verdict.refused_by:
                await self._give_back(held)
                raise day_is_full(unit, "the language model's tokens")
            held.append(unit)
        return Held(tuple(held))

    async def settle(self, held: Held, spent_tokens: int) -> None:
        """Give back what was not spent."""
        await self._give_back(held.units[ceil(spent_tokens / TOKENS_PER_UNIT) :])

    async def _give_back(self, units: Sequence[Reservation]) -> None:
        for unit in units:
            await self._meter.release(unit)


def day_is_full(reservation: Reservation, what: str) -> Problem:
    """Why this caller has to wait for tomorrow."""
    wait = reservation.verdict.retry_after_seconds(clock.seconds())
    return Problem(
        "quota-exceeded",
        f"The day's {what} are used; the next fits in {wait} s.",
        headers={"Retry-After": str(wait)},
        retry_after_seconds=wait,
        window="day",
    )
