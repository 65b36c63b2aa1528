import gzip

import brotli
import pytest
import zstandard

from tests.http.conftest import LONG, SHORT
from tollhouse.http.response import compute_etag

UNPACK = {
    "zstd": lambda body: zstandard.ZstdDecompressor().decompress(body),
    "br": brotli.decompress,
    "gzip": gzip.decompress,
}


async def raw(client, path, accept_encoding):
    """The answer and its body as it came."""
    async with client.stream("GET", path, headers={"Accept-Encoding": accept_encoding}) as answer:
        return answer, b"".join([part async for part in answer.aiter_raw()])


@pytest.mark.parametrize("coding", UNPACK)
async def test_compressed_body_unpacks_to_the_same_bytes(client, coding):
    for _ in range(2):
        answer, body = await raw(client, "/long", coding)
        assert answer.headers["content-encoding"] == coding
        assert int(answer.headers["content-length"]) == len(body) < len(LONG) / 5
        assert UNPACK[coding](body) == LONG
        assert "accept-encoding" in answer.headers["vary"].lower()


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("gzip, br, zstd", "zstd"), ("gzip;q=1, br;q=0.5", "gzip"), ("br;q=0.9, gzip;q=0.8, zstd;q=0", "br"),
        ("*", "zstd"), ("zstd;q=0, *", "br"), ("GZIP", "gzip"), ("gzip; q=0.5", "gzip"),
        ("identity", None), ("", None), ("gzip;q=0", None), ("*;q=0", None), ("deflate", None), ("gzip;q=x", None),
        ("compress, identity;q=0.5", None),
    ],
)  # fmt: skip
async def test_coding_is_the_one_liked_best(client, accepted, chosen):
    answer, _ = await raw(client, "/long", accepted)
    assert answer.headers.get("content-encoding") == chosen
    assert "accept-encoding" in answer.headers["vary"].lower()


async def test_short_and_packed_bodies_are_left_alone(client):
    answer, body = await raw(client, "/things/newest", "gzip")
    assert (answer.headers.get("content-encoding"), body) == (None, SHORT)
    answer, body = await raw(client, "/picture", "gzip")
    assert (answer.headers.get("content-encoding"), body) == (None, LONG)


async def test_etag_is_the_same_for_every_coding(client):
    tags = {(await raw(client, "/long", coding))[0].headers["etag"] for coding in (*UNPACK, "identity")}
    assert tags == {compute_etag(LONG)}


@pytest.mark.parametrize("wrap", ["{}", '"x", {}', '{}, "x"', "*", " {} ", "{strong}"])
async def test_known_answer_is_304(client, wrap):
    tag = compute_etag(LONG)
    header = wrap.format(tag, strong=tag.removeprefix("W/")) if "{" in wrap else wrap
    answer = await client.get("/long", headers={"If-None-Match": header})
    assert answer.status_code == 304
    assert answer.content == b""
    assert answer.headers["etag"] == tag
    assert "content-length" not in answer.headers
    assert "cache-control" in answer.headers
    assert "vary" in answer.headers


@pytest.mark.parametrize("header", ['"x"', "", '""', 'W/"x"', "x,,y", '"'])
async def test_other_tags_get_the_whole_answer(client, header):
    answer = await client.get("/long", headers={"If-None-Match": header})
    assert (answer.status_code, answer.content) == (200, LONG)


async def test_post_is_never_304(client):
    answer = await client.post("/things", json={"name": "a"}, headers={"If-None-Match": "*"})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"


async def test_head_is_get_without_its_body(client):
    got, head = await client.get("/long"), await client.head("/long")
    assert head.content == b""
    without_id = [{**answer.headers, "x-request-id": ""} for answer in (got, head)]
    assert without_id[0] == without_id[1]
    assert (await client.head("/long", headers={"If-None-Match": compute_etag(LONG)})).status_code == 304


async def test_no_byte_of_a_body_is_sent_for_head(gate):
    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    for path in ("/long", "/nothing"):
        sent = []

        async def send(message, sent=sent) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "HEAD", "path": path, "query_string": b"", "headers": [(b"host", b"test")]}
        await gate.handle(scope, receive, send)
        assert b"".join(message.get("body", b"") for message in sent) == b""
        assert int(dict(sent[0]["headers"])[b"content-length"]) > 0


async def test_head_of_a_problem_has_no_body_either(client):
    head = await client.head("/nothing")
    assert head.status_code == 404
    assert head.content == b""
    assert head.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/long", "/nothing", "/things?limit=0", "/fails"])
async def test_every_answer_has_the_common_headers(client, path):
    answer = await client.get(path, headers={"X-Request-Id": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "x-ratelimit-remaining" in answer.headers["access-control-expose-headers"].lower()


async def test_failure_of_ours_is_a_problem_that_tells_nothing(client):
    answer = await client.get("/fails")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert answer.json()["instance"] == answer.headers["x-request-id"]
    assert "Zero" not in answer.text
    assert "th_live" not in answer.text


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "\u00e9", "a\tb", "<script>"])
async def test_invalid_request_id_is_replaced(client, sent):
    answer = await client.get("/long", headers={"X-Request-Id": sent.encode("latin-1")})
    assert answer.headers["x-request-id"] != sent
    assert len(answer.headers["x-request-id"]) == 16
