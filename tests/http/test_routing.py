import pytest

from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.config.settings import Settings


async def test_literal_path_goes_before_a_pattern(client):
    assert (await client.get("/things/newest")).text == "short"
    assert (await client.get("/things/old")).json()["path"] == {"id": "old"}


async def test_path_parameters_are_decoded(client):
    assert (await client.get("/things/a%20b%C3%A9")).json()["path"] == {"id": "a b\u00e9"}
    assert (await client.get("/things/x/parts/y")).json()["path"] == {"id": "x", "part": "y"}


async def test_encoded_slash_forges_no_segment(client):
    answer = await client.get("/things/x%2Fparts%2Fy")
    assert answer.json()["path"] == {"id": "x%2Fparts%2Fy"}


@pytest.mark.parametrize("path", ["/", "/thing", "/things/", "/things//parts/x", "/things/x/parts", "/Things",
                                  "/things/x/parts/y/z", "/things;x", "/things%00", "/things%20"])  # fmt: skip
async def test_unknown_path_is_not_found(client, path):
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_several_methods_share_a_path(client):
    assert (await client.get("/things")).json()["query"]["limit"] == 20
    assert (await client.post("/things", json={"name": "a"})).json()["body"]["name"] == "a"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/things", "GET, HEAD, OPTIONS, POST"), ("/things/x", "DELETE, GET, HEAD, OPTIONS"),
     ("/long", "GET, HEAD, OPTIONS")],
)  # fmt: skip
async def test_options_tells_the_methods(client, path, allowed):
    answer = await client.options(path)
    assert answer.status_code == 200
    assert answer.headers["allow"] == allowed
    assert answer.headers["access-control-allow-methods"] == allowed


async def test_options_of_an_unknown_path_is_not_found(client):
    assert (await client.options("/nothing")).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "get", "", "FOO"])
async def test_other_method_is_told_what_works(client, method):
    answer = await client.request(method, "/things")
    if method == "get":  # the client sends it in capitals
        assert answer.status_code == 200
        return
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


async def test_head_does_not_work_where_get_does_not(client):
    assert (await client.head("/things/x/y")).status_code == 404
    assert (await client.head("/things/x")).status_code == 200


async def test_host_may_have_a_service_at_its_root(data_dir):
    settings = Settings(
        data_dir=str(data_dir), recorded=False, background_work=False, hosts={"Feeds.example.org": "defense"}
    )
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:

        async def status(path, host) -> int:
            return (await client.get(path, headers={"Host": host})).status_code

        assert await status("/api/keys/verify", "feeds.example.org") == 401
        assert await status("/api/keys/verify", "FEEDS.example.org:8000") == 401
        assert await status("/feeds/events", "feeds.example.org") == 401
        assert await status("/feeds/events", "other.example.org") == 404
        assert await status("/defense/api/keys/verify", "other.example.org") == 401
