"""A limit on one thing from one address: counted, or refused with the time to wait."""

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.meter import Meter
from tollhouse.metering.windows import Windows


async def count_or_refuse(meter: Meter, subject: str, windows: Windows, what: str) -> None:
    """Count one of `what` (a plural, such as `payments`) for the subject. Raises Problem `rate-limited`."""
    verdict = (await meter.reserve(subject, windows)).verdict
    full = verdict.refused_by
    if full is None:
        return
    wait = verdict.retry_after_seconds(clock.seconds())
    raise Problem(
        "rate-limited",
        f"At most {full.limit} {what} a {full.window} are taken from one address; the next one fits in {wait} s.",
        headers={"Retry-After": str(wait)},
        retry_after_seconds=wait,
        window=full.window,
        limit=full.limit,
    )
