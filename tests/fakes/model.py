"""An OpenAI-compatible model server on loopback that says what it is told to, as slowly and as badly as it is told to.

It speaks `POST /v1/chat/completions` with streaming and tools; the official SDK is its client in the tests. It also
runs by itself: `python -m tests.fakes.model SECONDS_PER_TOKEN` prints its address and reads out what it is shown.
"""

import asyncio
import json
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from tests.fakes.background_server import listen, run_in_background

Mode = Literal[
    "ok",
    "no-usage",
    "hang",
    "stall",
    "disconnect",
    "cut",
    "rate-limited",
    "error",
    "unauthorized",
    "malformed",
    "nonsense",
    "html",
    "empty",
    "endless",
]

TOKEN = re.compile(r"\s*\S+")
SHOWN = re.compile(r"\{.*\}")


@dataclass(frozen=True)
class Reply:
    """One turn: text, or the tools to call (name and arguments). `pause_seconds` stands between two tokens."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    mode: Mode = "ok"
    pause_seconds: float = 0.0
    prompt_tokens: int = 100


@dataclass
class FakeModel:
    """`replies` are given in order, the last one again and again; without any it reads out what it is shown."""

    port: int
    replies: list[Reply] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cut_off: int = 0
    answered: int = 0
    pause_seconds: float = 0.0
    cites_last: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def says(self, *replies: Reply | str) -> None:
        """Say these from now on."""
        self.replies = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]
        self.asked.clear()
        self.headers.clear()

    def next_reply(self, request: dict[str, Any]) -> Reply:
        if not self.replies:
            text = read_out(request)
            if self.cites_last:
                text = re.sub(r"(\[\w+\]) ([^\[]*?)\.(?= \[|$)", r"\2 \1.", text)
            return Reply(text, pause_seconds=self.pause_seconds)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def read_out(request: dict[str, Any]) -> str:
    """Each figure and text of the results in the last message, cited as the rules ask."""
    said = []
    for found in SHOWN.findall(str(request["messages"][-1]["content"])):
        shown = json.loads(found)
        figures = [figure for figure in shown.get("figures", ())[:3] if figure["value"] is not None]
        said += [f"[{figure['name']}] For {figure['of']} the feeds give {figure['value']:g}." for figure in figures]
        said += [f"[{row['name']}] One report is titled {row['text']}." for row in shown.get("rows", ())[:2]]
    return " ".join(said) or "NOT IN THE FEEDS"


def fake_model() -> AbstractContextManager[FakeModel]:
    """The server in a thread of its own."""
    return run_in_background(_served())


@asynccontextmanager
async def _served() -> AsyncIterator[FakeModel]:
    state = FakeModel(port=0)
    async with listen(partial(_connection, state)) as state.port:
        yield state


async def _connection(state: FakeModel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                headers, body = await _read(reader)
                request = json.loads(body)
                state.asked.append(request)
                state.headers.append(headers)
                gone = asyncio.ensure_future(reader.read(1))
                work = asyncio.ensure_future(_answer(state, state.next_reply(request), writer))
                await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
                left = not work.done()
                # Either the client left in the middle of the answer, or the answer is done.
                state.cut_off += left
                for task in (gone, work):
                    task.cancel()
                _, outcome = await asyncio.gather(gone, work, return_exceptions=True)
                if left or outcome is not True:
                    return
                state.answered += 1
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> tuple[dict[str, str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    return headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def _answer(state: FakeModel, reply: Reply, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection goes on."""
    if reply.mode == "hang":
        await asyncio.sleep(3_600)
    if reply.mode == "disconnect":
        return False
    if reply.mode in _REFUSALS:
        status, body = _REFUSALS[reply.mode]
        head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return True
    kind = "text/html" if reply.mode == "html" else "text/event-stream"
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    if reply.mode in _NONSENSE:
        await _chunk(writer, _NONSENSE[reply.mode])
    else:
        await _stream(reply, writer)
        if reply.mode == "cut":
            return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _stream(reply: Reply, writer: asyncio.StreamWriter) -> None:
    await _event(writer, {"role": "assistant", "content": ""})
    tokens = TOKEN.findall(reply.text)
    for place, token in enumerate(tokens):
        if reply.mode in {"cut", "stall"} and place >= len(tokens) // 2:
            if reply.mode == "stall":
                await asyncio.sleep(3_600)
            return
        if reply.pause_seconds:
            await asyncio.sleep(reply.pause_seconds)
        await _event(writer, {"content": token})
    while reply.mode == "endless":
        await _event(writer, {"content": " and on" * 100})
    for index, (name, arguments) in enumerate(reply.calls):
        # As servers do: the name first, the arguments in pieces.
        await _event(writer, {"tool_calls": [_call(index, f"call_{index}", name, "")]})
        for piece in (arguments[:7], arguments[7:]):
            await _event(writer, {"tool_calls": [_call(index, None, None, piece)]})
    await _event(writer, {}, "tool_calls" if reply.calls else "stop")
    if reply.mode != "no-usage":
        sent, made = reply.prompt_tokens, len(tokens)
        usage = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
        await _data(writer, {**_FRAME, "choices": [], "usage": usage})
    await _chunk(writer, b"data: [DONE]\n\n")


def _call(index: int, identity: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function} | ({"id": identity, "type": "function"} if identity else {})


async def _event(writer: asyncio.StreamWriter, delta: dict[str, Any], finish: str | None = None) -> None:
    await _data(writer, {**_FRAME, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


async def _data(writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
    await _chunk(writer, b"data: " + json.dumps(data).encode() + b"\n\n")


async def _chunk(writer: asyncio.StreamWriter, raw: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(raw), raw))
    await writer.drain()


_FRAME = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
_REFUSALS: dict[str, tuple[int, bytes]] = {
    "rate-limited": (429, b'{"error": {"message": "slow down", "type": "rate_limit"}}'),
    "error": (500, b'{"error": {"message": "oh no, secret-of-the-model-server"}}'),
    "unauthorized": (401, b'{"error": {"message": "bad key"}}'),
}
_NONSENSE: dict[str, bytes] = {
    "malformed": b"data: {this is not JSON\n\n",
    "nonsense": b'data: {"choices": [{"delta": 5}], "usage": null}\n\ndata: [DONE]\n\n',
    "html": b"<html><body>It works!</body></html>",
    "empty": b"data: [DONE]\n\n",
}


def main() -> None:
    pause, cites_last = float(sys.argv[1]), "--cites-last" in sys.argv
    with fake_model() as model:
        model.pause_seconds, model.cites_last = pause, cites_last
        print(model.url, flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
