"""The page of a declared table, and its entry on the front page, made from the declaration."""

from pathlib import Path

from tollhouse.http.pages import FrontPageEntry, Page, PageGroup
from tollhouse.services.tables.declaration import RANGED, Declaration

GROUP = PageGroup("/tables", "Tables", "Tables to search, filter and download.")

_PARAMETERS = ("q", "sort", "offset", "item")


def build_page(declaration: Declaration) -> Page:
    """The search page of a table. Its facts tell the script what the fields are and what can be done with each."""
    ranged = [name for name, field in declaration.fields.items() if field.filtered and field.type in RANGED]
    note = f"Source: {declaration.source}. Licence: {declaration.licence}."
    return Page(
        path=f"{GROUP.path}/{declaration.name}",
        title=declaration.title,
        label=declaration.title,
        file=Path(__file__).parent / "table.html",
        scripts=("table.css", "table.js"),
        parameters=(*_PARAMETERS, *(f"{end}_{name}" for name in ranged for end in ("min", "max"))),
        list_parameters=tuple(name for name, field in declaration.fields.items() if field.filtered),
        facts={
            "service": declaration.name,
            "title_field": declaration.table.title,
            "has_files": declaration.exports,
            "fields": [
                {
                    "name": name,
                    "label": field.label or field.column or name,
                    "type": field.type,
                    "unit": field.currency,
                    "is_filtered": field.filtered,
                    "is_ranged": name in ranged,
                    "is_counted": field.faceted,
                    "is_ordered": field.sorted,
                    "is_shown": field.exported,
                }
                for name, field in declaration.fields.items()
            ],
        },
        texts={"title": declaration.title, "summary": declaration.description, "note": note},
        group=GROUP,
        summary=declaration.description,
        note=note,
    )


def build_front_page(declaration: Declaration) -> FrontPageEntry:
    summary = declaration.description or f"A table of {len(declaration.fields)} columns to search and filter"
    return FrontPageEntry(
        title=declaration.title,
        summary=f"{summary.rstrip('.')}.",
        example_calls=("/api/items?limit=5",),
        page=f"{GROUP.path}/{declaration.name}",
        button="Search the table",
    )
