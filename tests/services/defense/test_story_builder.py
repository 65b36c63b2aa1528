"""The newsroom tells stories from what was reported, and goes on where another one stopped."""

from datetime import date, timedelta

from msgspec.structs import replace

from tests.services.defense.test_cluster import MINISTER, NOON, QUAKE, SUBMARINE, TANKER, _stream, article
from tollhouse.services.defense.entities.merge import NamedEntity
from tollhouse.services.defense.events.event import EventRecord, Geo
from tollhouse.services.defense.news.reported_article import ReportedArticle, report_article
from tollhouse.services.defense.news.story_builder import NewsSnapshot, StoryBuilder
from tollhouse.services.defense.stories.story import Story

LATER = NOON + timedelta(hours=1)
TITLES = [*TANKER, *MINISTER, *QUAKE, *SUBMARINE]
# Told twice in words that nothing ties together, until somebody uses both.
APART = ["Tremor levels mountain hamlets in Badghis", "Earthquake destroys villages near Qala Naw"]
BRIDGING = [
    "Earthquake tremor in Badghis destroys mountain villages and hamlets near Qala Naw",
    "Badghis earthquake near Qala Naw: tremor levels villages and hamlets",
    "Villages and mountain hamlets near Qala Naw levelled by Badghis earthquake",
    "Earthquake destroys villages near Qala Naw, tremor felt across Badghis",
    "Tremor near Qala Naw destroys Badghis villages; earthquake levels hamlets",
]


def reports(titles=TITLES, name="n", since_minute=0) -> list[ReportedArticle]:
    return [report_article(article(t, f"{name}{n}", since_minute + n)) for n, t in enumerate(titles)]


def snapshot_of(builder: StoryBuilder, *events: EventRecord, at=LATER) -> NewsSnapshot:
    """The stories of these events, each reported by the article of its number."""
    pages = {one.id: [f"article_{int(one.id.removeprefix('conflict_'), 16)}"] for one in events}
    return builder.snapshot(at, {event.id: event for event in events}, pages)


def build_stories(builder: StoryBuilder, *batch: ReportedArticle) -> list[Story]:
    builder.add(batch)
    return snapshot_of(builder).stories


def story_of(stories, number) -> Story:
    (found,) = [story for story in stories if f"https://news.example/{number}" in {a.url for a in story.articles}]
    return found


def event(number="1", **changes: object) -> EventRecord:
    values = {
        "id": f"conflict_{int(number):016x}", "title": TANKER[0],
        "title_basis": "url", "event_date": date(2026, 3, 2), "category": "Battles", "subcategory": "Armed clash",
        "geo": Geo("Yemen", "Hodeidah", 14.8, 42.95), "country_code": "YE", "fatalities": 0,
        "fatalities_basis": "not_reported", "confidence": 0.9, "goldstein": -5.0, "is_state_on_state": False,
        "is_violent": True, "relevance": 0.4, "source_count": 1,
        "source_urls": [f"https://news.example/{number}"], "first_reported_at": NOON, "last_reported_at": NOON,
        "reasons": {}, **changes,
    }  # fmt: skip
    return EventRecord(**values)


def test_each_event_becomes_one_story_of_its_articles():
    stories = build_stories(StoryBuilder(), *reports())
    for start in (0, 6, 12, 18):
        assert len({story_of(stories, f"n{number}").id for number in range(start, start + 6)}) == 1
    assert len(stories) == 4


def test_same_reports_again_change_nothing():
    builder = StoryBuilder()
    assert builder.add(reports()) == len(TITLES)
    first = snapshot_of(builder)
    assert builder.add(reports()) == 0
    again = snapshot_of(builder)
    assert (again.stories, again.entities) == (first.stories, first.entities)
    assert not again.merged


def test_restart_keeps_every_story_under_its_id_and_lets_it_grow():
    builder = StoryBuilder()
    before = build_stories(builder, *reports())
    restarted = StoryBuilder(builder.dump_state())
    assert {s.id: s for s in build_stories(restarted, *reports())} == {s.id: s for s in before}
    late = report_article(article("Burning tanker off Hodeidah sinks after drone attack", "late", 50))
    grown = story_of(build_stories(restarted, late), "late")
    assert grown.id == story_of(before, "n0").id
    assert grown.article_count == story_of(before, "n0").article_count + 1


def test_story_merged_away_is_told_under_its_successor():
    builder = StoryBuilder()
    first = build_stories(builder, *reports(SUBMARINE, "background"), *reports(APART, "apart"))
    ended_or_not = {story_of(first, "apart0").id, story_of(first, "apart1").id}
    assert len(ended_or_not) == 2
    builder.add(reports([*BRIDGING, *TANKER, *MINISTER, *_stream(100)], "later", 10))
    now = snapshot_of(builder)
    whole = story_of(now.stories, "apart0")
    assert whole.id == story_of(now.stories, "apart1").id
    (ended,) = ended_or_not - {whole.id}
    assert (ended, whole.id) in now.merged
    assert not snapshot_of(builder).merged


def test_composed_titles_stay_alone():
    made_up = [
        replace(
            report_article(article("Armed clash in Kabul, Afghanistan (dawn.com)", number)),
            has_headline=False,
            names=[],
        )
        for number in range(3)
    ]
    stories = build_stories(StoryBuilder(), *made_up)
    assert sorted(story.article_count for story in stories) == [1, 1, 1]
    assert {story.title for story in stories} == {"Armed clash in Kabul, Afghanistan (dawn.com)"}


def test_headline_that_comes_later_replaces_a_composed_one():
    builder = StoryBuilder()
    page = article(TANKER[0], 1)
    made_up = ReportedArticle(replace(page, title="Armed clash in Yemen (news.example)", source="gdelt"), [],
                       has_headline=False)  # fmt: skip
    assert build_stories(builder, made_up)[0].title == "Armed clash in Yemen (news.example)"
    (story,) = build_stories(builder, report_article(replace(page, source="gkg")))
    assert story.title == TANKER[0]
    assert snapshot_of(builder, event()).stories[0].event_ids == [event().id]


def test_tone_that_comes_later_reaches_the_story():
    builder = StoryBuilder()
    page = article(TANKER[0], 1)
    assert build_stories(builder, report_article(replace(page, source="gdelt")))[0].tone is None
    assert build_stories(builder, report_article(replace(page, source="gkg", tone=-4.0)))[0].tone == -4.0


def test_copies_of_one_agencys_text_are_one_voice():
    title = "Drone strikes oil tanker off Hodeidah port, crew safe"
    copies = [
        report_article(article(title, n, n, family=family)) for n, family in enumerate(("reuters", "gazette", "post"))
    ]
    (story,) = build_stories(StoryBuilder(), *copies)
    assert (story.article_count, story.source_count) == (3, 1)
    assert story.sources == ["gazette", "post", "reuters"]
    own = report_article(article("Oil tanker on fire off Hodeidah port after drone strike", 3, 3, family="herald"))
    (story,) = build_stories(StoryBuilder(), *copies, own)
    assert (story.article_count, story.source_count) == (4, 2)


def test_story_takes_category_and_place_from_its_events():
    builder = StoryBuilder()
    builder.add(reports(TANKER, ""))
    (story,) = snapshot_of(builder, event(), event("77")).stories
    assert (story.category, story.countries, story.event_ids) == ("Battles", ["Yemen"], [event().id])
    (without,) = snapshot_of(builder).stories
    assert (without.category, without.countries, without.event_ids) == (None, [], [])


def test_changed_event_changes_what_its_story_is_worth():
    builder = StoryBuilder()
    builder.add([report_article(article(TANKER[1], 1, 1))])
    (before,) = snapshot_of(builder, event()).stories
    (deadly,) = snapshot_of(builder, event(goldstein=-10.0, fatalities=400, fatalities_basis="ucdp")).stories
    assert deadly.significance > before.significance
    (elsewhere,) = snapshot_of(builder, event(category="Protests", geo=Geo("Oman", "", 20.0, 57.0))).stories
    assert (elsewhere.category, elsewhere.countries) == ("Protests", ["Oman"])


def test_what_left_the_window_is_let_go():
    builder = StoryBuilder()
    builder.add(reports())
    assert snapshot_of(builder, at=NOON + timedelta(hours=25)).stories == []
    assert len(builder.articles()) == len(TITLES)
    builder.expire(NOON + timedelta(hours=37))
    assert builder.articles() == []
    assert StoryBuilder(builder.dump_state()).snapshot(LATER, {}, {}).stories == []


def test_surname_is_told_as_the_person_its_story_names():
    builder = StoryBuilder()
    kovac = NamedEntity("entity_full", "Mira Kovac", "person", "Mira Kovac")
    alone = NamedEntity("entity_surname", "Kovac", "person", "Kovac")
    batch = [replace(report, names=[kovac if n < 2 else alone]) for n, report in enumerate(reports(MINISTER))]
    builder.add(batch)
    now = snapshot_of(builder)
    (person,) = now.entities
    assert (person.id, person.name, person.aliases, person.mentions) == ("entity_full", "Mira Kovac", ["Kovac"], 6)
    assert ("entity_surname", "entity_full") in now.merged
    assert now.stories[0].entities == ["entity_full"]
