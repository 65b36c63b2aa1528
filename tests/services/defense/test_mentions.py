from datetime import UTC, datetime
from pathlib import Path

import pytest

from tollhouse.services.defense.ingest.gkg_parser import Mention, parse_mentions

SAMPLE = Path(__file__).parents[2] / "data" / "gdelt_mentions.csv"
GOOD = "7\t20261121110000\t20261121120000\t1\texample.org\thttps://example.org/a\t1\t2\t3\t4\t1\t90\t500\t-3.5\t\t"


def changed(column: int, value: str) -> str:
    columns = GOOD.split("\t")
    columns[column] = value
    return "\t".join(columns)


def test_real_rows_become_mentions():
    parsed = parse_mentions(SAMPLE.read_bytes())
    assert (len(parsed.mentions), parsed.bad, parsed.total) == (5, [], 5)
    first = parsed.mentions[0]
    assert (first.event_id, first.source, first.confidence) == ("410412347", "dailymaverick.co.za", 50)
    assert first.mentioned_at == datetime(2015, 2, 18, 23, tzinfo=UTC)
    assert first.tone == pytest.approx(-4.478, abs=0.001)


def test_columns_find_their_fields():
    assert parse_mentions(GOOD.encode()).mentions == [
        Mention("7", datetime(2026, 11, 21, 12, tzinfo=UTC), "example.org", "https://example.org/a", 90, -3.5)
    ]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("too\tshort", "2 columns"),
        (changed(0, "x7"), "event id"),
        (changed(2, "20261321120000"), "month"),
        (changed(2, "soon"), "not a date"),
        (changed(3, "2"), "not a web page"),
        (changed(5, "javascript:alert(1)"), "no http(s) URL"),
        (changed(11, "101"), "not a confidence"),
        (changed(11, ""), "not a confidence"),
        (changed(5, "https://example.org/" + "a" * 9000), "at most 8192 expected"),
    ],
)
def test_bad_row_is_reported_and_costs_itself_alone(bad, reason):
    parsed = parse_mentions(f"{GOOD}\n{bad}\n\n{GOOD}\r\n".encode())
    assert (len(parsed.mentions), parsed.total) == (2, 3)
    assert [row.line for row in parsed.bad] == [2]
    assert reason in parsed.bad[0].reason


def test_tone_that_is_no_number_is_none():
    assert parse_mentions(changed(13, "").encode()).mentions[0].tone is None
