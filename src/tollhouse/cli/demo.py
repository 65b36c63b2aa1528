"""`tollhouse demo`: a local chain, a server, and a tour of every way to pay."""

import asyncio
import signal
import sys
import tempfile
import time
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from tollhouse import logs
from tollhouse.cli.options import DEFAULTS, CommonOptions
from tollhouse.config.loader import has_display


def demo(
    *,
    port: Annotated[int, Parameter(help="Port to listen on (default: a free port)")] = 0,
    once: Annotated[bool, Parameter(help="Stop after the tour")] = False,
    opens: Annotated[bool, Parameter(name="--open", help="Open the console in a browser after the tour")] = True,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Run a local chain and a server, show every way to use and to pay for it, then serve until interrupted."""
    logs.configure("warning")
    with ExitStack() as stack:
        folder = common.data_dir or stack.enter_context(tempfile.TemporaryDirectory(prefix="tollhouse-demo-"))
        asyncio.run(_show(Path(folder), port, once=once, opens=opens))


async def _show(folder: Path, port: int, *, once: bool, opens: bool) -> None:
    from tollhouse.demo.environment import start_environment
    from tollhouse.demo.printer import Printer
    from tollhouse.demo.tour import addresses, run_tour
    from tollhouse.payments.chain.local_chain import install_anvil

    printer, began = Printer(Console()), time.monotonic()
    printer.say("Starting a local chain and a server: nothing leaves this machine, and no account is needed …")
    await asyncio.to_thread(install_anvil, printer.say)
    async with start_environment(folder, port) as environment:
        await run_tour(environment, printer)
        printer.say(f"\nThe tour took {time.monotonic() - began:.0f} seconds, startup included.")
        if once:
            return
        printer.chapter("Try it yourself", "The server runs until Ctrl-C. Then its data is deleted.")
        printer.table(await addresses(environment))
        if opens and sys.stdout.isatty() and has_display():
            webbrowser.open(environment.root)
        await _wait_for_stop(environment.ended)


async def _wait_for_stop(ended: asyncio.Event) -> None:
    """Wait until the server ends by itself, or a signal arrives."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
