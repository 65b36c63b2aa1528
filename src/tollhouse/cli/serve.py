"""`tollhouse serve` and `tollhouse worker`: run the server, or the background work alone."""

import asyncio
import gc
import signal
import socket
import sys
from pathlib import Path
from shutil import rmtree
from typing import Annotated

from cyclopts import Parameter

from tollhouse import app, logs
from tollhouse.admission.operator_access import OperatorAccess, operator_root
from tollhouse.cli.local_payments import start_local_chain
from tollhouse.cli.options import DEFAULTS, CommonOptions
from tollhouse.config.loader import export, share_metrics
from tollhouse.config.settings import Settings

STOP_WITHIN_SECONDS = 35


def serve(
    service: Annotated[str, Parameter(help="Serve only this service, at the root")] = "",
    *,
    host: Annotated[str, Parameter(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port to listen on")] = 8000,
    recorded: Annotated[
        bool | str | None,
        Parameter(help="Serve a bundled recording, that of November 2020 or of a day; or only live data"),
    ] = None,
    workers: Annotated[int | None, Parameter(help="Number of processes that handle requests (default: 1)")] = None,
    worker: Annotated[bool, Parameter(help="Run the background work in this server")] = True,
    local_chain: Annotated[
        bool, Parameter(negative=(), help="Start a chain on this machine, and take payments in test money on it")
    ] = False,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Run the server. In-flight requests complete before shutdown."""
    if isinstance(recorded, str) and recorded.isidentifier() and not service:
        # `--recorded SERVICE`: the option stands alone, and the service follows it.
        service, recorded = recorded, True
    chain = start_local_chain() if local_chain else {}
    chosen = common.settings(
        service=service or None,
        recorded=recorded,
        workers=workers,
        background_work=None if worker else False,
        served_at=address_of(host, port),
        **chain,
    )
    run_server(chosen, host, port)


def run_server(chosen: Settings, host: str, port: int) -> None:
    """Serve until the command is stopped."""
    from granian import Granian
    from granian.constants import Interfaces, Loops
    from granian.log import LogLevels

    from tollhouse.http.listener import BACKLOG, CONNECTIONS, http_options, raise_descriptor_limit, split_address

    raise_descriptor_limit()
    logs.configure(chosen.log_level)
    asyncio.run(app.check(chosen))
    _check_port(host, port)
    if chosen.operator_listen:
        _check_port(*split_address(chosen.operator_listen))
    export(chosen)
    _share_metrics(chosen)
    _print_addresses(chosen)
    # Forked workers share the memory of what is imported: their collector must not write to it.
    gc.freeze()
    Granian(
        "tollhouse.app:create",
        factory=True,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=chosen.workers,
        log_level=LogLevels.warning,
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_WITHIN_SECONDS,
        backlog=BACKLOG,
        backpressure=CONNECTIONS,
        **http_options(chosen.idle_timeout_seconds),
    ).serve()


def worker(*, common: CommonOptions = DEFAULTS) -> None:
    """Run the background work for servers started with `--no-worker`."""
    chosen = common.settings()
    logs.configure(chosen.log_level)
    asyncio.run(_work(chosen))


async def _work(chosen: Settings) -> None:
    task = asyncio.ensure_future(app.working(chosen))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.gather(task, return_exceptions=True)


def _check_port(host: str, port: int) -> None:
    """Raise OSError if the port is in use: two servers could share it unnoticed, each with its own data."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from None


def _share_metrics(chosen: Settings) -> None:
    """Let worker processes add up their metrics in files of one directory."""
    if chosen.workers > 1:
        folder = Path(chosen.data_dir) / "metrics"
        rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        share_metrics(folder)


def address_of(host: str, port: int) -> str:
    """The URL at which this machine reaches the server."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - a name, not an address to bind
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def _print_addresses(chosen: Settings) -> None:
    access = OperatorAccess(chosen)
    is_new = access.make_token()
    base = chosen.served_at
    names = app.chosen(chosen)
    print(f"Tollhouse on {base} (stop with Ctrl-C)", file=sys.stderr)
    for name in names:
        prefix = "" if chosen.service else f"/{name}"
        print(f"  {name}: {base}{prefix}/docs", file=sys.stderr)
    print(f"  operator: {operator_root(chosen)}/operator", file=sys.stderr)
    if is_new:
        print(f"The operator's login, once, within the hour: {access.new_login_link()}", file=sys.stderr)
