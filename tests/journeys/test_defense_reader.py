"""A reader of the defense feed: gets a key, reads to the end in every format, asks where an event is from."""

import csv
import gzip
import io
import json
import re
from collections import Counter

import brotli
import httpx2
import pytest
import zstandard

CATEGORIES = ("Battles", "Protests", "Political", "Economic")
TIERS = ("critical", "high", "medium", "low")
DOCUMENTED = {"id", "title", "event_date", "category", "subcategory", "geo", "fatalities", "metrics"}


@pytest.fixture(scope="module")
def client(server, key):
    with server.client(key) as client:
        yield client


@pytest.fixture(scope="module")
def everything(client):
    return read_all(client)


def read_all(client, **query: object):
    """Every event of a query, page by page; the total must not change on the way."""
    events, totals, cursor = [], set(), None
    while True:
        given = {"limit": 100, **query, **({"cursor": cursor} if cursor else {})}
        page = client.get("/feeds/events", params=given)
        assert page.status_code == 200, page.text
        body = page.json()
        assert body["count"] == len(body["events"]) <= 100
        events += body["events"]
        totals.add(body["total"])
        cursor = body["next_cursor"]
        if cursor is None:
            assert totals == {len(events)}
            return events


def ids(events):
    return [event["id"] for event in events]


def test_points_and_facets_count_what_the_pages_list(client, everything):
    body = client.get("/feeds/events/points", params={"facets": "country,reported_at"}).json()
    assert body["points"]["id"] == ids(everything)
    assert body["total"] == body["count"] == len(everything)
    assert {one["value"]: one["count"] for one in body["facets"]["country"]} == Counter(
        event["geo"]["country"] for event in everything if event["geo"]["country"]
    )
    assert len(body["slots_read"]) == round(96 * body["coverage"])
    high = client.get("/feeds/events", params={"severity_tier": "high", "facets": "severity_tier", "limit": 1}).json()
    assert {one["value"]: one["count"] for one in high["facets"]["severity_tier"]} == Counter(
        event["metrics"]["severity_tier"] for event in everything
    )
    assert "facets" not in client.get("/feeds/events").json()
    for given, name in (({"facets": "colour"}, "facets"), ({"country": "Nowhere"}, "country"), ({"limit": 5}, "limit")):
        refused = client.get("/feeds/events/points", params=given)
        assert (refused.status_code, refused.json()["parameter"]) == (400, name)


def problem_of(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["code"] == code
    assert body["type"] == f"/problems/{code}"
    assert body["instance"] == answer.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]
    return body


def test_new_key_reads_the_feed_at_once(server):
    created = server.new_key(label="a reader")
    assert created["api_key"].startswith("th_live_")
    with server.client(created["api_key"]) as client:
        page = client.get("/feeds/events").json()
    assert page["count"] == len(page["events"]) == 20
    assert page["window_hours"] == 24
    assert page["source"] == "recorded"
    assert page["as_of"] == "2020-11-15T11:00:00Z"
    assert page["stale"] is False
    assert page["applied_filters"] == {}


def test_every_event_has_exactly_the_contracts_fields(everything):
    extra = {"source_urls", "source_count", "story_id", "fatalities_basis", "title_basis"}
    for event in everything:
        assert set(event) == DOCUMENTED | extra
        assert set(event["geo"]) == {"country", "region", "latitude", "longitude"}
        assert set(event["metrics"]) == {"significance", "severity_tier", "confidence"}
        assert re.fullmatch(r"conflict_[0-9a-f]+", event["id"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", event["event_date"])
        assert event["category"] in CATEGORIES
        assert event["metrics"]["severity_tier"] in TIERS
        assert 0 <= event["metrics"]["significance"] <= 1
        assert 0 <= event["metrics"]["confidence"] <= 1
        assert isinstance(event["fatalities"], int)
        assert event["title"].strip()
        assert event["subcategory"].strip()
        assert event["source_urls"]


def test_cursor_leads_through_every_event_once(everything):
    assert len(everything) > 250
    assert len(set(ids(everything))) == len(everything)


@pytest.mark.parametrize("limit", [1, 7, 99])
def test_pages_of_any_size_hold_the_same_events_in_the_same_order(client, everything, limit):
    first = client.get("/feeds/events", params={"limit": limit}).json()
    second = client.get("/feeds/events", params={"limit": limit, "cursor": first["next_cursor"]}).json()
    assert ids(first["events"] + second["events"]) == ids(everything[: 2 * limit])


def test_link_header_leads_to_the_next_page(client):
    answer = client.get("/feeds/events", params={"limit": 5, "category": "Battles", "sort": "recent"})
    (target,) = re.findall(r'<([^>]+)>; rel="next"', answer.headers["link"])
    following = client.get(f"/feeds/events{target}").json()
    same = {"limit": 5, "category": "Battles", "sort": "recent", "cursor": answer.json()["next_cursor"]}
    assert ids(following["events"]) == ids(client.get("/feeds/events", params=same).json()["events"])


def test_bbox_survives_the_link_header(client):
    answer = client.get("/feeds/events", params={"limit": 1, "bbox": "-10,30,60.5,60"})
    (target,) = re.findall(r'<([^>]+)>; rel="next"', answer.headers["link"])
    assert client.get(f"/feeds/events{target}").json()["total"] == answer.json()["total"]


def test_last_page_has_neither_cursor_nor_link(client):
    answer = client.get("/feeds/events", params={"severity_tier": "critical", "limit": 100, "country": "IL"})
    assert answer.json()["next_cursor"] is None
    assert "link" not in answer.headers


@pytest.mark.parametrize("category", CATEGORIES)
def test_category_keeps_its_own_events_and_all_of_them(client, everything, category):
    meant = [event["id"] for event in everything if event["category"] == category]
    assert meant
    assert ids(read_all(client, category=category)) == meant


@pytest.mark.parametrize("spelling", ["Israel", "israel", "ISRAEL", "IL", "il", "ISR"])
def test_country_is_found_by_name_and_code_in_any_case(client, everything, spelling):
    meant = [event["id"] for event in everything if event["geo"]["country"] == "Israel"]
    assert meant
    assert ids(read_all(client, country=spelling)) == meant


def test_unknown_country_is_told_its_near_matches(client):
    body = problem_of(client.get("/feeds/events", params={"country": "Isreal"}), 400, "invalid-parameter")
    assert body["parameter"] == "country"
    assert "Israel" in body["allowed"]


def test_region_is_matched_in_any_case(client, everything):
    region = next(event["geo"]["region"] for event in everything if event["geo"]["region"])
    meant = [event["id"] for event in everything if event["geo"]["region"].casefold() == region.casefold()]
    assert ids(read_all(client, region=region.upper())) == meant


@pytest.mark.parametrize("tier", TIERS)
def test_severity_tier_keeps_its_own_events(client, everything, tier):
    meant = [event["id"] for event in everything if event["metrics"]["severity_tier"] == tier]
    assert ids(read_all(client, severity_tier=tier)) == meant


def test_min_confidence_is_a_floor(client, everything):
    floor = sorted(event["metrics"]["confidence"] for event in everything)[len(everything) // 2]
    meant = [event["id"] for event in everything if event["metrics"]["confidence"] >= floor]
    assert 0 < len(meant) < len(everything)
    assert ids(read_all(client, min_confidence=floor)) == meant


@pytest.mark.parametrize(
    ("bbox", "inside"),
    [
        ((20, 10, 70, 45), lambda longitude: 20 <= longitude <= 70),
        ((120, 10, -60, 45), lambda longitude: longitude >= 120 or longitude <= -60),
    ],
    ids=["plain", "across the 180th meridian"],
)
def test_bbox_keeps_what_lies_inside(client, everything, bbox, inside):
    meant = [e["id"] for e in everything if inside(e["geo"]["longitude"]) and 10 <= e["geo"]["latitude"] <= 45]
    assert 0 < len(meant) < len(everything)
    assert ids(read_all(client, bbox=",".join(map(str, bbox)))) == meant


def test_words_of_the_title_must_all_stand_in_it(client, everything):
    def words(event) -> set[str]:
        return set(re.findall(r"\w+", event["title"].casefold()))

    one, other = sorted(words(everything[0]), key=len)[-2:]
    meant = [event["id"] for event in everything if {one, other} <= words(event)]
    assert 0 < len(meant) < len(everything)
    assert ids(read_all(client, q=f"{other.upper()} {one}")) == meant


def test_since_leaves_only_what_was_reported_later(client, everything):
    later = read_all(client, since="2020-11-15T09:00:00Z")
    assert 0 < len(later) < len(everything)
    assert set(ids(later)) <= set(ids(everything))
    assert ids(read_all(client, since="2020-11-15T10:00:00+01:00")) == ids(later)
    assert read_all(client, since="2020-11-15T11:00:00Z") == []


def test_filters_narrow_together_and_are_echoed(client, everything):
    filters = {"category": "Battles", "severity_tier": "high", "min_confidence": 0.5}
    meant = [
        event["id"]
        for event in everything
        if (event["category"], event["metrics"]["severity_tier"]) == ("Battles", "high")
        and event["metrics"]["confidence"] >= 0.5
    ]
    assert meant
    assert ids(read_all(client, **filters)) == meant
    page = client.get("/feeds/events", params={**filters, "country": "Israel"}).json()
    assert page["applied_filters"] == {**filters, "country": "Israel"}


def test_significance_orders_first_and_id_breaks_ties(everything):
    assert everything == sorted(everything, key=lambda e: (-e["metrics"]["significance"], e["id"]))


def test_fatalities_order_is_largest_first(client, everything):
    listed = read_all(client, sort="fatalities")
    assert listed == sorted(everything, key=lambda event: (-event["fatalities"], event["id"]))


def test_recent_order_is_latest_first(client, everything):
    listed = read_all(client, sort="recent")
    assert sorted(ids(listed)) == sorted(ids(everything))
    newest = set(ids(read_all(client, since="2020-11-15T10:45:00Z")))
    assert newest
    assert set(ids(listed[: len(newest)])) == newest


@pytest.mark.parametrize("how", ["format", "accept"])
def test_geojson_csv_and_ndjson_hold_the_same_events(client, everything, how):
    def answer(name, media_type) -> httpx2.Response:
        asked = {"params": {"format": name}} if how == "format" else {"headers": {"Accept": media_type}}
        got = client.get("/feeds/events", **asked)
        assert got.status_code == 200
        assert got.headers["content-type"].partition(";")[0] == media_type
        return got

    meant = everything[:20]
    collection = answer("geojson", "application/geo+json").json()
    assert collection["type"] == "FeatureCollection"
    assert [feature["id"] for feature in collection["features"]] == ids(meant)
    for feature, event in zip(collection["features"], meant, strict=True):
        assert feature["type"] == "Feature"
        assert feature["geometry"] == {
            "type": "Point", "coordinates": [event["geo"]["longitude"], event["geo"]["latitude"]]
        }  # fmt: skip
        assert feature["properties"]["title"] == event["title"]
        assert feature["properties"]["country"] == event["geo"]["country"]
    lines = answer("ndjson", "application/x-ndjson").text.splitlines()
    assert [json.loads(line) for line in lines] == meant
    rows = list(csv.DictReader(io.StringIO(answer("csv", "text/csv").text, newline="")))
    assert [row["id"] for row in rows] == ids(meant)
    for row, event in zip(rows, meant, strict=True):
        assert row["title"] == event["title"]
        assert row["source_urls"].split(" ") == event["source_urls"]
        assert float(row["latitude"]) == event["geo"]["latitude"]
        assert float(row["significance"]) == event["metrics"]["significance"]
        assert int(row["fatalities"]) == event["fatalities"]


def test_format_goes_before_accept(client):
    answer = client.get("/feeds/events?format=json", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"] == "application/json"


def test_unoffered_format_is_not_acceptable(client):
    body = problem_of(client.get("/feeds/events", headers={"Accept": "image/png"}), 406, "not-acceptable")
    assert "application/json" in body["allowed"]


def test_event_tells_its_provenance(client, everything):
    for event in everything[::200]:
        answer = client.get(f"/feeds/events/{event['id']}")
        assert answer.status_code == 200
        detail = answer.json()
        provenance, timeline = detail.pop("provenance"), detail.pop("timeline")
        assert detail.pop("succeeds") is None
        named, related = detail.pop("named"), detail.pop("related")
        assert all(client.get(f"/feeds/entities/{entity['id']}").status_code == 200 for entity in named[:3])
        assert event["id"] not in {one["id"] for one in related}
        assert detail == event
        assert [report["url"] for report in timeline] == event["source_urls"]
        assert provenance["source_urls"] == event["source_urls"]
        assert all(identity.isdecimal() for identity in provenance["row_ids"])
        assert provenance["row_ids"]
        assert provenance["is_recording"] is True
        assert "GDELT" in provenance["provider"]
        assert {"category", "severity_tier", "significance", "confidence"} <= set(provenance["reasons"])
        assert all(text.strip() for text in provenance["reasons"].values())


@pytest.mark.parametrize("identity", ["conflict_0000000000000000", "conflict_x", "%00", "..%2F..%2Fetc", "%F0%9F%9A"])
def test_unknown_event_is_not_found(client, identity):
    problem_of(client.get(f"/feeds/events/{identity}"), 404, "not-found")


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"), ("limit=101", "limit"), ("limit=-1", "limit"), ("limit=1e1", "limit"),
        ("limit=", "limit"), ("limit=20&limit=20", "limit"), ("category=battles", "category"),
        ("category=Weather", "category"), ("country=", "country"), ("severity_tier=extreme", "severity_tier"),
        ("min_confidence=1.5", "min_confidence"), ("min_confidence=nan", "min_confidence"), ("bbox=1,2,3", "bbox"),
        ("bbox=1,2,3,four", "bbox"), ("bbox=0,0,181,0", "bbox"), ("bbox=0,-91,0,0", "bbox"), ("q=", "q"),
        ("since=yesterday", "since"), ("since=2020-11-15T06:00:00", "since"), ("cursor=x", "cursor"),
        ("sort=oldest", "sort"), ("format=xml", "format"), ("colour=red", "colour"), ("Limit=5", "Limit"),
    ],
)  # fmt: skip
def test_wrong_parameter_is_named(client, query, parameter):
    body = problem_of(client.get(f"/feeds/events?{query}"), 400, "invalid-parameter")
    assert body["parameter"] == parameter


def test_choices_are_told_with_the_refusal(client):
    body = client.get("/feeds/events?category=battles").json()
    assert sorted(body["allowed"]) == sorted(CATEGORIES)


def test_head_answers_gets_headers_and_no_body(client):
    got = client.get("/feeds/events", headers={"Accept-Encoding": "identity"})
    head = client.head("/feeds/events", headers={"Accept-Encoding": "identity"})
    assert head.status_code == 200
    assert head.content == b""
    for name in ("etag", "content-type", "content-length", "x-credits-tier"):
        assert head.headers[name] == got.headers[name]


def test_unchanged_page_is_304_without_a_body(client):
    etag = client.get("/feeds/events").headers["etag"]
    unchanged = client.get("/feeds/events", headers={"If-None-Match": f'"other", {etag}'})
    assert unchanged.status_code == 304
    assert unchanged.content == b""
    assert unchanged.headers["etag"] == etag
    assert unchanged.headers["x-credits-tier"] == "enterprise"
    assert client.get("/feeds/events", headers={"If-None-Match": '"other"'}).status_code == 200
    assert client.get("/feeds/events?limit=3", headers={"If-None-Match": etag}).status_code == 200


def test_web_page_may_read_the_answer_and_its_metering(client):
    answer = client.get("/feeds/events", headers={"Origin": "https://example.org"})
    assert answer.headers["access-control-allow-origin"] == "*"
    exposed = answer.headers["access-control-expose-headers"].lower()
    for name in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-credits-tier", "retry-after", "ratelimit", "etag"):
        assert name in exposed


def test_preflight_lets_a_web_page_send_its_key(client):
    asks = {"Origin": "https://example.org", "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "authorization"}  # fmt: skip
    answer = client.options("/feeds/events", headers=asks)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()
    assert "GET" in answer.headers["access-control-allow-methods"]
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    ("coding", "unpack"),
    [
        ("zstd", lambda body: zstandard.ZstdDecompressor().decompress(body)),
        ("br", brotli.decompress),
        ("gzip", gzip.decompress),
    ],
)
def test_compressed_answer_holds_the_same_bytes(client, coding, unpack):
    plain = raw_body(client, "identity")
    assert "content-encoding" not in plain.headers
    packed = raw_body(client, coding)
    assert packed.headers["content-encoding"] == coding
    assert len(packed.extensions["raw"]) < len(plain.extensions["raw"]) / 2
    assert unpack(packed.extensions["raw"]) == plain.extensions["raw"]
    assert "accept-encoding" in packed.headers["vary"].lower()


def raw_body(client, coding):
    """The answer with its bytes as they came, in `extensions`."""
    with client.stream("GET", "/feeds/events", headers={"Accept-Encoding": coding}) as answer:
        answer.extensions["raw"] = b"".join(answer.iter_raw())
        return answer


def test_request_id_is_kept_when_valid_and_made_otherwise(client):
    assert client.get("/health", headers={"X-Request-Id": "my-id.1"}).headers["x-request-id"] == "my-id.1"
    made = client.get("/health", headers={"X-Request-Id": "no spaces, please"}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{16}", made)


def test_docs_page_loads_only_files_of_this_server(server):
    with httpx2.Client(base_url=server.base) as client:
        page = client.get("/docs")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert loaded
        for address in loaded:
            if address.startswith("data:"):
                continue
            assert not re.match(r"(?:https?:)?//", address), address
            target = httpx2.URL(f"{server.base}/docs").join(address)
            assert client.get(target).status_code == 200, target
    assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/health", "/api/openapi.json", "/api/openapi.yaml", "/docs"])
def test_pages_about_the_service_need_no_key(server, path):
    answer = httpx2.get(f"{server.base}{path}")
    assert answer.status_code == 200
    assert "x-ratelimit-limit" not in answer.headers


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/defense/", "/defense/feeds", "/defense/feeds/events/", "/.well-known/nothing", "/%00",
     "/defense/docs/../../../etc/passwd", "//"],
)  # fmt: skip
def test_unknown_path_is_a_problem(server, path):
    with httpx2.Client() as client:
        problem_of(client.get(f"{server.root}{path}"), 404, "not-found")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"])
def test_unknown_method_is_told_what_works(client, method):
    answer = client.request(method, "/feeds/events")
    body = problem_of(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    assert body["allowed"] == ["GET", "HEAD", "OPTIONS"]


def test_problem_type_is_a_page_on_this_server(server, client):
    body = client.get("/feeds/events?limit=0").json()
    page = httpx2.get(f"{server.root}{body['type']}")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "invalid-parameter" in page.text


def test_root_lists_the_services(server):
    listed = httpx2.get(f"{server.root}/").json()["services"]
    assert "defense" in [service["name"] for service in listed]


def test_one_service_alone_stands_at_the_root(start_server):
    alone = start_server("defense")
    created = alone.new_key()
    assert alone.base == alone.root
    with alone.client(created["api_key"]) as client:
        assert client.get("/feeds/events").status_code == 200
        problem_of(client.get("/defense/feeds/events"), 404, "not-found")
    alone.stop()
