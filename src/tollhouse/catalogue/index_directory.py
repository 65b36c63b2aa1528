"""Where an index is kept between runs, and what it last showed: a folder that one process at a time has for itself."""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from tollhouse.catalogue.index import LAYOUT
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.logs import logger

log = logger("catalogue")

MOST_PROCESSES = 256


class IndexRevision(Struct, frozen=True):
    """How far an index has followed its store. Another database has another epoch."""

    epoch: str = ""
    revision: int = 0

    def leads_to(self, later: "IndexRevision") -> bool:
        """Whether the changes since this one are enough to get there."""
        return self.epoch == later.epoch and 0 < self.revision <= later.revision


class IndexDirectory:
    """The first numbered place under `folder` that no other process holds, for indexes of this schema alone.

    Those of the catalogue's former schemas are deleted, unless a process still holds them.
    """

    def __init__(self, folder: Path, schema: Schema) -> None:
        declared = msgspec.json.encode((LAYOUT, schema), order="deterministic")
        own = folder / hashlib.sha256(declared).hexdigest()[:16]
        self._held, self._place = _first_free(own)
        self._note = self._place / "standing.json"
        for former in folder.iterdir():
            if former != own:
                _delete(former)

    def engine(self, schema: Schema) -> TantivyEngine:
        """The engine that is kept here; an empty one where there is none or it cannot be read."""
        try:
            return TantivyEngine(schema, self._place / "index")
        except (ValueError, OSError) as fault:
            log.warning("kept catalogue index cannot be read and is made anew", fault=str(fault))
            self._note.unlink(missing_ok=True)
            shutil.rmtree(self._place / "index", ignore_errors=True)
            return TantivyEngine(schema, self._place / "index")

    def standing(self) -> IndexRevision:
        """What was last noted."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._note.read_bytes(), type=IndexRevision)
        return IndexRevision()

    def note(self, standing: IndexRevision) -> None:
        """Note how far the index is, after it is: with an older note changes are taken in twice, which does no harm."""
        fresh = self._note.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(standing))
        fresh.replace(self._note)

    def close(self) -> None:
        """Let another process have this place."""
        self._held.close()


def _delete(schemas: Path) -> None:
    """The places that nobody holds, and the folder itself where that were all."""
    for place in schemas.iterdir():
        held = _hold(place)
        if held:
            shutil.rmtree(place)
            held.close()
    with suppress(OSError):
        schemas.rmdir()


def _first_free(folder: Path) -> tuple[IO[str], Path]:
    for number in range(MOST_PROCESSES):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        held = _hold(place)
        if held:
            return held, place
    raise OSError(f"more than {MOST_PROCESSES} processes keep a catalogue index in {folder}")


def _hold(place: Path) -> IO[str] | None:
    """The lock on a place; it dies with its process. None where another has it, or has deleted the place meanwhile."""
    import fcntl

    try:
        held = (place / "held").open("w")
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(held.fileno()).st_nlink:
            return held
    held.close()
    return None
