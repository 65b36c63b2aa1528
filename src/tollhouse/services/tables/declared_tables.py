"""Which tables are declared: one TOML file for each, in the folder that the settings name."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from tollhouse.admission.context import AppContext
from tollhouse.http.service import Service
from tollhouse.services.tables.declaration import DeclarationError, read_declaration
from tollhouse.services.tables.names import service_fault
from tollhouse.services.tables.service import open_table


def declared_tables(folder: Path, taken: Iterable[str]) -> dict[str, Callable[[AppContext], Awaitable[Service]]]:
    """Every declared service by its name, in their order; none may have one of the `taken` names.

    Raises DeclarationError for the first that will not do.
    """
    tables: dict[str, Callable[[AppContext], Awaitable[Service]]] = {}
    for path in sorted(folder.glob("*.toml")):
        if fault := service_fault(path.stem, taken):
            raise DeclarationError(f"{path}: {fault}")
        tables[path.stem] = partial(open_table, read_declaration(path))
    return tables
