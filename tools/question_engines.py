"""The engines that labelled questions are put to: of the services, and of the tables in data/questions/tables."""

import asyncio
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tollhouse.catalogue.importers.documents import Document
from tollhouse.questions.answering import Engine
from tollhouse.services.defense.chat.snapshot import bundled_engine
from tollhouse.services.infra.assistant.assistant import bundled_assistant
from tollhouse.services.tables.declaration import Declaration, Source
from tollhouse.services.tables.inference import infer_table
from tollhouse.services.tables.loader import parse_table
from tollhouse.services.tables.rows import items_from_rows, visible_item
from tollhouse.services.tables.vocabulary import TableDataset

SERVICES = ("infra", "defense")
TABLES = (Path("tests/data/questions/tables"), Path(__file__).parent / "data" / "questions" / "tables")


def tables() -> Mapping[str, Path]:
    """The CSV file of each table, by its name."""
    return {file.stem: file for folder in TABLES for file in sorted(folder.glob("*.csv"))}


@cache
def engine_of(name: str) -> Engine:
    """The engine of a service, or of a table as `tollhouse new` would declare it. Raises KeyError."""
    if name == "infra":
        return bundled_assistant().engine
    if name == "defense":
        return asyncio.run(bundled_engine())
    return _table_engine(tables()[name])


def _table_engine(file: Path) -> Engine:
    source = Source(file.name, "csv")
    table = parse_table(source, [Document(file.read_bytes())])
    inferred = infer_table(table)
    declaration = Declaration(
        name=file.stem,
        path=file,
        title=file.stem,
        description="",
        licence="",
        source="",
        price_micros=0,
        free_per_day=0,
        exports=True,
        table=Source(file.name, "csv", id=inferred.id, title=inferred.title),
        fields=inferred.fields,
    )
    items = items_from_rows(declaration, table).items
    return Engine(TableDataset(declaration, [visible_item(declaration, item) for item in items]))


def service_of(name: str) -> str:
    """The service or table that a file of questions is about: its name up to the first underscore, or whole."""
    first = name.removeprefix("generated_").partition("_")[0]
    return first if first in SERVICES else name
