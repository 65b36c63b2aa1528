"""How a batch can fail: what a caller is told of it, and where a test may have the process die."""

from collections.abc import Sequence

from tollhouse import failpoints
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger.commands import NAMES, Operation

log = logger("ledger")


def unavailable(error: BaseException) -> Problem:
    """Disk full, locked, gone: a clear problem for the caller, the cause in the log."""
    log.error("the ledger is unavailable", error=str(error).partition("\n")[0])
    return Problem(
        "storage-unavailable",
        "The server cannot reach or write its ledger; try again shortly.",
        headers={"Retry-After": "5"},
        retry_after_seconds=5,
    )


def before_commit(operations: Sequence[Operation]) -> None:
    """The failpoints `ledger.<operation>.before-commit`: nothing of the batch has happened."""
    _reach(operations, "before-commit")


def after_commit(operations: Sequence[Operation]) -> None:
    """The failpoints `ledger.<operation>.after-commit`: all of the batch has happened, and nobody was told."""
    _reach(operations, "after-commit")


def _reach(operations: Sequence[Operation], moment: str) -> None:
    for name in sorted({NAMES[type(operation)] for operation in operations}):
        failpoints.reach(f"ledger.{name}.{moment}")
