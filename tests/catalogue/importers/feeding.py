"""Feeds for tests: files of invented shops, and text written in place."""

import json
from pathlib import Path
from typing import Any

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.formats import find_format
from tollhouse.services.mattress.import_command import FeedRequest, rows_from_documents
from tollhouse.services.mattress.import_rows import ImportedRow

FEEDS = Path(__file__).parent / "feeds"
SITE = "https://shop.example/"


def rows_of_file(name: str, format_name: str, **members: Any) -> dict[str, ImportedRow]:
    """The rows of a fixture by id; a row without an id by its line."""
    return rows_of_bytes((FEEDS / name).read_bytes(), format_name, **members)


def rows_of_bytes(raw: bytes, format_name: str, **members: Any) -> dict[str, ImportedRow]:
    return by_id(rows_of_document(raw, format_name, **members))


def rows_of_text(text: str, format_name: str, **members: Any) -> list[ImportedRow]:
    return rows_of_document(text.encode("utf-8", "replace"), format_name, **members)


def rows_of_document(raw: bytes, format_name: str, **members: Any) -> list[ImportedRow]:
    request = FeedRequest("a file", find_format(format_name), **{"site": SITE, **members})
    return list(rows_from_documents([Document(raw)], request))


def by_id(rows: list[ImportedRow]) -> dict[str, ImportedRow]:
    return {row.id or f"line {row.line}": row for row in rows}


def shopify(*products: dict[str, Any]) -> str:
    return json.dumps({"products": list(products)})


def mattress(identity: int = 1, *, sizes: tuple[str, ...] = ("Queen",), price: Any = "999.00", **members: Any):
    """A Shopify product in some sizes, all at one price."""
    variants = [
        {"id": identity * 100 + place, "option1": size, "price": price, "compare_at_price": None, "available": True}
        for place, size in enumerate(sizes)
    ]
    product = {"title": "Cloud", "handle": f"cloud-{identity}", "options": [{"name": "Size"}], "variants": variants}
    return {"id": identity, **product, **members}
