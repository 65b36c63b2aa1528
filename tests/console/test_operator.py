"""The operator's operations: closed to everybody else, and true to the books, deliveries and sources."""

import asyncio
import re
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.console.operator_day import GONE, live_through
from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tollhouse import app, clock
from tollhouse.admission.context import open_context
from tollhouse.admission.operator_access import CODE_SECONDS, SESSION_SECONDS, TOKEN_FILE, OperatorAccess
from tollhouse.config.settings import SettingError, Settings
from tollhouse.payments.ledger.types import REVENUE, TREASURY, Reserved, Transfer
from tollhouse.webhooks import outbox

OWN = "http://127.0.0.1:8000"
SET = {"operator_token": "the-operators-own-token"}
TOKEN = {"Authorization": "Bearer the-operators-own-token"}
# These tests only read, so they share one server and its event loop.
SHARED = pytest.mark.asyncio(loop_scope="module")
READS = ("traffic", "calls", "revenue", "transfers", "audit", "deliveries", "sources", "chain")


def settings_of(data_dir, **options: Any) -> Settings:
    return Settings(data_dir=str(data_dir), recorded=False, background_work=False, service="studio", **options)


@asynccontextmanager
async def served(data_dir, **options: Any):
    async with app.serving(settings_of(data_dir, **options)) as gate, asgi_client(gate.handle) as client:
        yield client


@asynccontextmanager
async def browser_of(gate, *, peer="127.0.0.1", listening="127.0.0.1"):
    """A client that keeps cookies, of a server that listens on this address."""

    async def handle(scope, receive, send) -> None:
        await gate.handle({**scope, "server": (listening, "8000")}, receive, send)

    transport = httpx2.ASGITransport(app=handle, client=(peer, 1))
    async with httpx2.AsyncClient(transport=transport, base_url=OWN) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gate(tmp_path_factory):
    """A server that tests only read."""
    own = {"public_url": "https://api.example.org", "allowed_hosts": ("books.example.org:444",), **SET}
    async with app.serving(settings_of(migrated_copy(tmp_path_factory.mktemp("served")), **own)) as gate:
        yield gate


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_browser(shared_gate):
    """A browser with a session."""
    async with browser_of(shared_gate) as browser:
        await browser.post("/operator/api/session", headers=TOKEN)
        yield browser


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer guessed"}, {"Authorization": "Basic dG8="},
                                     {"Cookie": "tollhouse_operator=9999999999.aa.bb"}])  # fmt: skip
async def test_whoever_lacks_the_token_is_refused_wherever_he_is(data_dir, headers):
    async with app.serving(settings_of(data_dir)) as gate:
        for peer in ("127.0.0.1", "::1", "198.51.100.7"):
            async with browser_of(gate, peer=peer) as client:
                for path in (*(f"/operator/api/{name}" for name in READS), "/metrics"):
                    answer = await client.get(path, headers=headers)
                    assert (answer.status_code, answer.json()["code"]) == (401, "missing-credentials"), path
                for method, path in (("POST", "deliveries/x/replay"), ("POST", "session"), ("DELETE", "session")):
                    answer = await client.request(method, f"/operator/api/{path}", headers=headers)
                    assert answer.status_code == 401, path
                assert (await client.get("/operator")).status_code == 200


async def test_first_start_makes_a_token_that_only_its_owner_can_read(data_dir):
    async with served(data_dir) as client:
        file = data_dir / TOKEN_FILE
        token = file.read_text()
        assert len(token) >= 20
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert (await client.get("/metrics", headers={"Authorization": f"Bearer {token}"})).status_code == 200
    async with served(data_dir) as client:
        assert file.read_text() == token
        assert (await client.get("/metrics", headers={"Authorization": f"Bearer {token}"})).status_code == 200


@pytest.mark.parametrize("text", ["", "short", "a token with spaces in it", "é" * 30])
async def test_damaged_token_file_stops_the_start(data_dir, text):
    (data_dir / TOKEN_FILE).write_text(text)
    with pytest.raises(SettingError, match=r"operator_token: .*at least 20 characters"):
        async with served(data_dir):
            pass


async def test_processes_that_start_together_agree_on_one_token(tmp_path):
    processes = [OperatorAccess(settings_of(tmp_path)) for _ in range(16)]
    made = await asyncio.gather(*(asyncio.to_thread(lambda each=each: each.token) for each in processes))
    assert len(set(made)) == 1
    assert [file.name for file in tmp_path.iterdir()] == [TOKEN_FILE]


async def test_login_link_opens_one_session_once(data_dir):
    access = OperatorAccess(settings_of(data_dir, public_url=OWN))
    link = access.new_login_link()
    async with app.serving(settings_of(data_dir, public_url=OWN)) as gate:
        async with browser_of(gate) as browser:
            assert (await browser.head(link)).status_code == 303
            opened = await browser.get(link)
            assert (opened.status_code, opened.headers["location"]) == (303, "/operator")
            cookie = opened.headers["set-cookie"]
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
            assert re.search(r"Max-Age=\d+", cookie)
            for path in READS:
                assert (await browser.get(f"/operator/api/{path}")).status_code == 200
            assert (await browser.get("/metrics")).status_code == 200
            assert (await browser.get("/operator/api/session")).json()["expires_at"] is not None
        async with browser_of(gate) as other:
            again = await other.get(link)
            assert (again.status_code, again.json()["code"]) == (401, "missing-credentials")
            assert "set-cookie" not in again.headers
            assert (await other.get("/operator/api/revenue")).status_code == 401
            assert (await other.get("/operator/api/session")).json() == {"expires_at": None}


async def test_login_link_raced_by_many_opens_one_session(data_dir):
    link = OperatorAccess(settings_of(data_dir, public_url=OWN)).new_login_link()
    async with app.serving(settings_of(data_dir, public_url=OWN)) as gate, browser_of(gate) as browser:
        opened = await asyncio.gather(*(browser.get(link) for _ in range(20)))
        assert sorted(answer.status_code for answer in opened) == [303, *[401] * 19]


async def test_link_and_session_expire(data_dir, monkeypatch):
    now = time.time()
    link = OperatorAccess(settings_of(data_dir, public_url=OWN)).new_login_link()
    used = OperatorAccess(settings_of(data_dir, public_url=OWN)).new_login_link()
    async with app.serving(settings_of(data_dir, public_url=OWN)) as gate, browser_of(gate) as browser:
        assert (await browser.get(used)).status_code == 303
        monkeypatch.setattr(clock, "seconds", lambda: now + CODE_SECONDS + 1)
        assert (await browser.get("/operator/api/revenue")).status_code == 200
        assert (await browser.get(link)).status_code == 401
        monkeypatch.setattr(clock, "seconds", lambda: now + SESSION_SECONDS + 1)
        assert (await browser.get("/operator/api/revenue")).status_code == 401


async def test_session_holds_in_every_worker_until_the_token_is_another(data_dir):
    async with app.serving(settings_of(data_dir, **SET)) as gate, browser_of(gate) as browser:
        cookie = (await browser.post("/operator/api/session", headers=TOKEN)).headers["set-cookie"].partition(";")[0]
    async with app.serving(settings_of(data_dir, **SET)) as gate, browser_of(gate) as browser:
        assert (await browser.get("/operator/api/revenue", headers={"Cookie": cookie})).status_code == 200
        longer = cookie.replace("=", "=9", 1)
        assert (await browser.get("/operator/api/revenue", headers={"Cookie": longer})).status_code == 401
        both = f"tollhouse_operator=of-another-server; {cookie}"
        assert (await browser.get("/operator/api/revenue", headers={"Cookie": both})).status_code == 200
    other = settings_of(data_dir, operator_token="another-token-of-the-operator")
    async with app.serving(other) as gate, browser_of(gate) as browser:
        assert (await browser.get("/operator/api/revenue", headers={"Cookie": cookie})).status_code == 401


async def test_log_out_ends_the_session_of_the_browser(data_dir):
    async with app.serving(settings_of(data_dir, **SET)) as gate, browser_of(gate) as browser:
        await browser.post("/operator/api/session", headers=TOKEN)
        assert (await browser.get("/operator/api/revenue")).status_code == 200
        assert (await browser.delete("/operator/api/session")).status_code == 200
        assert (await browser.get("/operator/api/revenue")).status_code == 401


@SHARED
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200), ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": OWN}, 200), ({"Origin": "http://127.0.0.1:9999"}, 403), ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        # A name of another site that its owner pointed at this machine: the browser thinks it is one origin.
        ({"Origin": "http://evil.example", "Host": "evil.example"}, 403), ({"Host": "evil.example:8000"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403), ({"Host": "localhost:8000"}, 200), ({"Host": "[::1]:8000"}, 200),
        ({"Host": "192.0.2.1"}, 403), ({"Host": "LOCALHOST.:8000"}, 200),
    ],
)  # fmt: skip
async def test_session_counts_only_at_a_host_of_this_server_and_for_its_own_pages(open_browser, headers, status):
    for method, path in (("GET", "revenue"), ("POST", "deliveries/none/replay")):
        answer = await open_browser.request(method, f"/operator/api/{path}", headers=headers)
        assert answer.status_code == (status if method == "GET" or status == 403 else 404)
        assert status != 403 or answer.json()["code"] == "origin-not-allowed"


@SHARED
@pytest.mark.parametrize(("listening", "host", "status"), [
    ("127.0.0.1", "evil.example", 403), ("127.0.0.1", "10.0.0.5", 403), ("0.0.0.0", "10.0.0.5:8000", 200),  # noqa: S104
    ("0.0.0.0", "evil.example", 403), ("::", "[2001:db8::1]", 200), ("10.0.0.5", "10.0.0.5", 200),  # noqa: S104
    ("10.0.0.5", "127.0.0.1", 403), ("127.0.0.1", "api.example.org", 200), ("127.0.0.1", "books.example.org:444", 200),
    ("127.0.0.1", "books.example.org", 403), ("127.0.0.1", "", 400),
])  # fmt: skip
async def test_operators_page_is_shown_at_hosts_of_this_server(shared_gate, listening, host, status):
    async with browser_of(shared_gate, listening=listening) as browser:
        assert (await browser.get("/operator", headers={"Host": host})).status_code == status


@SHARED
async def test_cookie_is_secure_where_the_public_url_is_https(shared_gate):
    headers = {**TOKEN, "Host": "api.example.org", "Origin": "https://api.example.org"}
    async with browser_of(shared_gate) as browser:
        secure = await browser.post("/operator/api/session", headers=headers)
        assert secure.headers["set-cookie"].endswith("; Secure")
        assert "Secure" not in (await browser.post("/operator/api/session", headers=TOKEN)).headers["set-cookie"]
        plain = await browser.post("/operator/api/session", headers={**headers, "Origin": "http://api.example.org"})
        assert plain.status_code == 403


@SHARED
async def test_program_with_the_token_may_use_any_name_of_the_server(shared_gate):
    async with browser_of(shared_gate) as client:
        answer = await client.get("/metrics", headers={**TOKEN, "Host": "tollhouse-1.internal:8000"})
        assert answer.status_code == 200


@SHARED
async def test_page_of_another_origin_may_not_even_ask_for_an_operators_path(shared_gate):
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization"}  # fmt: skip
    async with browser_of(shared_gate) as client:
        answer = await client.options("/operator/api/revenue", headers=asks)
        assert (answer.status_code, answer.headers["allow"]) == (200, "GET, HEAD, OPTIONS")
        assert "access-control-allow-headers" not in answer.headers


async def test_metrics_are_open_where_the_settings_say_so(data_dir):
    async with served(data_dir, metrics_open=True) as client:
        assert "tollhouse_requests_in_flight" in (await client.get("/metrics")).text
        assert (await client.get("/operator/api/revenue")).status_code == 401


async def test_operators_listener_is_the_only_one_that_has_the_operators_paths(data_dir):
    settings = settings_of(data_dir, operator_listen="127.0.0.1:9000", **SET)
    paths = ("/operator", "/operator/login?code=x", "/operator/api/session", "/operator/api/revenue", "/metrics")
    async with app.serving(settings) as gate:
        async with browser_of(gate) as public:
            for path in paths:
                assert (await public.get(path, headers=TOKEN)).status_code == 404, path
            assert "/operator" not in (await public.get("/keys")).text
        own = partial(gate.handle, is_for_operator=True)
        async with asgi_client(own, "http://127.0.0.1:9000") as operator:
            expected = (200, 401, 200, 200, 200)
            answers = [await operator.get(path, headers=TOKEN if "login" not in path else {}) for path in paths]
            assert tuple(answer.status_code for answer in answers) == expected
            page = (await operator.get("/")).text
            for address in re.findall(r'(?:href|src)="(/[^"#]*)"', page):
                assert (await operator.get(address)).status_code == 200, address
            assert (await operator.get("/api/catalogue")).status_code == 404


async def test_figures_are_those_of_the_ledger(data_dir):
    async with open_context(settings_of(data_dir)) as context:
        await context.ledger.move(Transfer("deposit-1", TREASURY, "agent:a", 2_000_000, "deposit"))
        for number in range(3):
            reserved = await context.ledger.reserve(f"call-{number}", "agent:a", REVENUE, 10_000, "call", b"print")
            assert isinstance(reserved, Reserved)
            await context.ledger.post(f"call-{number}", None)
        await context.ledger.move(Transfer("x402-1", "x402", REVENUE, 1_000, "x402"))
        await context.ledger.reserve("open", "agent:a", REVENUE, 10_000, "call", b"print")
        await context.ledger.void("open")
    async with served(data_dir, **SET) as client:
        revenue = (await client.get("/operator/api/revenue", headers=TOKEN)).json()
        assert (revenue["revenue_usd"], revenue["by_agents_usd"], revenue["per_request_usd"]) == (
            "0.031",
            "0.03",
            "0.001",
        )
        assert len(revenue["days"]) == 35
        today = {"credit_usd": "0.03", "per_request_usd": "0.001", "reversed_usd": "0.00", "revenue_usd": "0.031"}
        assert revenue["today"] == revenue["days"][-1] == today | {"at": revenue["today"]["at"], "payments": 4}
        assert (revenue["yesterday"]["revenue_usd"], revenue["last_7_days_usd"]) == ("0.00", "0.031")
        assert (revenue["subscriptions"], revenue["verified"]) == (None, None)
        accounts = {account["name"]: account for account in revenue["accounts"]}
        assert accounts["treasury"]["balance_usd"] == "-2.00"
        listed = (await client.get("/operator/api/transfers?account=agent:a&limit=3", headers=TOKEN)).json()
        assert listed["count"] == 3
        assert listed["transfers"][0]["state"] == "voided"
        assert {transfer["amount_usd"] for transfer in listed["transfers"]} == {"0.01"}
        audit = (await client.get("/operator/api/audit", headers=TOKEN)).json()
        assert (audit["balanced"], audit["transfers"], audit["differences"]) == (True, 6, [])
        verified = (await client.get("/operator/api/revenue", headers=TOKEN)).json()["verified"]
        assert verified["result"] == audit


async def test_wallet_paid_what_the_ledger_says_in_each_window(data_dir, monkeypatch):
    """It paid 0.01 USD at half past each hour of 60, the current one included."""
    half_past = clock.seconds() // 3_600 * 3_600 + 1_800
    monkeypatch.setattr(clock, "seconds", lambda: half_past)
    await live_through(data_dir, hours=60)
    async with open_context(settings_of(data_dir), answers_calls=False) as context, served(data_dir, **SET) as client:
        for _ in range(2):
            # From quarter to the hour of the day before, for callers from the full hour.
            for window, paid, revenue in (
                ("hour", "0.01", "0.011"), ("day", "0.25", "0.264"), ("week", "0.61", "0.671"),
            ):  # fmt: skip
                traffic = (await client.get(f"/operator/api/traffic?window={window}", headers=TOKEN)).json()
                assert {one["paid_usd"] for one in traffic["callers"] if one["caller"] == "agent_0001"} == {paid}
                assert traffic["revenue"]["total_usd"] == revenue
            await context.ledger.sum_up()


async def test_parked_delivery_is_sent_again_and_an_unknown_one_is_404(data_dir):
    async with open_context(settings_of(data_dir, webhook_allow_loopback=True)) as context:
        webhooks = context.webhooks
        vetted = await webhooks.subscriptions.validate("http://127.0.0.1:65009/hook")
        async with context.database.writing() as transaction:
            await webhooks.subscriptions.add(transaction, "studio", vetted, "ada@example.org")
            await outbox.put(transaction, "studio", "product.created", {"number": 1}, "prod_1")
        await webhooks.deliver_due()
    async with served(data_dir, **SET, webhook_allow_loopback=True) as client:
        listed = (await client.get("/operator/api/deliveries", headers=TOKEN)).json()
        (endpoint,), (delivery,) = listed["endpoints"], listed["deliveries"]
        assert endpoint["url"] == "http://127.0.0.1:65009/hook"
        assert "secret" not in endpoint
        assert (delivery["state"], delivery["attempt_count"]) == ("pending", 1)
        assert (await client.get("/operator/api/deliveries?state=parked", headers=TOKEN)).json()["count"] == 0
        again = await client.post(f"/operator/api/deliveries/{delivery['id']}/replay", headers=TOKEN)
        assert (again.status_code, again.json()["state"]) == (200, "pending")
        unknown = await client.post("/operator/api/deliveries/whd_none/replay", headers=TOKEN)
        assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
        wrong = await client.get("/operator/api/deliveries?state=lost", headers=TOKEN)
        assert (wrong.status_code, wrong.json()["parameter"]) == (400, "state")


async def test_sources_are_the_health_of_every_service(data_dir):
    async with served(data_dir, **SET) as client:
        answer = (await client.get("/operator/api/sources", headers=TOKEN)).json()
        services = answer["services"]
        document = {"service": "studio", "source": "document", "status": "ok", "last_error": None, "rows": None}
        assert answer["sources"] == [document | {"age_seconds": None}]
        assert set(services) == {"studio"}
        assert services["studio"]["document"]["served_from"] == "file"


async def test_calls_are_counted_by_outcome_caller_and_payment_without_secrets(data_dir):
    async with served(data_dir, **SET, free_per_ip_per_day=2) as client:
        made = (await client.post("/api/keys/create", json={"email": "ada@example.org", "label": "robot"})).json()
        key = {"Authorization": f"Bearer {made['api_key']}"}
        await client.get("/api/catalogue")
        assert (await client.get("/api/catalogue?secret=th_live_notakey")).status_code == 400
        assert (await client.get("/nowhere")).status_code == 404
        assert (await client.get("/api/keys/verify", headers=key)).status_code == 200
        assert (await client.get("/api/keys/verify", headers={"Authorization": "Bearer wrong"})).status_code == 401
        await client.get("/keys")
        await client.get("/health")
        traffic = (await client.get("/operator/api/traffic?window=hour", headers=TOKEN)).json()
        assert (traffic["total"]["requests"], traffic["total"]["refused"], traffic["pages"]) == (6, 3, 2)
        assert traffic["total"]["p99_ms"] > 0
        assert sum(point["requests"] for point in traffic["points"]) == 6
        assert (len(traffic["points"]), traffic["width_seconds"]) == (60, 60)
        assert {one["code"]: one["operations"] for one in traffic["refusals"]} == {
            "invalid-key": [["studio verifyKey", 1]],
            "invalid-parameter": [["studio getStudioCatalogue", 1]],
            "not-found": [["unrouted", 1]],
        }
        by_kind = {one["kind"]: one for one in traffic["callers"]}
        # Reading its own state is no use of a key.
        assert "key" not in by_kind
        assert by_kind["address"]["caller"].startswith("127.0.0.0/24 ")

        text = (await client.get("/operator/api/calls", headers=TOKEN)).text
        assert made["api_key"] not in text
        assert "notakey" not in text
        assert "127.0.0.1" not in text
        for query, number in {
            "status=4xx": 3, "status=404": 1, "code=invalid-key": 1, "caller=robot": 1, "caller=127.0.0": 5,
            "operation=studio getStudioCatalogue": 2, "operation=%25": 0, "limit=2": 2,
        }.items():  # fmt: skip
            assert (await client.get(f"/operator/api/calls?{query}", headers=TOKEN)).json()["count"] == number, query
        for query, parameter in {"status=9xx": "status", "limit=0": "limit", "calller=x": "calller"}.items():
            refused = await client.get(f"/operator/api/calls?{query}", headers=TOKEN)
            assert (refused.status_code, refused.json()["parameter"]) == (400, parameter)
        for query in ("window=year", "operation=" + "x" * 300):
            assert (await client.get(f"/operator/api/traffic?{query}", headers=TOKEN)).status_code == 400
        for query in (
            "since=2026-13-01&until=2026-01-01",
            "since=2026-02-01&until=2026-01-01",
            "since=2020-01-01&until=2026-01-01",
        ):
            assert (await client.get(f"/operator/api/statement?{query}", headers=TOKEN)).status_code == 400


@pytest.fixture(scope="module")
def weeks_server(start_server, tmp_path_factory):
    """A server with a week of calls, payments and a webhook that fails."""
    home = tmp_path_factory.mktemp("week")
    # In a thread, because the browser's event loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, live_through(migrated_copy(home / "data"), hours=60)).result()
    return start_server(
        "studio", home=home, is_recorded=False, webhook_allow_loopback=True, operator_token=SET["operator_token"]
    )


# The last of the module: while its browser is open, no other test can run an event loop.
def test_operator_finds_yesterdays_revenue_and_a_failed_webhook(visit, weeks_server):
    """Every hour of the past brought 0.01 USD of wallet credit and 0.001 USD per request."""
    visitor = visit(root=weeks_server.root)
    page = visitor.page
    visitor.open("/operator")
    page.get_by_label("Operator token").fill(SET["operator_token"])
    page.get_by_role("button", name="Log in").click()
    tile = page.locator(".op-tile", has_text="Yesterday")
    # In the last hour of a day, that day brought as much.
    tile.get_by_text("0.264").first.wait_for()
    assert "48 payments" in tile.inner_text()
    attention = page.locator("#attention li", has_text="Webhook failing")
    assert GONE in attention.inner_text()
    assert "1 parked" in attention.inner_text()
    attention.get_by_role("link", name="Webhooks").click()
    page.get_by_role("button", name="Send 1 parked delivery again").click()
    page.locator("#attention li", has_text="0 parked").wait_for()
    assert page.get_by_role("button", name="Send 1 parked").count() == 0

    page.get_by_role("link", name="Week").click()
    page.wait_for_url("**/operator?window=week**")
    page.locator(".op-tile", has_text="Requests").get_by_text("1,220").wait_for()
    page.get_by_role("link", name="rate-limited").click()
    page.wait_for_url("**code=rate-limited**")
    rows = page.locator("#calls tbody tr")
    page.locator("#calls tbody tr:has-text('200')").first.wait_for(state="detached")
    assert rows.count() > 0
    assert set(rows.locator(".op-status").all_inner_texts()) == {"429"}
    rows.get_by_role("button").first.click()
    assert "Retry after 41 s" in page.get_by_role("dialog").inner_text()
    visitor.check_both_layouts()
    page.keyboard.press("Escape")

    page.get_by_label("Status").select_option("5xx")
    page.wait_for_url("**status=5xx**")
    page.get_by_text("No call matches").wait_for()
    visitor.open("/operator?status=9xx")
    page.get_by_role("alert").get_by_text("Must be a status").wait_for()
    assert page.get_by_label("Status").get_attribute("aria-invalid") == "true"
    page.wait_for_timeout(3_500)  # the log is refreshed every 3 s, but not with filters that were refused
    assert len(visitor.console_messages) == 1  # the browser reports the 400
    visitor.console_messages.clear()
    page.get_by_role("button", name="Verify now").click()
    page.get_by_text("✓ balanced").wait_for()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download CSV").click()
    lines = started.value.path().read_text().splitlines()
    assert lines[0] == "time,id,kind,from,to,amount_usd,state,memo"
    assert any("call-1," in line and line.endswith("revenue,0.01,posted,") for line in lines)
    visitor.check_load()
