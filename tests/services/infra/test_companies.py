"""Companies and categories over HTTP: lists, filters, search, names."""

import pytest


async def test_first_page_has_twenty_of_sixty_five(client):
    answer = await client.get("/api/products")
    page = answer.json()
    assert answer.status_code == 200
    assert (page["total"], page["count"], page["offset"], page["limit"]) == (65, 20, 0, 20)
    assert len(page["companies"]) == 20
    assert {"id", "name", "ticker", "country", "category", "description", "products", "aliases", "website", "suppliers",
            "customers"} <= set(page["companies"][0])  # fmt: skip


async def test_pages_cover_every_company_once(client):
    pages = [(await client.get(f"/api/products?limit=30&offset={offset}")).json() for offset in (0, 30, 60, 90)]
    ids = [company["id"] for page in pages for company in page["companies"]]
    assert [page["count"] for page in pages] == [30, 30, 5, 0]
    assert len(set(ids)) == len(ids) == 65


@pytest.mark.parametrize("text", ["packaging_test", "Packaging,%20substrates%20%26%20test", "PACKAGING", "osat"])
@pytest.mark.parametrize("parameter", ["brand", "category"])
async def test_category_goes_by_name_id_and_alias(client, parameter, text):
    page = (await client.get(f"/api/products?{parameter}={text}")).json()
    assert {company["id"] for company in page["companies"]} == {"ase", "amkor", "ibiden", "unimicron", "advantest"}


async def test_filters_are_joined(client):
    page = (await client.get("/api/products?brand=wfe&country=Japan")).json()
    assert [company["id"] for company in page["companies"]] == ["tel"]
    page = (await client.get("/api/products?category=wfe&brand=Wafer-fab%20equipment&country=jp&q=etch")).json()
    assert [company["id"] for company in page["companies"]] == ["tel"]


async def test_two_categories_match_no_company(client):
    assert (await client.get("/api/products?brand=wfe&category=eda_ip")).json()["total"] == 0


async def test_country_without_companies_is_an_empty_page(client):
    assert (await client.get("/api/products?country=Peru")).json()["total"] == 0


@pytest.mark.parametrize(
    ("query", "parameter", "allowed"),
    [
        ("brand=packging_test", "brand", "packaging_test"),
        ("category=qqqqqqq", "category", "ai_labs"),
        ("country=Taiwn", "country", "Taiwan"),
    ],
)
async def test_unknown_filter_value_is_refused_with_near_matches(client, query, parameter, allowed):
    answer = await client.get(f"/api/products?{query}")
    assert answer.status_code == 400
    assert answer.json()["parameter"] == parameter
    assert allowed in answer.json()["allowed"]


@pytest.mark.parametrize("query", ["limit=0", "limit=251", "limit=x", "offset=-1", "colour=red", "q="])
async def test_bad_parameters_are_refused(client, query):
    answer = await client.get(f"/api/products?{query}")
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid-parameter"


async def test_search_echoes_its_query(client):
    page = (await client.get("/api/search?q=HBM")).json()
    assert page["query"] == "HBM"
    assert {company["id"] for company in page["companies"]} == {"samsung", "sk_hynix", "micron"}


@pytest.mark.parametrize("query", ["", "?q=", "?q=%20"])
async def test_empty_search_is_rejected(client, query):
    answer = await client.get(f"/api/search{query}")
    assert answer.status_code == 400
    assert answer.json()["parameter"] == "q"


@pytest.mark.parametrize(
    ("q", "first"),
    [
        ("nvda", "nvidia"),
        ("2330.TW", "tsmc"),
        ("taiwan semiconductor", "tsmc"),
        ("google cloud", "alphabet"),
        ("nvidea", "nvidia"),
        ("Brodcom", "broadcom"),
        ("optical transceivers", "coherent"),
        ("dutch lithography", "asml"),
        ("gas turbine", "ge_vernova"),
    ],
)
def test_named_company_comes_first(graph, q, first):
    assert graph.search(q)[0].id == first


def test_unknown_words_match_no_company(graph):
    assert graph.search("chocolate umbrellas") == []


async def test_categories_come_in_the_order_of_the_chain(client):
    answer = (await client.get("/api/retailers")).json()
    assert answer["total"] == 15
    assert [category["order"] for category in answer["categories"]] == list(range(1, 16))
    assert sum(category["company_count"] for category in answer["categories"]) == 65


@pytest.mark.parametrize("name", ["tsmc", "TSM", "2330.tw", "Taiwan%20Semiconductor", "TSMC"])
async def test_company_goes_by_id_ticker_and_alias(client, name):
    answer = await client.get(f"/api/companies/{name}")
    assert answer.status_code == 200
    assert answer.json()["company"]["id"] == "tsmc"
    assert answer.json()["company"]["suppliers"] == 9
    assert len({edge["source"] for edge in answer.json()["edges_in"]}) == 9


async def test_unknown_company_is_not_found_with_near_matches(client):
    answer = await client.get("/api/companies/nvidiaa")
    assert answer.status_code == 404
    assert "nvidia" in answer.json()["allowed"]


async def test_description_holds_every_operation(client):
    document = (await client.get("/api/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    assert {"/api/products", "/api/search", "/api/retailers", "/infra-catalog.json", "/api/infra/chat",
            "/api/paths", "/api/exposure", "/api/chokepoints"} <= set(document["paths"])  # fmt: skip
    names = [parameter["name"] for parameter in document["paths"]["/api/paths"]["get"]["parameters"]]
    assert names == ["from", "to", "max_length", "limit"]


async def test_health_counts_companies_and_edges(client):
    health = (await client.get("/health")).json()
    assert (health["status"], health["company_count"], health["edge_count"]) == ("ok", 65, 162)
