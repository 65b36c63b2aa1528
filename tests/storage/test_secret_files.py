"""Files with secrets: whole when they appear, for their owner alone, and never replaced."""

from tollhouse.storage.secret_box import make_secret_file


def test_secret_file_is_made_once_in_a_folder_that_was_missing(tmp_path):
    file = tmp_path / "new" / "data" / "key"
    assert make_secret_file(file, "first")
    assert not make_secret_file(file, "second")
    assert file.read_text() == "first"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["key"]
