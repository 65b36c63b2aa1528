"""Raw exports, sound and broken. The excerpt is from The GDELT Project, https://www.gdeltproject.org."""

import io
import zipfile
from pathlib import Path

import pytest

from tollhouse.services.defense.ingest.export_parser import parse_export, unpack_export

EXCERPT = (Path(__file__).parents[2] / "data" / "gdelt_excerpt.export.CSV").read_bytes()
LINE = EXCERPT.split(b"\n")[0]


def with_column(number: int, value: str) -> bytes:
    fields = LINE.split(b"\t")
    fields[number] = value.encode()
    return b"\t".join(fields)


def zipped(*members: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for number, member in enumerate(members):
            archive.writestr(f"{number}.CSV", member)
    return buffer.getvalue()


def test_every_row_of_a_sound_export_is_kept() -> None:
    parsed = parse_export(EXCERPT)
    assert (len(parsed.rows), parsed.bad, parsed.total) == (7, [], 7)


def test_row_carries_the_columns_as_the_provider_wrote_them() -> None:
    row = parse_export(EXCERPT).rows[1]
    assert (row.id, row.day, row.added) == ("881990833", "20181024", "20191024143000")
    assert (row.actor2_name, row.actor2_country, row.actor2_group, row.actor2_type) == ("THE EU", "EUR", "EEC", "IGO")
    assert (row.is_root, row.code, row.base_code, row.root_code) == (False, "040", "040", "04")
    assert (row.quad_class, row.goldstein, row.mentions, row.sources, row.articles) == (1, 1.0, 10, 1, 10)
    assert (row.geo_type, row.geo_name, row.geo_country) == (4, "Minsk, Belarus (general), Belarus", "BO")
    assert (row.geo_adm1, row.latitude, row.longitude) == ("BO00", 53.9, 27.5667)


def test_row_without_a_place_has_no_coordinates() -> None:
    row = parse_export(EXCERPT).rows[-1]
    assert (row.geo_type, row.latitude, row.longitude) == (0, None, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"one\ttwo", "2 columns"),
        (LINE + b"\tmore", "62 columns"),
        (LINE[:200], "columns"),
        (with_column(0, "x1"), "event id"),
        (with_column(1, "20191332"), "does not exist"),
        (with_column(1, "20191025"), "after its export"),
        (with_column(59, "2019102414300"), "14 digits"),
        (with_column(26, "13x"), "event codes"),
        (with_column(28, "19"), "event codes"),
        (with_column(29, "7"), "quad class"),
        (with_column(30, "-11"), "Goldstein"),
        (with_column(31, "many"), "not a count"),
        (with_column(31, "-4"), "not a count"),
        (with_column(31, "1_000"), "not a count"),
        (with_column(34, "nan"), "tone"),
        (with_column(51, "9"), "type of place"),
        (with_column(56, "91.5"), "latitude"),
        (with_column(57, "-181"), "longitude"),
        (with_column(57, "inf"), "longitude"),
        (with_column(56, "north"), "latitude"),
        (with_column(60, "ftp://example.org/a"), "URL"),
        (with_column(60, "BBC Monitoring"), "URL"),
        (with_column(60, "https:///nowhere"), "URL"),
        (with_column(60, "https://example.org/" + "a" * 2100), "URL"),
        (with_column(52, "x" * 5000), "characters"),
    ],
)
def test_broken_row_is_reported_with_its_line_and_skipped(line: bytes, reason: str) -> None:
    sound = with_column(0, "7")
    parsed = parse_export(sound + b"\n" + line + b"\n")
    assert [row.id for row in parsed.rows] == ["7"]
    assert [bad.line for bad in parsed.bad] == [2]
    assert reason in parsed.bad[0].reason
    assert parsed.total == 2


@pytest.mark.parametrize("raw", [b"", b"\n", b"\r\n\n"])
def test_empty_file_holds_no_rows(raw: bytes) -> None:
    parsed = parse_export(raw)
    assert (parsed.rows, parsed.bad, parsed.total) == ([], [], 0)


@pytest.mark.parametrize("raw", [LINE, LINE + b"\n", LINE + b"\r\n", LINE[:40] + b"\0" + LINE[40:]])
def test_line_ends_and_nul_bytes_do_not_change_a_row(raw: bytes) -> None:
    assert parse_export(raw) == parse_export(LINE + b"\n")


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    fields = LINE.split(b"\t")
    fields[52] = b"S\xe3o Paulo, Brazil"
    assert parse_export(b"\t".join(fields)).rows[0].geo_name == "S\ufffdo Paulo, Brazil"


def test_line_separators_inside_a_field_do_not_cut_the_row() -> None:
    assert len(parse_export(with_column(52, "Lima\u2028\x0c, Peru")).rows) == 1


def test_event_written_twice_is_kept_once() -> None:
    parsed = parse_export(LINE + b"\n" + LINE + b"\n")
    assert (len(parsed.rows), parsed.total) == (1, 2)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zipped_and_plain_exports_unpack_to_the_same_text(method: int) -> None:
    assert unpack_export(zipped(EXCERPT, method=method), 100_000) == EXCERPT
    assert unpack_export(EXCERPT, 100_000) == EXCERPT


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"x" * 11, "larger than 10 bytes"),
        (zipped(b"0" * 1_000_000), "larger than 10 bytes"),
        (zipped(b"a", b"b"), "contains 2 files"),
        (zipped(), "contains 0 files"),
        (zipped(b"abc", method=zipfile.ZIP_BZIP2), "compression method"),
        (zipped(b"abc")[:-8], "not a readable zip file"),
    ],
)
def test_archive_that_cannot_be_trusted_is_refused_in_a_sentence(raw: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        unpack_export(raw, 10)
