"""Attacks on the HTTP layer: smuggled requests, disguised paths, hostile bodies, borrowed addresses."""

import gzip
import zlib

from tests.attacks.attack import attack
from tests.attacks.target import FEED, PAGE, Target, new_address

PAID = b"GET /mattress/api/products?limit=1 HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /api/keys/create HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"email":"smuggled@example.org"}'
SMUGGLED = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

# What a front proxy and this server could read differently: a request hidden in another's body or header.
FRAMINGS: dict[str, bytes] = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": POST + b"Content-Length: 32\r\nContent-Length: 5\r\n\r\n" + BODY,
    "a list of lengths": POST + b"Content-Length: 32, 5\r\n\r\n" + BODY,
    "length below zero": POST + b"Content-Length: -1\r\n\r\n" + BODY,
    "length with a sign": POST + b"Content-Length: +32\r\n\r\n" + BODY,
    "length in hex": POST + b"Content-Length: 0x20\r\n\r\n" + BODY,
    "length of words": POST + b"Content-Length: all\r\n\r\n" + BODY,
    "length beyond 64 bits": POST + b"Content-Length: 18446744073709551648\r\n\r\n" + BODY,
    "coding twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "coding misspelt": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "coding in a tab": POST + b"Transfer-Encoding:\tchunked, gzip\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "folded line": POST + b"X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 32\r\n\r\n" + BODY,
    "chunk below zero": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + BODY,
    "chunk beyond 64 bits": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + BODY,
    "chunk of words": POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n" + BODY,
    "bare line ends": b"GET /mattress/api/products HTTP/1.1\nHost: localhost\n\n",
    "NUL in a name": PAID + b"X-\x00A: b\r\n\r\n",
    "NUL in a value": PAID + b"X-A: b\x00c\r\n\r\n",
    "return in a value": PAID + b"X-A: b\rX-Payment: c\r\n\r\n",
    "no colon": PAID + b"X-A\r\n\r\n",
    "no name": PAID + b": b\r\n\r\n",
    "version 9": b"GET /mattress/api/products HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "no version": b"GET /mattress/api/products\r\n\r\n",
    "method of words": b"GET GET /mattress/api/products HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "long header": PAID + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n",
    "thousand headers": PAID + b"".join(b"X-%d: a\r\n" % number for number in range(1_000)) + b"\r\n",
    "long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
}

# Other spellings of a path that costs money.
PATHS = [
    "//mattress/api/products", "/mattress//api/products", "/mattress/api/products/", "/mattress/api/products//",
    "/mattress/./api/products", "/mattress/x/../api/products", "/defense/../mattress/api/products",
    "/mattress/api/%70roducts",
    "/mattress/api/products%00", "/mattress/api/products%2f", "/mattress/api/products%20", "/mattress/api/products;a=b",
    "/mattress/api/products.", "/MATTRESS/api/products", "/mattress/API/products", "/mattress/api/Products",
    "/mattress/api/products.html", "/mattress/api/products%252f", "/mattress\\api\\products",
    "/mattress/api/products%3flimit=1",
    "/%6dattress/api/products", "/mattress%2fapi%2fproducts", "http://localhost/mattress/api/products",
    "http://evil.example/mattress/api/products", "*", "mattress/api/products", "/mattress/api/products#x",
    "/..%2f..%2fetc/passwd",
    "/mattress/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/.env", "/.git/config", "/data/tollhouse.db",
]  # fmt: skip

DEEP = 50_000
BODIES: dict[str, bytes] = {
    "nothing": b"", "NUL": b"\x00", "broken": b'{"email":', "list": b"[]", "number": b"1e400", "NaN": b"NaN",
    "null": b"null",
    "deep lists": b"[" * DEEP + b"]" * DEEP, "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "bytes": bytes(range(256)),
    "two of one": b'{"email":"a@example.org","email":{}}', "no UTF-8": b'{"email":"\xff@example.org"}',
    "two values": BODY * 2 + b"x",
    "half a surrogate": b'{"email":"\\ud800@example.org"}', "long number": b'{"email":' + b"9" * 50_000 + b"}",
    "comment": b'/**/{"email":"a@example.org"}//', "single quotes": b"{'email':'a@example.org'}",
    "form": b"email=a%40example.org",
    "XML": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
    "prototype": b'{"__proto__":{"tier":"pro"},"email":"a@example.org"}',
    "other member": b'{"email":"a@example.org","x":1}',
}  # fmt: skip


@attack("requests", 30)
async def ambiguous_request_is_not_served(target: Target) -> None:
    answers = await target.at_once(target.send_bytes(raw, seconds=1.0) for raw in FRAMINGS.values())
    for name, answer in zip(FRAMINGS, answers, strict=True):
        assert answer.status in {0, 400, 402, 404, 405, 408, 411, 413, 414, 417, 431, 501, 505}, (name, answer)


@attack("requests", 60)
async def other_spelling_of_a_path_gives_nothing_away(target: Target) -> None:
    for path in PATHS:
        for method in ("GET", "HEAD"):
            answer = await target.send(path, method=method)
            assert answer.status in {0, 308, 301, 400, 402, 404, 405, 414}, (path, answer)
            assert b"root:" not in answer.body


@attack("requests", 24)
async def header_that_renames_a_request_is_ignored(target: Target) -> None:
    """Nothing beside the request line and the documented credentials changes what a call is or what it costs."""
    headers = [
        {"X-HTTP-Method-Override": "OPTIONS"}, {"X-Method-Override": "OPTIONS"}, {"X-Original-URL": "/health"},
        {"X-Rewrite-URL": "/health"}, {"X-Forwarded-Host": "localhost"}, {"X-Forwarded-Prefix": "/health"},
        {"X-Real-IP": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, {"True-Client-IP": "127.0.0.1"},
        {"CF-Connecting-IP": "127.0.0.1"}, {"X-Client-IP": "127.0.0.1"}, {"X-Agent": "paid"}, {"X-Paid": "true"},
        {"X-Payment-Response": "e30="}, {"Payment-Response": "e30="}, {"X-Credits-Tier": "enterprise"},
        {"X-RateLimit-Remaining": "99"}, {"Accept": "*/*;q=0"}, {"Range": "bytes=0-10"}, {"Expect": "100-continue"},
        {"Upgrade": "h2c", "Connection": "Upgrade"}, {"If-None-Match": "*"}, {"TE": "trailers"},
        {"Via": "1.1 localhost"},
    ]  # fmt: skip
    for header in headers:
        answer = await target.send(PAGE, header)
        assert answer.status in {0, 400, 402, 406, 417, 429}, (header, answer)


@attack("requests", 60)
async def hostile_body_is_a_problem(target: Target) -> None:
    paths = ("/api/keys/create", "/api/agent/register", "/mattress/mcp")
    for path in paths:
        for name, body in BODIES.items():
            answer = await target.send(path, method="POST", body=body)
            assert answer.status in {400, 413, 415, 422, 411}, (path, name, answer)
            assert "json" in answer.headers["content-type"], (path, name)
    for media_type in (
        "text/plain",
        "application/xml",
        "multipart/form-data; boundary=a",
        "application/x-www-form-urlencoded",
    ):
        answer = await target.send("/api/keys/create", {"Content-Type": media_type}, method="POST", body=BODY)
        assert answer.status == 415, answer


@attack("requests", 8)
async def body_beyond_its_limit_is_not_read(target: Target) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    for coding, body in (
        ("gzip", bomb),
        ("deflate", zlib.compress(bytes(50_000_000))),
        ("br", b"\x00" * 100),
        ("gzip, gzip", bomb),
    ):
        answer = await target.send("/api/keys/create", {"Content-Encoding": coding}, method="POST", body=body)
        assert answer.status in {400, 413, 415}, (coding, answer)
    for size in (1_048_577, 2_000_000):
        answer = await target.send("/api/keys/create", method="POST", body=b'{"email":"' + b"a" * size + b'"}')
        assert answer.status in {0, 413}, answer
    unsent = POST + b"Content-Length: 99999999999\r\n\r\n"
    dripped = POST + b"Content-Length: 32\r\n\r\n" + BODY[:9]
    answers = await target.at_once(target.send_bytes(raw) for raw in [unsent, *[dripped] * 4])
    assert {answer.status for answer in answers} <= {408, 413}


@attack("requests", 12)
async def forwarded_address_is_only_believed_from_a_proxy(target: Target) -> None:
    """A list that holds no address, or a proxy's own, gives nobody another's limits."""
    lists = ["evil", "", ",", "1.2.3.4.5", "::1::", "127.0.0.1", "x" * 5_000, "256.1.1.1", "0x7f.1",
             "1.1.1.1\t, evil", "[::1]:80",
             ", ".join(new_address() for _ in range(100))]  # fmt: skip
    for text in lists:
        answer = await target.send(PAGE, {"X-Forwarded-For": text})
        assert answer.status in {400, 402, 429}, (text, answer)


@attack("requests", 6)
async def unpaid_head_and_conditional_requests_give_nothing_away(target: Target) -> None:
    for headers in (
        {"If-None-Match": "*"},
        {"If-None-Match": '"a"'},
        {"If-Modified-Since": "Sun, 22 Nov 2026 00:00:00 GMT"},
    ):
        for method in ("GET", "HEAD"):
            answer = await target.send(PAGE, headers, method=method)
            assert answer.status == 402, answer
            assert "etag" not in answer.headers
    assert (await target.send(FEED)).status == 401
