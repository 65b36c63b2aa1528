"""`tollhouse demo`: a local chain, a server, and a guided tour of every way to pay."""

import asyncio
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from tollhouse.cli.options import HERE, Where


def demo(
    *,
    port: Annotated[int, Parameter(help="Where the server listens (default: a free port)")] = 0,
    once: Annotated[bool, Parameter(help="End with the tour instead of serving on")] = False,
    where: Where = HERE,
) -> None:
    """Start a chain of its own and a server on it, show every way to use and to pay, then serve until told to stop."""
    with ExitStack() as stack:
        folder = where.data_dir or stack.enter_context(tempfile.TemporaryDirectory(prefix="tollhouse-demo-"))
        asyncio.run(_show(Path(folder), port, once=once))


async def _show(folder: Path, port: int, *, once: bool) -> None:
    from tollhouse.demo.narrator import Narrator
    from tollhouse.demo.stage import set_stage
    from tollhouse.demo.tour import play

    tell = Narrator(Console())
    tell.say("Starting a local chain and a server (everything here is on this machine; no account, no network) …")
    async with set_stage(folder, port) as stage:
        await play(stage, tell)
        if once:
            return
        tell.chapter("Yours now")
        tell.say(f"{stage.root}/            what this server offers\n{stage.root}/defense/docs  every operation")
        tell.say("Ctrl-C ends the server and the chain.")
        await _until_told(stage.ended)


async def _until_told(ended: asyncio.Event) -> None:
    """Until the server ends by itself, or somebody says stop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
