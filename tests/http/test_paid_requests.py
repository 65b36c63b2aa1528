"""Past the free allowance, one payment buys one answer: through the real gate, settled on a real chain."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from tests.fakes.collector import collecting
from tests.http.conftest import asgi_client
from tests.http.stock import on_every_application
from tests.payments.x402.signed_payments import OTHER, PAYER, PRICE, RELAYER, SELLER, authorization, payload, signature
from tests.servers.databases import migrated_copy
from tests.waiting import until
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.inner_calls import InnerCalls
from tollhouse.http.mcp.endpoint import McpEndpoint, tool_routes
from tollhouse.http.response import compute_etag
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import Price, Terms, free_then_paid
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.pay_per_request import ChainStatus, PayPerRequest, read_chain_status
from tollhouse.tracing import open_tracing

URL = "/shop/page"
FAILURES = 40


class ShopEndpoints:
    """Handlers that tell how often they ran, and fail when told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.raises = None
        self.is_free = False

    async def page(self, _asked):
        self.runs += 1
        if self.raises:
            raise self.raises
        return Response(b'{"run":%d}' % self.runs, etag=compute_etag(b"same"), is_free=self.is_free)


async def _facts() -> dict[str, str]:
    return {}


class House:
    """A server whose free allowance is used up, and the chain it is paid on."""

    def __init__(self, context, endpoints, gate, chain) -> None:
        self.context, self.endpoints, self.gate, self.chain = context, endpoints, gate, chain

    async def get(self, path=URL, **headers: str):
        async with asgi_client(self.gate.handle) as client:
            return await client.get(path, headers=headers)

    async def cut(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        """A call whose client is gone once it was sent."""
        sent = iter([{"type": "http.request", "body": body, "more_body": False}])
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
                 "client": ("127.0.0.1", 1), "headers": [(b"host", b"test"), (b"content-type", b"application/json"),
                 *((name.lower().encode(), value.encode()) for name, value in headers.items())]}  # fmt: skip

        async def receive() -> dict:
            return next(sent, {"type": "http.disconnect"})

        async def send(_message) -> None:
            pass

        await self.gate.handle(scope, receive, send)

    async def tool(self, members):
        async with asgi_client(self.gate.handle) as client:
            answer = await client.post("/shop/mcp", json=members)
        assert answer.status_code == 200, answer.text
        assert "result" in answer.json(), answer.text
        return answer.json()["result"]

    async def challenge(self):
        answer = await self.get()
        assert answer.status_code == 402, answer.text
        return answer

    async def earned(self):
        return await token_balance(self.chain.client, self.chain.usdc_address, SELLER.address)


def own_service(settings, gate, endpoints):
    operation = Endpoint("page", "GET", "/page", "A page", endpoints.page, free_then_paid(PRICE),
                         responses={"application/json": {}}, is_tool=True)  # fmt: skip
    service = Service("shop", "Shop", "1", "", [operation], _facts, {})
    calls = InnerCalls(settings, gate, None)
    mcp = McpEndpoint(calls, OwnHosts(settings), service, tool_routes([(service, "/shop")])).endpoint()
    return replace(service, endpoints=[operation, mcp])


@pytest.fixture
def open_house(local_chain):
    """A function that opens a server with its own database, or with the one that `settings` name."""

    @asynccontextmanager
    async def opened(served=None, **settings: object) -> AsyncIterator[House]:
        endpoints = served or ShopEndpoints()
        whole = {
            "free_per_ip_per_day": 1,
            "failed_attempts_per_minute": FAILURES,
            "evm_rpc_url": local_chain.url,
            "x402_pay_to": SELLER.address,
            "trusted_proxies": "127.0.0.0/8",
            "x402_facilitator_key": RELAYER.private_key,
            "public_url": "https://toll.example",
        }
        told = Settings(**(whole | settings))
        async with open_context(told) as context, AsyncExitStack() as stack:
            router, gate = Router(), Admission(context)
            if served:
                terms = f"price_usd = {PRICE / 1_000_000}\nfree_per_day = 1"
                router.mount(await stack.enter_async_context(served.service(context, terms)), "/shop")
            else:
                router.mount(own_service(told, gate, endpoints), "/shop")
            house = House(context, endpoints, Server(told, gate, router, {}), local_chain)
            assert (await house.get()).status_code == 200
            endpoints.runs = 0
            yield house
            assert (await context.ledger.verify()).balanced

    return opened


@pytest.fixture
async def house(open_house, database_url, tmp_path, local_chain, served):
    await local_chain.fund_usdc(PAYER.address, 100_000)
    async with open_house(served, data_dir=str(tmp_path), database_url=database_url.replace("+aiosqlite", "")) as house:
        yield house


def encoded(members):
    return b64encode(json.dumps(members).encode()).decode()


def first(told=None, signed=None, **changes: object):
    told = told or authorization()
    members = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload(told, signed)}
    return {"X-Payment": encoded(members | changes)}


async def second(house, told=None, **changes: object):
    required = json.loads(b64decode((await house.challenge()).headers["payment-required"]))
    members = {"x402Version": 2, "resource": required["resource"], "accepted": required["accepts"][0],
               "payload": payload(told or authorization()), "extensions": {}}  # fmt: skip
    return {"Payment-Signature": encoded(members | changes)}


def reason(answer):
    assert answer.status_code == 402, answer.text
    assert answer.json()["accepts"], "a refused payment is asked for again"
    return answer.json()["reason"]


async def test_challenge_serves_both_versions_at_once(house):
    answer = await house.challenge()
    [asked] = answer.json()["accepts"]
    assert (asked["network"], asked["maxAmountRequired"], asked["payTo"]) == ("base", str(PRICE), SELLER.address)
    assert asked["resource"] == "https://toll.example/shop/page"
    assert "outputSchema" not in asked
    required = json.loads(b64decode(answer.headers["payment-required"]))
    assert (required["accepts"][0]["network"], required["accepts"][0]["amount"]) == ("eip155:8453", str(PRICE))


@on_every_application
async def test_payment_of_version_one_is_settled_before_the_answer_leaves(house):
    answer = await house.get(**first())
    assert answer.status_code == 200, answer.text
    settled = json.loads(b64decode(answer.headers["x-payment-response"]))
    assert (settled["success"], settled["network"], settled["payer"]) == (True, "base", PAYER.address)
    assert (await house.chain.client.receipt(settled["transaction"])).is_success
    assert await house.earned() == PRICE
    assert answer.headers["x-ratelimit-remaining"] == "0"


@on_every_application
async def test_payment_of_version_two_is_settled_before_the_answer_leaves(house):
    answer = await house.get(**await second(house))
    assert answer.status_code == 200, answer.text
    assert json.loads(b64decode(answer.headers["payment-response"]))["success"] is True
    assert await house.earned() == PRICE


async def test_payment_is_traced_from_verification_to_settlement(house):
    with collecting() as collector:
        async with open_tracing(collector.url, "1"):
            assert (await house.get(**first())).status_code == 200
    (request,) = [one for one in collector.spans if one.kind == 2]
    assert (request.attributes["tollhouse.payment"], request.attributes["tollhouse.caller"]) == ("x402", "address")
    children = {one.name: one for one in collector.spans if one.parent_id == request.span_id}
    assert {"payment verification", "handler", "payment settlement"} <= set(children)
    verification = children["payment verification"]
    node_calls = [one for one in collector.spans if one.name == "chain node" and one.trace_id == request.trace_id]
    assert any(one.parent_id == verification.span_id and one.attributes["rpc.method"] for one in node_calls)


async def test_operator_sees_the_chain_the_gas_and_that_a_node_is_silent(house):
    assert (await house.get(**first())).status_code == 200
    status = await read_chain_status(house.context.per_request, house.context.database, 8453)
    assert (status.is_configured, status.chain_id, status.pending, status.error) == (True, 8453, 0, None)
    assert status.head == await house.chain.client.block_number()
    assert status.account == RELAYER.address
    assert float(status.balance_usd) > float(status.gas_today_usd) > 0
    nobody = PayPerRequest(ChainClient("http://127.0.0.1:1"))
    silent = await read_chain_status(nobody, house.context.database, 8453)
    assert (silent.is_configured, silent.head, silent.account) == (True, None, None)
    assert silent.error == "The node did not answer. The log has the reason."
    await nobody.chain.close()
    assert await read_chain_status(PayPerRequest(), house.context.database, 8453) == ChainStatus(is_configured=False)


@on_every_application
async def test_payment_while_the_allowance_lasts_is_not_taken(house):
    answer = await house.get(**first(), **{"X-Forwarded-For": "198.51.100.9"})
    assert (answer.status_code, await house.earned()) == (200, 0)
    assert "x-payment-response" not in answer.headers


@on_every_application
async def test_same_payment_again_is_refused_once_its_answer_was_delivered(house):
    headers = first()
    assert (await house.get(**headers)).status_code == 200

    async def is_refused() -> bool:
        again = await house.get(**headers)
        return again.status_code == 402 and "nonce" in reason(again)

    await until(is_refused)
    assert (await house.earned(), house.endpoints.runs) == (PRICE, 1)


@on_every_application
async def test_of_twenty_copies_at_once_one_is_answered(house):
    headers = first()
    answers = await asyncio.gather(*(house.get(**headers) for _ in range(20)))
    [served] = [answer for answer in answers if answer.status_code == 200]
    assert served.text == '{"run":1}'
    assert {reason(answer) for answer in answers if answer is not served} == {"payment_in_use"}
    assert (await house.earned(), house.endpoints.runs) == (PRICE, 1)


@on_every_application
@pytest.mark.parametrize("failure", [Problem("not-found", "No."), ZeroDivisionError()])
async def test_failed_work_costs_nothing_and_the_payment_may_be_used_again(house, failure):
    headers = first()
    house.endpoints.raises = failure
    assert (await house.get(**headers)).status_code >= 400
    assert await house.earned() == 0
    house.endpoints.raises = None
    assert (await house.get(**headers)).status_code == 200
    assert await house.earned() == PRICE


async def test_unchanged_answer_is_not_paid_for(house):
    answer = await house.get(**first(), **{"If-None-Match": compute_etag(b"same")})
    assert answer.status_code == 304
    assert await house.earned() == 0


async def test_free_answer_is_not_paid_for_and_the_payment_may_be_used_again(house):
    headers = first()
    house.endpoints.is_free = True
    assert (await house.get(**headers)).status_code == 200
    assert await house.earned() == 0
    house.endpoints.is_free = False
    assert (await house.get(**headers)).status_code == 200
    assert await house.earned() == PRICE


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"value": str(PRICE + 1)}, "value"),
        ({"value": str(PRICE - 1)}, "value"),
        ({"to": OTHER.address}, "recipient"),
        ({"validBefore": "1"}, "valid_before"),
        ({"validAfter": "99999999999"}, "valid_after"),
        ({"from": OTHER.address}, "signature"),
    ],
)
async def test_payment_that_will_not_do_is_refused_with_the_standards_reason(house, changes, why):
    told = authorization(**changes)
    assert why in reason(await house.get(**first(told, signature(told))))
    assert (await house.earned(), house.endpoints.runs) == (0, 0)


@on_every_application
async def test_payer_without_funds_is_refused(house):
    told = authorization(**{"from": OTHER.address})
    assert "funds" in reason(await house.get(**first(told, signature(told, OTHER.private_key))))


@pytest.mark.parametrize("header", ["", "%%%", "bm8=", encoded([]), encoded({"x402Version": 99}), "A" * 9000])
async def test_malformed_payment_never_fails_the_server(house, header):
    answer = await house.get(**{"X-Payment": header})
    assert answer.status_code in {400, 402}
    assert house.endpoints.runs == 0


@on_every_application
async def test_books_and_chain_agree_on_what_was_earned(house):
    for _ in range(3):
        assert (await house.get(**first())).status_code == 200
    assert (await house.context.ledger.account("revenue")).balance_micros == 3 * PRICE == await house.earned()


async def test_unpaid_payments_meet_429_before_they_reach_the_chain(house, monkeypatch):
    batches = 0
    batch = house.context.per_request.x402._chain.rpc.batch

    async def counted(calls) -> list:
        nonlocal batches
        batches += 1
        return await batch(calls)

    monkeypatch.setattr(house.context.per_request.x402._chain.rpc, "batch", counted)
    unpaid = [
        first(told, signature(told, OTHER.private_key)) for told in (authorization() for _ in range(FAILURES + 20))
    ]
    answers = await asyncio.gather(*(house.get(**headers) for headers in unpaid))
    assert sorted(answer.status_code for answer in answers) == [402] * FAILURES + [429] * 20
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 429)
    assert batches <= FAILURES
    elsewhere = await house.get(**first(), **{"X-Forwarded-For": "198.51.100.9"})
    assert elsewhere.status_code == 200


@pytest.mark.parametrize("key", [RELAYER.private_key, OTHER.private_key], ids=["same key", "another key"])
async def test_of_two_servers_with_one_recipient_one_serves_a_payment(house, open_house, tmp_path, key):
    """They share the recipient and perhaps the facilitator's account, but no database."""
    async with open_house(data_dir=str(migrated_copy(tmp_path / "other")), x402_facilitator_key=key) as other:
        for _ in range(3):
            headers = first()
            answers = await asyncio.gather(*(one.get(**headers) for one in (house, other)))
            refused, served = sorted(answers, key=lambda answer: answer.status_code == 200)
            assert served.status_code == 200, served.text
            assert reason(refused) == "invalid_exact_evm_nonce_already_used"
        entered = [len(await one.context.ledger.transfers("x402", 0.0)) for one in (house, other)]
    assert sum(entered) == 3
    assert await house.earned() == 3 * PRICE


async def test_payment_whose_connection_was_cut_gets_its_answer_once_more(house):
    headers = first()
    await house.cut("GET", URL, **headers)
    await house.cut("GET", URL, **headers)
    assert (await house.get(**headers)).text == '{"run":1}'
    assert reason(await house.get(**headers)) == "invalid_exact_evm_nonce_already_used"
    assert (await house.earned(), house.endpoints.runs) == (PRICE, 1)


async def test_tool_call_whose_connection_was_cut_gets_its_answer_once_more(house):
    told = authorization()
    paid = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload(told)}
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
              "params": {"name": "page", "arguments": {}, "_meta": {"x402/payment": paid}}}  # fmt: skip
    await house.cut("POST", "/shop/mcp", json.dumps(called).encode())
    rebuilt = json.loads(json.dumps(called))
    rebuilt["params"]["_meta"]["x402/payment"]["payload"] = dict(reversed(paid["payload"].items()))
    assert (await house.tool(rebuilt))["isError"]
    answer = await house.tool(called)
    assert answer["structuredContent"] == {"run": 1}
    assert answer["_meta"]["x402/payment-response"]["success"]
    again = await house.tool(called)
    assert (again["isError"], again["structuredContent"]["error"]) == (True, "invalid_exact_evm_nonce_already_used")
    assert (await house.earned(), house.endpoints.runs) == (PRICE, 1)


class RowsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


async def test_call_that_is_not_valid_is_first_told_its_price_and_then_refused_unpaid(house):
    async def rows(_request) -> Response:
        return Response(b"[]")

    async def count(request) -> int:
        return request.query.limit

    sold = Endpoint("rows", "GET", "/rows", "Rows", rows, Terms("payer", Price(PRICE, "row", 10)), query=RowsQuery,
                    responses={"application/json": {}}, count_units=count)  # fmt: skip
    router = Router()
    router.mount(Service("shop", "Shop", "1", "", [sold], _facts, {}), "/shop")
    server = Server(house.context.settings, Admission(house.context), router, {})
    async with asgi_client(server.handle) as client:
        for query, price in (("?limit=7", PRICE + 70), ("?limit=1000", PRICE), ("?colour=red", PRICE)):
            answer = await client.get(f"/shop/rows{query}")
            (accepted,) = json.loads(b64decode(answer.headers["payment-required"]))["accepts"]
            assert (answer.status_code, accepted["amount"]) == (402, str(price))
        refused = await client.get("/shop/rows?limit=1000", headers=first())
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-parameter")
    assert await house.earned() == 0


async def test_payment_of_a_price_that_changed_takes_nothing_and_one_that_was_taken_keeps_its_price(house):
    table = ["a", "b", "c"]

    async def rows(_request) -> Response:
        return Response(json.dumps(table).encode())

    async def count(_request) -> int:
        return len(table)

    sold = Endpoint("rows", "GET", "/rows", "Rows", rows, Terms("payer", Price(PRICE, "row", 10)),
                    responses={"application/json": {}}, count_units=count)  # fmt: skip
    router = Router()
    router.mount(Service("shop", "Shop", "1", "", [sold], _facts, {}), "/shop")
    house.gate = Server(house.context.settings, Admission(house.context), router, {})

    async def price() -> str:
        return (await house.get("/shop/rows")).json()["accepts"][0]["maxAmountRequired"]

    assert await price() == str(PRICE + 30)
    table.append("d")
    refused = await house.get("/shop/rows", **first(authorization(value=str(PRICE + 30))))
    assert reason(refused) == "invalid_exact_evm_payload_authorization_value"
    assert (await price(), await house.earned()) == (str(PRICE + 40), 0)
    paid = first(authorization(value=str(PRICE + 40)))
    await house.cut("GET", "/shop/rows", **paid)
    table.append("e")
    again = await house.get("/shop/rows", **paid)
    assert (again.status_code, again.json()) == (200, ["a", "b", "c", "d"])
    assert (await house.get("/shop/rows", **paid)).status_code == 402
    assert await house.earned() == PRICE + 40
