"""The upstream of the schedules of crashes: a process that is killed in the middle of answers, and started again."""

import asyncio
import os
import secrets
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.payments.crashes.in_process_server import COST_HEADER, PAGE_MICROS
from tollhouse.money import usd

PIECES = 4
PIECE_SECONDS = 0.004
FORMS = ("short", "long", "events")
"""An answer that is read whole, one that is passed on as it comes, and one without a length."""
DEATHS = tuple(range(-2, PIECES))
"""When it dies: before the head of an answer, after it, or after so many of its pieces."""
BEFORE_HEAD = -2

Death = tuple[int, int]
"""Which answer of a process is its last, from 1 on, and the moment in it, of DEATHS."""


def run(port: int, deaths: Sequence[Death], journal: Path) -> None:
    """Serve until this process is killed.

    Each death ends a child of it, which a byte in the journal states, and another one serves. The last one lives on.
    """
    for death in [*deaths, None]:
        pid = os.fork()
        if not pid:
            asyncio.run(_serve(port, death))
        os.waitpid(pid, 0)
        with journal.open("ab") as file:
            file.write(b".")


async def _serve(port: int, death: Death | None) -> None:
    answers = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answers
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                answers += 1
                moment = death[1] if death and answers == death[0] else None
                await _answer(writer, head.split(maxsplit=2)[1].rpartition(b"/")[2].decode(), moment)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port) as server:
        await server.serve_forever()


async def _answer(writer: asyncio.StreamWriter, form: str, moment: int | None) -> None:
    size = 8 if form == "short" else 64
    pieces = [secrets.token_hex(size).encode() for _ in range(PIECES)]
    has_length = form != "events"
    framing = f"content-length: {sum(map(len, pieces))}" if has_length else "transfer-encoding: chunked"
    media_type = "text/plain" if has_length else "text/event-stream"
    _die_at(BEFORE_HEAD, moment)
    head = ("HTTP/1.1 200 OK", f"content-type: {media_type}", framing, f"{COST_HEADER}: {usd(PAGE_MICROS)}", "", "")
    writer.write("\r\n".join(head).encode())
    for number, piece in enumerate(pieces):
        _die_at(number - 1, moment)
        await asyncio.sleep(PIECE_SECONDS)
        writer.write(piece if has_length else b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
    _die_at(PIECES - 1, moment)
    if not has_length:
        writer.write(b"0\r\n\r\n")


def _die_at(here: int, moment: int | None) -> None:
    if here == moment:
        os.kill(os.getpid(), signal.SIGKILL)
