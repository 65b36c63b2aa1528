"""JSON Lines: an object on each line."""

from typing import Any

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.json_text import decode_json
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import RefusedRow, Row, Table


def read_jsonl(documents: list[Document], context: Context) -> Table:
    """A row for each object, a column for each member. Raises UnreadableFeed when no line is an object."""
    objects: list[tuple[int, dict[str, Any]]] = []
    refused: list[RefusedRow] = []
    for line, text in enumerate(documents[0].text(context.mapping.encoding).split("\n"), start=1):
        if not text.strip():
            continue
        try:
            value = decode_json(text)
        except UnreadableFeed as fault:
            refused.append(RefusedRow(line, f"is not JSON: {fault}"))
            continue
        if isinstance(value, dict):
            objects.append((line, value))
        else:
            refused.append(RefusedRow(line, "is not a JSON object"))
    if not objects:
        first = f"; line {refused[0].line} {refused[0].reason}" if refused else ""
        raise UnreadableFeed(f"no line is a JSON object{first}")
    columns = tuple(dict.fromkeys(name for _, members in objects for name in members))
    if not columns:
        raise UnreadableFeed("no object has a member: there is no column in it")
    return Table(columns, [Row(line, [members.get(name) for name in columns]) for line, members in objects], refused)


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
