"""`tollhouse ingest`: ingest provider files into the defense feeds."""

import sys
from pathlib import Path

import msgspec
from cyclopts import App

from tollhouse.admission.context import AppContext
from tollhouse.cli.options import DEFAULTS, CommonOptions, print_json, print_progress
from tollhouse.services.defense import store
from tollhouse.services.defense.brief.p1_import import imported, read_exhibit
from tollhouse.services.defense.brief.production import bundled_lines
from tollhouse.services.defense.ingest.batches import ingest_file

ingest = App(name="ingest", help="Ingest provider files into the defense feeds.")

SHOWN_BAD_ROWS = 5
EXIT_SOME_REFUSED = 3


@ingest.command
def gdelt(*files: Path, common: CommonOptions = DEFAULTS) -> None:
    """Ingest GDELT 2.0 export, mentions or gkg files, zipped or not; print a JSON report per file.

    Pages and events are joined by address, in whatever order the files are named or ingested; exports are read first,
    so that their pages are known. Exit with 3 if a file is refused.
    """
    if not files:
        raise ValueError("name at least one file")

    async def command(context: AppContext) -> int:
        refused = 0
        for number, file in enumerate(sorted(files, key=lambda file: ".export." not in file.name), 1):
            try:
                report = await ingest_file(context.database, file)
            except (ValueError, OSError) as error:
                refused += 1
                print_progress(f"{file}: refused: {error}")
                continue
            report["bad"] = report["bad"][:SHOWN_BAD_ROWS]
            print_json({"file": file.name, **report})
            print_progress(f"{number}/{len(files)} {file.name}: {report['rows']} rows, {report['bad_rows']} bad")
        return refused

    if common.run(command):
        sys.exit(EXIT_SOME_REFUSED)


@ingest.command
def p1(file: Path, *, common: CommonOptions = DEFAULTS) -> None:
    """Ingest a P-1 procurement exhibit (CSV or XLSX) into the brief. Servers show it after a restart."""
    exhibit = read_exhibit(file.read_bytes())
    result = imported(exhibit, file.name, bundled_lines())

    async def command(context: AppContext) -> None:
        async with context.database.writing() as connection:
            await store.write_document(connection, store.PRODUCTION_LINES, msgspec.json.encode(result.lines))

    common.run(command)
    print_json({
        "file": file.name,
        "lines": len(exhibit.lines),
        "matched": result.matched,
        "known": len(result.lines),
        "memo_rows": exhibit.memo_rows,
        "total_rows": exhibit.total_rows,
        "bad": exhibit.bad[:SHOWN_BAD_ROWS],
    })  # fmt: skip
