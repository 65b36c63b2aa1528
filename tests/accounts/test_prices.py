"""The operator's prices: by request, by row, and by how many requests of a plan a call counts as."""

import contextlib
from decimal import Decimal

import msgspec
import pytest

from tests.http.conftest import asgi_client
from tollhouse import clock
from tollhouse.accounts.plans import open_plans
from tollhouse.accounts.prices import with_prices
from tollhouse.admission.admission import Admission
from tollhouse.admission.context import open_context
from tollhouse.config.settings import PriceSettings, SettingError, Settings
from tollhouse.errors import invalid_parameter
from tollhouse.http.endpoint import Endpoint, Response
from tollhouse.http.openapi import description
from tollhouse.http.paid_paths import with_paid_paths
from tollhouse.http.router import Router
from tollhouse.http.server import Server
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE, KEY_OR_AGENT, Price, by_row, free_then_paid, key_with

SELLER = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
JSON = {"application/json": {}}


class RowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 3


class Rows:
    """A service whose export has as many rows as its table, or as `limit` says."""

    def __init__(self) -> None:
        self.counts = 0

    async def count(self, request) -> int:
        self.counts += 1
        if request.query.limit > 1_000:
            raise invalid_parameter("limit", "`limit` must be at most 1000.")
        return request.query.limit

    async def handle(self, _request) -> Response:
        return Response(b"{}")

    def service(self) -> Service:
        sold = free_then_paid(1_000)
        return Service("shop", "Shop", "1", "", [
            Endpoint("listRows", "GET", "/rows", "", self.handle, sold, responses=JSON),
            Endpoint("exportRows", "GET", "/rows.csv", "", self.handle, by_row(sold), query=RowQuery, responses=JSON,
                     count_units=self.count),
            Endpoint("readFeed", "GET", "/feed", "", self.handle, KEY_OR_AGENT, responses=JSON),
            Endpoint("watch", "GET", "/watch", "", self.handle, key_with("alerts"), responses=JSON),
            Endpoint("about", "GET", "/about", "", self.handle, FREE, responses=JSON),
        ], _health, {})  # fmt: skip


async def _health() -> dict[str, str]:
    return {}


def priced(**operations: PriceSettings) -> dict[str, Endpoint]:
    plans = open_plans(Settings())
    [service] = with_prices([Rows().service()], {"shop": operations}, plans, ["shop", "other"])
    return {one.id: one for one in service.endpoints}


def test_price_of_the_settings_takes_the_place_of_the_declared_one():
    made = priced(
        listRows=PriceSettings(request_usd=Decimal("0.25")),
        exportRows=PriceSettings(row_usd=Decimal("0.000001"), requests={"free": 50}),
        readFeed=PriceSettings(request_usd=Decimal("0.02"), requests=3),
    )
    assert made["listRows"].terms.price == Price(250_000)
    assert made["exportRows"].terms.price == Price(1_000, "row", 1)
    assert made["readFeed"].terms.price == Price(20_000)
    assert made["exportRows"].terms.requests == {"free": 50}
    assert made["readFeed"].terms.requests == {"free": 3, "pro": 3, "enterprise": 3}
    assert made["watch"].terms == key_with("alerts")


@pytest.mark.parametrize(("name", "given", "detail"), [
    ("nothing", {"requests": 2}, "prices.shop.nothing: there is no such operation with a limit or a price"),
    ("about", {"requests": 2}, "prices.shop.about: there is no such operation"),
    ("watch", {"request_usd": Decimal(1)}, "prices.shop.watch: this operation is not for sale; only `requests`"),
    ("listRows", {"row_usd": Decimal(1)}, "prices.shop.listRows: `row_usd` is for operations that count their rows"),
    ("listRows", {"request_usd": Decimal(0)}, "prices.shop.listRows: `request_usd` must be greater than zero"),
    ("listRows", {"request_usd": Decimal("0.0000001")}, "in whole millionths of a dollar"),
    ("listRows", {"request_usd": Decimal("NaN")}, "prices.shop.listRows: `request_usd` must be"),
    ("exportRows", {"row_usd": Decimal(-1)}, "prices.shop.exportRows: `row_usd` must be zero or more"),
    ("listRows", {"requests": 0}, "prices.shop.listRows: `requests` must be from 1 to 1,000,000"),
    ("listRows", {"requests": {"gold": 1}}, "prices.shop.listRows: `requests` names the plan 'gold', not one of free"),
])  # fmt: skip
def test_wrong_price_stops_the_start_with_one_line(name, given, detail):
    with pytest.raises(SettingError) as refused:
        priced(**{name: PriceSettings(**given)})
    assert detail in str(refused.value)
    assert "\n" not in str(refused.value)


def test_price_of_an_unknown_service_stops_the_start_and_one_that_is_not_served_does_not():
    plans, services = open_plans(Settings()), [Rows().service()]
    with pytest.raises(SettingError, match=r"prices\.shp: there is no such service; choose one of shop, other"):
        with_prices(services, {"shp": {}}, plans, ["shop", "other"])
    assert with_prices(services, {"other": {"x": PriceSettings(requests=2)}}, plans, ["shop", "other"]) == services


@contextlib.asynccontextmanager
async def serving(database_url, folder, **values: object):
    rows, url = Rows(), database_url.replace("+aiosqlite", "")
    settings = Settings(data_dir=str(folder), database_url=url, **values)
    async with open_context(settings) as context:
        [service] = with_prices([rows.service()], settings.prices, context.plans, ["shop"])
        service, router = with_paid_paths(service), Router()
        router.mount(service, "")
        async with asgi_client(Server(settings, Admission(context), router, {}).handle) as client:
            yield client, context, rows, service


WEIGHTS = {
    "shop": {"exportRows": PriceSettings(requests={"free": 50}), "readFeed": PriceSettings(requests={"free": 40})}
}


@pytest.mark.both_databases
async def test_call_counts_as_the_requests_of_its_plan(database_url, tmp_path):
    async with serving(database_url, tmp_path, prices=WEIGHTS) as (client, context, _, service):
        left = [(await client.get("/rows.csv")).headers["x-ratelimit-remaining"] for _ in range(2)]
        refused = await client.get("/rows.csv")
        assert (left, refused.status_code) == (["50", "0"], 402)
        await check_keys(client, context)
        described = description(service, "https://x.example")["paths"]["/rows.csv"]["get"]
        assert described["x-price"]["requests_by_plan"] == {"free": 50}
        assert "50 on the plan free" in described["description"]


async def check_keys(client, context):
    keys = {}
    for tier in ("free", "enterprise"):
        keys[tier] = {"Authorization": f"Bearer {(await context.keys.create('a@b.example', tier)).text}"}
    used = [await client.get("/feed", headers=keys["free"]) for _ in range(3)]
    assert [one.status_code for one in used] == [200, 200, 429]
    assert used[1].headers["x-ratelimit-remaining"] == "20"
    # 20 are left, and a call of 40 fits only tomorrow.
    assert used[2].json()["window"] == "day"
    assert int(used[2].headers["retry-after"]) == pytest.approx(86_400 - clock.seconds() % 86_400, abs=5)
    assert (await client.get("/feed", headers=keys["enterprise"])).headers["x-ratelimit-remaining"] == "999"


async def test_nothing_is_free_where_the_allowance_is_zero(database_url, tmp_path):
    async with serving(database_url, tmp_path, free_per_ip_per_day=0) as (client, *_):
        first = await client.get("/rows")
        assert (first.status_code, first.json()["code"]) == (402, "payment-required")
        assert first.headers["x-ratelimit-limit"] == "0"


async def test_exact_price_counts_the_rows_of_this_request_once(database_url, tmp_path):
    async with serving(database_url, tmp_path) as (client, _, rows, _):
        for limit, price in ((0, "0.001"), (3, "0.00103"), (1_000, "0.011")):
            required = (await client.get(f"/x402/rows.csv?limit={limit}")).json()
            assert f"costs {price} USD" in required["detail"]
        assert rows.counts == 3
        # What cannot be counted is refused once it is paid for; until then the challenge states the least.
        assert "costs 0.001 USD" in (await client.get("/x402/rows.csv?limit=1001")).json()["detail"]
