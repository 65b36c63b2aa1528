"""`tollhouse import`: what others publish, taken into a service's catalogue."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from cyclopts import Parameter

from tollhouse import app, logs
from tollhouse.cli.options import HERE, Where
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.import_command import import_feed as import_mattresses
from tollhouse.storage.database import Database

EXIT_NOT_LANDED = 1
EXIT_SOME_REFUSED = 3

_FORMATS = "shopify, shopify-admin, shopify-js, woocommerce, merchant-xml, merchant-tsv, jsonld, csv or jsonl"
Format = Annotated[str, Parameter(name="--format", help=_FORMATS)]
RetailerId = Annotated[str, Parameter(name="--retailer", help="Whose products these are")]
Partial = Annotated[bool, Parameter(name="--partial", help="Keep the retailer's products that the feed does not have")]
Currency = Annotated[str, Parameter(help="The currency of prices that name none")]
Site = Annotated[str, Parameter(help="The shop's address, where the feed's links lack it")]
MappingFile = Annotated[Path | None, Parameter(name="--mapping", help="TOML file: which column holds which field")]


class ImportFeed(Protocol):
    """What a service offers here. The report has `refused` and `landed`, besides what it counts."""

    async def __call__(
        self,
        settings: Settings,
        database: Database,
        tell: Callable[[str], None],
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
    allow_shrink: bool = False,
    strict: bool = False,
    currency: Currency = "",
    site: Site = "",
    mapping: MappingFile = None,
    where: Where = HERE,
) -> None:
    """Take a shop's feed, a file or an address, into a service's catalogue; print a JSON report.

    All good rows land together. Exit 3 when rows were refused, 1 when nothing landed because the feed is unreadable or
    would take away more than half of the retailer's products (--allow-shrink lets it). --strict lets nothing land
    when a row is refused.
    """
    if service not in IMPORTS:
        raise ValueError(f"nothing can be imported into {service!r}, only into {', '.join(IMPORTS)}")
    logs.configure("warning")

    async def run() -> dict[str, Any]:
        settings = where.settings()
        async with app.open_context(settings, answers_calls=False) as context:
            return await IMPORTS[service](
                settings,
                context.database,
                _tell,
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
        _tell(f"nothing landed: {report['reason']}")
    if report["refused"] or not report["landed"]:
        sys.exit(EXIT_SOME_REFUSED if report["refused"] else EXIT_NOT_LANDED)


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
