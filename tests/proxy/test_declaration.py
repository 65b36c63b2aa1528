"""The declaration of a proxied API: read strictly, every fault named with its line and key, its rules by closeness."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from tollhouse.config.declaration import DeclarationError
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Response
from tollhouse.http.paid_paths import with_paid_paths
from tollhouse.http.router import Router
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE
from tollhouse.proxy.declaration import declaration_toml, parse_proxy
from tollhouse.proxy.declared import Head, UpstreamPart
from tollhouse.proxy.routes import endpoints_of_routes, free_methods, hidden_operations, routes_of

GOOD = """title = "Weather"
price_usd = 0.002
free_per_day = 50

[upstream]
url = "http://127.0.0.1:3000/v2"
headers = { X-Api-Key = { env = "WEATHER_KEY" } }
caller_key = "0123456789abcdef0123456789abcdef"

[routes."GET /v1/*"]
access = "key"
entitlement = "archive"

[routes."POST /v1/reports/{id}"]
max_usd = 0.05
cost_header = "X-Cost-Usd"
"""


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("WEATHER_KEY", "secret-of-the-upstream")


def refusal(text):
    with pytest.raises(DeclarationError) as raised:
        parse_proxy(text, Path("weather.toml"))
    message = str(raised.value)
    assert "\n" not in message
    assert "secret-of-the-upstream" not in message
    return message.removeprefix("weather.toml")


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('title = "Weather"', 'title = " "', ", line 1: title: is required: a few words"),
        ('title = "Weather"', 'titel = "x"', ", line 1: titel: unknown key; known keys are title, upstream"),
        ("price_usd = 0.002", "price_usd = 0.0000002", ", line 2: price_usd: must be between 0 and 1000"),
        ("price_usd = 0.002", 'access = "payer"', ": price_usd: is required where access is payer"),
        ("price_usd = 0.002", 'access = "members"', ", line 2: access: must be one of "),
        ("free_per_day = 50", "free_per_day = -1", ", line 3: free_per_day: must be between"),
        ("free_per_day = 50", 'other_routes = "all"', ", line 3: other_routes: must be one of none, free, key, any"),
        ("http://127.0.0.1:3000/v2", "127.0.0.1:3000", ", line 6: upstream.url: must be an http:// or https:// URL"),
        ("http://127.0.0.1:3000/v2", "http://h:99999", ", line 6: upstream.url: must be an http:// or https:// URL"),
        ("http://127.0.0.1:3000/v2", "http://a:b@h/", ", line 6: upstream.url: must not have a user or a password"),
        ("http://127.0.0.1:3000/v2", "http://h/?key=1", ", line 6: upstream.url: must not have a query"),
        ('url = "http', 'uri = "http', ", line 6: upstream.uri: unknown key; known keys are url, openapi"),
        ("X-Api-Key", '"X Api"', ": upstream.headers.X Api: is not the name of a header"),
        ("X-Api-Key", "Content-Length", "upstream.headers.Content-Length: cannot be set"),
        ('env = "WEATHER_KEY"', 'env = "NO_SUCH_KEY"', ": the variable NO_SUCH_KEY is not set"),
        ('env = "WEATHER_KEY"', 'file = "no-such-file"', ": the file no-such-file cannot be read"),
        ('{ env = "WEATHER_KEY" }', '"a\\nb"', ": the value must be printable ASCII"),
        ("0123456789abcdef0123456789abcdef", "short", "upstream.caller_key: must have at least 32 characters"),
        ("[upstream]", "[upstream]\nanswer_seconds = 0", ": upstream.answer_seconds: must be above 0"),
        ("[upstream]", '[upstream]\nopenapi = "none.json"', ": upstream.openapi: none.json: cannot be read: No such"),
        ("GET /v1/*", "FETCH /v1/*", ", line 10: routes.FETCH /v1/*: the method must be one of GET, POST, PUT"),
        ("GET /v1/*", "GET v1", ", line 10: routes.GET v1: must be a path that begins with a slash"),
        ("GET /v1/*", "GET /v1*", ", line 10: routes.GET /v1*: a * stands for the rest of the path"),
        ("GET /v1/*", "GET /v1/../x", ": must not have the segments . or .."),
        ("GET /v1/*", "GET /{a-b}", ": a parameter is written {name}"),
        ("GET /v1/*", "GET /{a:path}/b", ": only the last segment can be {name:path}"),
        ("GET /v1/*", "GET /{a}/{a}", ": each parameter needs a name of its own"),
        ("GET /v1/*", "POST /v1/reports/{name}", "is the same route as POST /v1/reports/{name}"),
        ('access = "key"', 'acces = "key"', ", line 11: routes.GET /v1/*.acces: unknown key; known keys are offered"),
        ('access = "key"', 'access = "anyone"', ", line 12: routes.GET /v1/*.entitlement: is a name"),
        ('access = "key"', 'access = "free"\ncounted = false', ": routes.GET /v1/*.entitlement"),
        ('entitlement = "archive"', "free_per_day = 5", ", line 12: routes.GET /v1/*.free_per_day: has no meaning"),
        ("max_usd = 0.05\n", "", ", line 14: routes.POST /v1/reports/{id}.max_usd: is required where the cost"),
        ('cost_header = "X-Cost-Usd"\n', "", ".max_usd: needs cost_header, units_header or usd_per_kilobyte"),
        ("max_usd = 0.05", "max_usd = 0.05\nprice_usd = 0.06", ", line 15: routes.POST /v1/reports/{id}.max_usd"),
        ("max_usd = 0.05", 'max_usd = 0.05\nunits_header = "X-Rows"', "only one of cost_header, units_header"),
        ('[routes."GET', '[routes."/nothing"]\naccess = "key"\n[routes."GET', ": write the method to serve it"),
    ],
)  # fmt: skip
def test_fault_names_its_line_and_its_key(good, bad, message):
    assert good in GOOD
    assert message in refusal(GOOD.replace(good, bad, 1))


def test_nothing_to_serve_is_a_fault():
    text = 'title = "x"\n[upstream]\nurl = "http://127.0.0.1:1"\n'
    assert "other_routes: nothing would be served" in refusal(text)


def test_written_declaration_is_read_back():
    head = Head(title='Say "hi"', upstream=UpstreamPart(url="https://api.example.com/v1"), other_routes="key")
    read = parse_proxy(declaration_toml(head), Path("weather.toml"))
    assert read.head == head
    assert read.name == "weather"


def test_secret_comes_from_the_environment_or_a_file(tmp_path):
    (tmp_path / "key").write_text("from a file\n")
    text = GOOD.replace('{ env = "WEATHER_KEY" }', '{ file = "key" }')
    assert parse_proxy(text, tmp_path / "weather.toml").headers == {"X-Api-Key": "from a file"}
    assert parse_proxy(GOOD, tmp_path / "weather.toml").headers == {"X-Api-Key": "secret-of-the-upstream"}


DOCUMENT = """{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
  "/v1/now": {"get": {"responses": {}}, "post": {"responses": {}}},
  "/v1/now/{city-name}": {"get": {"operationId": "now", "responses": {}}},
  "/admin/reset": {"post": {"responses": {}}},
  "/health": {"get": {"responses": {}}}
}}"""

RULES = """title = "Weather"
price_usd = 0.002
OTHER
[upstream]
url = "http://127.0.0.1:3000"
openapi = "weather.openapi.json"
[routes."/v1/*"]
price_usd = 0.01
[routes."GET /v1/*"]
access = "key"
[routes."GET /v1/now/{city}"]
access = "payer"
[routes."/admin/*"]
offered = false
[routes."GET /files/{name:path}"]
access = "free"
"""


def routes(tmp_path, other):
    (tmp_path / "weather.openapi.json").write_text(DOCUMENT)
    declaration = parse_proxy(RULES.replace("OTHER", other), tmp_path / "weather.toml")
    return {
        f"{one.method} {one.template}": one.access if one.rule.offered else "refused" for one in routes_of(declaration)
    }


def test_closest_rule_applies_and_only_listed_routes_are_served(tmp_path):
    assert routes(tmp_path, "") == {
        "GET /v1/now": "key",
        "POST /v1/now": "anyone",
        "GET /v1/now/{city_name}": "payer",
        "GET /files/{name:path}": "free",
    }


def test_other_routes_open_what_no_rule_closes(tmp_path):
    served = routes(tmp_path, 'other_routes = "payer"')
    assert served["GET /{rest:path}"] == "payer"
    assert served["GET /v1/{rest:path}"] == "key"
    assert served["DELETE /v1/{rest:path}"] == "anyone"
    assert served["GET /admin/{rest:path}"] == served["POST /admin/{rest:path}"] == "refused"
    assert served["GET /v1/now/{city_name}"] == "payer"


def test_paths_of_the_server_itself_are_not_served(tmp_path):
    document = {"openapi": "3.1.0", "paths": {path: {"get": {"responses": {}}} for path in ("/", "/health", "/items")}}
    (tmp_path / "weather.openapi.json").write_text(json.dumps(document))
    text = 'title = "x"\n[upstream]\nurl = "http://h"\nopenapi = "weather.openapi.json"\n'
    declaration = parse_proxy(text, tmp_path / "weather.toml")
    assert [one.template for one in routes_of(declaration)] == ["/", "/items"]
    assert [one.template for one in routes_of(declaration, is_at_root=True)] == ["/items"]
    assert [one.path for one in hidden_operations(declaration, is_at_root=True)] == ["/", "/health"]


def test_rule_about_nothing_is_a_fault(tmp_path):
    (tmp_path / "weather.openapi.json").write_text(DOCUMENT)
    text = RULES.replace("OTHER", "").replace('"/v1/*"', '"/v2/*"')
    with pytest.raises(DeclarationError, match="no operation of the document is below this path"):
        parse_proxy(text, tmp_path / "weather.toml")


def test_what_is_not_sold_by_the_call_is_not_sold_below_the_paid_paths_either():
    text = (
        GOOD.replace("[upstream]", 'other_routes = "anyone"\n[upstream]')
        + """
[routes."/admin/*"]
offered = false
[routes."GET /members/*"]
access = "key"
price_usd = 0
"""
    )
    declaration = parse_proxy(text, Path("weather.toml"))

    async def handle(_request) -> Response:
        raise AssertionError("it is only routed")

    async def health() -> dict[str, str]:
        return {}

    service = Service("weather", "Weather", "1", "", endpoints_of_routes(declaration, handle), health, {})
    router = Router()
    router.mount(with_paid_paths(service), "/weather")
    for prefix in ("/x402", "/siwx"):
        sold = router.match("GET", f"/weather{prefix}/anything")[0].endpoint
        assert (sold.terms.opens_to, sold.handler) == ("payer", handle)
        for method, path in (("POST", "/admin/reset"), ("GET", "/admin"), ("GET", "/members/ada")):
            refused = router.match(method, f"/weather{prefix}{path}")[0].endpoint
            assert not refused.terms.takes_payments
            assert refused.handler is not handle
        with pytest.raises(Problem, match="as it is declared"):
            router.match("POST", f"/weather{prefix}//admin/reset")


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/items/a"), ("DELETE", "/items/a/"), ("DELETE", "/Items/a"), ("DELETE", f"/items/{'a' * 2_000}"),
     ("DELETE", "/items;v=1/a"), ("GET", "/items/a;v=1"), ("GET", f"/items/{'a' * 2_000}"), ("GET", "/items;v=1/a"),
     ("GET", "/;/items/a"), ("GET", "//items/a")],
)  # fmt: skip
def test_no_spelling_reaches_a_closed_or_a_priced_route_for_nothing(method, path):
    text = (
        GOOD.replace("[upstream]", 'other_routes = "free"\n[upstream]')
        + """
[routes."GET /items/{id}"]
access = "payer"
price_usd = 0.01
[routes."DELETE /items/{id}"]
offered = false
"""
    )

    async def handle(_request) -> Response:
        raise AssertionError("it is only routed")

    async def health() -> dict[str, str]:
        return {}

    endpoints = endpoints_of_routes(parse_proxy(text, Path("weather.toml")), handle)
    router = Router()
    router.mount(with_paid_paths(Service("weather", "Weather", "1", "", endpoints, health, {})), "")
    assert router.match("POST", "/items/a")[0].endpoint.terms == FREE
    with suppress(Problem):
        endpoint = router.match(method, path)[0].endpoint
        assert endpoint.handler is not handle or endpoint.terms.opens_to == "payer"


def test_methods_that_nobody_declared_are_named_where_they_are_free():
    routes = """
[routes."GET /items/{id}"]
price_usd = 0.01
[routes."POST /notes"]
access = "free"
"""
    opened = GOOD.replace("[upstream]", 'other_routes = "free"\n[upstream]') + routes
    free = free_methods(parse_proxy(opened, Path("weather.toml")))
    assert {"POST", "PUT", "DELETE"} <= {*free["/items/{id}"]}
    assert "GET" not in free["/items/{id}"]
    assert "/notes" not in free
    assert free_methods(parse_proxy(GOOD + routes, Path("weather.toml"))) == {}
