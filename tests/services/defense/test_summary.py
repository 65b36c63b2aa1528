"""A story's title is the headline most publishers agree with; its summary adds what the title leaves out."""

from datetime import UTC, datetime, timedelta

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.news.reported_article import ReportedArticle
from tollhouse.services.defense.news.story_builder import build_story
from tollhouse.services.defense.stories.story import summarize

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def article(number: int, title: str, family: str = "", text: str = "", tone: float | None = None) -> Article:
    name = family or f"paper {number}"
    moment = NOON + timedelta(minutes=number)
    return Article(f"a{number}", f"https://n.example/{number}", title, name.title(), name, moment, "feed", text, tone)


TANKER = [
    article(1, "Drone hits tanker off Hodeidah"),
    article(2, "Oil tanker on fire after drone attack off Hodeidah"),
    article(3, "Navy: crew safe"),
    article(4, "Drone attack off Hodeidah sets oil tanker on fire, navy says crew is safe"),
    article(5, "What the Hodeidah attack means for freight rates"),
]
AGREED = "Drone attack off Hodeidah sets oil tanker on fire, navy says crew is safe"


def test_the_title_is_the_headline_most_agree_with():
    assert summarize(TANKER)[0] == AGREED


def test_a_family_repeating_itself_does_not_choose_the_title():
    spam = [article(10 + n, f"Freight rates soar, says Acme: number {n}", family="acme") for n in range(20)]
    assert summarize([*TANKER, *spam])[0] == AGREED


def test_a_headline_cut_off_or_prefixed_is_not_served_as_it_came():
    title, _ = summarize([article(1, "UPDATE 2-Drone  hits tanker off Hodeidah  ...")])
    assert title == "Drone hits tanker off Hodeidah"


def test_a_headline_that_another_one_continues_or_that_ends_in_a_preposition_is_cut_off():
    whole = article(1, "Envoy was in Aden over missing British reporter")
    assert summarize([article(2, "Envoy was in Aden over missing"), article(3, "Envoy was in Aden over"), whole])[
        0
    ] == (whole.title)


def test_the_summary_adds_to_the_title_and_does_not_repeat_itself():
    text = (
        "A drone hit an oil tanker off Hodeidah. The crew of 24 was taken aboard a French frigate overnight. "
        "Insurers raised war-risk premiums for the strait on Monday."
    )
    other = "The crew of 24 was taken aboard a French frigate. Salvage tugs from Djibouti are expected by Wednesday."
    _, summary = summarize(
        [*TANKER, article(6, "Drone hits oil tanker", text=text), article(7, "Tanker hit", text=other)]
    )
    assert "French frigate overnight" in summary
    assert summary.count("French frigate") == 1
    assert "Djibouti" in summary


def test_without_texts_other_headlines_make_the_summary():
    _, summary = summarize(TANKER)
    assert "What the Hodeidah attack means for freight rates." in summary


def test_articles_without_titles_have_a_story_without_words():
    assert summarize([article(1, "")]) == ("", "")


def story_of(articles):
    return build_story("story_1", [ReportedArticle(one, ()) for one in articles], ())


def test_a_told_story_counts_families_once():
    articles = [article(1, "Drone hits tanker", "acme", tone=-6.0), article(2, "Tanker hit again", "acme", tone=-2.0)]
    story = story_of([*articles, article(3, "Tanker on fire", "zeta", tone=2.0)])
    assert (story.article_count, story.source_count, story.sources) == (3, 2, ["Acme", "Zeta"])
    assert story.tone == -1.0
    assert [coverage.url for coverage in story.articles] == [f"https://n.example/{n}" for n in (3, 2, 1)]
    assert (story.first_seen, story.last_seen) == (NOON + timedelta(minutes=1), NOON + timedelta(minutes=3))


def test_a_story_without_tones_has_none():
    assert story_of(TANKER).tone is None
