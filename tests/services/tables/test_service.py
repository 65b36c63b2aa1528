"""A declared table: lists, filters, facets, single items, files, and payment."""

import csv
import io
import json
from collections import Counter
from decimal import Decimal
from statistics import mean

import pytest

from tests.services.tables.books import SHELVES, book, books, declare
from tests.services.tables.conftest import serving
from tollhouse.services.tables import positions

COUNT = 400


@pytest.fixture(scope="module")
def everything(shop):
    return [json.loads(line) for line in shop.get("/api/items.ndjson").text.splitlines()]


def listed(shop, **given: object):
    response = shop.get("/api/items", **given)
    assert response.status_code == 200, response.text
    return response.json()


def refused(shop, path="/api/items", **given: object):
    response = shop.get(path, **given)
    assert response.status_code == 400, response.text
    return response.json()


def test_page_has_items_as_in_the_table(shop):
    page = listed(shop, limit=1, isbn="978-0000007")
    isbn, title, author, subjects, price, pages, published, in_print, shelf, note = book(7)
    day, month, year = published.split(".")
    assert page["items"] == [
        {
            "id": isbn, "isbn": isbn, "book_title": title, "author": author, "subjects": subjects.split("|"),
            "price": float(price.removeprefix("€ ")), "pages": int(pages), "published": f"{year}-{month}-{day}",
            "in_print": in_print == "yes", "shelf": shelf, "note": note or None,
        }
    ]  # fmt: skip
    assert (page["total"], page["count"], page["offset"], page["limit"]) == (1, 1, 0, 1)
    assert page["applied_filters"] == {"isbn": ["978-0000007"]}
    assert (page["licence"], page["source"]) == ("CC0-1.0", "Made up")


def test_every_filter_returns_what_matches(shop, everything):
    def matching(condition) -> int:
        return sum(1 for item in everything if condition(item))

    assert len(everything) == COUNT
    for given, condition in (
        ({"shelf": "a NORTH"}, lambda item: item["shelf"] == "A north"),
        ({"shelf": ["A north", "cellar"]}, lambda item: item["shelf"] in ("A north", "cellar")),
        ({"subjects": "chess"}, lambda item: "chess" in item["subjects"]),
        ({"min_pages": 500}, lambda item: item["pages"] >= 500),
        ({"min_price": 10.5, "max_price": 20}, lambda item: 10.5 <= item["price"] <= 20),
        (
            {"min_published": "1990-01-01", "max_published": "1999-12-31"},
            lambda item: "1990" <= item["published"] < "2",
        ),
        ({"in_print": "true"}, lambda item: item["in_print"]),
        ({"in_print": "false", "shelf": "cellar"}, lambda item: not item["in_print"] and item["shelf"] == "cellar"),
    ):
        assert listed(shop, **given)["total"] == matching(condition) > 0, given


def test_facets_agree_with_the_export(shop, everything):
    facets = listed(shop, facets="shelf,subjects,in_print,price", limit=1)["facets"]
    assert {each["value"]: each["count"] for each in facets["shelf"]} == Counter(item["shelf"] for item in everything)
    subjects = Counter(subject for item in everything for subject in item["subjects"])
    assert {each["value"]: each["count"] for each in facets["subjects"]} == subjects
    prices = [item["price"] for item in everything]
    assert (facets["price"]["min"], facets["price"]["max"]) == (min(prices), max(prices))
    assert sum(bar["count"] for bar in facets["price"]["histogram"]) == COUNT


@pytest.mark.parametrize("field", ["price", "pages", "published", "book_title", "id"])
def test_order_is_by_the_field_and_back(shop, everything, field):
    values = [item[field] for item in everything]
    for sort, expected in ((field, min(values)), (f"-{field}", max(values))):
        assert listed(shop, sort=sort, limit=1)["items"][0][field] == expected


def test_search_finds_a_title_with_a_wrong_letter_and_says_so(shop, everything):
    word = everything[0]["book_title"].split()[0].lower()
    page = shop.get("/api/search", q=word[:-1] + "q").json()
    assert everything[0]["id"] in [item["id"] for item in page["items"]]
    assert page["applied_filters"]["understood"]["corrected"] == {word[:-1] + "q": word}
    assert page["query"] == word[:-1] + "q"


@pytest.mark.parametrize(
    ("words", "condition"),
    [
        ("not in the cellar, under 20 euros", lambda item: item["shelf"] != "cellar" and item["price"] < 20),
        ("chess books with more than 1000 pages", lambda item: "chess" in item["subjects"] and item["pages"] > 1000),
        ("history, no chess", lambda item: "history" in item["subjects"] and "chess" not in item["subjects"]),
        ("published before 1960, not in print", lambda item: item["published"] < "1960" and not item["in_print"]),
    ],
)  # fmt: skip
def test_description_becomes_filters_and_says_so(shop, everything, words, condition):
    page = shop.get("/api/search", q=words, limit=250).json()
    assert {item["id"] for item in page["items"]} == {item["id"] for item in everything if condition(item)}
    assert page["applied_filters"]["understood"]["words"]


def test_superlative_of_a_description_orders(shop):
    page = shop.get("/api/search", q="cheapest poetry").json()
    prices = [item["price"] for item in page["items"]]
    assert prices == sorted(prices)
    assert all("poetry" in item["subjects"] for item in page["items"])


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("How many books are there?", len),
        ("how many books are in the cellar?", lambda items: sum(item["shelf"] == "cellar" for item in items)),
        ("How many books cost less than 20 euros?", lambda items: sum(item["price"] < 20 for item in items)),
        ("how many books are not in print", lambda items: sum(not item["in_print"] for item in items)),
        ("average pages of the books on the cellar shelf",
         lambda items: mean(item["pages"] for item in items if item["shelf"] == "cellar")),
        ("what percentage of books are in the cellar",
         lambda items: 100 * mean(item["shelf"] == "cellar" for item in items)),
    ],
)  # fmt: skip
def test_question_is_answered_with_its_number(shop, everything, question, value):
    answer = shop.get("/api/ask", q=question).json()
    assert answer["value"] == pytest.approx(value(everything))
    assert answer["query"]
    assert answer["question"] == question
    assert (answer["licence"], answer["source"]) == ("CC0-1.0", "Made up")


def test_question_for_items_lists_them_in_order(shop, everything):
    answer = shop.get("/api/ask", q="three cheapest books in the cellar").json()
    cellar = sorted((item for item in everything if item["shelf"] == "cellar"), key=lambda item: item["price"])
    assert answer["ids"] == [item["id"] for item in cellar[:3]]


def test_question_that_the_table_cannot_answer_is_refused_with_others(shop):
    for question in ("how many books were written by aliens", "hello"):
        answer = shop.get("/api/ask", q=question).json()
        assert (answer["query"], answer["value"], answer["ids"]) == (None, None, [])
        assert len(answer["suggestions"]) == 2
        for suggestion in answer["suggestions"]:
            assert shop.get("/api/ask", q=suggestion).json()["query"] is not None


async def test_refused_question_costs_nothing(home):
    declare(home, books(5), free_per_day=1)
    async with serving(home) as client:
        for _ in range(3):
            assert (await client.get("/api/ask", params={"q": "how many aliens are there"})).status_code == 200
        assert (await client.get("/api/ask", params={"q": "how many books are there"})).json()["value"] == 5
        assert (await client.get("/api/ask", params={"q": "how many books are there"})).status_code == 402


def test_words_are_wanted_in_one_field(shop, everything):
    word = everything[3]["author"].split()[0]
    found = listed(shop, author__has=word.upper(), limit=250)
    assert found["total"] == sum(word in book["author"].split() for book in everything)
    assert listed(shop, author__has=word, shelf=everything[3]["shelf"])["total"] <= found["total"]
    assert listed(shop, author__has="zyzzyva")["total"] == 0
    refused(shop, pages__has="1")


@pytest.mark.parametrize("name", ["price", "pages", "published"])
def test_rows_are_counted_by_a_number_or_a_date_under_the_filters(shop, everything, name):
    counted = shop.get(f"/api/histogram/{name}", shelf="cellar").json()
    values = [book[name] for book in everything if book["shelf"] == "cellar"]
    day = (lambda value: f"{value}T00:00:00Z") if name == "published" else (lambda value: value)
    assert counted["total"] == len(values)
    assert counted["missing"] == 0
    bars = counted["bars"]
    assert 1 < len(bars) <= 101
    assert [bar["count"] for bar in bars] == [sum(bar["from"] <= day(v) < bar["to"] for v in values) for bar in bars]
    assert counted["unit"] == ("year" if name == "published" else None)


def test_histogram_of_another_column_names_those_that_have_one(shop):
    response = shop.get("/api/histogram/shelf")
    assert response.status_code == 400
    assert (response.json()["parameter"], "price" in response.json()["allowed"]) == ("field", True)
    assert shop.get("/api/histogram/price", price="x").status_code == 400
    assert shop.get("/api/histogram/price", shelf="nowhere").json()["bars"] == []


async def test_histogram_counts_the_ends_of_the_calendar_and_times_of_a_day(home):
    declare(home, "Name,Ends,At\na,9999-12-31,2024-05-01T10:00:00Z\nb,0001-01-01,2024-05-01T12:30:00Z\nc,,\n", "spans")
    async with serving(home, "spans", free_per_ip_per_day=100) as client:
        ends = (await client.get("/api/histogram/ends")).json()
        assert (ends["unit"], ends["total"], ends["missing"]) == ("century", 3, 1)
        assert sum(bar["count"] for bar in ends["bars"]) == 2
        hours = (await client.get("/api/histogram/at")).json()
        assert (hours["unit"], [bar["count"] for bar in hours["bars"]]) == ("hour", [1, 0, 1])
        assert hours["bars"][0]["from"] == "2024-05-01T10:00:00Z"


async def test_histogram_of_one_value_or_of_huge_ones_has_an_end(home):
    rows = ["5.25,1e12,1e300,-9007199254740992,0.000001"] * 2 + ["5.25,1e12,-1e300,9007199254740992,0.000002"]
    declare(home, "a,b,c,d,e\n" + "\n".join(rows) + "\n", "numbers", free_per_day=100)
    async with serving(home, "numbers") as client:
        for name, counts in (("a", [3]), ("b", [3]), ("c", [1, 2]), ("d", [2, 1]), ("e", [2, 1])):
            bars = (await client.get(f"/api/histogram/{name}")).json()["bars"]
            assert [bar["count"] for bar in bars if bar["count"]] == counts, name
            assert len(bars) <= 101


async def test_positions_are_listed_for_a_map_and_a_sample_says_so(home, monkeypatch):
    rows = "".join(f'Spot {n},"{n}.5, {n + 1}.25",{n}\n' for n in range(40))
    declare(home, f"Name,Where,Size\n{rows}Nowhere,,3\n", "spots", free_per_day=100)
    async with serving(home, "spots") as client:
        points = (await client.get("/api/points?min_size=3")).json()
        assert (points["total"], points["located"], points["count"], points["is_sample"]) == (38, 37, 37, False)
        at = points["id"].index((await client.get("/api/items?size=7")).json()["items"][0]["id"])
        assert (points["latitude"][at], points["longitude"][at]) == (7.5, 8.25)
        monkeypatch.setattr(positions, "MAX_POINTS", 10)
        sample = (await client.get("/api/points?min_size=2")).json()
        assert (sample["located"], sample["is_sample"], sample["count"] <= 10) == (38, True, True)
        assert (await client.get("/api/points?limit=3")).status_code == 400


def test_table_without_positions_has_no_points(shop):
    assert shop.get("/api/points").status_code == 404


def test_fields_limit_what_is_returned(shop):
    assert list(listed(shop, fields="price,shelf", limit=1)["items"][0]) == ["id", "price", "shelf"]


def test_single_item_and_those_like_it(shop, everything):
    item = everything[3]
    single = shop.get(f"/api/items/{item['id']}").json()
    assert single == {"item": item, "licence": "CC0-1.0", "source": "Made up"}
    alike = shop.get(f"/api/items/{item['id']}/similar", limit=3).json()
    assert alike["count"] == len(alike["items"]) == 3
    assert item["id"] not in [each["id"] for each in alike["items"]]
    for path in ("/api/items/none", "/api/items/none/similar"):
        assert (shop.get(path).status_code, shop.get(path).json()["code"]) == (404, "not-found")


def test_suggestions_are_values_and_titles(shop):
    suggested = shop.get("/api/suggest", q="cell").json()["suggestions"]
    assert suggested[0]["text"] == "cellar"
    assert suggested[0]["field"] == "shelf"


def test_cursors_lead_through_every_page(shop, everything):
    walked, cursor = [], "*"
    while cursor:
        page = listed(shop, limit=7, sort="-published", cursor=cursor)
        walked, cursor = walked + page["items"], page["next_cursor"]
    assert walked[:250] == listed(shop, limit=250, sort="-published")["items"]
    assert sorted(item["id"] for item in walked) == [item["id"] for item in everything]


def test_files_have_every_item_and_those_that_match_filters(shop, everything):
    rows = list(csv.DictReader(io.StringIO(shop.get("/api/items.csv").text)))
    assert [row["id"] for row in rows] == [item["id"] for item in everything]
    assert rows[0]["subjects"] == "|".join(everything[0]["subjects"])
    whole = shop.get("/api/items.json").json()
    assert (whole["total"], whole["items"], whole["licence"]) == (COUNT, everything, "CC0-1.0")
    some = shop.get("/api/items.ndjson", shelf="cellar", fields="shelf").text.splitlines()
    assert len(some) == listed(shop, shelf="cellar")["total"]
    assert {json.loads(line)["shelf"] for line in some} == {"cellar"}


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"colour": "red"}, "colour"), ({"limit": 0}, "limit"), ({"limit": 251}, "limit"),
        ({"offset": 10_001}, "offset"), ({"cursor": "*", "offset": 1}, "offset"), ({"cursor": "7"}, "cursor"),
        ({"sort": "note"}, "sort"), ({"facets": "note"}, "facets"), ({"fields": "colour"}, "fields"),
        ({"min_pages": "many"}, "min_pages"), ({"pages": "1.5"}, "pages"), ({"min_published": "1990"}, "min_published"),
        ({"published": "30.02.1990"}, "published"), ({"in_print": "perhaps"}, "in_print"), ({"q": " "}, "q"),
        ({"min_shelf": "a"}, "min_shelf"), ({"shelf": ""}, "shelf"), ({"max_price": "1e999"}, "max_price"),
    ],
)  # fmt: skip
def test_wrong_parameter_is_named(shop, given, parameter):
    assert refused(shop, **given)["parameter"] == parameter


def test_search_needs_words(shop):
    assert refused(shop, "/api/search")["parameter"] == "q"


def test_unchanged_response_is_not_sent_again(shop):
    first = shop.get("/api/items", limit=3)
    again = shop.get("/api/items", headers={"If-None-Match": first.headers["etag"]}, limit=3)
    assert (again.status_code, again.content) == (304, b"")


def test_description_names_every_field_with_its_label(shop):
    document = shop.get("/api/openapi.json").json()
    parameters = {each["name"]: each for each in document["paths"]["/api/items"]["get"]["parameters"]}
    assert {"shelf", "min_price", "max_price", "min_published", "in_print", "sort", "facets", "q"} <= set(parameters)
    assert "Price (€) (EUR)" in parameters["min_price"]["description"]
    item = document["components"]["schemas"]["Item"]["properties"]
    assert item["in_print"]["description"].startswith("In print?")
    assert document["info"]["title"] == "Books"
    assert "CC0-1.0" in document["info"]["description"]
    assert document["info"]["license"] == {"name": "CC0-1.0"}


def test_health_reports_the_table_its_rights_and_its_rows(shop):
    health = shop.get("/health").json()
    assert (health["status"], health["item_count"], health["table"], health["fault"]) == (
        "ok",
        COUNT,
        "books.csv",
        None,
    )
    assert (health["licence"], health["source"], health["refused"]) == ("CC0-1.0", "Made up", [])


async def test_allowance_of_a_table_is_its_own_and_beyond_it_its_price_is_due(home):
    declare(home, books(30), free_per_day=2, price_usd=Decimal("0.25"))
    declare(home, books(30), name="films", free_per_day=1)
    async with serving(home, service="", recorded=False, x402_pay_to="0x" + "11" * 20) as client:
        for remaining in (1, 0):
            response = await client.get("/books/api/items")
            assert (response.status_code, response.headers["x-ratelimit-remaining"]) == (200, str(remaining))
        past = await client.get("/books/api/items")
        assert (past.status_code, past.json()["code"]) == (402, "payment-required")
        assert (await client.get("/books/health")).status_code == 200
        assert (await client.get("/films/api/items")).status_code == 200
        assert (await client.get("/films/api/items")).status_code == 402
        assert (await client.get("/mattress/api/products")).headers["x-ratelimit-remaining"] == "99"
        description = (await client.get("/books/api/openapi.json")).json()
        assert description["paths"]["/api/items"]["get"]["x-price"]["then_usd_per_request"] == "0.25"


async def test_agents_find_a_declared_table_like_any_other(home):
    declare(home, books(30), licence="CC0-1.0", source="Made up")
    async with serving(home, service="", recorded=False) as client:
        assert "books" in [each["name"] for each in (await client.get("/")).json()["services"]]
        llms = (await client.get("/llms.txt")).text
        assert "## Books" in llms
        assert "Licence: CC0-1.0" in llms
        anchors = [each["anchor"] for each in (await client.get("/.well-known/api-catalog")).json()["linkset"]]
        assert "/books/" in anchors
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools = (await client.post("/books/mcp", json=call)).json()["result"]["tools"]
        assert [tool["name"] for tool in tools] == [
            "listItems", "searchItems", "countByValue", "ask", "getItem", "listSimilarItems", "suggest",
        ]  # fmt: skip
        assert "shelf" in tools[0]["inputSchema"]["properties"]


async def test_files_are_not_offered_where_exports_is_false(home):
    path = declare(home, books(30))
    path.write_text(path.read_text().replace("[table]", "exports = false\n\n[table]"))
    async with serving(home) as client:
        assert (await client.get("/api/items.csv")).status_code == 404
        assert (await client.get("/api/items")).json()["total"] == 30


async def test_member_that_is_not_exported_is_filtered_by_and_never_shown(home):
    path = declare(home, books(60))
    text = path.read_text()
    path.write_text(text.replace("[fields.shelf]\n", "[fields.shelf]\nexported = false\n"))
    async with serving(home) as client:
        result = (await client.get("/api/items", params={"shelf": SHELVES[0], "facets": "shelf"})).json()
        assert 0 < result["total"] < 60
        for path in ("/api/items", "/api/items.csv", "/api/items.json", "/api/openapi.json"):
            assert SHELVES[0] not in (await client.get(path)).text
        assert (await client.get("/api/items?fields=shelf")).json()["parameter"] == "fields"
