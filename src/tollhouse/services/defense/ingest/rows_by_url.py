"""The rows of export files on disk, grouped by the URL they were read from."""

from collections.abc import Iterable
from pathlib import Path

from tollhouse.services.defense.ingest.export_parser import parse_export, unpack_export
from tollhouse.services.defense.ingest.export_row import Row

# Bytes unpacked; a 15-minute export holds about one million.
LARGEST_EXPORT = 50_000_000


def rows_by_url(exports: Iterable[Path]) -> dict[str, list[Row]]:
    """All rows of every URL in raw or zipped exports, each event once. ValueError names an unreadable file."""
    rows: dict[str, dict[str, Row]] = {}
    for path in exports:
        try:
            parsed = parse_export(unpack_export(path.read_bytes(), LARGEST_EXPORT))
        except ValueError as fault:
            raise ValueError(f"{path}: {fault}") from fault
        for row in parsed.rows:
            rows.setdefault(row.url, {})[row.id] = row
    return {url: list(events.values()) for url, events in rows.items()}
