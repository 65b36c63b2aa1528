"""What an answer costs, where only the answer says it: by a header or by size, never more than the maximum."""

from decimal import Decimal

import pytest

from tollhouse.http.endpoint import Request, Response
from tollhouse.proxy.cost import answer_price, measuring, stated_price
from tollhouse.proxy.declared import RouteRule

BY_COST = RouteRule(price_usd=Decimal("0.001"), max_usd=Decimal("0.05"), cost_header="X-Cost-Usd")
BY_ROWS = RouteRule(max_usd=Decimal("0.05"), units_header="X-Rows", usd_per_unit=Decimal("0.0002"), unit="row")
BY_SIZE = RouteRule(max_usd=Decimal("0.01"), usd_per_kilobyte=Decimal("0.001"))


@pytest.mark.parametrize(
    ("rule", "headers", "size", "micros"),
    [
        (BY_COST, [(b"x-cost-usd", b"0.0123")], 5, 13_300),
        (BY_COST, [(b"x-cost-usd", b"7")], 5, 50_000),
        (BY_COST, [], 5, 1_000),
        *((BY_COST, [(b"x-cost-usd", text)], 5, 1_000) for text in (b"", b"-1", b"nan", b"1e99", b"free", b"\xff")),
        (BY_ROWS, [(b"x-rows", b"12")], 5, 2_400),
        (BY_ROWS, [(b"x-rows", b"999999999")], 5, 50_000),
        (BY_SIZE, [], 0, 0),
        (BY_SIZE, [], 1, 1),
        (BY_SIZE, [], 2_500, 2_500),
        (BY_SIZE, [], 1_000_000, 10_000),
    ],
)
def test_cost_follows_the_answer_up_to_the_maximum(rule, headers, size, micros):
    assert answer_price(rule).micros(headers, size) == micros


def test_terms_state_the_most_a_call_costs():
    assert stated_price(BY_ROWS, Decimal("0.002")).micros() == 50_000
    assert stated_price(RouteRule(), Decimal("0.002")).micros() == 2_000
    assert stated_price(RouteRule(price_usd=Decimal(0)), Decimal("0.002")) is None


REQUEST = Request(None, None, {}, None, "203.0.113.1", "")


async def answer(stream=None, length=None, body=b""):
    async def handle(_request) -> Response:
        return Response(body, stream=stream, stream_length=length, passes_through=True)

    return await measuring(handle, answer_price(BY_SIZE))(REQUEST)


async def pieces(closed):
    try:
        for _ in range(3):
            yield b"x" * 1_000
    finally:
        closed.append(True)


async def test_stream_costs_its_size_once_that_is_known():
    closed = []
    assert (await answer(body=b"x" * 3_000)).cost_micros == 3_000
    assert (await answer(pieces(closed), 3_000)).cost_micros == 3_000
    whole = await answer(pieces(closed))
    assert whole.cost_micros == 10_000
    assert len([piece async for piece in whole.stream]) == 3
    assert whole.cost_micros == 3_000
    left = await answer(pieces(closed))
    await anext(left.stream)
    await left.stream.aclose()
    assert left.cost_micros == 1_000
    assert closed == [True, True]
