import codecs
import time
from datetime import UTC, datetime, timedelta

import pytest

from tollhouse.html_text import one_line
from tollhouse.services.defense.article import LONGEST_URL, Article, article_id, clean_url
from tollhouse.services.defense.ingest.feed_parser import ParsedFeed, Reading, feed_text, parse_feed, read_moment

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TODAY = "<pubDate>Sat, 21 Nov 2026 10:00:00 GMT</pubDate>"


def parsed(xml: str | bytes, seen: set[str] | None = None, content_type: str = "") -> ParsedFeed:
    raw = xml.encode() if isinstance(xml, str) else xml
    since = NOON - timedelta(days=1)
    return parse_feed(raw, Reading("https://example.org/feeds/all.xml", NOON, since, seen, content_type))


def rss(*items: str, head: str = "") -> str:
    return f"<rss version='2.0'><channel><title>News</title>{head}{''.join(items)}</channel></rss>"


def item(title: str = "A title", link: str = "https://example.org/a", rest: str = TODAY) -> str:
    return f"<item><title>{title}</title><link>{link}</link>{rest}</item>"


def only(feed: ParsedFeed) -> Article:
    assert len(feed.articles) == 1, feed
    return feed.articles[0]


RSS_091 = f"""<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/publish/formats/rss-0.91.dtd">
<rss version="0.91"><channel><title>N</title><language>en-us</language>{item("Troops cross river")}</channel></rss>"""
RSS_10 = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="https://example.org/"><title>N</title>
 <dc:language>en</dc:language>
 <items><rdf:Seq><rdf:li rdf:resource="https://example.org/a"/></rdf:Seq></items></channel>
 <item rdf:about="https://example.org/a"><title>Troops cross river</title><link>https://example.org/a</link>
 <dc:date>2026-11-21T10:00:00Z</dc:date></item></rdf:RDF>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en"><title>N</title><link href="https://example.org/"/>
 <entry><title type="html">Troops &lt;b&gt;cross&lt;/b&gt; river</title><id>tag:example.org,2026:1</id>
 <link rel="enclosure" href="https://example.org/a.mp3"/><link rel="alternate" href="https://example.org/a"/>
 <updated>2026-11-21T11:00:00Z</updated><published>2026-11-21T11:00:00+01:00</published></entry></feed>"""
ATOM_PREFIXED = """<a:feed xmlns:a="http://www.w3.org/2005/Atom" xml:lang="en"><a:entry>
 <a:title>Troops cross river</a:title> <a:link href="https://example.org/a"/><a:updated>2026-11-21T10:00:00Z</a:updated></a:entry></a:feed>"""


@pytest.mark.parametrize("xml", [RSS_091, RSS_10, ATOM, ATOM_PREFIXED], ids=["rss-0.91", "rss-1.0", "atom", "prefixed"])
def test_every_dialect_gives_the_same_article(xml):
    article = only(parsed(xml))
    assert (article.title, article.url) == ("Troops cross river", "https://example.org/a")
    assert article.published == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert (article.language, article.source, article.publisher) == ("en", "feed", "example.org")


def test_summary_loses_its_html():
    html = "&lt;p&gt;Ten &lt;i&gt;dead&lt;/i&gt;.&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
    assert only(parsed(rss(item(rest=f"{TODAY}<description>{html}</description>")))).text == "Ten dead."


def test_xhtml_content_becomes_its_words():
    xhtml = ATOM.replace("<updated>", "<content type='xhtml'><div><p>One</p><p>two</p></div></content><updated>")
    assert only(parsed(xhtml)).text == "One two"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Tom &amp;amp; Jerry", "Tom & Jerry"),
        ("It&amp;#8217;s over", "It\u2019s over"),
        ("A&nbsp;caf&eacute;", "A café"),
        ("<![CDATA[AT&T <em>wins</em>]]>", "AT&T wins"),
        ("&amp;lt;script&amp;gt;alert(1)&amp;lt;/script&amp;gt;Hello", "Hello"),
        ("3 &lt; 5 &gt; 2", "3 < 5 > 2"),
    ],
)
def test_title_is_what_a_reader_sees(written, read):
    assert only(parsed(rss(item(written)))).title == read


def test_item_without_title_is_named_by_its_text():
    article = only(parsed(rss(item("", rest=TODAY + "<description>Shells fell on the port.</description>"))))
    assert article.title == "Shells fell on the port."


def test_item_without_title_and_text_is_counted():
    assert parsed(rss(item(""))).skipped == {"no-title": 1}


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "data:text/html,x", "mailto:a@example.org", "ftp://e.org/", ""]
)
def test_link_that_is_no_page_is_refused(link):
    feed = parsed(rss(item(link=link)))
    assert (feed.articles, feed.skipped) == ([], {"no-link": 1})


def test_permanent_guid_stands_in_for_a_link():
    guid = f"<item><title>A title</title><guid>https://example.org/g</guid>{TODAY}</item>"
    assert only(parsed(rss(guid))).url == "https://example.org/g"


def test_guid_that_says_it_is_no_link_is_none():
    guid = f"<item><title>A title</title><guid isPermaLink='false'>https://example.org/g</guid>{TODAY}</item>"
    assert parsed(rss(guid)).skipped == {"no-link": 1}


def test_relative_link_is_resolved_against_the_feed():
    assert only(parsed(rss(item(link="/news/a")))).url == "https://example.org/news/a"
    based = ATOM.replace("<entry>", "<entry xml:base='https://other.example/x/'>").replace("https://example.org/a", "a")
    assert only(parsed(based)).url == "https://other.example/x/a"


def test_same_page_twice_is_one_article():
    feed = parsed(rss(item(), item(link="http://www.example.org/a/?utm_source=rss")))
    assert len(feed.articles) == 1
    assert feed.skipped == {"duplicate": 1}


@pytest.mark.parametrize(
    ("link", "tidy"),
    [
        ("https://example.org/a?utm_source=rss&id=7&fbclid=x#top", "https://example.org/a?id=7"),
        ("HTTPS://Example.ORG:443/A", "https://example.org/A"),
        ("https://example.org/a?x=1&amp;y=2", "https://example.org/a?x=1&y=2"),
        (" https://example.org/\na ", "https://example.org/a"),
        ("https://user:secret@example.org/", ""),
        ("https://[::1", ""),
        ("https://example.org:99999/", ""),
        ("https://example.org/" + "a" * LONGEST_URL, ""),
        ("https://", ""),
    ],
)
def test_link_is_tidied_or_refused(link, tidy):
    assert clean_url(link) == tidy


def test_spellings_of_one_page_share_their_id():
    spellings = ["https://example.org/a", "http://www.example.org/a/", "https://m.example.org/a"]
    assert len({article_id(url) for url in spellings}) == 1
    assert article_id("https://example.org/a?id=1") != article_id("https://example.org/a?id=2")


def test_clock_that_runs_ahead_counts_as_now():
    assert only(parsed(rss(item(rest="<pubDate>Sat, 21 Nov 2026 12:50:00 GMT</pubDate>")))).published == NOON


@pytest.mark.parametrize("date", ["Sat, 21 Nov 2026 13:01:00 GMT", "Thu, 01 Jan 2099 00:00:00 GMT", "9999-12-31"])
def test_item_of_the_future_waits(date):
    feed = parsed(rss(item(rest=f"<pubDate>{date}</pubDate>")))
    assert (feed.articles, feed.skipped) == ([], {"future": 1})


@pytest.mark.parametrize("date", ["Fri, 20 Nov 2026 11:59:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "0001-01-01"])
def test_item_before_the_window_stays_out(date):
    assert parsed(rss(item(rest=f"<pubDate>{date}</pubDate>"))).skipped == {"old": 1}


@pytest.mark.parametrize("rest", ["", "<pubDate>yesterday</pubDate>", "<pubDate>Sat, 99 Nov 2026</pubDate>"])
def test_undated_item_enters_when_fetched_only_if_it_is_new(rest):
    xml = rss(item(rest=rest))
    first = parsed(xml)
    assert first.skipped == {"undated": 1}
    assert parsed(xml, seen=set(first.listed)).skipped == {"undated": 1}
    assert only(parsed(xml, seen=set())).published == NOON


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Sat, 21 Nov 2026 10:00:00 EST", datetime(2026, 11, 21, 15, tzinfo=UTC)),
        ("21 Nov 26 10:00 +0200", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("Sat, 21 Nov 2026 10:00:00 CET", datetime(2026, 11, 21, 9, tzinfo=UTC)),
        ("2026-11-21T10:00:00.123+05:30", datetime(2026, 11, 21, 4, 30, 0, 123000, tzinfo=UTC)),
        ("2026-11-21 10:00:00", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", None),
        ("Sat, 21 Nov 2026 10:00:00 +9999999", None),
        ("soon", None),
        ("", None),
    ],
)
def test_date_is_read_or_refused(text, moment):
    assert read_moment(text) == moment


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("iso-8859-1", "Zürich"),
        ("windows-1251", "Киев"),
        ("koi8-r", "Киев"),
        ("shift_jis", "東京都庁"),
        ("utf-8", "東京"),
    ],
)
def test_declared_encoding_is_read(encoding, word):
    xml = f"<?xml version='1.0' encoding='{encoding}'?>" + rss(item(word))
    assert only(parsed(xml.encode(encoding))).title == word


def test_header_names_the_encoding_where_the_feed_does_not():
    assert (
        only(parsed(rss(item("Киев")).encode("cp1251"), content_type="text/xml; charset=windows-1251")).title == "Киев"
    )


def test_utf8_is_believed_over_a_wrong_header():
    assert only(parsed(rss(item("Zürich")), content_type="text/xml; charset=ISO-8859-1")).title == "Zürich"


def test_utf16_is_read_with_its_mark():
    assert only(parsed(codecs.BOM_UTF16_LE + rss(item("Київ")).encode("utf-16-le"))).title == "Київ"


def test_one_broken_byte_costs_one_letter():
    raw = rss(item("Київ відбив")).encode()
    assert only(parsed(raw.replace("в".encode(), b"\xd0", 1))).title.startswith("Ки")


@pytest.mark.parametrize("name", ["unicode_escape", "punycode", "zip", "rot13", "utf-7", "no-such", "utf-16"])
def test_strange_encodings_are_not_used(name):
    assert feed_text(f"<?xml version='1.0' encoding='{name}'?><rss>+AGE- \\u0041</rss>".encode()) == (
        "<rss>+AGE- \\u0041</rss>"
    )


@pytest.mark.parametrize(("stated", "language"), [("de-DE", "de"), ("EN_us", "en"), ("eng", ""), ("x", ""), ("", "")])
def test_language_is_what_the_feed_says(stated, language):
    feed = parsed(rss(item(), head=f"<language>{stated}</language>"))
    assert (feed.language, only(feed).language) == (language, language)


def test_broken_item_costs_itself_alone():
    broken = "<item><title>Broken <b></title><link>https://example.org/b</link></item>"
    feed = parsed(rss(item("One"), broken, item("Three", "https://example.org/c")))
    assert [article.title for article in feed.articles] == ["One", "Three"]
    assert (feed.skipped, feed.is_well_formed) == ({"broken": 1}, False)


def test_stray_ampersands_and_control_characters_are_mended():
    feed = parsed(rss(item("R&D \x08up &#8; now", "https://example.org/?a=1&b=2")))
    assert (only(feed).title, only(feed).url) == ("R&D up now", "https://example.org/?a=1&b=2")


def test_feed_that_is_cut_short_keeps_its_whole_items():
    xml = rss(item("One"), item("Two", "https://example.org/b"))
    feed = parsed(xml[: xml.index("Two") + 2])
    assert [article.title for article in feed.articles] == ["One"]
    assert feed.skipped == {"broken": 1}


def test_prefix_that_nobody_declared_is_survived():
    assert only(parsed(rss(item(rest=TODAY + "<media:thumbnail url='x'/><dc:creator>AP</dc:creator>")))).family == "ap"


@pytest.mark.parametrize(
    "raw", [b"", b"   ", b"<!DOCTYPE html><html><body>Hello</body></html>", b"404", b"{}", b"\x00\xff"]
)
def test_document_that_is_not_a_feed_is_refused(raw):
    with pytest.raises(ValueError, match=r"the feed is empty|not a feed"):
        parsed(raw)


def test_entities_never_expand():
    levels = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 9))
    with pytest.raises(ValueError, match="declares XML entities"):
        parsed(f"<!DOCTYPE r [<!ENTITY a0 'ha'>{levels}]>" + rss(item("&a8;")))


def test_files_are_never_read():
    with pytest.raises(ValueError, match="declares XML entities"):
        parsed("<!DOCTYPE r [<!ENTITY f SYSTEM 'file:///etc/hostname'>]>" + rss(item("&f;")))


def test_defaults_for_attributes_are_refused():
    with pytest.raises(ValueError, match="declares XML entities or attributes"):
        parsed(f"<!DOCTYPE rss [<!ATTLIST item x CDATA '{'y' * 1000}'>]>" + rss(item()))


@pytest.mark.parametrize(
    "hostile",
    [
        "<rss>" + "<a>" * 500_000,
        "<rss><channel>" + "<item>" * 200_000,
        rss(item("&lt;script" * 200_000)),
        rss(item("&lt;!--" * 200_000)),
        rss(item("&amp;lt;a " * 200_000)),
        rss(*[item()] * 20_000),
        "<rss " + " ".join(f"a{n}='1'" for n in range(100_000)) + "/>",
        "<?xml " + " " * 1_000_000,
    ],
    ids=["deep", "unclosed", "scripts", "comments", "escaped", "many", "attributes", "declaration"],
)
def test_hostile_feed_ends_soon(hostile):
    started = time.process_time()
    try:
        feed = parsed(hostile)
    except ValueError:
        feed = None
    assert feed is None or len(feed.articles) <= 1
    assert time.process_time() - started < 5


def test_entries_beyond_the_first_two_thousand_are_left_out():
    feed = parsed(rss(*(item(link=f"https://example.org/{number}") for number in range(2100))))
    assert len(feed.articles) == 2000
    assert feed.skipped == {"left-out": 100}


def test_long_text_is_cut_between_words():
    assert one_line("word " * 100, 22) == "word word word word…"
    assert len(one_line("x" * 1000, 50)) == 50
