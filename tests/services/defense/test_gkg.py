from datetime import UTC, datetime
from pathlib import Path

import pytest

from tollhouse.services.defense.ingest.gkg_parser import GkgPlace, GkgRecord, ParsedGkg, parse_gkg

SAMPLE = Path(__file__).parents[2] / "data" / "gdelt_gkg.csv"
SEEN = datetime(2026, 11, 21, 12, tzinfo=UTC)


def line(**columns: str | bytes) -> bytes:
    """One row; columns are named c0 … c26."""
    row = {"c1": "20261121120000", "c2": "1", "c4": "https://example.org/a", "c15": "-2.5,1,2,3,4,5,600", **columns}
    values = [row.get(f"c{number}", b"") for number in range(27)]
    return b"\t".join(value.encode() if isinstance(value, str) else value for value in values)


def only(parsed: ParsedGkg) -> GkgRecord:
    assert len(parsed.records) == 1, parsed
    return parsed.records[0]


def record(**columns: str | bytes) -> GkgRecord:
    return only(parse_gkg(line(**columns)))


def test_real_rows_become_articles_with_names():
    parsed = parse_gkg(SAMPLE.read_bytes())
    assert (len(parsed.records), parsed.bad, parsed.total) == (4, [], 4)
    first, third = parsed.records[0], parsed.records[2]
    assert first.persons == ("Barack Obama",)
    assert first.places[0] == GkgPlace(3, "Washington, District Of Columbia, United States", "US", 38.8951, -77.0364)
    assert first.article.title == ""
    assert third.article.title.startswith("Madhya Pradesh political crisis: After Digvijaya Singh's detention")
    assert third.article.published == datetime(2020, 3, 18, 10, 13, tzinfo=UTC)
    assert third.article.tone == pytest.approx(-6.47, abs=0.01)
    assert (third.article.publisher, third.article.source, third.article.language) == ("Financial Express", "gkg", "en")


def test_title_is_decoded():
    title = "<PAGE_TITLE>Ten &amp; more &#x2018;dead&#8217; in K&#xF6;ln\\'s &lt;b&gt;port&lt;/b&gt;</PAGE_TITLE>"
    assert record(c26=title).article.title == "Ten & more \u2018dead\u2019 in Köln's port"


def test_latin_bytes_beside_utf8_are_read():
    assert record(c26="<PAGE_TITLE>Zürich</PAGE_TITLE>".encode("latin-1")).article.title == "Zürich"
    assert record(c26="<PAGE_TITLE>Київ</PAGE_TITLE>").article.title == "Київ"


def test_page_date_is_believed_unless_it_is_impossible():
    stamp = "<PAGE_PRECISEPUBTIMESTAMP>{}</PAGE_PRECISEPUBTIMESTAMP>"
    assert record(c26=stamp.format("20261121093000")).article.published == datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    for impossible in ("20991231000000", "19010101000000", "20261399000000"):
        assert record(c26=stamp.format(impossible)).article.published == SEEN


def test_author_line_of_an_agency_makes_the_family():
    assert record(c26="<PAGE_AUTHORS>Jane Doe;Associated Press</PAGE_AUTHORS>").article.family == "ap"


def test_names_appear_once_in_their_order():
    got = record(c12="Ann Lee,5;Bob Ray,9;Ann Lee,70", c14="Smith, Jones Ltd,3;;")
    assert got.persons == ("Ann Lee", "Bob Ray")
    assert got.organizations == ("Smith, Jones Ltd",)


def test_places_that_cannot_be_are_left_out():
    good = "4#Luhansk, Luhans'ka Oblast', Ukraine#UP#UP14#48.567#39.3171#-1045160"
    got = record(c9=f"{good};4#Nowhere#UP#UP14#99#39#1;x;1##;{good}")
    assert [(place.name, place.country) for place in got.places] == [("Luhansk, Luhans'ka Oblast', Ukraine", "UP")]


def test_country_of_a_place_is_its_own():
    assert record(c9="4#Budapest, Budapest, Hungary#RS#HU05#47.5#19.0833#-850553").places[0].country == "HU"


@pytest.mark.parametrize(
    ("info", "language"),
    [("", "en"), ("srclc:fra;eng:GT-FRA 1.0", "fr"), ("srclc:zho;eng:Moses", "zh"), ("srclc:xxx;eng:y", ""), ("?", "")],
)
def test_language_is_the_one_before_translation(info, language):
    assert record(c25=info).article.language == language


def test_same_page_twice_is_one_record():
    parsed = parse_gkg(line() + b"\n" + line(c4="http://www.example.org/a/"))
    assert (len(parsed.records), parsed.total) == (1, 2)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"one\ttwo", "2 columns"),
        (line(c2="2", c4="BBC Monitoring"), "not a web page"),
        (line(c4="javascript:alert(1)"), "no http(s) URL"),
        (line(c1="yesterday"), "is not a date"),
        (line(c17="x" * 1_000_001), "at most 1000000 expected"),
        (line(c1=b"\xff\xfe"), "is not a date"),
    ],
)
def test_bad_row_is_reported_and_costs_itself_alone(bad, reason):
    parsed = parse_gkg(line() + b"\n" + bad + b"\n\r\n" + line(c4="https://example.org/b"))
    assert len(parsed.records) == 2
    assert [row.line for row in parsed.bad] == [2]
    assert reason in parsed.bad[0].reason
    assert parsed.total == 3


def test_missing_tone_is_none():
    assert record(c15="").article.tone is None
    assert record(c15="nan,1").article.tone is None


def test_file_of_a_quarter_of_an_hour_is_read_whole():
    rows = SAMPLE.read_bytes().split(b"\n")[:4]
    raw = b"\n".join(
        row.replace(b"\thttp", b"\thttps://example.org/%d/http" % number, 1) for number in range(400) for row in rows
    )
    assert parse_gkg(raw).total == 1600
