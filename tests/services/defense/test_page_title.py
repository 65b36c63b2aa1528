from datetime import UTC, datetime

import pytest

from tollhouse.services.defense.article import Article, article_id
from tollhouse.services.defense.ingest.page_title import clean_titles

DASH = "\N{EN DASH}"


def page(title, url="https://news.example.org/2023/07/02/some-page-of-the-day", language="en"):
    return Article(
        id=article_id(url), url=url, title=title, publisher="", family="", published=datetime(2023, 7, 2, tzinfo=UTC),
        source="gkg", language=language,
    )  # fmt: skip


def cleaned(*titles: str, host="news.example.org"):
    articles = [page(title, f"https://{host}/story/{number}") for number, title in enumerate(titles)]
    return [article.title for article in clean_titles(articles)]


@pytest.mark.parametrize(
    ("host", "suffix"),
    [
        ("www.harbourpost.com", " - Harbour Post"),
        ("www.theharbourpost.co.uk", " | The Harbour Post"),
        ("www.harbourpost.com", f" {DASH} HarbourPost.com"),
        ("www.bbc.co.uk", " - BBC News"),
        ("www.harbourpost.com", " | Harbour Post Online News"),
        ("www.hpanews.example", " — Harbour Press of Avon"),
        ("www.harbourpost.com", " | World | Harbour Post"),
        ("www.harbourpost.com", " - Harbour Post - 07/02/2023"),
        ("www.harbourpost.com", " » Latest news today"),
    ],
)
def test_name_of_the_site_is_not_part_of_a_headline(host, suffix):
    headline = "Navy escorts two ships - without a shot - through the strait"
    assert cleaned(headline + suffix, host=host) == [headline]


def test_section_of_the_url_goes_with_the_name_of_the_site():
    url = "https://www.harbourpost.com/world/africa/1234"
    articles = clean_titles([page("Army retakes two towns - Africa - Harbour Post", url)])
    assert articles[0].title == "Army retakes two towns"
    assert clean_titles([page("Army retakes two towns - Africa", url)])[0].title == "Army retakes two towns - Africa"


def test_what_many_titles_of_a_domain_share_is_not_part_of_their_headlines():
    headlines = ["Army retakes town", "Minister resigns over budget", "Ships collide off the coast", "Port reopens"]
    assert cleaned(*(f"{headline} {DASH} Evening Bulletin" for headline in headlines)) == headlines
    assert cleaned(*(f"Welcome to the wire - NATION - {headline}" for headline in headlines)) == headlines
    attributed = [f"Army retakes town {DASH} minister", f"Port reopens {DASH} minister"]
    assert cleaned(*attributed) == attributed


def test_headline_that_names_its_publisher_stays_whole():
    assert cleaned("Harbour Post reporter killed", host="harbourpost.com") == ["Harbour Post reporter killed"]
    assert cleaned("Harbour Post sold", host="harbourpost.com") == ["Harbour Post sold"]


def test_name_of_the_site_alone_is_no_headline():
    assert cleaned("The Harbour Post", host="www.harbourpost.com") == [""]


def test_title_of_many_pages_is_a_headline_only_where_the_url_has_its_words():
    title = "Subscribe for all our reporting"
    articles = [page(title, f"https://example.org/story/army-retakes-northern-town-{number}") for number in range(3)]
    same = page(title, "https://example.org/story/subscribe-for-all-our-reporting")
    assert [article.title for article in clean_titles([*articles, same])] == ["", "", "", title]


def test_copies_of_one_article_on_a_domain_keep_their_headline():
    title = "Army retakes northern town"
    articles = [page(title, f"https://example.org/{number}/army-retakes-northern-town") for number in range(3)]
    assert {article.title for article in clean_titles(articles)} == {title}


def test_cut_title_ends_in_one_ellipsis():
    assert cleaned("Army  retakes the town of ... ", "Army retakes … …") == [
        "Army retakes the town of…",
        "Army retakes…",
    ]


def test_title_in_other_letters_is_kept_and_not_called_english():
    title = "Армия вернула город"
    articles = clean_titles(
        [
            page(title),
            page(title, "https://example.org/2", language="ru"),
            page("Cette armée a repris la ville", "https://example.org/3"),
        ]
    )
    assert [(article.title, article.language) for article in articles[:2]] == [(title, ""), (title, "ru")]
    assert articles[2].language == "en"


def test_front_page_of_a_site_has_no_headline():
    assert clean_titles([page("Your authority on local matters", "https://www.localmatters.example/")])[0].title == ""
