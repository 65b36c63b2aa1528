"""What a proxied request and its answer keep, lose and gain on the way."""

import asyncio
import hashlib
import hmac
import json
import socket
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.proxy import proxied_app
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER_SECONDS, PAUSE_SECONDS = 60.0, 1.5


async def raw(toll, request: bytes, *more: bytes) -> bytes:
    """Everything that comes back for bytes sent as they are, until the connection closes or pauses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", toll.port)
    writer.write(request)
    for part in more:
        await asyncio.sleep(0.05)
        writer.write(part)
    answer = b""
    with suppress(TimeoutError):
        while piece := await asyncio.wait_for(reader.read(65_536), PAUSE_SECONDS if answer else ANSWER_SECONDS):
            answer += piece
    writer.close()
    return answer


async def echoed(toll, path: str, method: str = "GET", **options: Any):
    answer = await toll.client.request(method, f"/weather/free/{path}", **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: toll", *headers, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    "path", ["a%20b//c/%E2%82%AC;v=1/echo", "%65cho", "x%2Fy/echo", "caf%C3%A9/~u!$&'()*+,=:@/echo", "...echo"]
)
async def test_path_and_query_arrive_as_they_were_sent(toll, path):
    answer = await raw(toll, get(f"/weather/free/{path}?q=%20+a&&b=%zz&c[]=%2f", "Connection: close"))
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["target"] == f"/free/{path}?q=%20+a&&b=%zz&c[]=%2f"


@pytest.mark.parametrize("path", ["../json", "a/../../json", "%2e%2e/json", "a/.%2E/json", "..%2fjson", "..%5cjson",
                                  "./json", "..;/json", "a/.."])  # fmt: skip
async def test_path_cannot_leave_the_upstreams(toll, path):
    answer = await raw(toll, get(f"/weather/free/{path}", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 400"), answer[:80]
    assert b'"code":"invalid-request"' in answer


@pytest.mark.parametrize(
    "path", ["PRICED", "priced/", "/priced", "%2Fpriced", "priced;a=1", "pric%45d/", ";a/priced", "%3Ba/priced"]
)
async def test_path_that_servers_take_for_a_priced_one_is_not_free(toll, path):
    answer = await raw(toll, get(f"/weather/free/{path}", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 400"), answer[:80]
    assert (await toll.client.get("/weather/free/priced")).status_code == 401
    assert (await toll.client.get("/weather/free/priced/below")).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_method_and_body_arrive(toll, method):
    told = await echoed(toll, "echo", method, content=b"{}" if method != "GET" else None)
    assert (told["method"], told["bytes"]) == (method, 2 if method != "GET" else 0)


async def test_head_is_sent_as_head(toll):
    answer = await toll.client.head("/weather/free/json")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 5_000
    assert (await toll.client.get("/weather/free/json")).status_code == 200


async def test_credentials_and_connection_headers_stay_here(toll):
    secret = ("Authorization: Basic x", "Cookie: tollhouse=1", "X-Agent-Address: a", "x_agent_nonce: 1", "X-Payment: p",
              "PAYMENT-SIGNATURE: p", "sign-in-with-x: s", "X-Visit-Token: v", "Tollhouse-Caller: forged",
              "Tollhouse_Caller: forged", "X-Upstream-Key: guessed", "Proxy-Authorization: x", "TE: trailers",
              "Keep-Alive: timeout=9", "Forwarded: for=1.2.3.4", "X-Real-IP: 1.2.3.4", "Upgrade: h2c",
              "X-HTTP-Method-Override: PUT", "X_HTTP_Method: PUT", "X-Method-Override: PUT", "X-Original-URL: /priced",
              "X-Rewrite-URL: /priced", "X-Forwarded-For: 1.2.3.4", "X-Private: 1",
              "Connection: close, X-Private, Upgrade")  # fmt: skip
    answer = await raw(toll, get("/weather/free/echo", *secret, "X-Own: kept", "Accept-Encoding: br"))
    headers = json.loads(answer.partition(b"\r\n\r\n")[2])["headers"]
    told = dict(headers)
    assert len(told) == len(headers)
    caller = told.pop("tollhouse-caller")
    assert caller.count(".") == 2
    request_id = told.pop("x-request-id")
    assert f"x-request-id: {request_id}".encode() in answer.lower()
    assert told == {
        "host": f"127.0.0.1:{toll.upstream_port}",
        "x-own": "kept",
        "accept-encoding": "br",
        "x-upstream-key": "secret of the upstream",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-proto": "http",
        "x-forwarded-host": "toll",
        "x-forwarded-prefix": "/weather",
        "via": "1.1 tollhouse",
    }


async def test_upstream_learns_who_calls(toll):
    answer = await toll.client.get("/weather/keyed/echo", headers=toll.keyed)
    token = dict(answer.json()["headers"])["tollhouse-caller"]
    head, claims, signature = token.split(".")
    signed = hmac.new(proxied_app.CALLER_KEY.encode(), f"{head}.{claims}".encode(), hashlib.sha256).digest()
    assert urlsafe_b64decode(signature + "==") == signed
    told = json.loads(urlsafe_b64decode(claims + "=="))
    assert told["exp"] - told["iat"] == 60
    assert {name: told[name] for name in ("aud", "kind", "plan", "payment", "jti")} == {
        "aud": "weather", "kind": "key", "plan": "enterprise", "payment": "plan", "jti": answer.headers["x-request-id"],
    }  # fmt: skip
    signed_call = await toll.client.get("/weather/keyed/echo", headers=toll.signed("/keyed/echo"))
    claims = dict(signed_call.json()["headers"])["tollhouse-caller"].split(".")[1]
    told = json.loads(urlsafe_b64decode(claims + "=="))
    assert (told["kind"], told["payment"], told["wallet"]) == ("wallet", "credit", toll.agent.address)


async def test_answer_loses_what_belongs_to_this_server(toll):
    query = {"is": "200 OK", "Set-Cookie": "a=1", "Alt-Svc": "h3", "PAYMENT-RESPONSE": "forged", "X-Own": "1",
             "Keep-Alive": "timeout=3", "Connection": "X-Secret", "X-Secret": "1", "Access-Control-Allow-Origin": "https://a.example",
             "Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "X-Own", "X-Request-Id": "u",
             "X-RateLimit-Remaining": "99", "Content-Type": "text/html", "Clear-Site-Data": "*"}  # fmt: skip
    answer = await toll.client.get("/weather/free/status", params=query)
    headers = answer.headers
    gone = {"set-cookie", "alt-svc", "payment-response", "keep-alive", "x-secret", "access-control-allow-credentials",
            "x-ratelimit-remaining", "clear-site-data"}  # fmt: skip
    assert not gone & set(headers)
    assert (headers["x-own"], headers["access-control-allow-origin"]) == ("1", "*")
    assert headers["access-control-expose-headers"].endswith("X-Own")
    assert headers["x-request-id"] != "u"
    assert headers["content-security-policy"].startswith("sandbox ")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("/login", "/weather/login"),
        ("http://127.0.0.1:{port}/a?b", "/weather/a?b"),
        ("https://other.example/a", "https://other.example/a"),
        ("//other.example/a", "//other.example/a"),
        ("next", "next"),
    ],
)
async def test_redirect_is_passed_on_with_an_address_of_this_server(toll, sent, expected):
    query = {"is": "302 Found", "Location": sent.format(port=toll.upstream_port)}
    answer = await toll.client.get("/weather/free/status", params=query)
    assert (answer.status_code, answer.headers["location"]) == (302, expected)


@pytest.mark.parametrize(
    "status", ["204 No Content", "304 Not Modified", "206 Partial Content", "404 Not Found", "503 Busy"]
)
async def test_status_is_passed_on(toll, status):
    query = {
        "is": status,
        "Content-Range": "bytes 0-6/100",
        "ETag": '"e"',
        "Content-Encoding": "br",
        "Retry-After": "9",
    }
    target = toll.client.build_request("GET", "/weather/free/status", params=query).url.raw_path.decode()
    answer = await raw(toll, get(target, "Connection: close", "Range: bytes=0-6"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status[:3]}".encode())
    assert body == (b"" if status[:3] in {"204", "304"} else b"as said")
    assert b'etag: "e"' in head
    assert b"content-encoding: br" in head
    assert b"content-range: bytes 0-6/100" in head
    assert (b"content-length" in head) is (status[:3] not in {"204", "304"})


@pytest.mark.parametrize("status", ["401 Unauthorized", "402 Payment Required", "407 Proxy Authentication Required"])
async def test_refusal_of_this_server_is_not_the_callers(toll, status):
    answer = await toll.client.get("/weather/free/status", params={"is": status, "WWW-Authenticate": "Basic"})
    assert (answer.status_code, answer.json()["code"]) == (502, "upstream-unavailable")
    assert "www-authenticate" not in answer.headers


async def test_informational_answers_and_trailers_are_left_out(toll):
    assert (await toll.client.get("/weather/free/hints")).text == "after hints"
    answer = await raw(toll, get("/weather/free/events?count=2&pause=0.4", "Connection: close"))
    assert b"data: 2\n\n" in answer
    assert answer.endswith(b"0\r\n\r\n")


async def test_upload_is_passed_on_as_it_comes(toll):
    piece = b"u" * 65_536

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(32):
            yield piece

    told = await echoed(toll, "echo", "PUT", content=pieces())
    assert (told["bytes"], told["sha256"]) == (32 * 65_536, hashlib.sha256(piece * 32).hexdigest())
    assert dict(told["headers"])["transfer-encoding"] == "chunked"


async def test_upload_over_the_limit_is_refused(toll):
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(70):
            yield b"u" * 65_536

    declared = await raw(toll, b"PUT /weather/free/echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4194305\r\n\r\n")
    assert declared.startswith(b"HTTP/1.1 413")
    assert (await toll.client.put("/weather/free/echo", content=pieces())).status_code == 413


async def test_body_is_read_only_for_a_caller_who_may_send_it(toll):
    head = b"PUT /weather/%b/echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    refused = await raw(toll, head % b"keyed")
    assert refused.startswith(b"HTTP/1.1 401")
    unpaid = await raw(toll, head % b"sold")
    assert unpaid.startswith(b"HTTP/1.1 402")
    assert b"100 Continue" not in refused + unpaid
    sent = await raw(toll, head % b"free", b"hello")
    assert sent.startswith(b"HTTP/1.1 100")
    assert json.loads(sent.split(b"\r\n\r\n")[2])["bytes"] == 5


async def test_length_beside_chunks_cannot_smuggle_a_request(toll):
    hidden = b"0\r\n\r\nGET /free/smuggled HTTP/1.1\r\nHost: t\r\n\r\n"
    both = b"POST /weather/free/echo HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n"
    await raw(toll, both % len(hidden) + hidden)
    assert "smuggled" not in await toll.seen()


async def test_early_refusal_ends_the_upload(toll):
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(14):
            await asyncio.sleep(0.01)
            yield b"u" * 65_536

    answer = await toll.client.put("/weather/free/early", content=pieces())
    assert (answer.status_code, answer.text) == (413, "no")


async def test_websocket_is_refused(toll):
    handshake = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: a", "Sec-WebSocket-Version: 13")
    answer = await raw(toll, get("/weather/free/echo", *handshake))
    assert answer.startswith(b"HTTP/1.1 501")
    assert b'"code":"upgrade-not-supported"' in answer


async def test_slow_reader_slows_the_upstream(toll):
    before = (await toll.seen()).get("pieces", 0)
    connection = socket.create_connection(("127.0.0.1", toll.port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    connection.sendall(get("/weather/free/large?pieces=2000"))
    await asyncio.sleep(1.0)
    assert (await toll.seen())["pieces"] - before < 600
    connection.close()
    await until(lambda: _answers(toll))


async def test_client_that_leaves_ends_the_request_at_the_upstream(toll):
    for path in ("slow?seconds=60", "events"):
        before = await toll.seen()
        _, writer = await asyncio.open_connection("127.0.0.1", toll.port)
        writer.write(get(f"/weather/free/{path}"))
        await until(partial(_has_more, toll, path.partition("?")[0], before))
        writer.close()
        await until(partial(_has_more, toll, "left", before))


async def _has_more(toll, name: str, before: dict[str, int]) -> bool:
    return (await toll.seen()).get(name, 0) > before.get(name, 0)


async def _answers(toll) -> bool:
    return (await toll.client.get("/weather/free/json")).status_code == 200


async def test_two_hundred_streams_at_once(toll):
    async def stream() -> bytes:
        async with toll.client.stream("GET", "/weather/keyed/events?count=4&pause=0.2", headers=toll.keyed) as answer:
            return await answer.aread()

    bodies = await asyncio.gather(*(stream() for _ in range(200)))
    assert set(bodies) == {b"data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n"}
    assert (await toll.seen())["open"] == 0
