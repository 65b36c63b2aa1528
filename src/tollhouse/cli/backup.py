"""`tollhouse backup` and `tollhouse restore`: a consistent copy of all SQLite data, and its restore."""

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
from tollhouse.admission.operator_access import TOKEN_FILE
from tollhouse.cli.options import DEFAULTS, CommonOptions
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import ledger_file
from tollhouse.payments.ledger.sqlite_store import is_ledger_open
from tollhouse.storage.counters_file import COUNTS_FILE
from tollhouse.storage.database import database_url
from tollhouse.storage.migrate import LEDGER, MAIN, NewerSchemaError, newest_version
from tollhouse.storage.snapshot import copy_together, replace_files, version_of

CONTENTS = "backup.json"
MAIN_FILE = "tollhouse.db"
LEDGER_FILE = "ledger.db"
CHAINS = {MAIN_FILE: MAIN, LEDGER_FILE: LEDGER}
NOT_COPIED = (".lock", ".partial", TOKEN_FILE)
"""Endings of files that mean nothing in another directory; a restored server makes its own token of the operator."""


class Contents(Struct, frozen=True):
    """The table of contents. `files` maps names to SHA-256 digests; `schemas` maps databases to schema versions."""

    made_by: str
    taken_at: str
    schemas: dict[str, str]
    files: dict[str, str]


def backup(folder: Path, *, common: CommonOptions = DEFAULTS) -> None:
    """Copy accounts, the ledger, usage counts and the operator's files to a new FOLDER while the server runs.

    The copy is consistent: all data is from one point in time. Print its contents as JSON. For PostgreSQL, use pg_dump.
    """
    settings, folder = _on_sqlite(common), folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not an empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The folder gets its name when it is complete. mkdtemp makes it private: it holds email addresses and a secret.
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        contents = _fill(partial, settings)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    print(json.dumps({"folder": str(folder), **msgspec.to_builtins(contents)}))


def restore(
    folder: Path,
    *,
    force: Annotated[bool, Parameter(negative="", help="Move existing files into `replaced-<time>`")] = False,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Restore a backup from FOLDER into an empty data directory. Stop the server first. Print a JSON report.

    With --force, existing files are moved into the subfolder `replaced-<time>`. Nothing is deleted.
    """
    settings = _on_sqlite(common)
    contents = _verified_contents(folder)
    databases = _database_files(settings)
    home = Path(settings.data_dir)
    if is_ledger_open(databases[LEDGER_FILE]):
        raise ValueError(f"a server or a command is using {home}: stop it first")
    if not force and home.is_dir() and any(home.iterdir()):
        raise ValueError(f"{home} is not empty. --force moves the existing files into a subfolder and deletes nothing")
    aside = home / f"replaced-{clock.iso(clock.now()).translate({ord('-'): None, ord(':'): None})}"
    files = {databases.get(name, home / name): folder / name for name in contents.files}
    replace_files(files, {*databases.values(), home / COUNTS_FILE, *files}, aside)
    replaced = str(aside) if aside.exists() else None
    print(json.dumps({"data_dir": str(home), "taken_at": contents.taken_at, "replaced": replaced}))


def _on_sqlite(common: CommonOptions) -> Settings:
    settings = common.settings()
    if not settings.is_sqlite:
        raise ValueError("the data is in PostgreSQL: use pg_dump and pg_restore (docs/backup.md)")
    return settings


def _database_files(settings: Settings) -> dict[str, Path]:
    """The file of each database, by its name in a backup."""
    return {MAIN_FILE: Path(database_url(settings).database or ""), LEDGER_FILE: ledger_file(settings)}


def _fill(target: Path, settings: Settings) -> Contents:
    databases = _database_files(settings)
    for name in CHAINS:
        if not databases[name].exists():
            raise ValueError(f"nothing to back up: {databases[name]} does not exist")
    taken_at = clock.iso(clock.now())
    copy_together({name: file for name, file in databases.items() if file.exists()}, target)
    for file in _other_files(databases.values(), Path(settings.data_dir)):
        shutil.copyfile(file, target / file.name)
    contents = Contents(
        made_by=__version__,
        taken_at=taken_at,
        schemas={name: version_of(target / name, chain.version_table) for name, chain in CHAINS.items()},
        files={file.name: _sha256(file) for file in sorted(target.iterdir())},
    )
    (target / CONTENTS).write_bytes(msgspec.json.format(msgspec.json.encode(contents)))
    return contents


def _other_files(databases: Iterable[Path], data_dir: Path) -> list[Path]:
    """The files of the operator and of services in the data directory."""
    names = tuple(database.name for database in databases)
    files = [file for file in data_dir.iterdir() if file.is_file()]
    return [file for file in files if not file.name.startswith(names) and not file.name.endswith(NOT_COPIED)]


def _verified_contents(folder: Path) -> Contents:
    """Verify every file's digest and the schema versions; the contents. Raises ValueError, NewerSchemaError."""
    try:
        contents = msgspec.json.decode((folder / CONTENTS).read_bytes(), type=Contents)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        raise ValueError(f"{folder} is not a backup: it has no valid {CONTENTS}") from None
    for name, expected in contents.files.items():
        if Path(name).name != name or not (folder / name).is_file() or _sha256(folder / name) != expected:
            raise ValueError(f"{folder / name} is missing or was changed after the backup")
    for name, chain in CHAINS.items():
        if contents.schemas.get(name, "") > newest_version(chain):
            raise NewerSchemaError(f"{folder} was made by a newer version, {contents.made_by}: use that version")
    return contents


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
