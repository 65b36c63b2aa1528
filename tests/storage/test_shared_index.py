"""An index that processes share: one writer, whole publications, and another writer when it ends."""

import os
import shutil
import time

import pytest
from tantivy import Query

from tests.servers.processes import printing_process
from tests.storage import index_process
from tests.storage.index_process import ROWS, open_index, put
from tollhouse.storage.shared_index import PUBLICATIONS_KEPT, SharedIndex


def numbers(index: SharedIndex) -> set[int]:
    """The numbers of all rows."""
    found = index.searcher.search(Query.all_query(), ROWS * 2, order_by_field="number")
    assert len(found.hits) == index.searcher.num_docs
    return {number for number, _ in found.hits}


@pytest.mark.parametrize("is_on_disk", [True, False])
def test_changes_show_together_when_published(tmp_path, is_on_disk):
    index = open_index(tmp_path if is_on_disk else None)
    assert (index.searcher.num_docs, index.about, index.take_writer()) == (0, b"", True)
    put(index, 1, 3)
    index.commit()
    assert index.searcher.num_docs == 0
    put(index, 2)
    index.publish(b"two")
    assert (index.searcher.num_docs, numbers(index), index.about) == (ROWS, {2}, b"two")
    index.clear()
    put(index, 3, 5)
    assert numbers(index) == {2}
    index.publish(b"three")
    assert (index.searcher.num_docs, numbers(index), index.about) == (5, {3}, b"three")


def test_reader_shows_publications_only_and_a_searcher_keeps_its_own(tmp_path):
    writer, reader = open_index(tmp_path), open_index(tmp_path)
    assert writer.take_writer()
    assert not reader.take_writer()
    before = None
    for number in range(1, 30):
        put(writer, number)
        writer.commit()
        assert not reader.reload()
        writer.publish(b"%d" % number)
        if number == 3:
            before = reader.searcher
        assert (reader.reload(), reader.about, numbers(reader)) == (True, b"%d" % number, {number})
    assert before is not None
    assert before.search(Query.all_query(), 1, order_by_field="number").hits[0][0] == 2
    writer.merge_segments()
    reader.reload()
    assert (numbers(reader), reader.about) == ({29}, b"29")
    stored = [path for path in (tmp_path / "rows").iterdir() if path.name[:8].isdecimal()]
    assert len(stored) == PUBLICATIONS_KEPT


def test_merged_segments_are_published_without_a_change(tmp_path):
    writer, reader = open_index(tmp_path), open_index(tmp_path)
    writer.take_writer()
    for number in range(1, 9):
        put(writer, number)
        writer.publish(b"%d" % number)
    until = time.monotonic() + 30
    while not writer.tidy() and writer.searcher.num_segments > 1 and time.monotonic() < until:
        time.sleep(0.01)
    reader.reload()
    assert (reader.searcher.num_segments, numbers(reader), reader.about) == (1, {8}, b"8")
    put(writer, 9)
    writer.commit()
    assert not writer.tidy()
    assert numbers(reader) == {8}


def test_next_writer_starts_from_the_last_publication(tmp_path):
    first, second = open_index(tmp_path), open_index(tmp_path)
    first.take_writer()
    put(first, 1)
    first.publish(b"1")
    put(first, 2, ROWS // 2)
    first.commit()
    first.close()
    assert second.take_writer()
    second.publish(b"still 1")
    assert (numbers(second), second.about) == ({1}, b"still 1")


def test_killed_writer_leaves_a_whole_publication_and_another_takes_over(tmp_path):
    reader = open_index(tmp_path)
    for seconds in (0.0, 0.005, 0.01, 0.02, 0.05):
        with printing_process(index_process.write, str(tmp_path), cwd=tmp_path) as output:
            for _ in range(4):
                printed = int(output.readline())
                reader.reload()
                assert numbers(reader) == {int(reader.about)}
            time.sleep(seconds)
        reader.reload()
        assert int(reader.about) >= printed
        assert (numbers(reader), reader.searcher.num_docs) == ({int(reader.about)}, ROWS)
    assert reader.take_writer()
    put(reader, 10_000)
    reader.publish(b"10000")
    assert numbers(open_index(tmp_path)) == {10_000}


def test_unreadable_publication_is_reported_as_none(tmp_path):
    first = open_index(tmp_path)
    first.take_writer()
    put(first, 1)
    first.publish(b"1")
    first.close()
    place = tmp_path / "rows" / (tmp_path / "rows" / "current").read_text()
    fast = next(path for path in place.iterdir() if path.suffix == ".fast")
    os.truncate(fast, 10)
    second = open_index(tmp_path)
    assert (second.about, second.searcher.num_docs, second.take_writer()) == (b"", 0, True)
    put(second, 2)
    second.publish(b"2")
    assert numbers(open_index(tmp_path)) == {2}


def test_copied_folder_is_written_on(tmp_path):
    first = open_index(tmp_path / "one")
    first.take_writer()
    put(first, 1)
    first.publish(b"1")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    copy = open_index(tmp_path / "two")
    assert (numbers(copy), copy.take_writer()) == ({1}, True)
    put(copy, 2)
    copy.publish(b"2")
    assert (numbers(open_index(tmp_path / "two")), numbers(open_index(tmp_path / "one"))) == ({2}, {1})
