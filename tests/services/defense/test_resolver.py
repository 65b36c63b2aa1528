"""Reports of one occurrence become one event; another strike, town or day is another."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tollhouse.services.defense.events.occurrence import VECTOR_SCALE, Headline, Tuning, agreement, build_group
from tollhouse.services.defense.events.report import event_id
from tollhouse.services.defense.events.resolver import Resolved, Resolver, Sighting

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)

STRIKE = [
    "Air strike on Valdona market kills 14",
    "Fourteen killed in air strike on market in Valdona",
    "Valdona: market bombed from the air, 14 dead",
    "Warplanes bomb Valdona market, killing 14",
]
OTHERS = [
    "Parliament of Ruritania adopts budget after long debate",
    "Opposition leader Marek arrested on return from exile",
    "Port workers in Estmouth strike over wages",
    "Sanctions on Borduria extended by six months",
    "Foreign ministers meet in Klow to discuss border crossing",
    "Border guards of Syldavia stop smuggled ammunition",
    "Court orders new count in Grenmark election",
    "Thousands march in Sankt Olaf against pension reform",
    "Navy frigate leaves for patrol off Cape Lund",
    "Prime minister Halden survives confidence vote",
    "Rebels free hostages after talks in Tarn valley",
    "Defence ministry orders forty armoured vehicles",
    "Spy chief questioned by senators about wiretaps",
    "Farmers block motorway near Ostrava with tractors",
    "President vetoes bill on foreign agents",
    "Peacekeepers hand base over to Kasaland army",
    "Journalist expelled from Borduria returns home",
    "Mayor of Klow resigns over housing scandal",
    "Ceasefire in Tarn holds for second week, monitors say",
    "Grenmark and Syldavia sign gas pipeline treaty",
]


def sighting(name: str, title: str, hours: float = 0, **more: object) -> Sighting:
    moment = NOON + timedelta(hours=hours)
    facts: dict[str, object] = {
        "id": f"article_{name}", "url": f"https://{name}.example/{name}", "title": title, "has_headline": True,
        "reported_at": moment, **more,
    }  # fmt: skip
    return Sighting(**facts)


def ordinary_day() -> list[Sighting]:
    return [sighting(f"ordinary{n}", title) for n, title in enumerate(OTHERS)]


def strikes(hours: float = 0) -> list[Sighting]:
    return [
        sighting(f"strike{n}", title, hours + n / 4, countries={"RU": 0.9}, places=("Valdona",), killed=14)
        for n, title in enumerate(STRIKE)
    ]


def grouped(resolved: Resolved) -> list[tuple[str, ...]]:
    """The events with several reports, without the prefix of the ids."""
    events = [tuple(report.removeprefix("article_") for report in reports) for reports in resolved.events.values()]
    return sorted(event for event in events if len(event) > 1)


def resolve(*batches: list[Sighting]) -> Resolved:
    resolver = Resolver()
    for batch in batches:
        resolver.add(batch)
    return resolver.settle()


def test_the_same_strike_in_other_words_is_one_event():
    assert grouped(resolve([*ordinary_day(), *strikes()])) == [("strike0", "strike1", "strike2", "strike3")]


def test_a_follow_up_joins_days_later():
    later = sighting("later", "Valdona buries the dead of the market bombing", 40, places=("Valdona",))
    assert grouped(resolve([*ordinary_day(), *strikes()], [later]))[-1][-1] == "later"


def test_another_towns_strike_is_another_event():
    other = sighting("other", "Air strike on Tarnow market kills 5", places=("Tarnow",), killed=5)
    assert "other" not in str(grouped(resolve([*ordinary_day(), *strikes(), other])))


def test_the_next_days_strike_is_another_event():
    first = sighting("first", "Rocket attack on Kaldor base kills three soldiers", killed=3, places=("Kaldor",))
    second = sighting("second", "Five die as militia shells barracks near Kaldor", 26, killed=5, places=("Kaldor",))
    assert grouped(resolve([*ordinary_day(), first], [second])) == []


@pytest.mark.parametrize(("country", "expected"), [("SD", [("here", "there")]), ("MM", [])])
def test_similar_words_about_another_country_are_another_event(country, expected):
    here = sighting("here", "Soldiers fire on protesters in capital", countries={"SD": 0.9})
    there = sighting("there", "Troops with tear gas drive protesters from capital", countries={country: 0.9})
    assert grouped(resolve([*ordinary_day(), here, there])) == expected


def test_copies_of_a_headline_share_an_event_whatever_their_places():
    title = "Governor of Estmouth killed by car bomb outside office"
    copies = [sighting(f"copy{n}", title, n, countries={code: 0.9}) for n, code in enumerate(("SE", "US", "IN"))]
    assert grouped(resolve([*ordinary_day(), *copies])) == [("copy0", "copy1", "copy2")]


def test_reports_without_headline_join_only_by_the_same_provider_row():
    row = (20260302190,)
    blank = {"has_headline": False, "countries": {"SD": 0.9}}
    told = sighting("told", "Kaldor garrison overrun at dawn", countries={"SD": 0.9}, row_keys=row)
    same, other = (sighting(name, "Fight in Kaldor, Sudan", **blank) for name in ("same", "other"))
    linked = sighting("linked", "Fight in Kaldor, Sudan", 1, row_keys=row, **blank)
    assert grouped(resolve([*ordinary_day(), told, same, other, linked])) == [("told", "linked")]
    assert grouped(resolve([*ordinary_day(), linked], [told])) == [("told", "linked")]


def test_the_order_of_arrival_within_a_batch_does_not_matter():
    batch = [*ordinary_day(), *strikes()]
    shuffled = list(batch)
    random.Random(7).shuffle(shuffled)
    assert resolve(batch) == resolve(shuffled)


def test_adding_a_report_twice_changes_nothing():
    resolver = Resolver()
    resolver.add([*ordinary_day(), *strikes()])
    before = resolver.settle()
    resolver.add(strikes())
    after = resolver.settle()
    assert after.events == before.events
    assert (after.changed, after.merged, after.split) == (set(), [], [])


def test_an_event_has_the_id_of_its_first_report_and_keeps_it():
    resolver = Resolver()
    first, *others = strikes()
    resolver.add([*ordinary_day(), first])
    identity = event_id(first.url)
    assert resolver.settle().events[identity] == (first.id,)
    resolver.add(others)
    resolved = resolver.settle()
    assert resolved.events[identity] == tuple(report.id for report in (first, *others))
    assert resolved.changed == {identity}


def test_an_event_served_apart_that_turns_out_to_be_another_has_a_successor():
    resolver = Resolver()
    one = sighting("one", "Blast at Kaldor fuel depot")
    other = sighting("other", "Drones set refinery tanks ablaze overnight", 1)
    resolver.add([*ordinary_day(), one, other])
    assert len(resolver.settle().events) == len(OTHERS) + 2
    bridges = [
        sighting("both1", "Drones set tanks ablaze at Kaldor fuel depot overnight", 2),
        sighting("both2", "Blast at Kaldor fuel depot as drones set tanks ablaze", 2),
        sighting("both3", "Kaldor refinery depot blast: drones set fuel tanks ablaze overnight", 2),
    ]
    resolver.add(bridges)
    resolved = resolver.settle()
    assert grouped(resolved) == [("one", "other", "both1", "both2", "both3")]
    assert resolved.merged == [(event_id(other.url), event_id(one.url))]


def test_a_report_whose_title_changes_leaves_its_event_with_an_id_of_its_own():
    resolver = Resolver()
    resolver.add([*ordinary_day(), *strikes()])
    before = resolver.settle()
    moved = sighting("strike0", "Parachute regiment gets a new commander", countries={"SE": 0.9})
    resolver.add([moved])
    after = resolver.settle()
    identity = event_id(moved.url)
    assert before.events[identity][0] == moved.id
    assert after.events[identity] == before.events[identity][1:]
    (old, new) = after.split[0]
    assert (old, after.events[new], after.changed) == (identity, (moved.id,), {identity, new})


def test_an_event_whose_only_report_joins_another_has_that_as_successor():
    resolver = Resolver()
    alone = sighting("alone", "Latest updates from our reporters", 1, countries={"SE": 0.9})
    resolver.add([*ordinary_day(), *strikes(), alone])
    resolver.settle()
    resolver.add([sighting("alone", "Air strike on Valdona market leaves 14 dead", 1, countries={"RU": 0.9})])
    resolved = resolver.settle()
    assert resolved.merged == [(event_id(alone.url), event_id(strikes()[0].url))]


@pytest.mark.parametrize("restarts", [True, False])
def test_the_state_survives_a_restart(restarts):
    resolver = Resolver()
    resolver.add([*ordinary_day(), *strikes()[:2]])
    before = resolver.settle()
    again = Resolver(resolver.dump_state()) if restarts else resolver
    later = [*strikes()[2:], sighting("extra", "Valdona market air strike: what is known", 3)]
    again.add(later)
    resolved = again.settle()
    assert resolved == resolve_twice(later)
    assert before.events.keys() - resolved.events.keys() == {old for old, _ in resolved.merged}


def resolve_twice(later: list[Sighting]) -> Resolved:
    resolver = Resolver()
    resolver.add([*ordinary_day(), *strikes()[:2]])
    resolver.settle()
    resolver.add(later)
    return resolver.settle()


def test_events_without_new_reports_expire():
    resolver = Resolver()
    resolver.add([*ordinary_day(), *strikes(48)])
    resolver.expire(NOON + timedelta(hours=24))
    resolved = resolver.settle()
    assert list(resolved.events) == [event_id(strikes()[0].url)]
    assert len(resolver) == 1
    resolver.add(ordinary_day())
    assert len(resolver.settle().events) == 1 + len(OTHERS)


@pytest.mark.parametrize(("direction", "size", "joins"), [(0, 3, True), (1, 3, False), (0, 2, False)])
def test_single_report_in_other_words_joins_an_event_of_three_with_its_meaning(
    direction: int, size: int, joins: bool
) -> None:
    vectors = np.eye(2, dtype=np.float32) * VECTOR_SCALE
    words = {"town": 0.3, "strike": 0.95, "raid": 0.95}

    def weigh(headline: Headline) -> dict[str, float]:
        return {term: words[term] for term in headline.terms}

    headlines = [Headline(str(n), [], ("town", "strike")) for n in range(size)]
    single = Headline("x", [], ("town", "raid"))
    event, other = build_group("a", headlines, weigh), build_group("b", [single], weigh)
    agreed = agreement(event, other, 100, Tuning(), lambda headline: vectors[direction if headline is single else 0])
    assert (agreed >= 1) == joins


@pytest.mark.parametrize(("own", "between", "joins"), [(0.7, 0.65, True), (0.7, 0.3, False), (0.1, 0.1, False)])
def test_two_large_events_on_a_busy_day_are_one_if_they_are_as_alike_as_their_own_headlines(
    own: float, between: float, joins: bool
) -> None:
    number = 4
    within, across = np.full((number, number), own), np.full((number, number), between)
    np.fill_diagonal(within, 1.0)
    # Vectors of unit length with these cosines within either event and between the two.
    vectors = np.linalg.cholesky(np.block([[within, across], [across, within]]) + 1e-6 * np.eye(2 * number))
    headlines = [Headline(str(n), [], ("jet", f"word{n}")) for n in range(2 * number)]

    def weigh(headline: Headline) -> dict[str, float]:
        return {"jet": 0.5, headline.terms[1]: 0.75**0.5}

    one, other = build_group("a", headlines[:number], weigh), build_group("b", headlines[number:], weigh)
    agreed = agreement(
        one, other, 40_000, Tuning(), lambda headline: (vectors[int(headline.key)] * VECTOR_SCALE).astype(np.float32)
    )
    assert (agreed >= 1) == joins


@pytest.mark.parametrize(
    ("killed", "country", "expected"),
    [
        (3, "IN", [("report", "summary")]),
        (4, "IN", []),
        (3, "NG", []),
    ],
)
def test_the_same_deaths_in_one_country_join_reports_in_other_words(killed: int, country: str, expected: list) -> None:
    militants = "Militants kill 3 village defence force volunteers in Manipur, injured 5"
    violence = (
        "Manipur Violence: Kuki community opens National Highway after two months, three killed in fresh violence"
    )
    report = sighting("report", militants, countries={"IN": 1.0}, killed=3)
    summary = sighting("summary", violence, countries={country: 1.0}, killed=killed)
    assert grouped(resolve([*ordinary_day(), report, summary])) == expected
