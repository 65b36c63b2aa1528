"""What an answer of an upstream costs, where that is known only from the answer."""

from collections.abc import AsyncGenerator, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from tollhouse.http.endpoint import ByteStream, Handler, Request, Response
from tollhouse.http.terms import Price
from tollhouse.logs import logger
from tollhouse.money import MICROS_PER_USD
from tollhouse.proxy.declared import RouteRule, micros

BYTES_PER_KILOBYTE = 1_000

log = logger("proxy")


class AnswerPrice(Struct, frozen=True):
    """A fixed part, and a part by a header or by size, together at most `max_micros`. Amounts are in micro-USD.

    `cost_header` has an amount in USD, `units_header` a number of units at `unit_micros` each. An answer without its
    header, or with one that is not a number, costs the fixed part.
    """

    fixed_micros: int
    max_micros: int
    cost_header: bytes = b""
    units_header: bytes = b""
    unit_micros: int = 0
    kilobyte_micros: int = 0

    def micros(self, headers: Iterable[tuple[bytes, bytes]], byte_count: int) -> int:
        """The cost of an answer with these headers and so many bytes, as they are sent."""
        part = -(-byte_count * self.kilobyte_micros // BYTES_PER_KILOBYTE)
        if name := self.cost_header or self.units_header:
            value = _number(next((value for key, value in headers if key.lower() == name), b""))
            if value is None:
                log.warning("answer without its cost", header=name.decode())
            part = int((value or 0) * (MICROS_PER_USD if self.cost_header else self.unit_micros))
        return min(self.fixed_micros + part, self.max_micros)


def answer_price(rule: RouteRule) -> AnswerPrice | None:
    """How the answers of a route are measured; None where each costs the same."""
    if not rule.is_measured or rule.max_usd is None:
        return None
    return AnswerPrice(
        fixed_micros=micros(rule.price_usd or Decimal(0)),
        max_micros=micros(rule.max_usd),
        cost_header=rule.cost_header.lower().encode(),
        units_header=rule.units_header.lower().encode(),
        unit_micros=micros(rule.usd_per_unit or Decimal(0)),
        kilobyte_micros=micros(rule.usd_per_kilobyte or Decimal(0)),
    )


def stated_price(rule: RouteRule, usual: Decimal | None) -> Price | None:
    """The price of a route as its terms state it; None where it is not for sale."""
    if (measured := answer_price(rule)) is not None:
        unit = rule.unit or "unit" if rule.units_header else "kilobyte" if measured.kilobyte_micros else ""
        return Price(
            measured.fixed_micros,
            unit,
            measured.unit_micros or measured.kilobyte_micros,
            max_micros=measured.max_micros,
        )
    price = usual if rule.price_usd is None else rule.price_usd
    return Price(micros(price)) if price else None


def measuring(handle: Handler, price: AnswerPrice) -> Handler:
    """The handler, whose responses say what they cost.

    A stream by size costs what its length says; without a length, the most, until it ends or the client leaves.
    """

    async def measured(request: Request[Any, Any]) -> Response:
        response = await handle(request)
        assert isinstance(response, Response), "a proxy returns whole responses"
        if response.stream is None:
            response.cost_micros = price.micros(response.headers, len(response.body))
        elif price.kilobyte_micros and response.stream_length is None:
            response.cost_micros = price.max_micros
            response.stream = _counted(response, response.stream, price)
        else:
            response.cost_micros = price.micros(response.headers, response.stream_length or 0)
        return response

    return measured


async def _counted(response: Response, stream: ByteStream, price: AnswerPrice) -> AsyncGenerator[bytes, None]:
    byte_count = 0
    try:
        async for piece in stream:
            byte_count += len(piece)
            yield piece
    finally:
        response.cost_micros = price.micros(response.headers, byte_count)
        await stream.aclose()


def _number(raw: bytes) -> Decimal | None:
    try:
        value = Decimal(raw.decode("ascii").strip())
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return value if value.is_finite() and 0 <= value < 1_000_000_000_000 else None
