import gzip
import itertools
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.fakes.website import Answer, Asked, Reply, website
from tollhouse import clock
from tollhouse.download import Fetched, UpstreamFailure, fetch
from tollhouse.services.defense.ingest import feeds_sync
from tollhouse.services.defense.ingest.feeds_sync import (
    FeedHealth,
    FeedState,
    after_failure,
    after_success,
    back_off_seconds,
    is_due,
    poll,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MEGABYTE = 1_000_000


async def fetched(answer: Answer, path: str = "/", *, cap_bytes: int = MEGABYTE, **given: Any) -> Fetched:
    given.setdefault("deadline_seconds", 5.0)
    async with website(answer) as site, httpx2.AsyncClient() as client:
        return await fetch(client, site.url + path, cap_bytes=cap_bytes, **given)


async def failure_of(answer: Answer, path: str = "/", **given: Any) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await fetched(answer, path, **given)
    return caught.value


async def test_page_comes_with_what_the_next_request_needs():
    headers = {"ETag": '"v1"', "Last-Modified": "Sat, 21 Nov 2026 08:00:00 GMT", "Content-Type": "text/xml"}
    answer = await fetched(lambda _: Reply(body=b"<rss/>", headers=headers))
    assert (answer.status, answer.body, answer.content_type) == (200, b"<rss/>", "text/xml")
    assert (answer.etag, answer.last_modified) == ('"v1"', "Sat, 21 Nov 2026 08:00:00 GMT")


async def test_unchanged_page_is_not_sent_again():
    def unless_known(asked: Asked) -> Reply:
        known = asked.headers.get("if-none-match") == '"v1"' and "if-modified-since" in asked.headers
        return Reply(304) if known else Reply(body=b"everything")

    answer = await fetched(unless_known, etag='"v1"', last_modified="Sat, 21 Nov 2026 08:00:00 GMT")
    assert answer.is_not_modified
    assert answer.body == b""


async def test_first_request_has_no_conditions():
    async with website(lambda _: Reply()) as site, httpx2.AsyncClient() as client:
        await fetch(client, site.url, cap_bytes=1, deadline_seconds=5)
        assert not {"if-none-match", "if-modified-since"} & site.asked[0].headers.keys()


async def test_announced_size_beyond_the_cap_is_refused():
    failure = await failure_of(lambda _: Reply(headers={"Content-Length": str(10**9)}), cap_bytes=1000)
    assert failure.failure == "too-large"


async def test_endless_body_is_cut_at_the_cap():
    sent = []

    def endless() -> Iterator[bytes]:
        for number in itertools.count():
            sent.append(number)
            yield b"x" * 65536

    failure = await failure_of(lambda _: Reply(chunks=endless()), cap_bytes=MEGABYTE)
    assert failure.failure == "too-large"
    assert len(sent) * 65536 < 30 * MEGABYTE


async def test_body_of_exactly_the_cap_is_read():
    assert (await fetched(lambda _: Reply(body=b"x" * 1000), cap_bytes=1000)).body == b"x" * 1000


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_packed_body_is_unpacked(encoding, pack):
    text = b"a feed " * 1000
    answer = await fetched(lambda _: Reply(body=pack(text), headers={"Content-Encoding": encoding}))
    assert answer.body == text


async def test_gzip_bomb_is_refused_before_it_unpacks():
    bomb = gzip.compress(b"\0" * 50 * MEGABYTE, mtime=0)
    assert len(bomb) < 100_000
    failure = await failure_of(lambda _: Reply(body=bomb, headers={"Content-Encoding": "gzip"}))
    assert failure.failure == "too-large"


@pytest.mark.parametrize("body", [gzip.compress(b"whole " * 1000, mtime=0)[:-20], b"not gzip at all"])
async def test_damaged_gzip_is_a_failure(body):
    failure = await failure_of(lambda _: Reply(body=body, headers={"Content-Encoding": "gzip"}))
    assert failure.failure == "encoding"


async def test_packing_we_did_not_ask_for_is_refused():
    failure = await failure_of(lambda _: Reply(body=b"?", headers={"Content-Encoding": "br"}))
    assert failure.failure == "encoding"


async def test_dripped_body_ends_at_the_deadline():
    failure = await failure_of(lambda _: Reply(chunks=[b"."] * 1000, pause_seconds=0.05), deadline_seconds=0.4)
    assert failure.failure == "timeout"


async def test_redirects_are_followed_to_the_page():
    def answer(asked: Asked) -> Reply:
        return Reply(302, headers={"Location": "/moved"}) if asked.path == "/" else Reply(body=b"here")

    page = await fetched(answer)
    assert page.body == b"here"
    assert page.url.endswith("/moved")


async def test_sixth_redirect_is_one_too_many():
    asked = []

    def answer(request: Asked) -> Reply:
        asked.append(request)
        return Reply(301, headers={"Location": "/again"})

    assert (await failure_of(answer)).failure == "redirect"
    assert len(asked) == 6


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://example.org/", "javascript:alert(1)", "", "http://["]
)
async def test_redirect_away_from_http_is_refused(location):
    failure = await failure_of(lambda _: Reply(302, headers={"Location": location}))
    assert failure.failure == "redirect"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "gopher://example.org/", "no address"])
async def test_only_http_addresses_are_fetched(url):
    async with httpx2.AsyncClient() as client:
        with pytest.raises(UpstreamFailure) as caught:
            await fetch(client, url, cap_bytes=1, deadline_seconds=1)
    assert caught.value.failure == "address"


async def test_refused_connection_is_a_network_failure():
    async with website(lambda _: Reply()) as site:
        gone = site.url
    async with httpx2.AsyncClient() as client:
        with pytest.raises(UpstreamFailure) as caught:
            await fetch(client, gone + "/?token=secret", cap_bytes=1, deadline_seconds=5)
    assert caught.value.failure == "network"
    assert "secret" not in caught.value.detail


async def test_retry_after_is_read_in_seconds():
    answer = await fetched(lambda _: Reply(503, body=b"busy", headers={"Retry-After": "120"}))
    assert (answer.status, answer.retry_after_seconds, answer.body) == (503, 120, b"")


async def test_retry_after_is_read_as_a_date(monkeypatch):
    monkeypatch.setattr(clock, "seconds", NOON.timestamp)
    answer = await fetched(lambda _: Reply(429, headers={"Retry-After": "Sat, 21 Nov 2026 12:05:00 GMT"}))
    assert answer.retry_after_seconds == 300


def test_waits_double_up_to_six_hours():
    assert [back_off_seconds(failures) for failures in (1, 2, 3, 9, 10, 10**9)] == [60, 120, 240, 15360, 21600, 21600]


def test_failing_source_is_left_alone_until_its_time():
    health = after_failure(FeedHealth(), NOON, "it is down")
    assert (health.consecutive_failures, health.last_error, health.last_error_at) == (1, "it is down", NOON)
    assert not is_due(health, NOON + timedelta(seconds=59))
    assert is_due(health, NOON + timedelta(seconds=60))


def test_source_that_asks_for_more_time_gets_it():
    asked = after_failure(FeedHealth(), NOON, "busy", retry_after_seconds=600)
    assert asked.next_attempt_at == NOON + timedelta(seconds=600)


def test_source_that_asks_for_a_year_is_asked_again_tomorrow():
    asked = after_failure(FeedHealth(), NOON, "busy", retry_after_seconds=365 * 86400)
    assert asked.next_attempt_at == NOON + timedelta(days=1)


def test_success_ends_the_back_off_and_keeps_the_time():
    health = after_failure(after_failure(FeedHealth(), NOON, "down"), NOON, "down")
    health = after_success(health, NOON, interval_seconds=900)
    assert (health.consecutive_failures, health.last_error, health.last_success) == (0, "", NOON)
    assert health.next_attempt_at == NOON + timedelta(seconds=900)


def item(number: int, published: str = "Sat, 21 Nov 2026 10:00:00 GMT") -> str:
    date = f"<pubDate>{published}</pubDate>" if published else ""
    return f"<item><title>Story number {number}</title><link>https://example.org/{number}</link>{date}</item>"


def feed(*items: str) -> bytes:
    return f"<rss version='2.0'><channel><title>News</title>{''.join(items)}</channel></rss>".encode()


async def polled(answer: Answer, state: FeedState, monkeypatch, at: datetime = NOON):
    monkeypatch.setattr(clock, "now", lambda: at)
    async with website(answer) as site, httpx2.AsyncClient() as client:
        return await poll(client, site.url + "/feed", state, NOON - timedelta(days=1), interval_seconds=900)


async def test_poll_reads_articles_and_remembers_the_version(monkeypatch):
    result = await polled(lambda _: Reply(body=feed(item(1)), headers={"ETag": '"1"'}), FeedState(), monkeypatch)
    assert [article.title for article in result.articles] == ["Story number 1"]
    assert result.state.etag == '"1"'
    assert result.state.health.last_success == NOON


async def test_unchanged_feed_counts_as_success(monkeypatch):
    before = FeedState(etag='"1"', seen=frozenset({"article_1"}))
    result = await polled(lambda _: Reply(304), before, monkeypatch)
    assert result.articles == []
    assert (result.state.etag, result.state.seen, result.state.health.last_success) == ('"1"', before.seen, NOON)


async def test_undated_item_enters_only_when_an_earlier_poll_did_not_list_it(monkeypatch):
    first = await polled(lambda _: Reply(body=feed(item(1, ""))), FeedState(), monkeypatch)
    second = await polled(lambda _: Reply(body=feed(item(1, ""), item(2, ""))), first.state, monkeypatch)
    third = await polled(lambda _: Reply(body=feed(item(1, ""), item(2, ""))), second.state, monkeypatch)
    assert [[a.title for a in result.articles] for result in (first, second, third)] == [[], ["Story number 2"], []]


async def test_feed_with_items_that_wait_is_asked_in_full_next_time(monkeypatch):
    later = item(1, "Sat, 21 Nov 2026 15:00:00 GMT")
    result = await polled(lambda _: Reply(body=feed(later), headers={"ETag": '"1"'}), FeedState(), monkeypatch)
    assert (result.articles, result.state.etag) == ([], "")
    again = await polled(lambda _: Reply(body=feed(later)), result.state, monkeypatch, NOON + timedelta(hours=3))
    assert len(again.articles) == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(503, headers={"Retry-After": "3600"}), "the feed responded with status 503"),
        (Reply(body=b"<html><body>Moved</body></html>"), "not a feed: the root element is <html>"),
        (Reply(body=b""), "the feed is empty"),
    ],
)
async def test_failing_feed_keeps_its_state_and_backs_off(reply, error, monkeypatch):
    before = FeedState(etag='"1"', seen=frozenset({"article_1"}))
    result = await polled(lambda _: reply, before, monkeypatch)
    assert result.parsed is None
    assert (result.state.etag, result.state.seen) == (before.etag, before.seen)
    assert result.state.health.last_error == error
    assert not is_due(result.state.health, NOON + timedelta(seconds=3599 if reply.status == 503 else 59))


async def test_feed_of_a_hundred_megabytes_is_cut_off(monkeypatch):
    monkeypatch.setattr(feeds_sync, "CAP_BYTES", MEGABYTE)
    result = await polled(lambda _: Reply(chunks=itertools.repeat(b"<item/>" * 10_000)), FeedState(), monkeypatch)
    assert "more than 1000000 bytes" in result.state.health.last_error
