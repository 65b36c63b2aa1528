"""The pages of a declared table, and its entry on the front page, made from the declaration."""

from functools import partial
from pathlib import Path
from typing import Any

from tollhouse.http.pages import FrontPageEntry, Page, PageGroup
from tollhouse.services.tables.api_types import HAS
from tollhouse.services.tables.declaration import RANGED, UNKNOWN, Declaration
from tollhouse.services.tables.positions import find_position_fields

GROUP = PageGroup("/tables", "Tables", "Tables to search, filter and download.")

# Parameters of the page itself begin with a line, which no field's name does.
_PARAMETERS = ("q", "sort", "offset", "_view", "_columns", "_chart")
_FOLDER = Path(__file__).parent


def build_pages(declaration: Declaration) -> tuple[Page, ...]:
    fields = declaration.fields.items()
    path = f"{GROUP.path}/{declaration.name}"
    note = f"Source: {declaration.source}. Licence: {declaration.licence}."
    ends = [
        f"{end}_{name}" for name, field in fields if field.filtered and field.type in RANGED for end in ("min", "max")
    ]
    parameters = (*_PARAMETERS, *ends, *(f"{name}{HAS}" for name, field in fields if field.searched))
    lists = tuple(name for name, field in fields if field.filtered)
    page = partial(Page, list_parameters=lists, facts=_facts(declaration, path), group=GROUP)
    return (
        page(
            path=path,
            title=declaration.title,
            label=declaration.title,
            file=_FOLDER / "table.html",
            scripts=("../map.css", "grid.css", "table.css", "table.js"),
            parameters=parameters,
            texts={"title": declaration.title, "summary": declaration.description, "note": note},
            summary=declaration.description,
            note=note,
        ),
        page(
            path=f"{path}/row",
            title=f"A row of {declaration.title}",
            label="",
            file=_FOLDER / "row.html",
            scripts=("grid.css", "table.css", "row.js"),
            parameters=("id", "_at", *parameters),
            texts={"title": declaration.title, "table": path, "note": note},
        ),
    )


def _facts(declaration: Declaration, path: str) -> dict[str, Any]:
    """What the scripts of the pages need to know: what the fields are, and what can be done with each."""
    fields = declaration.fields.items()
    positions = find_position_fields(declaration)
    # Counts of latitudes say nothing: a map does.
    located = (positions.latitude, positions.longitude) if positions else ()
    return {
        "service": declaration.name,
        "title": declaration.title,
        "page": path,
        "title_field": declaration.table.title,
        "has_files": declaration.exports,
        "position": {"latitude": located[0], "longitude": located[1]} if located else None,
        "has_chart": any(field.filtered and (field.faceted or field.type in RANGED) for _, field in fields),
        "fields": [
            {
                "name": name,
                "label": field.label or field.column or name,
                "type": field.type,
                "unit": field.currency,
                "is_searched": field.searched > 0 and f"{name}{HAS}" not in declaration.fields,
                "is_filtered": field.filtered,
                "is_ranged": field.filtered and field.type in RANGED,
                "is_counted": field.faceted and name not in located,
                "is_ordered": field.sorted,
                "is_shown": field.exported,
            }
            for name, field in fields
        ],
    }


def build_front_page(declaration: Declaration) -> FrontPageEntry:
    path = f"{GROUP.path}/{declaration.name}"
    summary = declaration.description or f"A table of {len(declaration.fields)} columns to search and filter"
    return FrontPageEntry(
        title=declaration.title,
        summary=f"{summary.rstrip('.')}.",
        example_calls=("/api/items?limit=5",),
        page=path,
        button="Search the table",
        file=_FOLDER / "front.html",
        scripts=("grid.css", "tables_front.css", "front.js"),
        facts=_facts(declaration, path),
        group=GROUP,
        sources=() if declaration.source == UNKNOWN else (declaration.source,),
    )
