"""JSON Lines: an object on each line."""

from collections.abc import Iterable, Iterator
from typing import Any

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.json_text import decode_json
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import RefusedRow, Row, StreamedRows, Table, check_refused


def read_jsonl(documents: list[Document], context: Context) -> Table:
    """A row for each object, a column for each member. Raises UnreadableFeed when no line is an object.

    The rows of a large file are read anew in each iteration.
    """
    read_lines = documents[0].lines(context.mapping.encoding)
    refused: list[RefusedRow] = []
    names: dict[str, None] = {}
    count = 0
    for _, members in _objects(read_lines(), refused):
        names.update(dict.fromkeys(members))
        count += 1
    if not count:
        first = f"; line {refused[0].line} {refused[0].reason}" if refused else ""
        raise UnreadableFeed(f"no line is a JSON object{first}")
    if not names:
        raise UnreadableFeed("no object has a member: there is no column in it")

    def read() -> Iterator[Row]:
        return (Row(line, [members.get(name) for name in names]) for line, members in _objects(read_lines(), []))

    rows = StreamedRows(count, read)
    return Table(tuple(names), rows if documents[0].is_streamed else list(rows), refused)


def _objects(lines: Iterable[str], refused: list[RefusedRow]) -> Iterator[tuple[int, dict[str, Any]]]:
    count = 0
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            value = decode_json(text)
        except UnreadableFeed as fault:
            value, reason = None, f"is not JSON: {fault}"
        else:
            reason = "is not a JSON object"
        if isinstance(value, dict):
            count += 1
            yield line, value
        else:
            refused.append(RefusedRow(line, reason))
            check_refused(refused, count)


register(
    Format(
        name="jsonl",
        help="one JSON object per line; columns as in csv, nested members as `price.amount`",
        prices="as shops write them, or minor units",
        read_table=read_jsonl,
        names_currency=False,
        endings=(".jsonl", ".ndjson"),
    )
)
