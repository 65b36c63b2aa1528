"""Which representation a caller wants: the `format` parameter, else `Accept`."""

from functools import lru_cache

from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Endpoint


def wanted_media_type(operation: Endpoint, accept: str, format_name: str | None) -> str:
    """The media type to answer in. Raises Problem `not-acceptable` when none offered will do."""
    if format_name is not None:
        return operation.formats[format_name]
    if not accept:
        return next(iter(operation.responses), JSON)
    return negotiated(accept, tuple(operation.responses) or (JSON,))


@lru_cache(maxsize=1024)
def negotiated(accept: str, offered: tuple[str, ...]) -> str:
    """The offered type the header likes best, earlier ones first among equals (RFC 9110, section 12.5.1)."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    weights = {media_type: _weight(media_type, ranges) for media_type in offered}
    best = max(offered, key=lambda media_type: weights[media_type])
    if ranges and weights[best] <= 0:
        raise Problem("not-acceptable", f"This is offered as {', '.join(offered)}.", allowed=list(offered))
    return best


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = 1.0
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                weight = min(1.0, max(0.0, float(parameter[2:])))
            except ValueError:
                weight = 0.0
    return name, weight


def _weight(media_type: str, ranges: list[tuple[str, float]]) -> float:
    """The most specific range that fits decides."""
    kind = media_type.partition("/")[0]
    for candidate in (media_type, f"{kind}/*", "*/*"):
        fitting = [weight for name, weight in ranges if name == candidate]
        if fitting:
            return max(fitting)
    return 0.0
