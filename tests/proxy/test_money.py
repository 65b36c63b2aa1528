"""What a proxied call costs: its price for a whole answer, nothing where the upstream fails, and never twice."""

import httpx2
import pytest
import pytest_asyncio

from tests.proxy import proxied_app
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALL = 10_000
FAILURES = {
    "slow?seconds=9": 504,
    "no-answer": 502,
    "garbage": 502,
    "two-lengths": 502,
    "short": 502,
    "status?is=503 Busy": 503,
    "status?is=401 No": 502,
}
CUTS = ("cut", "cut-events", "short?says=3000000")


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _answering(toll) -> None:
    """The failures of the test before are over."""
    await until(lambda: _answers(toll))


async def fetched(toll, path: str, headers: dict[str, str]) -> tuple[int, bytes, bool]:
    """Status, body and whether the body was whole."""
    body = b""
    try:
        async with toll.client.stream("GET", path, headers=headers) as answer:
            async for piece in answer.aiter_raw():
                body += piece
    except (httpx2.RemoteProtocolError, httpx2.ReadError):
        return answer.status_code, body, False
    return answer.status_code, body, True


async def leave_early(toll, path: str, headers: dict[str, str]) -> None:
    async with toll.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert await anext(answer.aiter_raw())


@pytest.mark.parametrize("path", FAILURES)
async def test_answer_that_fails_costs_nothing(toll, path):
    used, held, earned = await toll.used(), await toll.balance(), await toll.earned()
    expected = FAILURES[path]
    assert (await fetched(toll, f"/weather/keyed/{path}", toll.keyed))[0] == expected
    assert await toll.used() == used + 1
    signed = toll.signed(f"/keyed/{path}")
    assert (await fetched(toll, f"/weather/keyed/{path}", signed))[0] == expected
    assert await toll.balance() == held
    # The nonce is free again: nothing was done for it.
    assert (await fetched(toll, f"/weather/keyed/{path}", signed))[0] == expected
    payment = await toll.payment(f"/weather/sold/{path}")
    assert (await fetched(toll, f"/weather/sold/{path}", payment))[0] == expected
    assert (await toll.balance(), await toll.earned()) == (held, earned)
    # One more request of each `used` itself.
    assert await toll.used() == used + 2


async def test_refusal_of_the_upstream_counts_and_costs_no_money(toll):
    used, held, earned = await toll.used(), await toll.balance(), await toll.earned()
    path = "status?is=404 Not Found"
    for headers in (toll.keyed, toll.signed("/keyed/status")):
        assert (await fetched(toll, f"/weather/keyed/{path}", headers))[:2] == (404, b"as said")
    assert (await fetched(toll, f"/weather/sold/{path}", await toll.payment(f"/weather/sold/{path}")))[0] == 404
    assert (await toll.balance(), await toll.earned(), await toll.used()) == (held, earned, used + 2)


async def test_whole_answer_costs_its_price_once(toll):
    (spendable, _), earned = await toll.balance(), await toll.earned()
    for path in ("json", "large", "events?count=3"):
        signed = toll.signed(f"/keyed/{path}")
        status, body, is_whole = await fetched(toll, f"/weather/keyed/{path}", signed)
        assert (status, is_whole) == (200, True)
        payment = await toll.payment(f"/weather/sold/{path}")
        assert await fetched(toll, f"/weather/sold/{path}", payment) == (200, body, True)
        # Sent again, it is refused: the answer was delivered.
        assert (await fetched(toll, f"/weather/keyed/{path}", signed))[0] == 401
        assert (await fetched(toll, f"/weather/sold/{path}", payment))[0] == 402
    assert await toll.balance() == (spendable - 3 * CALL, 0)
    assert await toll.earned() == earned + 3 * proxied_app.PRICE


@pytest.mark.parametrize("path", CUTS)
async def test_cut_answer_is_seen_as_cut_and_uses_neither_allowance_nor_credit(toll, path):
    used, held = await toll.used(), await toll.balance()
    status, body, is_whole = await fetched(toll, f"/weather/keyed/{path}", toll.keyed)
    assert (status, is_whole) == (200, False)
    assert body
    signed = toll.signed(f"/keyed/{path}")
    assert (await fetched(toll, f"/weather/keyed/{path}", signed))[2] is False
    await until(lambda: _is(toll.balance, held))
    # The same signed request may be sent again.
    assert (await fetched(toll, f"/weather/keyed/{path}", signed))[0] == 200
    await until(lambda: _is(toll.balance, held))
    assert await toll.used() == used + 1


async def _is(read, expected) -> bool:
    return await read() == expected


@pytest.mark.parametrize("path", CUTS)
async def test_payment_for_a_cut_answer_opens_the_request_again(toll, path):
    earned = await toll.earned()
    payment = await toll.payment(f"/weather/sold/{path}")
    for _ in range(3):
        status, body, is_whole = await fetched(toll, f"/weather/sold/{path}", payment)
        assert (status, is_whole, bool(body)) == (200, False, True)
    assert await toll.earned() == earned + proxied_app.PRICE
    other = await fetched(toll, "/weather/sold/json", payment)
    assert other[0] == 402


async def test_client_that_leaves_has_paid_and_may_come_back_until_it_has_all(toll):
    path = "events?count=6"
    (spendable, _), earned = await toll.balance(), await toll.earned()
    signed, payment = toll.signed("/keyed/events"), await toll.payment(f"/weather/sold/{path}")
    await leave_early(toll, f"/weather/keyed/{path}", signed)
    await leave_early(toll, f"/weather/sold/{path}", payment)
    await until(lambda: _is(toll.balance, (spendable - CALL, 0)))
    for prefix, headers, refused in (("keyed", signed, 401), ("sold", payment, 402)):
        status, body, is_whole = await fetched(toll, f"/weather/{prefix}/{path}", headers)
        assert (status, body.count(b"data:"), is_whole) == (200, 6, True)
        assert (await fetched(toll, f"/weather/{prefix}/{path}", headers))[0] == refused
    assert await toll.balance() == (spendable - CALL, 0)
    assert await toll.earned() == earned + proxied_app.PRICE


async def test_upload_is_paid_for_with_its_body(toll):
    (spendable, _), signed = await toll.balance(), toll.signed("/keyed/echo")
    body = b"b" * 2_000_000
    answer = await toll.client.put("/weather/keyed/echo", content=body, headers=signed)
    assert answer.json()["bytes"] == len(body)
    other = await toll.client.put("/weather/keyed/echo", content=b"another", headers=signed)
    assert other.status_code == 401
    assert await toll.balance() == (spendable - CALL, 0)


async def _answers(toll) -> bool:
    try:
        return (await toll.client.get("/weather/free/json")).status_code == 200
    except httpx2.TransportError:
        return False


async def test_upstream_that_closes_idle_connections_fails_no_request(toll):
    for _ in range(20):
        assert (await toll.client.get("/weather/keyed/closes-idle", headers=toll.keyed)).text == "bye"
