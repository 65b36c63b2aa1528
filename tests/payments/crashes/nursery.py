"""Servers forked from a process that has imported everything: another life costs a tenth of a second, not seconds."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

from granian import Granian
from granian.constants import Interfaces, Loops

_NURSERY = multiprocessing.get_context("forkserver")
_NURSERY.set_forkserver_preload(["tests.payments.crashes.paid_app", "tests.payments.crashes.nursery"])


def born(factory: str, port: int, variables: Mapping[str, str], log: Path) -> BaseProcess:
    """A server of `paid_app`'s `factory` in a process group of its own, as `granian` on the command line starts it."""
    process = _NURSERY.Process(target=_live, args=(factory, port, dict(variables), str(log)))
    process.start()
    return process


def stopped(process: BaseProcess) -> None:
    """As a power cut: the whole group at once."""
    assert process.pid is not None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


def _live(factory: str, port: int, variables: dict[str, str], log: str) -> None:
    os.setsid()
    # Granian's own worker too: it would be as this process, from a server of forks that has imported nothing.
    multiprocessing.set_start_method("fork", force=True)
    os.environ.clear()
    os.environ.update(variables)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(written, 1)
    os.dup2(written, 2)
    Granian(
        f"tests.payments.crashes.paid_app:{factory}",
        factory=True,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        log_access=False,
    ).serve()
