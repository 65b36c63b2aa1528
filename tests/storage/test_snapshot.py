import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from tollhouse.storage import snapshot
from tollhouse.storage.snapshot import CopyError, copy_together, replace_files

PADDING_BYTES = 20_000_000


def made(file: Path, padding: int = 0) -> Path:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE step (number INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE padding (bytes BLOB)")
        connection.execute("INSERT INTO padding VALUES (zeroblob(?))", (padding,))
    return file


def steps(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM step ORDER BY number")]


class Writer(threading.Thread):
    """Writes each number into the first file, then into the second, and so on, without a pause."""

    def __init__(self, *files: Path) -> None:
        super().__init__()
        self.files = files
        self.written = 0
        self.enough = threading.Event()

    def run(self) -> None:
        connections = [sqlite3.connect(file, 10, isolation_level=None) for file in self.files]
        while not self.enough.is_set():
            for connection in connections:
                connection.execute("INSERT INTO step VALUES (?)", (self.written,))
            self.written += 1
        for connection in connections:
            connection.close()


@pytest.fixture
def pair(tmp_path):
    """Two databases, of which the first takes long to copy."""
    return {"large": made(tmp_path / "large", PADDING_BYTES), "small": made(tmp_path / "small")}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "copy").mkdir()
    return tmp_path / "copy"


def test_copies_of_files_that_are_written_are_of_one_moment(pair, folder):
    writer = Writer(*pair.values())
    writer.start()
    while writer.written < 50:
        time.sleep(0.001)
    copy_together(pair, folder)
    at_the_end = writer.written
    writer.enough.set()
    writer.join()
    first, second = steps(folder / "large"), steps(folder / "small")
    assert first == list(range(len(first)))
    assert second == list(range(len(second)))
    assert len(first) - len(second) in {0, 1}
    assert len(second) >= 50
    assert len(first) < at_the_end, "nothing was written while it was copied: this proves nothing"


def test_writers_wait_only_until_the_moment_is_taken(pair, folder, monkeypatch):
    waits: list[float] = []
    copy = snapshot._copy

    def write_then_copy(reader: sqlite3.Connection, target: Path) -> None:
        begun = time.monotonic()
        with closing(sqlite3.connect(pair["small"], 5)) as connection, connection:
            connection.execute("INSERT INTO step VALUES (?)", (len(waits),))
        waits.append(time.monotonic() - begun)
        copy(reader, target)

    monkeypatch.setattr(snapshot, "_copy", write_then_copy)
    copy_together(pair, folder)
    assert len(waits) == 2
    assert steps(pair["small"]) == [0, 1]
    assert steps(folder / "small") == []


def test_copy_is_one_file_that_needs_nothing_beside_it(pair, folder):
    with closing(sqlite3.connect(pair["small"])) as connection:
        connection.execute("INSERT INTO step VALUES (7)")
        connection.commit()
        copy_together(pair, folder)
    assert sorted(file.name for file in folder.iterdir()) == ["large", "small"]
    assert steps(folder / "small") == [7]


def test_writer_that_never_ends_is_given_up_on(pair, folder, monkeypatch):
    monkeypatch.setattr(snapshot, "WAIT_SECONDS", 0.1)
    with closing(sqlite3.connect(pair["small"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CopyError, match="locked"):
            copy_together(pair, folder)
    with closing(sqlite3.connect(pair["large"], 0)) as connection, connection:
        connection.execute("INSERT INTO step VALUES (1)")


def test_damaged_file_is_not_copied_as_if_it_were_sound(pair, folder):
    raw = bytearray(pair["small"].read_bytes())
    raw[4096 + 1 : 4096 + 100] = b"\xff" * 99
    pair["small"].write_bytes(raw)
    with pytest.raises(CopyError):
        copy_together(pair, folder)


def test_file_that_is_not_there_is_not_made(tmp_path, folder):
    with pytest.raises(CopyError):
        copy_together({"none": tmp_path / "none"}, folder)
    assert not (tmp_path / "none").exists()


def test_what_a_database_left_beside_it_does_not_stay_with_another(pair, folder, tmp_path):
    """A write-ahead log that outlives its database would be taken for the newest writes of the one put back."""
    copy_together(pair, folder)
    place = pair["small"]
    writing = sqlite3.connect(place)
    writing.execute("INSERT INTO step VALUES (99)")
    writing.commit()
    assert place.with_name("small-wal").exists()
    replace_files({place: folder / "small"}, [place], tmp_path / "aside")
    assert steps(place) == []
    writing.close()
    assert {file.name for file in (tmp_path / "aside").iterdir()} >= {"small"}
