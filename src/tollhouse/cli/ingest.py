"""`tollhouse ingest`: the provider's raw files by hand."""

import asyncio
import sys
from pathlib import Path

import msgspec
from cyclopts import App

from tollhouse import app, logs
from tollhouse.cli.options import HERE, Where
from tollhouse.services.defense.ingest.slots import SlotReport, ingest_export

ingest = App(name="ingest", help="Take raw provider files into the store.")

SHOWN_BAD_ROWS = 5
EXIT_SOME_REFUSED = 3


@ingest.command
def gdelt(*files: Path, where: Where = HERE) -> None:
    """Take raw GDELT 2.0 event exports, zipped or not; print a JSON report a file. Exit 3 when a file was refused."""
    if not files:
        raise ValueError("name at least one export file")
    logs.configure("warning")
    if asyncio.run(_ingest_all(files, where)):
        sys.exit(EXIT_SOME_REFUSED)


async def _ingest_all(files: tuple[Path, ...], where: Where) -> int:
    refused = 0
    async with app.rooms_of(where.settings(), answers_calls=False) as rooms:
        for number, file in enumerate(files, 1):
            try:
                report = await ingest_export(rooms.database, file.name, file.read_bytes(), "local", "file")
            except (ValueError, OSError) as error:
                refused += 1
                print(f"{file}: refused: {error}", file=sys.stderr)
            else:
                _tell(number, len(files), file, report)
    return refused


def _tell(number: int, total: int, file: Path, report: SlotReport) -> None:
    members = {"file": file.name, **msgspec.to_builtins(report)}
    members["bad"] = members["bad"][:SHOWN_BAD_ROWS]
    print(msgspec.json.encode(members).decode(), flush=True)
    print(f"{number}/{total} {file.name}: {report.rows} rows, {report.events} events", file=sys.stderr)
