"""Clients that mean harm or know no better, against every operation of a started server with everything configured.

Nothing that a client can send is a failure of the server, and whatever is refused is a problem that says what is wrong.
"""

import gzip
import json
import socket
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tests.journeys.described import described
from tests.journeys.server import Server
from tollhouse.errors import CODES
from tollhouse.services import SERVICES

PLENTY = 10_000_000
UPSTREAM = {502, 503}
HOST = b"Host: localhost\r\n"
ROOT_PATHS = ["/", "/health", "/metrics", "/llms.txt", "/.well-known/api-catalog", "/.well-known/agent-card.json",
              "/.well-known/security.txt", "/problems/not-found", "/keys", "/defense/docs", "/defense/mcp"]  # fmt: skip


@pytest.fixture(scope="module")
def server(start_server) -> Server:
    return start_server(free_per_ip_per_day=PLENTY, keys_per_address_per_hour=PLENTY, infra_chat_per_minute=PLENTY,
                        request_deadline_seconds=3)  # fmt: skip


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    return server.operators_key("--tier", "enterprise", "--per-minute", PLENTY)


@pytest.fixture(scope="module")
def operations(server: Server):
    """Every described operation of every service, but those that would end the key all the others are called with."""
    all_of_them = [each for service in SERVICES for each in described(server.root, service)]
    return [
        each
        for each in all_of_them
        if each.told["operationId"] not in {"rotateKey", "revokeKey"} and "/x402/" not in each.path
    ]


def test_what_is_paid_at_each_call_is_402_whatever_is_sent(server, client):
    for operation in (each for each in described(server.root, "defense") if "/x402/" in each.path):
        path = operation.path.replace("{id}", "%00")
        for content in (b"", b"{", b"\xff" * 1_000):
            answer = client.request(operation.method, f"{path}?surprise=%00", content=content or None)
            assert answer.status_code == 402, (operation.name, answer.text)


@pytest.fixture(scope="module")
def client(server: Server):
    with httpx2.Client(base_url=server.root, timeout=60) as client:
        yield client


def sent(client, key, operation, *, path="", method="", headers=(), **options: object):
    shown = {"Authorization": f"Bearer {key}"} if operation.is_keyed else {}
    headers = {**shown, **dict(headers)}
    if operation.body is not None and "content" not in options:
        options["content"] = json.dumps(operation.body).encode()
        headers.setdefault("Content-Type", "application/json")
    return client.request(method or operation.method, f"{operation.path}{path}", headers=headers, **options)


def one_of_each_kind(operations):
    """One operation for each service, method and way of letting callers in: the rest go the same way."""
    kinds = {(each.service, each.method, each.told["x-price"]["model"], each.is_keyed): each for each in operations}
    return list(kinds.values())


def exchanged(server, raw):
    """What comes back for these bytes: status, headers and body; (0, {}, b"") where the server just hung up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        with suppress(OSError):  # it may hang up while we still send, which is its right
            connection.sendall(raw)
        with suppress(ConnectionError):
            return read_one(connection)
    return 0, {}, b""


def read_one(connection):
    """Status, headers and body of one answer, and not a byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = connection.recv(1)
        if not part:
            return 0, {}, head
        head += part
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = b""
    while missing := int(headers.get("content-length", 0)) - len(body):
        body += connection.recv(missing)
    return int(status.split()[1]), headers, body


def check(answer, operation, hint):
    """No failure of the server's, unless the description says that it depends on others; a problem if it is refused."""
    where = f"{operation.name if operation else ''} {hint}: {answer.status_code} {answer.text[:300]}"
    allowed = UPSTREAM & operation.statuses if operation else set()
    assert answer.status_code < 500 or answer.status_code in allowed, where
    # What is no HTTP never comes to us: the web server's parser refuses it without a word.
    if answer.status_code >= 400 and answer.content:
        is_ucp = "/catalog/" in str(answer.url) and answer.status_code != 405
        if is_ucp:
            assert answer.headers["content-type"] == "application/json", where
        else:
            assert answer.headers["content-type"] == "application/problem+json", where
            problem = answer.json()
            assert CODES[problem["code"]][0] == problem["status"] == answer.status_code, where
            assert problem["instance"] == answer.headers["x-request-id"], where
    return answer


DEEP = 100_000
BODIES = {
    "nothing": b"",
    "a NUL": b"\x00",
    "broken": b'{"a":',
    "a list": b"[]",
    "a number": b"1e400",
    "not a number": b"NaN",
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "bytes": bytes(range(256)),
    "lone surrogate": b'{"email": "\\ud800", "prompt": "\\ud800", "message": "\\ud800", "name": "\\ud800"}',
    "every member twice": b'{"email": 1, "email": 2, "query": 1, "query": 2}',
    "members nobody knows": b'{"__proto__": {}, "": 1, "\\u0000": 2}',
    "a mark before": b'\xef\xbb\xbf{"email": "a@example.org"}',
    "utf-16": '{"email": "a@example.org"}'.encode("utf-16"),
    "a huge number": b'{"limit": %s, "threshold": 1e309, "hours": -1e309}' % (b"9" * 5_000),
}
TYPES = ["application/json", "application/json; charset=utf-16", "application/ld+json", "text/plain", "", "\x7f", "*/*",
         "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml"]  # fmt: skip


@pytest.mark.parametrize("hint", list(BODIES))
def test_no_body_of_any_kind_fails_an_operation(client, key, operations, hint):
    for operation in operations:
        headers = {"Content-Type": "application/json"}
        answer = check(sent(client, key, operation, content=BODIES[hint], headers=headers), operation, hint)
        # The protocol of the catalogue has members that nobody knows left aside.
        if operation.body is not None and "/catalog/" not in operation.path:
            assert answer.status_code >= 400, f"{operation.name} took {hint}"


@pytest.mark.parametrize("content_type", TYPES)
def test_no_content_type_fails_an_operation(client, key, operations, content_type):
    for operation in operations:
        for content in (b"a=1&b=%ff", b"--x\r\n\r\n\x00\r\n--x--", b"<a>&b;</a>"):
            headers = {"Content-Type": content_type}
            answer = check(sent(client, key, operation, content=content, headers=headers), operation, content_type)
            assert operation.body is None or answer.status_code in {400, 415}, operation.name


def test_packed_body_is_refused_and_told_how_to_come(client, key, operations):
    for operation in operations:
        if operation.body is None:
            continue
        packed = gzip.compress(json.dumps(operation.body).encode())
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        answer = check(sent(client, key, operation, content=packed, headers=headers), operation, "gzip")
        assert answer.status_code == 415, operation.name
        assert answer.headers["accept-encoding"] == "identity", operation.name


def test_every_member_of_a_body_that_is_wrong_is_named(client, key, operations):
    named = 0
    for operation in operations:
        for member in operation.body or ():
            if "/catalog/" in operation.path or operation.told["operationId"] == "receiveStripeEvent":
                continue  # another protocol's form
            wrong = json.dumps({**operation.body, member: {"\u2205": [None]}}).encode()
            headers = {"Content-Type": "application/json"}
            answer = check(sent(client, key, operation, content=wrong, headers=headers), operation, member)
            assert answer.status_code == 400, f"{operation.name} {member}"
            assert answer.json()["parameter"].split(".")[0] == member, f"{operation.name} {member}: {answer.text}"
            named += 1
    assert named > 20


@pytest.mark.parametrize(
    "value", ["%ff", "%00", "a%00b", "%ed%a0%80", "%", "%zz", "%u0041", "x" * 4_000, "1e999", "-0"]
)
def test_every_parameter_that_is_wrong_is_named(client, key, operations, value):
    for operation in operations:
        for parameter in operation.parameters:
            name = parameter["name"]
            answer = check(sent(client, key, operation, path=f"?{name}={value}"), operation, f"{name}={value}")
            if answer.status_code == 400 and answer.headers["content-type"] == "application/problem+json":
                required = {each["name"] for each in operation.parameters if each["required"]}
                assert answer.json()["parameter"] in {name, *required}, f"{operation.name} {name}: {answer.text}"
            assert answer.status_code == 400 or "%00" not in value, f"{operation.name} took a NUL in {name}"


def test_parameter_given_twice_or_not_known_is_named(client, key, operations):
    for operation in operations:
        answer = check(sent(client, key, operation, path="?surprise=1"), operation, "surprise")
        assert (answer.status_code, answer.json().get("parameter", "surprise")) == (400, "surprise"), operation.name
        for parameter in operation.parameters:
            if parameter["schema"].get("type") == "array":
                continue
            name = parameter["name"]
            answer = check(sent(client, key, operation, path=f"?{name}=1&{name}=1"), operation, f"{name} twice")
            assert (answer.status_code, answer.json()["parameter"]) == (400, name), operation.name


JUNK = {
    "Accept": [";;q=,,\xff", "*/*;q=0", "application/x-nothing", "q=1", ",", "*/json", "text/*;q=nan", "a" * 4_000],
    "Accept-Encoding": ["\xff;q=x,*;q=", "identity;q=0", "*;q=0", "br;q=nan, gzip;q=1e999"],
    "If-None-Match": ['\xff,,"', "*", "W/", '"' * 100, ", ,", 'W/"' + "x" * 4_000],
    "If-Modified-Since": ["yesterday", "\xff", "Thu, 99 Xxx 9999 99:99:99 GMT"],
    "Range": ["bytes=0-0,-1,5-2", "lines=1-", "bytes=" + "0-,".join("1" * 500)],
    "Cookie": ["=;=;;", "a=\xff"],
    "X-Forwarded-For": [",,evil,999.1.1.1", "::1, [::1]:80", "\xff" * 500],
    "X-Request-Id": ["\xff", "a b", "x" * 4_000],
    "X-Agent-Address": ["0x0", "\xff", "0x" + "9" * 40],
    "X-Payment": ["%%%", "bm8=", "e30=", "W10=", "\xff", "A" * 9_000],
    "Payment-Signature": ["%%%", "bm8=", "e30=", "W10=", "\xff", "A" * 9_000],
    "Origin": ["null", "https://evil.example", "\xff"],
    "Host": ["\xff", "a:b:c", "[::1", ""],
    "Expect": ["100-continue", "nothing"],
    "Upgrade": ["websocket", "h2c"],
    "Mcp-Protocol-Version": ["1999-01-01", "\xff"],
}  # fmt: skip


@pytest.mark.parametrize("name", list(JUNK))
def test_no_header_fails_an_operation(client, key, operations, name):
    for operation in operations if name == "Accept" else one_of_each_kind(operations):
        for value in JUNK[name]:
            check(sent(client, key, operation, headers={name: value.encode("latin-1")}), operation, f"{name}: {value}")


@pytest.mark.parametrize("shown", ["Bearer", "Bearer \xff", "Basic dTpw", "bearer th_live_x", "x" * 4_000])
def test_credentials_that_are_none_are_401_wherever_any_are_wanted(client, operations, shown):
    for operation in operations:
        answer = check(
            sent(client, "", operation, headers={"Authorization": shown.encode("latin-1")}), operation, shown
        )
        if operation.is_keyed:
            assert answer.status_code == 401, operation.name
            assert answer.headers["www-authenticate"].startswith("Bearer"), operation.name


@pytest.mark.parametrize("method", ["TRACE", "PUT", "QUERY", "X-Y"])
def test_other_methods_are_405_and_told_what_works(client, key, operations, method):
    for operation in operations:
        answer = check(sent(client, key, operation, method=method), operation, method)
        assert answer.status_code == 405, operation.name
        assert operation.method in answer.headers["allow"].split(", "), operation.name


def test_head_and_options_work_on_every_path(client, key, operations):
    for path in [*ROOT_PATHS, *(operation.path for operation in operations if operation.method == "GET")]:
        got = client.get(path, headers={"Authorization": f"Bearer {key}"} if path.startswith("/defense/") else {})
        head = client.head(path, headers=dict(got.request.headers))
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers.get("content-type") == got.headers.get("content-type"), path
    for path in [*ROOT_PATHS, *(operation.path for operation in operations)]:
        asked = client.options(path)
        assert asked.status_code == 200, path
        assert "OPTIONS" in asked.headers["allow"].split(", "), path


ENDINGS = [b"%00", b"/%2e%2e%2f%2e%2e%2fetc%2fpasswd", b"..%5c..%5c", b"%2F", b"//", b"/.", b"%", b"%zz", b"%ff%fe",
           b";a=b", b"%0d%0aX:1", "\u2603".encode(), b"x" * 250, b"x" * 9_000, b"'%20OR%201=1", b"$(id)", b"{{7*7}}",
           b"%E2%80%AE", b"?", b"*", b"?%", b"?=&=&==", b"?&&&&", b"?" + b"limit=1&" * 1_000, b"#", b"\\"]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS, ids=range(len(ENDINGS)))
def test_no_address_fails_the_server(server, key, operations, ending):
    for operation in one_of_each_kind(operations):
        for target in (operation.path.encode() + ending, operation.path.rpartition("/")[0].encode() + b"/" + ending):
            head = b"%s %s HTTP/1.1\r\n" % (operation.method.encode(), target)
            shown = b"Authorization: Bearer %s\r\n" % key.encode() if operation.is_keyed else b""
            status, headers, body = exchanged(server, head + HOST + shown + b"Content-Length: 0\r\n\r\n")
            assert 200 <= status < 500 or status in operation.statuses & UPSTREAM, (target, status, body[:300])
            if status >= 400 and body and "/catalog/" not in operation.path:
                assert headers["content-type"] == "application/problem+json", (target, body[:300])


GET = b"GET /mattress/api/products?limit=1 HTTP/1.1\r\n" + HOST
CREATE = b"POST /defense/api/keys/create HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
BODY = b'{"email":"raw@example.org"}'
CHUNKED = CREATE + b"Transfer-Encoding: chunked\r\n\r\n"
RAW = {
    "HTTP/1.0": b"GET /health HTTP/1.0\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "folded header": GET + b"X-A: b\r\n c\r\n\r\n",
    "header without a colon": GET + b"nonsense\r\n\r\n",
    "header without a name": GET + b": nameless\r\n\r\n",
    "space before the colon": GET + b"X-A : b\r\n\r\n",
    "NUL in a header": GET + b"X-A: a\x00b\r\n\r\n",
    "bare line feeds": b"GET /health HTTP/1.1\nHost: a\n\n",
    "NUL in the path": b"GET /mattress/api/pro\x00ducts HTTP/1.1\r\n" + HOST + b"\r\n",
    "spaces in the path": b"GET /mattress/api/pro ducts HTTP/1.1\r\n" + HOST + b"\r\n",
    "asterisk": b"GET * HTTP/1.1\r\n" + HOST + b"\r\n",
    "whole address with userinfo": b"GET http://a:b@c/%2e%2e/health HTTP/1.1\r\n" + HOST + b"\r\n",
    "500 headers": GET + b"".join(b"X-%d: y\r\n" % number for number in range(500)) + b"\r\n",
    "one header of a megabyte": GET + b"X-Long: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "a query of ten megabytes": b"GET /health?q=" + b"x" * 10_000_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "too long a length": CREATE + b"Content-Length: 500\r\n\r\n" + BODY,
    "too short a length": CREATE + b"Content-Length: 5\r\n\r\n" + BODY,
    "two lengths": CREATE + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + BODY,
    "a length with a sign": CREATE + b"Content-Length: +27\r\n\r\n" + BODY,
    "a length in hexadecimal": CREATE + b"Content-Length: 0x1b\r\n\r\n" + BODY,
    "negative chunk": CHUNKED + b"-1\r\n\r\n",
    "endless chunk size": CHUNKED + b"F" * 100_000 + b"\r\n",
    "huge chunk size": CHUNKED + b"7fffffffffffffff\r\nab",
    "chunk with an extension": CHUNKED + b"1b;x=\x00\r\n" + BODY + b"\r\n0\r\n\r\n",
    "trailer": CHUNKED + b"1b\r\n" + BODY + b"\r\n0\r\nAuthorization: Bearer x\r\n\r\n",
    "chunked twice": CREATE + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked and packed": CREATE + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks that never end": CHUNKED + b"1\r\n{\r\n",
    "expectation": CREATE + b"Expect: 100-continue\r\nContent-Length: 27\r\n\r\n" + BODY,
    "upgrade to HTTP/2": GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n",
    "websocket": GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("hint", list(RAW))
def test_nothing_on_the_wire_fails_the_server(server, hint):
    status, headers, body = exchanged(server, RAW[hint])
    assert status < 500, (hint, status, body[:300])
    if status >= 400 and body:
        assert headers["content-type"] == "application/problem+json", (hint, body[:300])
        assert json.loads(body)["status"] == status


def test_requests_sent_ahead_are_answered_in_their_order(server):
    paths = ["/health", "/mattress/api/products?limit=1", "/nothing", "/mattress/api/products?limit=x", "/health"]
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(b"".join(f"GET {path} HTTP/1.1\r\n".encode() + HOST + b"\r\n" for path in paths))
        answers = [read_one(connection) for _ in paths]
    assert [status for status, _, _ in answers] == [200, 200, 404, 400, 200]
    assert json.loads(answers[3][2])["parameter"] == "limit"


def test_after_all_that_the_server_is_well_and_its_log_holds_no_failure(server, key):
    assert server.health()["status"] == "ok"
    told = Path(server.log).read_text("utf-8", errors="replace")
    assert "Traceback" not in told
    assert "unexpected failure" not in told
    assert key not in told
