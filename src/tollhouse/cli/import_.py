"""`tollhouse import`: import a product feed into a service's catalogue."""

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from tollhouse.admission.context import AppContext
from tollhouse.cli.options import DEFAULTS, CommonOptions, print_json, print_progress
from tollhouse.cli.progress import TerminalProgress
from tollhouse.services.mattress.import_command import ImportOptions
from tollhouse.services.mattress.import_command import import_feed as import_mattresses

EXIT_NOT_LANDED = 1
EXIT_SOME_REFUSED = 3

# By service. The report of an import has `refused` and `landed` besides its counts.
IMPORTS = {"mattress": import_mattresses}


def import_(
    service: Annotated[str, Parameter(help="Service with a catalogue: mattress")],
    source: Annotated[str, Parameter(help="Path or URL of the feed")],
    *,
    options: ImportOptions,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Import a product feed from a file or a URL into a service's catalogue. Print a JSON report.

    Valid rows are imported in one transaction. Exit status 3: rows were refused. Exit status 1: nothing was imported,
    because the feed is unreadable or would remove more than half of the retailer's products.
    """
    if service not in IMPORTS:
        raise ValueError(f"cannot import into {service!r}; services with an import are {', '.join(IMPORTS)}")

    async def command(context: AppContext) -> dict[str, Any]:
        with TerminalProgress() as progress:
            progress.phase("Reading the feed")
            return await IMPORTS[service](
                context.settings, context.database, progress.note, source, options, on_rows=progress.step
            )

    report = common.run(command)
    print_json(report)
    if not report["landed"]:
        print_progress(f"nothing was imported: {report['reason']}")
    if report["refused"] or not report["landed"]:
        sys.exit(EXIT_SOME_REFUSED if report["refused"] else EXIT_NOT_LANDED)
