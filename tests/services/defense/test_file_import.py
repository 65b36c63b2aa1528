"""Files taken in by hand: each is told by its columns, and together they make the same news as a live provider's."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.services.defense.test_exports import EXCERPT, zipped
from tests.services.defense.test_gkg import line as gkg_line
from tollhouse.services.defense import store as events_store
from tollhouse.services.defense.events.event import EventRecord
from tollhouse.services.defense.ingest.batches import detect_kind, ingest_file
from tollhouse.services.defense.news import store
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.news.reported_article import ReportedArticle
from tollhouse.services.defense.stories.story import Story

DATA = Path(__file__).parents[2] / "data"
SLOT = "20191024143000"
PAGE = (
    "https://www.reuters.com/article/us-syria-security-turkey/five-turkish-military-personnel-wounded-in-syria-after-"
    "kurdish-militia-attack-ministry-idUSKBN1X31W0"
)
TITLE = "Five Turkish soldiers wounded in Syria, ministry says"
GRAPH = gkg_line(c1=SLOT, c4=PAGE, c26=f"<PAGE_TITLE>{TITLE}</PAGE_TITLE>")


@pytest.fixture
def take(database, tmp_path):
    """A function that takes these bytes in as a file."""

    async def taken(raw: bytes, name: str = "a.csv") -> dict[str, Any]:
        path = tmp_path / name
        path.write_bytes(raw)
        return await ingest_file(database, path)

    return taken


async def events(database) -> dict[str, EventRecord]:
    await Publisher(database, 8).update("local")
    async with database.reading() as connection:
        packed = await bodies(connection, events_store.EVENTS)
    return {
        record.source_urls[0]: record for record in (msgspec.json.decode(body, type=EventRecord) for body in packed)
    }


async def bodies(connection, source) -> list[bytes]:
    rows = events_store.rows_after(connection, source, "local", "")
    return [body async for some in rows for _, _, body in some]


async def articles(database) -> dict[str, ReportedArticle]:
    async with database.reading() as connection:
        packed = await bodies(connection, store.ARTICLES)
    return {it.article.url: it for it in (msgspec.json.decode(body, type=ReportedArticle) for body in packed)}


async def stories(database) -> list[Story]:
    await Publisher(database, 8).update("local")
    async with database.reading() as connection:
        packed = await bodies(connection, store.PUBLISHED["story"])
    return [msgspec.json.decode(body, type=Story) for body in packed]


def mention(url: str, columns: int = 16) -> bytes:
    values = ["410412347", SLOT, SLOT, "1", "example.org", url, "1", "-1", "1", "2", "1", "50", "900", "-4.5", "", ""]
    return "\t".join(values[:columns]).encode() + b"\n"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (EXCERPT, "export"),
        ((DATA / "gdelt_gkg.csv").read_bytes(), "gkg"),
        ((DATA / "gdelt_mentions.csv").read_bytes(), "mentions"),
        (b"a,b,c\n", "export"),
        (b"", "export"),
    ],
)
def test_kind_is_told_by_the_columns_of_the_first_line(raw, kind):
    assert detect_kind(raw) == kind


@pytest.mark.both_databases
async def test_each_kind_is_taken_in_and_reported(take):
    exported = await take(EXCERPT, f"{SLOT}.export.CSV")
    assert (exported["kind"], exported["slot"], exported["rows"], exported["bad_rows"]) == ("export", SLOT, 7, 0)
    graph = await take(zipped(GRAPH), f"{SLOT}.gkg.csv.zip")
    assert graph == {
        "kind": "gkg", "slot": SLOT, "rows": 1, "articles": 1, "titled": 1, "bad_rows": 0, "bad": []
    }  # fmt: skip
    url = "https://example.org/2019/10/24/army-shells-rebel-town-near-border"
    mentions = await take(mention(url) + b"broken\n", f"{SLOT}.mentions.CSV")
    assert (mentions["kind"], mentions["rows"], mentions["articles"], mentions["bad_rows"]) == ("mentions", 1, 1, 1)
    assert mentions["bad"][0]["line"] == 2


async def test_page_titles_taken_before_the_export_become_those_of_its_events(take, database):
    await take(GRAPH)
    await take(EXCERPT, f"{SLOT}.export.CSV")
    event = (await events(database))[PAGE]
    assert (event.title, event.title_basis) == (TITLE, "page")
    (told,) = [story for story in await stories(database) if event.id in story.event_ids]
    assert (told.title, told.tone) == (TITLE, -2.5)


async def test_without_page_titles_an_event_is_told_in_the_words_of_its_address(take, database):
    await take(EXCERPT, f"{SLOT}.export.CSV")
    event = (await events(database))[PAGE]
    assert event.title_basis == "url"
    assert event.title.startswith("Five Turkish military personnel wounded")


@pytest.mark.both_databases
async def test_page_titles_taken_after_the_export_become_those_of_events_and_stories(take, database):
    await take(EXCERPT, f"{SLOT}.export.CSV")
    assert (await events(database))[PAGE].title_basis == "url"
    assert (await take(GRAPH))["articles"] == 1
    event = (await events(database))[PAGE]
    assert (event.title, event.title_basis) == (TITLE, "page")
    (told,) = [story for story in await stories(database) if event.id in story.event_ids]
    assert told.title == TITLE


async def test_pages_alone_become_stories_and_the_sure_ones_events(take, database):
    url, title = "https://example.org/1", "Rebel rockets kill 12 soldiers near Idlib in Syria"
    report = await take(gkg_line(c1=SLOT, c4=url, c26=f"<PAGE_TITLE>{title}</PAGE_TITLE>"), "pages.csv")
    assert (report["slot"], report["rows"], report["articles"], report["titled"]) == (SLOT, 1, 1, 0)
    event = (await events(database))[url]
    assert (event.title, event.title_basis, event.country_code) == (title, "page", "SY")
    assert [story.title for story in await stories(database)] == [title]


async def test_mentions_alone_become_stories(take, database):
    await take(mention("https://example.org/2019/10/24/army-shells-rebel-town-near-border"), "a.mentions.CSV")
    assert [story.title for story in await stories(database)] == ["Army shells rebel town near border"]


@pytest.mark.both_databases
async def test_page_titles_taken_after_mentions_become_those_of_their_articles(take, database):
    url, title = "https://example.org/2019/10/24/army-shells-rebel-town-near-border", "A night of fear"
    await take(mention(url))
    report = await take(gkg_line(c1=SLOT, c4=url, c26=f"<PAGE_TITLE>{title}</PAGE_TITLE>"))
    assert (report["articles"], report["titled"]) == (1, 1)
    (article,) = (await articles(database)).values()
    assert (article.article.title, article.article.source) == (title, "gkg")
    await take(mention(url))
    assert (await articles(database))[url].article.title == title


async def test_pages_that_say_nothing_of_defense_are_left_out(take, database):
    roses = gkg_line(c1=SLOT, c4="https://example.org/roses", c26="<PAGE_TITLE>Singer shows off her hair</PAGE_TITLE>")
    tanks = gkg_line(c1=SLOT, c4="https://example.org/tanks", c26="<PAGE_TITLE>Army attacks rebels</PAGE_TITLE>")
    untitled = gkg_line(c1=SLOT, c4="https://example.org/army-tanks-missiles")
    report = await take(b"\n".join([roses, tanks, untitled]))
    assert (report["rows"], report["articles"]) == (3, 1)
    assert list(await articles(database)) == ["https://example.org/tanks"]


async def test_pages_that_mention_events_become_articles(take, database):
    war = "https://example.org/2019/10/24/army-shells-rebel-town-near-border"
    report = await take(mention(war) * 3 + mention("https://example.org/how-to-prune-old-roses-well"))
    assert (report["rows"], report["articles"]) == (4, 1)
    (found,) = (await articles(database)).values()
    assert found.article.url == war
    assert found.article.title == "Army shells rebel town near border"
    assert (found.article.tone, found.article.source) == (-4.5, "gdelt")


@pytest.mark.both_databases
async def test_same_file_twice_changes_nothing(take, database):
    assert (await take(GRAPH))["articles"] == 1
    assert (await take(GRAPH))["articles"] == 0
    await take(EXCERPT, f"{SLOT}.export.CSV")
    again = await take(EXCERPT, f"{SLOT}.export.CSV")
    assert (again["was_known"], again["reports"]) == (True, 0)


@pytest.mark.parametrize(
    "garbage", [b"", b"hello\n", b"\x00\xff" * 500, b"a\tb\tc\n" * 9, b"PK\x03\x04 and then nothing of a zip"]
)
async def test_garbage_is_refused_and_leaves_nothing(take, database, garbage):
    with pytest.raises(ValueError, match=r"."):
        await take(garbage)
    assert await events(database) == {}
    assert await articles(database) == {}


async def test_file_that_is_not_there_is_the_operating_systems_error(database, tmp_path):
    with pytest.raises(FileNotFoundError):
        await ingest_file(database, tmp_path / "gone.csv")
