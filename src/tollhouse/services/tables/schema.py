"""A declaration as a catalogue's schema, and values as the catalogue keeps and a reader sees them."""

from hashlib import blake2b
from typing import Any

from tollhouse.catalogue import schema as catalogue
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.schema import FieldType, Schema
from tollhouse.services.tables.cell_values import Kind
from tollhouse.services.tables.declaration import Declaration, Field

_TYPES: dict[Kind, FieldType] = {
    "text": "text",
    "keyword": "keyword",
    "list": "keywords",
    "integer": "integer",
    "number": "number",
    "money": "money",
    "date": "timestamp",
    "moment": "timestamp",
    "boolean": "boolean",
    "url": "text",
    "image": "text",
    "json": "json",
}
_MIDNIGHT = "T00:00:00Z"
# Beside some 100 for a whole title.
_ALIKE = 30.0
_MOST_ALIKE = 8


def schema_of(declaration: Declaration) -> Schema:
    """How the catalogue takes the items in."""
    alike = [name for name, field in declaration.fields.items() if field.filtered and field.faceted]
    return Schema(
        fields=tuple(_field(name, field) for name, field in declaration.fields.items()),
        title=declaration.table.title,
        alike=dict.fromkeys(alike[:_MOST_ALIKE], _ALIKE),
    )


def catalogue_name(declaration: Declaration) -> str:
    """Of another shape of the table it is another, so that no rows of an older shape are ever read as this one's."""
    return f"t:{declaration.name}:{blake2b(declaration.fingerprint, digest_size=4).hexdigest()}"


def indexed(kind: Kind, value: Any) -> Any:
    """A value as the catalogue keeps it: days as moments."""
    return f"{value}{_MIDNIGHT}" if kind == "date" else value


def shown(declaration: Declaration, item: Item) -> dict[str, Any]:
    """An item as a reader sees it: every exported member there, in the order of the declaration."""
    told: dict[str, Any] = {"id": item["id"]}
    for name, field in declaration.fields.items():
        if field.exported:
            value = item.get(name)
            told[name] = value.removesuffix(_MIDNIGHT) if field.type == "date" and value else value
    return told


def _field(name: str, field: Field) -> catalogue.Field:
    return catalogue.Field(
        name,
        _TYPES[field.type],
        weight=field.searched,
        filtered=field.filtered,
        faceted=field.faceted,
        sorted=field.sorted,
        exported=field.exported,
        required=field.required,
    )
