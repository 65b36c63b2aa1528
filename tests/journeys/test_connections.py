"""Connections that send no whole request head: they end, and one address cannot take every descriptor with them."""

import re
import select
import socket
import stat
import time
from resource import RLIMIT_NOFILE

import httpx2
import psutil
import pytest

from tests.journeys.server import Server, free_port

HALF = b"GET /api/catalogue HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UNFINISHED = {
    "nothing": b"",
    "the first letter": b"G",
    "half a head": HALF,
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM",
    "a second half head": HALF + b"\r\n" + HALF,
}
DESCRIPTORS = 400
HEAD_SECONDS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that was given few descriptors, of which it may take more, and a listener for its operator."""
    started = Server(
        tmp_path_factory.mktemp("connections"), "studio", limits=f"ulimit -Sn 100; ulimit -Hn {DESCRIPTORS}; ",
        operator_listen=f"127.0.0.1:{free_port()}", idle_timeout_seconds=HEAD_SECONDS,
    )  # fmt: skip
    yield started
    started.kill()


def connected(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def assert_all_are_answered(connections) -> None:
    for connection in connections:
        connection.sendall(HALF + b"\r\n")
        assert connection.recv(100_000).startswith(b"HTTP/1.1 200")


def test_first_start_prints_a_login_link_for_the_operators_listener_and_no_other_start(server):
    (link,) = re.findall(r"http://\S+/operator/login\?code=\S+", server.told())
    assert not link.startswith(server.root)
    token = (server.data_dir / "operator-token").stat()
    assert stat.S_IMODE(token.st_mode) == 0o600
    with httpx2.Client(base_url=link.partition("/operator")[0]) as browser:
        assert browser.get(link).status_code == 303
        assert "tollhouse_requests_in_flight" in browser.get("/metrics").text
        assert browser.get("/operator/api/sources").json()["services"].keys() == {"studio"}
        assert browser.get("/api/catalogue").status_code == 404
        assert httpx2.get(link).status_code == 401
    for path in ("/metrics", "/operator", "/operator/api/revenue"):
        assert httpx2.get(server.root + path, headers=server.operators_header()).status_code == 404


def test_raw_requests_without_one_valid_host_are_refused(server):
    for head, status in (
        (b"GET /health HTTP/1.1\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nHost:\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nHost: 203.0.113.7\r\n", b"200"),
        (b"GET /health HTTP/1.0\r\n", b"200"),
        (b"GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"200"),
    ):
        with connected(server) as connection:
            connection.sendall(head + b"Connection: close\r\n\r\n")
            assert connection.recv(100)[9:12] == status, head


def test_head_that_does_not_arrive_ends_its_connection(server):
    opened = {name: connected(server) for name in UNFINISHED}
    begun = time.monotonic()
    for name, connection in opened.items():
        connection.sendall(UNFINISHED[name])
    ended: dict[str, float] = {}
    while len(ended) < len(opened):
        assert time.monotonic() - begun < 3 * HEAD_SECONDS, ended
        waiting = [connection for name, connection in opened.items() if name not in ended]
        for connection in select.select(waiting, [], [], HEAD_SECONDS)[0]:
            if connection.recv(100_000) == b"":
                name = next(name for name, each in opened.items() if each is connection)
                ended[name] = time.monotonic() - begun
    for connection in opened.values():
        connection.close()
    assert max(ended.values()) < HEAD_SECONDS + 2


def test_one_address_with_half_sent_heads_blocks_nobody(server):
    workers = psutil.Process(server.process.pid).children(recursive=True)
    assert {worker.rlimit(RLIMIT_NOFILE)[0] for worker in workers} == {DESCRIPTORS}
    held, used = [], []
    for _ in range(DESCRIPTORS // 2 + 100):
        held.append(connected(server))
        held[-1].sendall(HALF)
        if len(held) == DESCRIPTORS // 2:
            used = [connected(server) for _ in range(3)]
            assert_all_are_answered(used)
    # Twice as many wait to be accepted.
    held += [connected(server) for _ in range(DESCRIPTORS)]
    other = connected(server)
    other.sendall(HALF + b"\r\n")
    begun = time.monotonic()
    while not select.select([other], [], [], 0.05)[0]:
        assert_all_are_answered(used)
        # Less than a head may take: it is not the time limit that makes room.
        assert time.monotonic() - begun < HEAD_SECONDS - 1
    assert other.recv(100_000).startswith(b"HTTP/1.1 200")
    assert_all_are_answered(used)
    assert "idle connections closed" in server.told()
    for connection in [*held, *used, other]:
        connection.close()
    assert httpx2.get(f"{server.root}/health").status_code == 200
    assert "Traceback" not in server.told()
