import tomllib
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import pytest

from tollhouse.services.defense.article import (
    Article,
    agency_in_byline,
    count_source_families,
    find_publisher,
    headline_key,
    mark_copies,
    registrable_domain,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TABLE = tomllib.loads(files("tollhouse.services.defense").joinpath("data", "publishers.toml").read_text("utf-8"))
HEADLINE = "Rebels seize border town after three days of shelling"


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("news.bbc.co.uk", "bbc.co.uk"),
        ("bbc.co.uk", "bbc.co.uk"),
        ("a.b.example.com", "example.com"),
        ("www.heraldsun.com.au", "heraldsun.com.au"),
        ("mil.gov.ua", "mil.gov.ua"),
        ("someone.substack.com", "someone.substack.com"),
        ("192.0.2.7", "192.0.2.7"),
        ("localhost", "localhost"),
        ("", ""),
    ],
)
def test_registrable_domain_knows_suffixes_of_two_labels(host, domain):
    assert registrable_domain(host) == domain


@pytest.mark.parametrize(
    ("url", "name", "host", "family"),
    [
        ("https://www.bbc.com/news/world", "BBC", "bbc.com", "bbc"),
        ("https://news.bbc.co.uk/1/hi", "BBC", "news.bbc.co.uk", "bbc"),
        ("https://m.timesofindia.indiatimes.com/x", "Times of India", "timesofindia.indiatimes.com", "times-of-india"),
        ("https://amp.theguardian.com/x", "The Guardian", "theguardian.com", "theguardian.com"),
        ("https://tucson.com/news", "tucson.com", "tucson.com", "lee"),
        ("https://www.walesonline.co.uk/x", "walesonline.co.uk", "walesonline.co.uk", "reach"),
        ("https://WWW.Couriermail.com.au:443/x", "couriermail.com.au", "couriermail.com.au", "news-corp-australia"),
        ("https://www.msn.com/en-us/x", "MSN", "msn.com", "aggregator"),
        ("https://finance.yahoo.com/news/x", "Yahoo", "finance.yahoo.com", "aggregator"),
        ("https://in.reuters.com/article/x", "Reuters", "in.reuters.com", "reuters"),
        ("https://unknown.example.org/x", "example.org", "unknown.example.org", "example.org"),
        ("http://[2001:db8::1]:8080/x", "[2001:db8::1]", "[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_outlet_has_a_name_and_a_family(url, name, host, family):
    publisher = find_publisher(url)
    assert (publisher.name, publisher.host, publisher.family) == (name, host, family)


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/International/wireStory/strike-kills-five-74103246", "ap"),
        ("/ap/international/article_3a41.html", "ap"),
        ("/ap_news/a-story", "ap"),
        ("/associated_press/a-story/article_1.html", "ap"),
        ("/news/australian-associated-press/a-story", "aap"),
        ("/eng/reuters/a-story/46162666", "reuters"),
        ("/reuters/2020/03/04/world/a-story.html", "reuters"),
        ("/article/a-story-idUSKBN27U03K", "reuters"),
        ("/article/us-oil/a-story-idUSL8N2HY7KK.html", "reuters"),
        ("/world/five-killed-in-strike-afp", "afp"),
        ("/world/five-killed-in-strike-xinhua/", "xinhua"),
        ("/pti-stories/a-story", "pti"),
        ("/politics/michael-bloomberg", "example.org"),
        ("/maps/map-of-the-front", "example.org"),
        ("/identity/idealist12345-ideology", "example.org"),
        ("/search?q=/ap/reuters", "example.org"),
        ("", "example.org"),
    ],
)
def test_wire_copy_is_known_by_its_path(path, family):
    assert find_publisher("https://example.org" + path).family == family


@pytest.mark.parametrize(
    ("byline", "agency"),
    [
        ("BECKY BOHRER Associated Press", "ap"),
        ("By AP", "ap"),
        ("Jane Doe, AFP", "afp"),
        ("Reuters", "reuters"),
        ("Jane Doe and Reuters", "reuters"),
        ("Australian Associated Press", "aap"),
        ("Thomson Reuters", "reuters"),
        ("Michael Bloomberg", ""),
        ("Ani Lopez", ""),
        ("Efe Demir", ""),
        ("Jane Doe", ""),
        ("", ""),
    ],
)
def test_wire_copy_is_known_by_its_author_line(byline, agency):
    assert agency_in_byline(byline) == agency


def test_agency_on_its_own_site_stays_itself():
    assert find_publisher("https://www.reuters.com/world/ap/x", "Associated Press").family == "reuters"


def test_one_wire_story_in_ten_papers_is_one_voice():
    urls = [f"https://paper{number}.example.com/ap/story" for number in range(10)]
    assert count_source_families(find_publisher(url).family for url in urls) == 1


@pytest.mark.parametrize(
    ("families", "count"),
    [
        ([], 0),
        (["ap", "ap"], 1),
        (["ap", "bbc"], 2),
        (["aggregator"], 1),
        (["aggregator", "ap"], 1),
        (["", "ap"], 1),
        ([""], 0),
    ],
)
def test_aggregators_speak_only_where_nobody_else_does(families, count):
    assert count_source_families(families) == count


def article(identity: str, family: str, title: str = HEADLINE, hours: float = 0) -> Article:
    url = f"https://{family}/{identity}"
    return Article(identity, url, title, family, family, NOON + timedelta(hours=hours), "feed")


def test_same_headline_as_an_agency_is_its_copy_even_when_it_came_first():
    given = [article("1", "a.example", hours=-1), article("2", "ap"), article("3", "b.example", HEADLINE.upper() + "!")]
    assert [a.family for a in mark_copies(given)] == ["ap", "ap", "ap"]


def test_site_name_behind_the_headline_hides_nothing():
    given = [
        article("1", "ap"),
        article("2", "a.example", f"{HEADLINE} | The Daily"),
        article("3", "b.example", "Other"),
    ]
    assert [a.family for a in mark_copies(given)] == ["ap", "ap", "b.example"]


def test_same_headline_without_an_agency_belongs_to_the_earliest():
    given = [article("1", "a.example", hours=2), article("2", "b.example"), article("3", "aggregator", hours=-5)]
    assert [a.family for a in mark_copies(given)] == ["b.example"] * 3


def test_headline_that_is_cut_off_is_the_same():
    cut = ["Rebels seize border town after three", "Rebels seize border town after three days of"]
    given = [article(str(number), f"{number}.example", title) for number, title in enumerate([*cut, HEADLINE])]
    assert [a.family for a in mark_copies(given)] == ["0.example"] * 3


def test_short_or_other_beginning_of_a_headline_is_no_copy():
    titles = [HEADLINE, "Rebels seize border town", "Rebels seize border town after threats"]
    given = [article(str(number), f"{number}.example", title) for number, title in enumerate(titles)]
    assert [a.family for a in mark_copies(given)] == ["0.example", "1.example", "2.example"]


def test_short_headline_proves_nothing():
    given = [article("1", "a.example", "Morning briefing"), article("2", "b.example", "Morning briefing")]
    assert [a.family for a in mark_copies(given)] == ["a.example", "b.example"]


def test_short_headline_of_many_outlets_is_one_text():
    given = [article(name, f"{name}.example", "Question time in parliament") for name in "abcd"]
    assert [a.family for a in mark_copies(given)] == ["a.example"] * 4


def test_template_that_comes_back_is_no_copy():
    given = [article("1", "a.example"), article("2", "b.example", hours=72)]
    assert [a.family for a in mark_copies(given)] == ["a.example", "b.example"]


def test_two_agencies_stay_two():
    given = [article("1", "ap"), article("2", "reuters"), article("3", "a.example")]
    assert [a.family for a in mark_copies(given)] == ["ap", "reuters", "ap"]


def test_hyphen_in_a_headline_is_no_site_name():
    assert (
        headline_key("Israel-Hamas talks resume in Cairo on Sunday") == "israel hamas talks resume in cairo on sunday"
    )


def test_no_host_stands_in_the_table_twice():
    hosts = [host for family in TABLE["families"].values() for host in family.split()]
    hosts += TABLE["aggregators"]["hosts"].split()
    hosts += [host for agency in TABLE["agencies"].values() for host in agency.get("hosts", "").split()]
    assert sorted(hosts) == sorted(set(hosts))
    assert all(host == host.lower() and "." in host for host in hosts)


def test_two_hundred_outlets_have_names():
    assert len(TABLE["names"]) >= 200
