"""Snapshots of an index: what is uploaded, what is deleted, and what a damaged one does."""

import pytest

from tests.storage.index_process import open_index, put
from tests.storage.test_shared_index import numbers
from tollhouse.config.section import SettingError
from tollhouse.storage.index_snapshots import SnapshotStore, open_location


@pytest.fixture(params=["folder", "fsspec"])
def location(request, tmp_path):
    shared = f"memory://{tmp_path.name}" if request.param == "fsspec" else str(tmp_path / "shared")
    return open_location(shared)


def written(tmp_path, *revisions: int):
    """An index with a publication for each revision, and a copy of the last."""
    index = open_index(tmp_path / "one")
    index.take_writer()
    for revision in revisions:
        put(index, revision)
        index.publish(b"%d" % revision)
    copy = tmp_path / f"copy-{revisions[-1]}"
    index.copy_publication(copy)
    index.close()
    return copy


def test_another_machine_starts_from_a_snapshot(location, tmp_path):
    snapshots = SnapshotStore(location, "shop/layout/epoch")
    assert snapshots.revisions() == []
    first = snapshots.save(written(tmp_path, 1), b"1", 1, "aa")
    assert first > 0
    assert snapshots.save(written(tmp_path, 2), b"2", 2, "bb") > 0
    assert snapshots.revisions() == [(2, "bb"), (1, "aa")]
    other = open_index(tmp_path / "two")
    other.take_writer()
    snapshots.load(2, "bb", other.scratch())
    other.adopt(next((tmp_path / "two" / "rows").glob("tmp-*")))
    assert (numbers(other), other.about) == ({2}, b"2")
    put(other, 3)
    other.publish(b"3")
    assert numbers(open_index(tmp_path / "two")) == {3}


def test_only_new_files_are_uploaded_and_old_ones_deleted(location, tmp_path):
    snapshots = SnapshotStore(location, "shop/layout/epoch")
    copy = written(tmp_path, 1)
    snapshots.save(copy, b"1", 1, "aa")
    assert snapshots.save(copy, b"1", 2, "bb") == 0
    stored = set(location.names("shop/layout/epoch/files"))
    snapshots.save(written(tmp_path, 3), b"3", 3, "cc")
    snapshots.save(written(tmp_path, 4), b"4", 4, "dd")
    assert snapshots.revisions() == [(4, "dd"), (3, "cc")]
    assert not stored <= set(location.names("shop/layout/epoch/files"))
    for revision, token in snapshots.revisions():
        snapshots.load(revision, token, tmp_path / token)


def test_damaged_snapshot_is_refused(location, tmp_path):
    snapshots = SnapshotStore(location, "shop/layout/epoch")
    snapshots.save(written(tmp_path, 1), b"1", 1, "aa")
    name = location.names("shop/layout/epoch/files")[0]
    location.write(f"shop/layout/epoch/files/{name}", b"something else")
    with pytest.raises(OSError, match="damaged"):
        snapshots.load(1, "aa", tmp_path / "new")


def test_unknown_protocol_names_the_setting():
    with pytest.raises(SettingError, match="index_snapshots"):
        open_location("nothing://bucket")
