"""The client for upstreams: what it repeats, what it refuses, and which connections it uses again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.fakes.background_server import listen
from tests.waiting import until
from tests.webhooks.certificates import Authority
from tollhouse.errors import Problem
from tollhouse.http.request import HttpRequest
from tollhouse.http_client.connection import RequestFailed
from tollhouse.proxy.circuit_breaker import CircuitBreaker
from tollhouse.proxy.upstream import HttpUpstream, OutgoingRequest

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
RECEIVED = HttpRequest({"method": "GET", "path": "/", "query_string": b"", "headers": []}, lambda: asyncio.sleep(9))


def request(method: str = "GET", body=None, length: int | None = None, **headers: str) -> OutgoingRequest:
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    length = len(body) if isinstance(body, bytes) else length
    return OutgoingRequest(method, b"/a", b"q=1", sent, body, length, RECEIVED)


class Script:
    """Answers the requests of all connections in turn: bytes, None to close, or a function of the connection."""

    def __init__(self, *answers: bytes | Callable | None) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.answer(reader, writer)
        finally:
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.pop(0)
                if answer is None:
                    return
                if callable(answer):
                    await answer(reader, writer)
                else:
                    writer.write(answer)


@asynccontextmanager
async def upstream(script: Script, path: str = "") -> AsyncIterator[HttpUpstream]:
    async with listen(script.serve) as port:
        client = HttpUpstream(f"http://127.0.0.1:{port}{path}", connect_seconds=1.0)
        yield client
        await client.close()


async def whole(client: HttpUpstream, sent: OutgoingRequest) -> bytes:
    answer = await client.send(sent)
    return b"".join([piece async for piece in answer.body])


async def test_connection_is_used_again():
    script = Script(
        OK, b"HTTP/1.1 204 No Content\r\n\r\n", OK, OK.replace(b"200 OK\r\n", b"200 OK\r\nConnection: close\r\n"), OK
    )
    async with upstream(script, "/base/") as client:
        assert [await whole(client, request()) for _ in range(5)] == [b"ok", b"", b"ok", b"ok", b"ok"]
    assert script.connections == 2
    assert script.heads[0].startswith(b"GET /base/a?q=1 HTTP/1.1\r\nhost: 127.0.0.1:")


@pytest.mark.parametrize(
    ("method", "body", "is_repeated"), [("GET", None, True), ("PUT", b"x", True), ("POST", b"x", False)]
)
async def test_request_on_a_closed_connection_is_repeated_if_that_changes_nothing(method, body, is_repeated):
    script = Script(OK, None, OK)
    async with upstream(script) as client:
        await whole(client, request())
        if is_repeated:
            assert await whole(client, request(method, body)) == b"ok"
        else:
            with pytest.raises(RequestFailed) as failed:
                await whole(client, request(method, body))
            assert failed.value.kind == "cut"
    assert len(script.heads) == (3 if is_repeated else 2)


async def test_request_is_repeated_once_and_never_after_a_byte_of_its_answer():
    async with upstream(Script(None, None, OK)) as client:
        with pytest.raises(RequestFailed):
            await whole(client, request())

    async def half(_reader, writer) -> None:
        writer.write(b"HTTP/1.1 2")
        writer.close()

    script = Script(half, OK)
    async with upstream(script) as client:
        with pytest.raises(RequestFailed):
            await whole(client, request())
    assert len(script.heads) == 1


async def test_streamed_body_is_never_repeated():
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"

    script = Script(None, OK)
    async with upstream(script) as client:
        with pytest.raises(RequestFailed):
            await whole(client, request("PUT", pieces(), 1))
    assert len(script.heads) == 1


async def test_bytes_that_come_unasked_answer_no_later_request():
    async def twice(_reader, writer) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(OK.replace(b"ok", b"no"))

    script = Script(twice, OK)
    async with upstream(script) as client:
        assert await whole(client, request()) == b"ok"
        await until(lambda: not client._pool._open)
        assert await whole(client, request()) == b"ok"


@pytest.mark.parametrize(
    "answer",
    [b"SPAM\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000,
     b"HTTP/1.1 101 Go\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
)  # fmt: skip
async def test_answer_that_is_not_http_is_refused(answer):
    async with upstream(Script(answer, answer)) as client:
        with pytest.raises(RequestFailed) as failed:
            await whole(client, request())
    assert failed.value.kind == "invalid"


async def test_header_with_a_line_break_is_not_sent():
    script = Script(OK)
    async with upstream(script) as client:
        with pytest.raises(RequestFailed):
            await whole(client, request(x="a\r\ny: b"))
    assert not script.heads


@pytest.mark.parametrize(("length", "sent"), [(5, b"abc"), (2, b"abc")])
async def test_body_of_another_length_is_not_passed_off_as_whole(length, sent):
    async def pieces() -> AsyncIterator[bytes]:
        yield sent

    async def read_on(reader, _writer) -> None:
        await reader.read()

    async with upstream(Script(read_on)) as client:
        with pytest.raises(RequestFailed):
            await whole(client, request("POST", pieces(), length))


async def test_cancelled_request_closes_its_connection():
    begun, closed = asyncio.Event(), asyncio.Event()

    async def wait(reader, _writer) -> None:
        begun.set()
        await reader.read()
        closed.set()

    async with upstream(Script(wait)) as client:
        task = asyncio.create_task(whole(client, request()))
        await begun.wait()
        task.cancel()
        await closed.wait()


async def test_upstream_that_is_away_is_unreachable():
    async with listen(Script().serve) as port:
        pass
    with pytest.raises(RequestFailed) as failed:
        await HttpUpstream(f"http://127.0.0.1:{port}").send(request())
    assert failed.value.kind == "unreachable"


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://u:p@a", "http://a?b", "http://a b", "a"])
async def test_url_of_an_upstream_is_checked(url):
    with pytest.raises(ValueError, match="upstream"):
        HttpUpstream(url)


async def test_open_circuit_lets_one_request_through_at_a_time():
    breaker = CircuitBreaker("weather", opens_after=2, open_seconds=1.0)
    refused = []

    def is_open() -> bool:
        try:
            breaker.check()
        except Problem as problem:
            refused.append(problem)
            return True
        return False

    breaker.fail()
    assert not is_open()
    breaker.fail()
    assert is_open()
    assert (refused[0].status, refused[0].headers["Retry-After"]) == (503, "1")
    await asyncio.sleep(1.02)
    assert [is_open(), is_open()] == [False, True]
    breaker.succeed()
    assert not is_open()


async def test_upstream_with_tls_must_have_the_certificate_of_its_name(tmp_path):
    authority = Authority(tmp_path)
    for name, is_right in (("localhost", True), ("elsewhere.test", False)):
        script = Script(OK, OK)
        async with listen(script.serve, authority.server(name)) as port:
            client = HttpUpstream(f"https://localhost:{port}", tls=authority.trust())
            if is_right:
                assert [await whole(client, request()) for _ in range(2)] == [b"ok", b"ok"]
            else:
                with pytest.raises(RequestFailed) as failed:
                    await whole(client, request())
                assert failed.value.kind == "tls"
            await client.close()
        assert script.connections == int(is_right)
