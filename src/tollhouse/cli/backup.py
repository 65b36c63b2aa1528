"""`tollhouse backup` and `tollhouse restore`: everything in SQLite as of one moment, and back again."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from msgspec import Struct

from tollhouse import __version__, clock
from tollhouse.cli.options import HERE, Where
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import ledger_file
from tollhouse.payments.ledger.process_lease import is_ledger_open
from tollhouse.storage.counters_sqlite import USAGE_FILE
from tollhouse.storage.database import database_url
from tollhouse.storage.migrate import LEDGER, MAIN, NewerSchemaError, newest_version
from tollhouse.storage.snapshot import copy_together, put_back, version_of

CONTENTS = "backup.json"
MAIN_FILE = "tollhouse.db"
LEDGER_FILE = "ledger.db"
CHAINS = {MAIN_FILE: MAIN, LEDGER_FILE: LEDGER}
NOT_KEPT = (".lock", ".half")
"""What means nothing elsewhere."""


class Contents(Struct, frozen=True):
    """What a backup says of itself. `files` are names with their SHA-256; `schemas` databases with their version."""

    made_by: str
    taken_at: str
    schemas: dict[str, str]
    files: dict[str, str]


def backup(folder: Path, *, where: Where = HERE) -> None:
    """Copy keys, money, counts and the operator's files to a new FOLDER, while the server runs; print what it holds.

    All of it is as of one moment. With PostgreSQL use pg_dump instead.
    """
    settings, folder = _on_sqlite(where), folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already, and is no empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # What has the folder's name is whole. It is its maker's alone: e-mail addresses and a secret are in it.
    half = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        contents = _fill(half, settings)
        half.rename(folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    print(json.dumps({"folder": str(folder), **msgspec.to_builtins(contents)}))


def restore(
    folder: Path,
    *,
    force: Annotated[bool, Parameter(negative="", help="Move what is there into a folder beside it")] = False,
    where: Where = HERE,
) -> None:
    """Put a backup back into an empty data folder, with no server on it; print what became of it.

    With --force what is there is moved aside, into `replaced-<time>`; nothing is deleted.
    """
    settings = _on_sqlite(where)
    contents = _checked(folder)
    places = _places(settings)
    home = Path(settings.data_dir)
    if is_ledger_open(places[LEDGER_FILE]):
        raise ValueError(f"a server or a command is using {home}: stop it first")
    if not force and home.is_dir() and any(home.iterdir()):
        raise ValueError(f"{home} is not empty: --force moves what is in the way aside, and deletes nothing")
    aside = home / f"replaced-{_stamp()}"
    files = {places.get(name, home / name): folder / name for name in contents.files}
    put_back(files, {*places.values(), *files}, aside)
    replaced = str(aside) if aside.exists() else None
    print(json.dumps({"data_dir": str(home), "taken_at": contents.taken_at, "replaced": replaced}))


def _on_sqlite(where: Where) -> Settings:
    settings = where.settings()
    if not settings.is_sqlite:
        raise ValueError("the data are in PostgreSQL, whose pg_dump and pg_restore do this (docs/backup.md)")
    return settings


def _places(settings: Settings) -> dict[str, Path]:
    """Where each database is, by its name in a backup."""
    main = Path(database_url(settings).database or "")
    return {
        MAIN_FILE: main,
        LEDGER_FILE: ledger_file(settings),
        USAGE_FILE: Path(settings.data_dir) / USAGE_FILE,
    }


def _fill(half: Path, settings: Settings) -> Contents:
    places = _places(settings)
    for name in CHAINS:
        if not places[name].exists():
            raise ValueError(f"there is nothing to back up: no {places[name]}")
    taken_at = clock.iso(clock.now())
    copy_together({name: place for name, place in places.items() if place.exists()}, half)
    for file in _beside(places.values(), Path(settings.data_dir)):
        shutil.copyfile(file, half / file.name)
    contents = Contents(
        made_by=__version__,
        taken_at=taken_at,
        schemas={name: version_of(half / name, chain.version_table) for name, chain in CHAINS.items()},
        files={file.name: _sha256(file) for file in sorted(half.iterdir())},
    )
    (half / CONTENTS).write_bytes(msgspec.json.format(msgspec.json.encode(contents)))
    return contents


def _beside(databases: Iterable[Path], data_dir: Path) -> list[Path]:
    """The files of the operator and of services in the data folder."""
    names = tuple(database.name for database in databases)
    files = [file for file in data_dir.iterdir() if file.is_file()]
    return [file for file in files if not file.name.startswith(names) and not file.name.endswith(NOT_KEPT)]


def _checked(folder: Path) -> Contents:
    """What the backup holds, byte for byte as it was made. Raises ValueError, NewerSchemaError."""
    try:
        contents = msgspec.json.decode((folder / CONTENTS).read_bytes(), type=Contents)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        raise ValueError(f"{folder} is no backup: it has no {CONTENTS} that says what is in it") from None
    for name, expected in contents.files.items():
        if Path(name).name != name or not (folder / name).is_file() or _sha256(folder / name) != expected:
            raise ValueError(f"{folder / name} is not the file that was backed up")
    for name, chain in CHAINS.items():
        if contents.schemas.get(name, "") > newest_version(chain):
            raise NewerSchemaError(f"{folder} was made by a later version, {contents.made_by}: restore it with that")
    return contents


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _stamp() -> str:
    return clock.iso(clock.now()).replace("-", "").replace(":", "")
