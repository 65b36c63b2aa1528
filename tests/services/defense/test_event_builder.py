from datetime import UTC, datetime

import msgspec
import pytest

from tests.services.defense.test_exports import LINE
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.events.event import StoredEvent, TitleBasis
from tollhouse.services.defense.events.event_set import build_event
from tollhouse.services.defense.events.report import Page, Rejected, Report, canonical_url, event_id, read_reports
from tollhouse.services.defense.ingest.export_parser import Row, parse_export

NOON = datetime(2019, 10, 24, 12, tzinfo=UTC)
URL = "https://example.org/news/army-shells-rebel-town-kills-12"
TYPED = msgspec.structs.replace(
    parse_export(LINE).rows[0], day="20191024", code="010", base_code="010", root_code="01", mentions=1, is_root=False,
    goldstein=0.0, actor2_name="", actor2_country="", geo_type=4,
    geo_name="Minsk, Minskaya Voblasts', Belarus", geo_country="BO",
    latitude=53.9, longitude=27.5667, url=URL,
)  # fmt: skip


def row(code: str = "010", **changes: object) -> Row:
    return msgspec.structs.replace(TYPED, code=code, base_code=code[:3], root_code=code[:2], **changes)


def read(*rows: Row, url: str = URL, headline: tuple[str, TitleBasis] | None = None) -> Report | Rejected:
    """The report of a page."""
    (outcome,) = read_reports([Page(url, rows, headline)])
    return outcome


def made(*rows: Row, url: str = URL) -> StoredEvent:
    """The event of a page alone."""
    return joined(read(*rows, url=url))


def joined(*reports: Report | Rejected) -> StoredEvent:
    """The event of these reports."""
    event = build_event("conflict_1", [report for report in reports if isinstance(report, Report)])
    assert event is not None
    return event


@pytest.mark.parametrize(
    "twin",
    ["http://example.org/a/b", "https://example.org/a/b/", "https://www.example.org/a/b#top", "HTTPS://Example.org/a/b",
     "https://example.org/a/b/amp", "https://example.org/a/b/amp/", "https://example.org:443/a/b",
     "https://example.org/a/b?utm_source=x&fbclid=1", "https://example.org/a/b?amp=1"],
)  # fmt: skip
def test_twins_of_an_address_are_one_event(twin: str) -> None:
    assert event_id(twin) == event_id("https://example.org/a/b")
    assert canonical_url(canonical_url(twin)) == canonical_url(twin)


@pytest.mark.parametrize(
    "other", ["https://example.org/a/B", "https://example.org/a/b?id=2", "https://m.example.org/a/b"]
)
def test_addresses_that_may_differ_stay_apart(other: str) -> None:
    assert event_id(other) != event_id("https://example.org/a/b")


def test_event_id_is_the_prefix_and_sixteen_hex_digits() -> None:
    prefix, _, digits = event_id(URL).partition("_")
    assert prefix == "conflict"
    assert len(digits) == 16
    assert int(digits, 16) >= 0


@pytest.mark.parametrize("day", ["20191017", "20190924", "20181024"])
def test_rows_about_the_past_are_ignored(day: str) -> None:
    past = row("195", day=day, mentions=90)
    assert read(past) == Rejected("only mentions of the past")
    assert made(past, row("010")).reports[0].row_ids == (row("010").id,)


def test_report_of_yesterday_is_kept() -> None:
    assert made(row(day="20191023")).event_date.isoformat() == "2019-10-23"


def test_page_without_any_place_is_no_event() -> None:
    nowhere = row(geo_type=0, geo_country="", geo_name="", latitude=None, longitude=None)
    url = "https://nobody.example/army-shells-town"
    report = read(nowhere, url=url)
    assert isinstance(report, Report)
    assert build_event(report.id, [report]) is None
    assert made(nowhere, row("020")).geo.country == "Belarus"


def test_no_rows_make_no_event() -> None:
    assert read() == Rejected("no rows")


def test_title_and_codes_of_fighting_make_a_battle() -> None:
    event = made(row("194", actor1_type="MIL"), row("010", mentions=50))
    assert (event.category, event.subcategory, event.is_violent) == ("Battles", "Artillery or tank fire", True)
    assert event.confidence > 0.5


def test_code_of_violence_alone_claims_no_fighting() -> None:
    event = made(row("190"), url="https://example.org/singer-fights-back-tears-at-award-show")
    assert (event.category, event.subcategory, event.is_violent) == ("Political", "Political event", False)
    assert (event.fatalities, event.fatalities_basis) == (0, "not_reported")


def test_code_with_most_weight_decides_and_a_root_event_weighs_double() -> None:
    strike, clash = "https://example.org/syria-air-strike-kills-three", "https://example.org/troops-clash-with-rebels"
    assert made(row("190", mentions=3), row("195", mentions=5), url=strike).subcategory == "Air strike"
    assert made(row("190", mentions=3, is_root=True), row("195", mentions=5), url=clash).subcategory == "Armed clash"


def test_code_that_the_title_does_not_agree_with_is_no_subcategory() -> None:
    event = made(row("0331"), url="https://example.org/minister-resigns-after-election-defeat")
    assert event.subcategory == "Political event"
    why = "no label of the provider's codes is as similar to the titles as needed (0.25): 0331 ("
    assert event.reasons["subcategory"].startswith(why)


def test_toll_of_a_battle_comes_from_the_headline() -> None:
    event = made(row("194"))
    assert (event.fatalities, event.fatalities_basis) == (12, "headline")
    assert "12" in event.reasons["fatalities"]


def test_riot_is_violent_and_a_demonstration_is_not() -> None:
    url = "https://example.org/thousands-protest-against-president-in-capital"
    assert made(row("145"), url=url).is_violent
    assert not made(row("141"), url=url).is_violent


SIDES = {"actor1_country": "ISR", "actor1_type": "MIL", "actor2_country": "SYR", "actor2_type": "GOV"}


def two(*rows: Row) -> StoredEvent:
    """The event of two pages with these rows."""
    return joined(*(read(*rows, url=f"https://{host}.example/army-shells-town") for host in ("one", "two")))


def test_fight_of_two_governments_that_two_publishers_report_is_state_on_state() -> None:
    event = two(row("195", **SIDES))
    assert event.is_state_on_state
    assert event.reasons["is_state_on_state"] == (
        "the rows of 2 reports set governments or armed forces of Israel and Syria against each other"
    )
    assert not made(row("195", **SIDES)).is_state_on_state
    assert not two(row("195", **SIDES | {"actor2_type": "REB"})).is_state_on_state
    assert not two(row("195", **SIDES | {"actor2_type": ""})).is_state_on_state
    assert not two(row("057", **SIDES)).is_state_on_state


def test_event_of_several_reports_has_what_each_of_them_gives() -> None:
    first = read(row("194", id="1"), url="https://one.example/rebels-attack-army-base-killing-3-soldiers")
    later = read(
        row("194", id="2", added="20191024150000"), url="https://two.example/3", headline=("Rebels kill 3", "page")
    )
    copy = read(
        row("190", id="3", added="20191024151500"), url="https://three.example/a", headline=("Rebels kill 4", "page")
    )
    event = joined(first, later, copy)
    assert (event.subcategory, event.fatalities, event.source_count) == ("Armed clash", 3, 3)
    assert event.title_basis == "page"
    assert len(event.source_urls) == 3
    assert [(it.url, it.fatalities, it.row_ids) for it in event.reports] == [
        ("https://one.example/rebels-attack-army-base-killing-3-soldiers", 3, ("1",)),
        ("https://two.example/3", 3, ("2",)),
        ("https://three.example/a", 4, ("3",)),
    ]
    assert event.reasons["fatalities"].startswith("2 of 3 publishers whose headlines give a number give 3 killed")
    assert event.reasons["fatalities"].endswith("other figures: 4")


def test_copies_of_one_text_are_one_publisher() -> None:
    headline = ("Rebels shell the airport of the capital again", "page")
    copies = [read(row("194"), url=f"https://{host}.example/1", headline=headline) for host in ("one", "two", "three")]
    assert joined(*copies).source_count == 1


def test_composed_title_never_stands_where_another_report_has_a_headline() -> None:
    nameless = read(row("194"), url="https://one.example/202011130152.html")
    event = joined(nameless, read(row("194"), url="https://two.example/army-shells-rebel-town-at-night"))
    assert event.title == "Army shells rebel town at night"


def test_page_without_rows_begins_no_event_that_is_not_sure() -> None:
    article = Article("article_1", URL, "Minister visits the museum", "Example", "example.org", NOON, "feed")
    (report,) = read_reports([Page(URL, (), ("Minister visits the museum", "feed"), article)])
    assert isinstance(report, Report)
    assert build_event(report.id, [report]) is None
    assert joined(read(row("194"), url="https://two.example/army-shells-town"), report).source_count == 2


def test_event_without_a_readable_slug_gets_a_title_a_person_can_read() -> None:
    event = made(row("141"), url="https://www.nobody.example/stories/202011130152.html")
    assert (event.title, event.title_basis) == ("Political event in Minsk, Belarus (nobody.example)", "url")
    assert not event.is_relevant


def test_given_title_is_taken_with_its_basis() -> None:
    event = joined(read(row("190"), headline=("Army kills 3", "page")))
    assert (event.title, event.title_basis, event.fatalities) == ("Army kills 3", "page", 3)


def test_battle_is_relevant_and_a_new_school_is_not() -> None:
    assert made(row("190", actor1_type="MIL")).is_relevant
    assert not made(row("010"), url="https://example.org/singer-opens-new-school-for-cats").is_relevant


def test_report_of_the_past_gets_the_day_that_its_headline_names() -> None:
    event = made(row("190"), url="https://example.org/rebels-killed-12-soldiers-on-14-november-2015-army-says")
    assert event.is_retrospective
    assert event.event_date.isoformat() == "2015-11-14"
    assert "past" in event.reasons["event_date"]


def test_rows_of_several_exports_span_the_time_of_the_reports() -> None:
    event = made(row(id="1", added="20191024150000"), row(id="2"))
    assert event.first_reported_at.isoformat() == "2019-10-24T14:30:00+00:00"
    assert event.last_reported_at.isoformat() == "2019-10-24T15:00:00+00:00"
    assert [report.row_ids for report in event.reports] == [("1", "2")]


def test_every_field_that_is_judged_has_its_reason() -> None:
    reasons = made(row("190")).reasons
    assert {"category", "subcategory", "confidence", "title", "geo", "fatalities", "event_date", "source_count"} <= set(
        reasons
    )
