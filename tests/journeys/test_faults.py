"""What breaks around the server, and what callers see then: a clear problem, never a 5xx for their own garbage."""

import contextlib
import json
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator

import httpx2
import psutil
import pytest

from tests.journeys.server import Server, free_port, poll, run

DEADLINE_SECONDS = 1.0
KEY_REQUEST = json.dumps({"email": "slow@example.org"}).encode()


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(request_deadline_seconds=DEADLINE_SECONDS)


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=15)


def post_head(path, length, extra=""):
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n{extra}\r\n"
    ).encode()


def is_refused(server):
    try:
        connect(server).close()
    except ConnectionRefusedError:
        return True
    return False


def read_answer(connection):
    """Status, headers and body of one answer; (0, {}, b"") when the connection just closed."""
    raw = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n\r\n" not in raw:
            part = connection.recv(65_536)
            if not part:
                return 0, {}, raw
            raw += part
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", 0))
    while len(body) < length:
        part = connection.recv(65_536)
        if not part:
            break
        body += part
    return int(status.split()[1]), headers, body


def test_dripped_bodies_get_408_within_the_deadline(server):
    connections = [connect(server) for _ in range(20)]
    begun = time.monotonic()
    for connection in connections:
        connection.sendall(post_head("/defense/api/keys/create", 500))
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.1):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.send(b" ")

    dripping = threading.Thread(target=drip)
    dripping.start()
    answers = [read_answer(connection) for connection in connections]
    took = time.monotonic() - begun
    stop.set()
    dripping.join()
    for connection in connections:
        connection.close()
    assert {status for status, _, _ in answers} == {408}
    assert {json.loads(body)["code"] for _, _, body in answers} == {"request-timeout"}
    assert DEADLINE_SECONDS <= took < DEADLINE_SECONDS + 20


def test_large_declared_body_is_refused_before_it_is_sent(server):
    with connect(server) as connection:
        connection.sendall(post_head("/defense/api/keys/create", 2_000_000))
        status, _, body = read_answer(connection)
    assert status == 413
    assert json.loads(body)["code"] == "payload-too-large"
    assert json.loads(body)["limit_bytes"] == 1_048_576


def test_large_undeclared_body_is_cut(server):
    def parts() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * 32_768

    with httpx2.Client() as client:
        try:
            answer = client.post(
                f"{server.base}/api/keys/create", content=parts(), headers={"Content-Type": "application/json"}
            )
        except httpx2.WriteError:
            pass  # the server hung up while we were still sending, which is its right
        else:
            assert answer.status_code == 413
    assert server.health()["status"] == "ok"


def test_large_headers_are_refused(server):
    answer = httpx2.get(f"{server.base}/health", headers={"X-Long": "x" * 20_000})
    assert answer.status_code == 431
    assert answer.json()["code"] == "headers-too-large"


def test_long_address_is_refused(server):
    answer = httpx2.get(f"{server.base}/health?{'x' * 9_000}")
    assert answer.status_code == 414
    assert answer.json()["code"] == "uri-too-long"


GARBAGE = [
    b"\x00" * 100,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET  /  HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /%ff%fe/%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /defense/feeds/events?%ff=%fe HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://elsewhere.example/defense/health HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /defense/health HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    b"GET /defense/health HTTP/1.1\r\nHost: a\r\nAccept: ;;q=,,\xff\r\nAccept-Encoding: \xff;q=x,*;q=\r\n\r\n",
    b'GET /defense/health HTTP/1.1\r\nHost: a\r\nIf-None-Match: \xff,,"\r\n\r\n',
    b"GET /defense/feeds/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    b"GET /defense/health HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ,,evil,999.1.1.1\r\n\r\n",
    b"GET /defense/health HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    b"GET /defense/health HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    (
        b"POST /defense/api/keys/create HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    ),
    (
        b"POST /defense/api/keys/create HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_never_a_server_error(server, garbage):
    with connect(server) as connection:
        connection.sendall(garbage)
        with contextlib.suppress(OSError):  # it may have hung up already
            connection.shutdown(socket.SHUT_WR)
        status, _, _ = read_answer(connection)
    assert status < 500
    assert server.health()["status"] == "ok"
    assert "Traceback" not in server.told()


def test_caller_who_hangs_up_leaves_no_trace_of_failure(server):
    for _ in range(20):
        with connect(server) as connection:
            connection.sendall(post_head("/defense/api/keys/create", 500) + b'{"email"')
    for _ in range(20):
        with connect(server) as connection:
            connection.sendall(b"GET /defense/api/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n")
    assert server.health()["status"] == "ok"
    assert "Traceback" not in server.told()
    metrics = server.metrics()
    assert 'status="500"' not in metrics
    poll(lambda: "tollhouse_requests_in_flight 1.0" in server.metrics())


def test_stop_finishes_the_request_in_flight(start_server):
    server = start_server()
    with connect(server) as connection:
        connection.sendall(post_head("/defense/api/keys/create", len(KEY_REQUEST)) + KEY_REQUEST[:10])
        poll(lambda: "tollhouse_requests_in_flight 2.0" in server.metrics())
        server.terminate()
        poll(lambda: is_refused(server))
        connection.sendall(KEY_REQUEST[10:])
        status, _, body = read_answer(connection)
    assert status == 200
    assert json.loads(body)["api_key"].startswith("th_live_")
    assert server.wait() == 0
    assert "Traceback" not in server.told()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_idle_connection_does_not_hold_up_the_stop(start_server, how):
    server = start_server()
    with connect(server) as connection:
        connection.sendall(b"GET /defense/health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_answer(connection)[0] == 200
        begun = time.monotonic()
        server.process.send_signal(how)
        assert server.wait() == 0
        assert time.monotonic() - begun < 10
    assert "Traceback" not in server.told()


def test_locked_database_is_a_clear_503_and_reading_goes_on(start_server):
    server = start_server()
    key = server.new_key()["api_key"]
    blocker = sqlite3.connect(server.data_dir / "tollhouse.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with server.client(key) as client:
        refused = client.post("/api/keys/create", json={"email": "locked@example.org"})
        assert client.get("/feeds/events").status_code == 200
        blocker.execute("ROLLBACK")
        blocker.close()
        assert refused.status_code == 503
        assert refused.json()["code"] == "storage-unavailable"
        assert int(refused.headers["retry-after"]) >= 1
        assert client.post("/api/keys/create", json={"email": "locked@example.org"}).status_code == 200


def test_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    ended = run("serve", "--recorded", "--port", free_port(), "--data-dir", tmp_path / "file", cwd=tmp_path)
    assert ended.returncode == 1
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "file" in ended.stderr


def test_broken_database_is_one_clear_line(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tollhouse.db").write_bytes(b"this is no database" * 100)
    ended = run("serve", "--recorded", "--port", free_port(), "--data-dir", tmp_path / "data", cwd=tmp_path)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr


def test_unreachable_database_is_one_clear_line(tmp_path):
    address = f"postgresql://u:hunter2@127.0.0.1:{free_port()}/x"
    ended = run("serve", "--port", free_port(), cwd=tmp_path, database_url=address)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "hunter2" not in ended.stderr


def test_second_server_in_one_folder_is_one_clear_line(server, tmp_path):
    ended = run("serve", "--recorded", "--port", free_port(), "--data-dir", server.data_dir, cwd=tmp_path)
    assert ended.returncode == 1
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "another server" in ended.stderr


def test_taken_port_is_a_clear_error(server, tmp_path):
    ended = run("serve", "--recorded", "--port", server.port, cwd=tmp_path)
    assert ended.returncode != 0
    assert str(server.port) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_provider_out_of_reach_leaves_the_recording_served(start_server):
    server = start_server(is_recorded=False, gdelt_url=f"http://127.0.0.1:{free_port()}/", gdelt_poll_seconds=0.2)
    source = poll(lambda: server.health()["sources"][0])
    assert source["status"] == "failing"
    assert source["failures"] >= 1
    assert server.health()["status"] == "degraded"
    with server.client(server.new_key()["api_key"]) as client:
        page = client.get("/feeds/events").json()
    assert page["source"] == "recorded"
    assert page["total"] > 200
    server.stop()


def test_nothing_stored_and_no_provider_is_502_and_costs_nothing(start_server):
    server = start_server(
        is_recorded=False, recorded="false", gdelt_url=f"http://127.0.0.1:{free_port()}/", gdelt_poll_seconds=0.2
    )
    created = server.new_key()
    with server.client(created["api_key"]) as client:
        answer = client.get("/feeds/events")
    assert answer.status_code == 502
    assert answer.json()["code"] == "upstream-unavailable"
    assert answer.json()["upstream"] == "gdelt"
    assert answer.headers["x-ratelimit-remaining"] == "100"
    assert server.used(created["api_key"])["day"]["used"] == 0
    server.stop()


def test_worker_process_that_dies_is_replaced(start_server):
    server: Server = start_server("--workers", 2)
    first = psutil.Process(server.process.pid).children()
    victim = next(child for child in first if "resource_tracker" not in " ".join(child.cmdline()))
    victim.kill()
    poll(lambda: {child.pid for child in psutil.Process(server.process.pid).children()} - {c.pid for c in first})
    poll(lambda: server.health()["status"] == "ok")
    for _ in range(10):
        assert server.health()["status"] == "ok"
    server.stop()
