"""`tollhouse import`: import a product feed into a service's catalogue."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from cyclopts import Parameter

from tollhouse import logs
from tollhouse.admission.context import open_context
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.cli.options import HERE, Where
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.import_command import import_feed as import_mattresses
from tollhouse.storage.database import Database

EXIT_NOT_LANDED = 1
EXIT_SOME_REFUSED = 3

Format = Annotated[str, Parameter(name="--format", help=f"Format of the feed: {', '.join(FORMATS)}")]
RetailerId = Annotated[str, Parameter(name="--retailer", help="Id of the retailer that sells the products")]
Partial = Annotated[bool, Parameter(name="--partial", help="Keep the retailer's products that the feed does not have")]
Shrink = Annotated[bool, Parameter(help="Allow the import to remove more than half of the retailer's products")]
Strict = Annotated[bool, Parameter(help="Import nothing when a row is refused")]
Currency = Annotated[str, Parameter(help="Currency of prices that name none")]
Site = Annotated[str, Parameter(help="Address of the shop, for relative links in the feed")]
MappingFile = Annotated[Path | None, Parameter(name="--mapping", help="TOML file that assigns columns to fields")]


class ImportFeed(Protocol):
    """A service's import. The report has `refused` and `landed` besides its counts."""

    async def __call__(
        self,
        settings: Settings,
        database: Database,
        progress: Callable[[str], None],
        *,
        source: str,
        format_name: str,
        retailer_id: str,
        is_partial: bool,
        allow_shrink: bool,
        strict: bool,
        currency: str,
        site: str,
        mapping: Path | None,
    ) -> dict[str, Any]: ...


IMPORTS: dict[str, ImportFeed] = {
    "mattress": import_mattresses,
}


def import_(
    service: str,
    source: str,
    *,
    format_name: Format,
    retailer_id: RetailerId,
    is_partial: Partial = False,
    allow_shrink: Shrink = False,
    strict: Strict = False,
    currency: Currency = "",
    site: Site = "",
    mapping: MappingFile = None,
    where: Where = HERE,
) -> None:
    """Import a shop's feed, a file or an address, into a service's catalogue. Print a JSON report.

    Valid rows are imported in one transaction. Exit status 3: rows were refused. Exit status 1: nothing was imported,
    because the feed is unreadable or would remove more than half of the retailer's products.
    """
    if service not in IMPORTS:
        raise ValueError(f"cannot import into {service!r}; services with an import are {', '.join(IMPORTS)}")
    logs.configure("warning")

    async def run() -> dict[str, Any]:
        settings = where.settings()
        async with open_context(settings, answers_calls=False) as context:
            return await IMPORTS[service](
                settings,
                context.database,
                _print_progress,
                source=source,
                format_name=format_name,
                retailer_id=retailer_id,
                is_partial=is_partial,
                allow_shrink=allow_shrink,
                strict=strict,
                currency=currency,
                site=site,
                mapping=mapping,
            )

    report = asyncio.run(run())
    print(msgspec.json.encode(report).decode())
    if not report["landed"]:
        _print_progress(f"nothing was imported: {report['reason']}")
    if report["refused"] or not report["landed"]:
        sys.exit(EXIT_SOME_REFUSED if report["refused"] else EXIT_NOT_LANDED)


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr)
