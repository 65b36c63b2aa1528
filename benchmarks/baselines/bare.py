"""The bare ASGI application: one prepared answer for everything, on granian with the options of `tollhouse serve`.

`bare.py PORT [WORKERS TURNS] FILE`: each call does TURNS turns of an empty loop before it answers.
"""

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import msgspec
from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels

Message = MutableMapping[str, Any]


class Prepared(msgspec.Struct):
    """The answer to give: header names and values in the order to send them."""

    headers: list[tuple[str, str]]
    body: str


def create() -> Callable[..., Awaitable[None]]:
    """The application over the file named by the last command line argument."""
    answer = msgspec.json.decode(Path(sys.argv[-1]).read_bytes(), type=Prepared)
    headers = [(name.encode(), value.encode()) for name, value in answer.headers]
    start = {"type": "http.response.start", "status": 200, "headers": headers}
    turns = range(int(sys.argv[3]) if len(sys.argv) > 4 else 0)
    body = {"type": "http.response.body", "body": answer.body.encode()}

    async def bare(scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[..., Any]) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        for _ in turns:
            pass
        await send(start)
        await send(body)

    return bare


def main() -> None:
    Granian(
        "bare:create",
        factory=True,
        address="127.0.0.1",
        port=int(sys.argv[1]),
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=int(sys.argv[2]) if len(sys.argv) > 4 else 1,
        websockets=False,
        log_level=LogLevels.warning,
        respawn_failed_workers=True,
        backlog=2048,
    ).serve()


if __name__ == "__main__":
    main()
