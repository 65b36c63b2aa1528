"""A wallet's signed call: charged once when its answer leaves, whatever happens in between."""

import asyncio
import contextlib
import secrets
import socket

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from tests.fakes.collector import collecting
from tests.http.conftest import ThingBody, asgi_client
from tests.http.stock import on_every_application
from tollhouse.accounts.keys import new_key
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.paid_paths import with_paid_paths
from tollhouse.http.response import compute_etag
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import KEY_OR_AGENT, KEY_UNMETERED, WalletCaller
from tollhouse.payments.ledger.types import TREASURY, Transfer, agent_account
from tollhouse.tracing import open_tracing

PRICE = 10_000
FAILURES = 40
WALLET = Account.from_key(b"\x07" * 32)


class ShopEndpoints:
    """A service whose handlers tell how often they ran, and wait or fail when told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.hold = None
        self.begun = asyncio.Event()
        self.raises = None
        self.is_free = False

    async def page(self, _asked):
        self.runs += 1
        self.begun.set()
        if self.hold:
            await self.hold.wait()
        if self.raises:
            raise self.raises
        body = b'{"run":%d}' % self.runs
        headers = ((b"x-run", b"%d" % self.runs),)
        return Response(body, etag=compute_etag(b"always the same"), headers=headers, is_free=self.is_free)

    def operations(self):
        kinds = {"application/json": {}}
        return [
            Endpoint("page", "GET", "/page", "", self.page, KEY_OR_AGENT, responses=kinds),
            Endpoint("ask", "POST", "/ask", "", self.page, KEY_OR_AGENT, body=ThingBody, responses=kinds),
            Endpoint("keyOnly", "GET", "/key-only", "", self.page, KEY_UNMETERED, responses=kinds),
        ]


class House:
    """The server of some endpoints, its context, and one registered wallet."""

    def __init__(self, context, endpoints, gate, agent) -> None:
        self.context, self.endpoints, self.gate, self.agent = context, endpoints, gate, agent
        self._deposits = 0

    async def deposit(self, micros):
        self._deposits += 1
        account = agent_account(self.agent.agent_id)
        await self.context.ledger.move(Transfer(f"deposit:{self._deposits}", TREASURY, account, micros, "deposit"))

    async def balance(self):
        account = await self.context.ledger.account(agent_account(self.agent.agent_id))
        assert account.reserved_micros == 0
        return account.balance_micros

    async def call(self, path="/page", headers=None, method="GET", **sent: object):
        async with asgi_client(self.gate.handle) as client:
            return await client.request(method, f"/mounted{path}", headers=headers or signed(path), **sent)


@contextlib.asynccontextmanager
async def own_service(endpoints):
    yield Service("shop", "Shop", "1", "", endpoints.operations(), _health, {})


@contextlib.asynccontextmanager
async def serving(database_url, folder, served=None, **values: object):
    endpoints = served or ShopEndpoints()
    url = database_url.replace("+aiosqlite", "")
    settings = Settings(data_dir=str(folder), database_url=url, failed_attempts_per_minute=FAILURES, **values)
    async with open_context(settings) as context, contextlib.AsyncExitStack() as stack:
        opened = served.service(context, 'access = "key"\nprice_usd = 0.01') if served else own_service(endpoints)
        router = Router()
        router.mount(with_paid_paths(await stack.enter_async_context(opened)), "/mounted")
        agent = await context.wallets.register(WALLET.address)
        yield House(context, endpoints, Server(settings, Admission(context), router, {}), agent)
        report = await context.ledger.verify()
        assert report.balanced, report.differences


@pytest.fixture
async def house(database_url, tmp_path, served):
    async with serving(database_url, tmp_path, served) as house:
        yield house


async def _health() -> dict[str, str]:
    return {}


def signed(path, wallet=WALLET, nonce=None, **headers: str):
    nonce = nonce or secrets.token_hex(16)
    signature = wallet.sign_message(encode_defunct(text=f"service:{path}:{nonce}")).signature.hex()
    return {"X-Agent-Address": wallet.address, "X-Agent-Nonce": nonce, "X-Agent-Signature": signature, **headers}


def code_of(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json()["code"]


async def test_signed_call_is_answered_and_charged(house):
    await house.deposit(3 * PRICE)
    with collecting() as collector:
        async with open_tracing(collector.url, "1"):
            answer = await house.call()
    assert answer.status_code == 200
    (request,) = [one for one in collector.spans if one.kind == 2]
    assert (request.attributes["tollhouse.payment"], request.attributes["tollhouse.caller"]) == ("credit", "wallet")
    children = [one.name for one in collector.spans if one.parent_id == request.span_id]
    assert children == ["payment verification", "handler", "payment settlement"]
    assert answer.headers["x-credits-tier"] == "agent"
    assert (answer.headers["x-ratelimit-limit"], answer.headers["x-ratelimit-remaining"]) == ("1000", "999")
    assert await house.balance() == 2 * PRICE


async def test_call_signed_with_its_query_is_answered(house):
    await house.deposit(PRICE)
    answer = await house.call("/page?", signed("/page"))
    assert answer.status_code == 200


@on_every_application
async def test_replay_is_refused_and_costs_nothing(house):
    await house.deposit(3 * PRICE)
    headers = signed("/page")
    assert (await house.call(headers=headers)).status_code == 200
    again = await house.call(headers=headers)
    assert code_of(again, 401) == "nonce-reused"
    assert again.headers["www-authenticate"]
    assert await house.balance() == 2 * PRICE
    assert house.endpoints.runs == 1


@on_every_application
async def test_nonce_in_other_letters_is_the_same_nonce(house):
    await house.deposit(3 * PRICE)
    nonce = secrets.token_hex(16)
    assert (await house.call(headers=signed("/page", nonce=nonce))).status_code == 200
    for spelling in (nonce.upper(), f"0x{nonce}"):
        assert code_of(await house.call(headers=signed("/page", nonce=spelling)), 401) == "nonce-reused"


@on_every_application
async def test_twenty_replays_at_once_are_one_call(house):
    await house.deposit(30 * PRICE)
    headers = signed("/page")
    answers = await asyncio.gather(*(house.call(headers=headers) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 19
    assert await house.balance() == 29 * PRICE
    assert house.endpoints.runs == 1


@on_every_application
async def test_fifty_calls_at_once_are_served_as_far_as_the_money_goes(house):
    await house.deposit(20 * PRICE)
    answers = await asyncio.gather(*(house.call() for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] * 20 + [402] * 30
    assert await house.balance() == 0


async def test_signature_for_another_path_opens_nothing(house):
    await house.deposit(PRICE)
    for path in ("/other", "/mounted/page", "/page/"):
        assert code_of(await house.call("/page", signed(path)), 401) == "invalid-signature"
    assert await house.balance() == PRICE


async def test_unregistered_wallet_is_told_to_register(house):
    answer = await house.call(headers=signed("/page", Account.create()))
    assert code_of(answer, 401) == "invalid-signature"
    assert "/api/agent/register" in answer.json()["detail"]


@on_every_application
async def test_wallet_without_money_is_refused_leaves_no_row_and_keeps_its_nonce(house):
    await house.deposit(PRICE - 1)
    rows = (await house.context.ledger.verify()).transfers
    headers = signed("/page")
    for _ in range(3):
        answer = await house.call(headers=headers)
        assert code_of(answer, 402) == "insufficient-balance"
        assert (answer.json()["balance_usd"], answer.json()["price_usd"]) == ("0.009999", "0.01")
    assert (await house.context.ledger.verify()).transfers == rows
    await house.deposit(PRICE)
    assert (await house.call(headers=headers)).status_code == 200
    assert await house.balance() == PRICE - 1


async def test_refused_call_takes_nothing_of_the_minute(house):
    await house.call()
    await house.deposit(PRICE)
    assert (await house.call()).headers["x-ratelimit-remaining"] == "999"


@on_every_application
async def test_call_refused_by_its_handler_costs_nothing_and_uses_its_nonce(house):
    await house.deposit(PRICE)
    house.endpoints.raises = Problem("not-found", "No.")
    headers = signed("/page")
    assert (await house.call(headers=headers)).status_code == 404
    house.endpoints.raises = None
    assert code_of(await house.call(headers=headers), 401) == "nonce-reused"
    assert await house.balance() == PRICE


@on_every_application
@pytest.mark.parametrize(
    "failure",
    [Problem("upstream-unavailable", "No.", upstream="x"), Problem("rate-limited", "Later."), ZeroDivisionError()],
)
async def test_call_that_failed_before_an_answer_may_be_sent_again(house, failure):
    await house.deposit(PRICE)
    house.endpoints.raises = failure
    headers = signed("/page")
    assert (await house.call(headers=headers)).status_code in {429, 500, 502}
    assert await house.balance() == PRICE
    house.endpoints.raises = None
    assert (await house.call(headers=headers)).status_code == 200
    assert await house.balance() == 0
    assert code_of(await house.call(headers=headers), 401) == "nonce-reused"


@on_every_application
async def test_call_over_the_minute_is_refused_before_anything_is_stored(house):
    await house.deposit(3 * PRICE)
    windows = house.context.plans.windows_of(WalletCaller(house.agent.agent_id, WALLET.address))
    reserved = [await house.context.meter.reserve(house.agent.agent_id, windows) for _ in range(windows.per_sliding)]
    rows = (await house.context.ledger.verify()).transfers
    headers = signed("/page")
    answer = await house.call(headers=headers)
    assert code_of(answer, 429) == "rate-limited"
    assert int(answer.headers["retry-after"]) > 0
    assert (await house.context.ledger.verify()).transfers == rows
    await house.context.meter.release(reserved[0])
    assert (await house.call(headers=headers)).status_code == 200


async def test_unfunded_wallet_meets_429_and_leaves_no_rows(house):
    rows = (await house.context.ledger.verify()).transfers
    answers = [await house.call() for _ in range(FAILURES + 5)]
    assert [answer.status_code for answer in answers] == [402] * FAILURES + [429] * 5
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert (await house.context.ledger.verify()).transfers == rows


async def test_wrong_signatures_meet_429_and_a_wallet_that_pays_does_not(house):
    await house.deposit(3 * PRICE)
    assert (await house.call()).status_code == 200
    statuses = [(await house.call("/page", signed("/other"))).status_code for _ in range(FAILURES + 5)]
    assert statuses == [401] * FAILURES + [429] * 5
    assert (await house.call()).status_code == 200


async def test_unregistered_wallets_meet_429(house):
    statuses = [(await house.call(headers=signed("/page", Account.create()))).status_code for _ in range(FAILURES + 2)]
    assert statuses == [401] * FAILURES + [429] * 2


async def test_wrong_keys_meet_429_and_a_key_that_worked_does_not(house):
    key = {"Authorization": f"Bearer {(await house.context.keys.create('ada@example.org', 'pro')).text}"}
    assert (await house.call(headers=key)).status_code == 200
    wrong = [{"Authorization": f"Bearer {new_key()}"} for _ in range(FAILURES + 5)]
    statuses = [(await house.call(headers=headers)).status_code for headers in wrong]
    assert statuses == [401] * FAILURES + [429] * 5
    assert (await house.call(headers=key)).status_code == 200


async def test_unchanged_answer_costs_nothing(house):
    await house.deposit(2 * PRICE)
    etag = (await house.call()).headers["etag"]
    answer = await house.call(headers=signed("/page", **{"If-None-Match": etag}))
    assert answer.status_code == 304
    assert await house.balance() == PRICE


async def test_free_answer_costs_nothing_and_uses_its_nonce(house):
    await house.deposit(PRICE)
    house.endpoints.is_free = True
    headers = signed("/page")
    assert (await house.call(headers=headers)).status_code == 200
    assert await house.balance() == PRICE
    assert code_of(await house.call(headers=headers), 401) == "nonce-reused"


async def test_key_and_signature_together_are_ambiguous(house):
    answer = await house.call(headers=signed("/page", Authorization="Bearer th_live_x"))
    assert code_of(answer, 400) == "ambiguous-credentials"


@pytest.mark.parametrize("name", ["X-Agent-Address", "X-Agent-Nonce", "X-Agent-Signature"])
async def test_half_a_signature_says_what_is_missing(house, name):
    headers = signed("/page")
    del headers[name]
    answer = await house.call(headers=headers)
    assert code_of(answer, 401) == "missing-credentials"
    assert name in answer.json()["detail"]


async def test_operation_without_a_price_wants_a_key(house):
    assert code_of(await house.call("/key-only", signed("/key-only")), 401) == "missing-credentials"


@on_every_application
async def test_posted_call_binds_its_body_to_the_nonce(house):
    await house.deposit(2 * PRICE)
    headers = signed("/ask")
    answer = await house.call("/ask", headers, "POST", json={"name": "a"})
    assert answer.status_code == 200
    assert code_of(await house.call("/ask", headers, "POST", json={"name": "b"}), 401) == "nonce-reused"


async def leaves(house, headers, path="/page"):
    """A call whose client goes away while it is worked on."""
    house.endpoints.hold = asyncio.Event()
    gone = asyncio.Event()
    first = asyncio.Event()

    async def receive() -> dict[str, object]:
        if not first.is_set():
            first.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_message) -> None:
        """Whatever is sent is lost."""

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/mounted{path}",
        "raw_path": f"/mounted{path}".encode(),
        "query_string": b"",
        "headers": [(b"host", b"test")] + [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    task = asyncio.create_task(house.gate.handle(scope, receive, send))
    await house.endpoints.begun.wait()
    gone.set()
    await asyncio.sleep(0.001)
    house.endpoints.hold.set()
    await task
    house.endpoints.hold = None


async def test_answer_that_did_not_arrive_is_given_again_for_nothing(house):
    await house.deposit(2 * PRICE)
    headers = signed("/page")
    await leaves(house, headers)
    assert await house.balance() == PRICE
    again = await house.call(headers=headers)
    assert (again.status_code, again.json(), again.headers["x-run"]) == (200, {"run": 1}, "1")
    assert await house.balance() == PRICE
    assert code_of(await house.call(headers=headers), 401) == "nonce-reused"


async def test_kept_answer_is_for_the_same_request_only(house):
    await house.deposit(2 * PRICE)
    headers = signed("/page")
    await leaves(house, headers)
    assert code_of(await house.call("/page?x=1", headers), 401) == "nonce-reused"
    assert (await house.call(headers=headers)).status_code == 200


async def test_call_broken_off_by_the_server_costs_nothing(house):
    await house.deposit(PRICE)
    house.endpoints.hold = asyncio.Event()
    task = asyncio.create_task(house.call())
    await house.endpoints.begun.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await house.balance() == PRICE


async def test_call_broken_off_by_the_server_may_be_sent_again(house):
    await house.deposit(PRICE)
    house.endpoints.hold = asyncio.Event()
    headers = signed("/page")
    task = asyncio.create_task(house.call(headers=headers))
    await house.endpoints.begun.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    house.endpoints.hold = None
    assert (await house.call(headers=headers)).status_code == 200


async def test_lost_redis_burns_no_nonce(database_url, tmp_path, redis_url):
    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        own_port = probe.getsockname()[1]

    ends = []

    async def connect(reader, writer) -> None:
        """A wire to Redis."""
        ends.append(writer)
        to_redis = await asyncio.open_connection("127.0.0.1", port)
        ways = [(reader, to_redis[1]), (to_redis[0], writer)]
        try:
            await asyncio.wait([asyncio.create_task(_pipe(*way)) for way in ways], return_when="FIRST_COMPLETED")
        finally:
            writer.close()
            to_redis[1].close()

    url = f"redis://127.0.0.1:{own_port}/{redis_url.rpartition('/')[2]}"
    async with serving(database_url, tmp_path, redis_url=url) as house:
        await house.deposit(30 * PRICE)
        calls = [signed("/page") for _ in range(15)]
        for headers in calls:
            assert code_of(await house.call(headers=headers), 503) == "storage-unavailable"
        house.endpoints.hold = asyncio.Event()
        async with await asyncio.start_server(connect, "127.0.0.1", own_port) as wire:
            waiting = asyncio.create_task(house.call(headers=calls[0]))
            await house.endpoints.begun.wait()
            house.endpoints.raises = Problem("upstream-unavailable", "No.", upstream="x")
            wire.close()
            for end in ends:
                end.close()
        house.endpoints.hold.set()
        assert (await waiting).status_code == 502  # Redis was lost meanwhile: the count stays, the nonce does not
        house.endpoints.hold = house.endpoints.raises = None
        async with await asyncio.start_server(connect, "127.0.0.1", own_port):
            for headers in calls:
                assert (await house.call(headers=headers)).status_code == 200
        assert await house.balance() == 15 * PRICE


async def _pipe(reader, writer) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
