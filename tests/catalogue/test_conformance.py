"""What every engine must do: examples for each backend, and random questions asked of tantivy and of the plain one."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.catalogue.plain_engine import PlainEngine
from tests.catalogue.shop import SHOP, ids, item, stock
from tollhouse.catalogue.query import CatalogueQuery, Clause, NumberFacet, Range, ValueCount
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.errors import Problem

WORDS = ["cloud", "dream", "harbour", "pillow", "river", "walnut", "velvet", "copper", "ember"]
BRANDS = ["Koala", "KOALA", "Sleeping Duck", "sleeping  duck", "Ärger", "Emma"]
SIZES = ["Queen", "King", "King Single"]
TAGS = ["cooling", "Cooling", "organic", "vegan"]
MOMENTS = ["2026-01-31T08:00:00Z", "2026-01-31T09:00:00+01:00", "2025-06-01T00:00:00Z", "2026-03-01T12:30:00.5Z"]


def maybe(strategy):
    return st.none() | strategy


cents = st.integers(0, 300).map(lambda n: n * 50 / 4)
members = st.fixed_dictionaries(
    {
        "title": st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
        "brand": maybe(st.sampled_from(BRANDS)),
        "description": maybe(st.lists(st.sampled_from(WORDS), max_size=5).map(", ".join)),
        "size": maybe(st.sampled_from(SIZES)),
        "tags": maybe(st.lists(st.sampled_from(TAGS), max_size=3)),
        "price": maybe(cents),
        "sale_price": maybe(cents),
        "firmness": maybe(st.integers(-1, 4)),
        "rating": maybe(st.sampled_from([0.0, -0.0, 1.5, 4.25, 5.0, -3.0])),
        "in_stock": maybe(st.booleans()),
        "listed_at": maybe(st.sampled_from(MOMENTS)),
        "secret": maybe(st.sampled_from(["x", "y"])),
    }
)
numbers = st.integers(-2, 800).map(lambda n: n / 4)
any_ofs = st.fixed_dictionaries(
    {},
    optional={
        "brand": st.lists(st.sampled_from([*BRANDS, "nobody", "ÄRGER"]), min_size=1, max_size=3).map(tuple),
        "size": st.lists(st.sampled_from([*SIZES, "king"]), min_size=1, max_size=2).map(tuple),
        "tags": st.lists(st.sampled_from([*TAGS, "VEGAN"]), min_size=1, max_size=2).map(tuple),
        "firmness": st.lists(st.integers(-1, 5), min_size=1, max_size=2).map(tuple),
        "in_stock": st.sampled_from([(True,), ("false",), (True, False)]),
        "secret": st.just(("X",)),
        "id": st.lists(st.integers(0, 60).map("p{}".format), min_size=1, max_size=5).map(tuple),
    },
)
ranges = st.builds(Range, maybe(numbers), maybe(numbers))
betweens = st.fixed_dictionaries(
    {},
    optional={
        "price": ranges,
        "current_price": ranges,
        "firmness": ranges,
        "rating": ranges,
        "discount": ranges,
        "listed_at": st.builds(Range, maybe(st.sampled_from(MOMENTS)), maybe(st.sampled_from(MOMENTS))),
    },
)
clauses = st.one_of(
    any_ofs.filter(bool).map(lambda filters: Clause(*next(iter(filters.items())))),
    betweens.filter(bool).map(lambda filters: Clause(next(iter(filters)), ends=next(iter(filters.values())))),
    st.lists(st.sampled_from([*WORDS, "koala sea", "&"]), min_size=1, max_size=2).map(
        lambda texts: Clause(values=tuple(texts))
    ),
)
negatable = st.builds(lambda clause, negated: structs.replace(clause, negated=negated), clauses, st.booleans())
groups = st.lists(negatable, min_size=1, max_size=3).map(tuple)
SORTED = [name for name, field in SHOP.by_name.items() if field.sorted]
FACETS = [name for name, field in SHOP.by_name.items() if field.faceted]
queries = st.builds(
    CatalogueQuery,
    text=maybe(st.lists(st.sampled_from([*WORDS, "clouds", "koala", "the"]), max_size=3).map(" ".join)),
    every_word=st.booleans(),
    any_of=any_ofs,
    between=betweens,
    where=st.lists(groups, max_size=2).map(tuple),
    facets=st.lists(st.sampled_from(FACETS), max_size=4, unique=True).map(tuple),
    sort=st.sampled_from(["", *SORTED, *(f"-{name}" for name in SORTED)]),
    offset=st.integers(0, 30),
    limit=st.integers(0, 40),
)


@st.composite
def histories(draw):
    """Batches of what is put in and taken out: some items change, some go, some come back."""
    batches = []
    for _ in range(draw(st.integers(1, 4))):
        upserts = draw(st.dictionaries(st.integers(0, 60), members, max_size=30))
        removals = draw(st.lists(st.integers(0, 60), max_size=8, unique=True))
        batches.append(
            (
                [item(f"p{n}", **found) for n, found in upserts.items()],
                [f"p{n}" for n in removals if n not in upserts],
            )
        )
    return batches


def is_ranked(query):
    """Whether the order is by relevance, which each engine judges for itself."""
    return query.text is not None and not query.sort


def walk(engine, query):
    """The items of every page, by cursors."""
    page = engine.find(structs.replace(query, cursor="*"))
    walked = page.items
    while page.next_cursor:
        page = engine.find(structs.replace(query, cursor=page.next_cursor))
        assert page.items
        walked += page.items
    return walked


def without_bars(facets):
    return {
        name: (found.min, found.max, sum(bar.count for bar in found.histogram))
        if isinstance(found, NumberFacet)
        else found
        for name, found in facets.items()
    }


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories(), asked=st.lists(queries, min_size=1, max_size=12))
def test_random_queries_match_a_full_scan(history, asked):
    fast, plain = TantivyEngine(SHOP), PlainEngine(SHOP)
    for upserts, removals in history:
        for engine in (fast, plain):
            engine.put(upserts, removals)
            engine.publish()
    assert len(fast) == len(plain)
    for query in asked:
        found, right = fast.find(query), plain.find(query)
        assert found.total == right.total
        assert without_bars(found.facets) == without_bars(right.facets)
        if is_ranked(query):
            assert len(found.items) == len(right.items)
        else:
            assert found.items == right.items
            every = structs.replace(query, offset=0, limit=1_000)
            assert walk(fast, structs.replace(every, limit=max(query.limit, 5))) == plain.find(every).items
        assert list(fast.items(query)) == list(plain.items(query))


def test_total_counts_and_pages_agree_with_the_export(engine):
    rng = random.Random(4)
    made = [
        item(
            f"p{n:03d}",
            " ".join(rng.choices(WORDS, k=3)),
            brand=rng.choice(BRANDS),
            size=rng.choice(SIZES),
            price=rng.choice([99, 199.5, 1490]),
        )
        for n in range(150)
    ]
    for start in range(0, 150, 30):
        stock(engine, *made[start : start + 30])
    query = CatalogueQuery(
        text="cloud dream", any_of={"size": ("queen", "king")}, facets=("brand", "size", "price"), limit=7
    )
    exported = ids(engine.items(query))
    assert engine.find(query).total == len(exported) == len(set(exported)) > 7
    paged = []
    for offset in range(0, len(exported) + 7, 7):
        page = engine.find(CatalogueQuery(text="cloud dream", any_of=query.any_of, offset=offset, limit=7))
        assert page.total == len(exported)
        paged += ids(page)
    assert sorted(paged) == exported
    for value in engine.find(query).facets["brand"]:
        chosen = CatalogueQuery(text="cloud dream", any_of={**query.any_of, "brand": (value.value,)})
        assert engine.find(chosen).total == value.count


def test_item_put_again_takes_the_place_of_the_first(engine):
    stock(engine, item("a", "Cloud"), item("b", "River"))
    stock(engine, item("a", "Velvet"))
    assert len(engine) == 2
    assert engine.get("a")["title"] == "Velvet"
    assert engine.find(CatalogueQuery(text="cloud")).total == 0


def test_changes_are_invisible_before_publication(engine):
    engine.put([item("a", "Cloud")])
    assert len(engine) == 0
    assert engine.find(CatalogueQuery()).total == 0
    engine.publish()
    assert ids(engine.find(CatalogueQuery())) == ["a"]


def test_item_taken_out_is_gone_and_comes_back(engine):
    stock(engine, item("a"), item("b"))
    engine.put([], ["a", "never there"])
    engine.publish()
    assert ids(engine.find(CatalogueQuery())) == ["b"]
    assert engine.get("a") is None
    assert ids(stock(engine, item("a")).find(CatalogueQuery())) == ["a", "b"]


def test_cleared_engine_is_empty_and_can_be_filled(engine):
    stock(engine, item("a"))
    engine.clear()
    stock(engine, item("b"))
    assert ids(engine.find(CatalogueQuery())) == ["b"]


def test_whole_value_is_matched_in_any_case_and_spacing(engine):
    stock(engine, item("a", brand="Sleeping Duck"), item("b", brand="Duck"), item("c", brand="STRASSE"))
    assert ids(engine.find(CatalogueQuery(any_of={"brand": ("SLEEPING   duck",)}))) == ["a"]
    assert ids(engine.find(CatalogueQuery(any_of={"brand": ("straße",)}))) == ["c"]
    assert ids(engine.find(CatalogueQuery(any_of={"brand": ("duck", "Strasse")}))) == ["b", "c"]


def test_price_filter_means_the_price_to_pay_now(engine):
    stock(engine, item("a", price=1000, sale_price=700), item("b", price=800), item("c", price=699.99), item("d"))
    query = CatalogueQuery(between={"current_price": Range(700, 800)}, sort="-discount")
    assert ids(engine.find(query)) == ["a", "b"]
    assert ids(engine.find(CatalogueQuery(sort="current_price"))) == ["c", "a", "b", "d"]
    assert ids(engine.find(CatalogueQuery(sort="-current_price"))) == ["b", "a", "c", "d"]


def test_range_is_exact_to_the_cent_and_takes_any_number(engine):
    stock(engine, item("a", price=0.1), item("b", price=0.3, firmness=5))
    assert ids(engine.find(CatalogueQuery(between={"price": Range(0.1, 0.3)}))) == ["a", "b"]
    assert ids(engine.find(CatalogueQuery(between={"price": Range("0.11", 1e300)}))) == ["b"]
    assert ids(engine.find(CatalogueQuery(between={"firmness": Range(4.2, 5.9)}))) == ["b"]
    assert ids(engine.find(CatalogueQuery(between={"firmness": Range(5, 1)}))) == []


def test_facet_is_counted_without_its_own_filter_alone(engine):
    stock(
        engine,
        item("a", brand="Koala", size="Queen"),
        item("b", brand="Koala", size="King"),
        item("c", brand="Emma", size="Queen"),
    )
    found = engine.find(CatalogueQuery(any_of={"brand": ("koala",), "size": ("queen",)}, facets=("brand", "size")))
    assert found.total == 1
    assert found.facets["brand"] == [ValueCount("Emma", 1), ValueCount("Koala", 1)]
    assert found.facets["size"] == [ValueCount("King", 1), ValueCount("Queen", 1)]


def test_selected_value_without_items_stays_in_its_facet(engine):
    stock(engine, item("a", brand="Koala", size="Queen"))
    found = engine.find(CatalogueQuery(any_of={"brand": ("Emma",), "size": ("Queen",)}, facets=("brand",)))
    assert found.total == 0
    assert found.facets["brand"] == [ValueCount("Koala", 1), ValueCount("Emma", 0)]


def test_spellings_of_one_value_are_counted_together_under_the_commonest(engine):
    stock(engine, item("a", brand="koala"), item("b", brand="Koala"), item("c", brand="Koala"), item("d", brand="Emma"))
    assert engine.find(CatalogueQuery(facets=("brand",))).facets["brand"] == [
        ValueCount("Koala", 3),
        ValueCount("Emma", 1),
    ]


def test_price_facet_has_range_and_bars_that_sum_to_all(engine):
    stock(engine, *(item(f"p{n}", price=n * 10 + 0.5) for n in range(100)), item("free"))
    spread = engine.find(CatalogueQuery(facets=("price",))).facets["price"]
    assert (spread.min, spread.max) == (0.5, 990.5)
    assert sum(bar.count for bar in spread.histogram) == 100
    for bar in spread.histogram:
        if len(spread.histogram) > 1:
            expected = sum(bar.start <= n * 10 + 0.5 < bar.end for n in range(100))
            assert bar.count == expected


def test_facet_without_items_is_empty(engine):
    found = stock(engine, item("a")).find(CatalogueQuery(facets=("brand", "price")))
    assert found.facets == {"brand": [], "price": NumberFacet(None, None, [])}


def test_equals_come_in_the_order_of_their_ids_on_every_page(engine):
    order = list(range(300))
    random.Random(1).shuffle(order)
    for start in range(0, 300, 50):
        stock(engine, *(item(f"p{n:03d}", "Cloud", price=n // 100) for n in order[start : start + 50]))
    expected = [f"p{n:03d}" for n in range(300)]
    for sort in ("", "price", "firmness", "-in_stock"):
        for text in ("cloud", None):
            pages = [engine.find(CatalogueQuery(text=text, sort=sort, offset=at, limit=23)) for at in range(0, 300, 23)]
            assert [identity for page in pages for identity in ids(page)] == expected


def test_items_without_the_value_come_last_in_both_directions(engine):
    stock(engine, item("a"), item("b", firmness=3), item("c", firmness=7))
    assert ids(engine.find(CatalogueQuery(sort="firmness"))) == ["b", "c", "a"]
    assert ids(engine.find(CatalogueQuery(sort="-firmness"))) == ["c", "b", "a"]


def test_page_past_the_end_is_empty_with_the_same_total(engine):
    stock(engine, item("a", "Cloud"))
    for query in (
        CatalogueQuery(offset=10_000),
        CatalogueQuery(text="cloud", offset=5),
        CatalogueQuery(sort="price", offset=1),
        CatalogueQuery(limit=0),
    ):
        found = engine.find(query)
        assert (found.total, found.items) == (1, [])


def test_hidden_fields_are_never_returned(engine):
    stock(engine, item("a", "Cloud", brand="Emma", secret="x", specs={"depth": [1, None]}))
    assert engine.find(CatalogueQuery()).items == [
        {"id": "a", "title": "Cloud", "brand": "Emma", "specs": {"depth": [1, None]}}
    ]
    assert engine.find(CatalogueQuery(any_of={"secret": ("X",)})).total == 1


def test_items_with_every_word_are_all_found_and_those_with_fewer_fill_up(engine):
    both = [item(f"both{n}", "cloud dream") for n in range(3)]
    one = [item(f"one{n}", "cloud") for n in range(30)]
    stock(engine, *both, *one, item("none", "river"))
    found = engine.find(CatalogueQuery(text="dream cloud", limit=50))
    assert found.total == 33
    assert engine.find(CatalogueQuery(text="dream cloud", every_word=True)).total == 3
    stock(engine, *(item(f"more{n}", "dream of a cloud") for n in range(17)))
    assert engine.find(CatalogueQuery(text="the cloud in the dream")).total == 20


def test_filter_never_widens_what_a_text_means(engine):
    stock(engine, *(item(f"p{n}", "cloud dream", brand="Emma") for n in range(20)), item("x", "cloud", brand="Koala"))
    assert engine.find(CatalogueQuery(text="cloud dream", any_of={"brand": ("koala",)})).total == 0


def test_similar_items_share_something_and_are_never_the_item_itself(engine):
    stock(engine, item("a", "cloud dream"), item("b", "cloud dream"), item("c", "cloud river"), item("d", "ember"))
    assert ids(engine.similar("a")) == ["b", "c"]
    assert ids(engine.similar("a", 1)) == ["b"]
    assert engine.similar("unknown") == engine.similar("a", 0) == []


def test_text_is_completed_to_titles(engine):
    stock(engine, item("a", "Cloud Dream"), item("b", "River Clouds"), item("c", "Ember"))
    assert {each.id for each in engine.suggest("clo")} == {"a", "b"}
    assert [each.text for each in engine.suggest("dream clo")] == ["Cloud Dream"]
    assert engine.suggest("") == engine.suggest("?!") == engine.suggest("clo", 0) == []


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        (CatalogueQuery(sort="description"), "sort"),
        (CatalogueQuery(sort="--price"), "sort"),
        (CatalogueQuery(facets=("listed_at",)), "facets"),
        (CatalogueQuery(limit=-1), "limit"),
        (CatalogueQuery(limit=1_001), "limit"),
        (CatalogueQuery(offset=10_001), "offset"),
        (CatalogueQuery(cursor="*", offset=1), "offset"),
        (CatalogueQuery(cursor="*", text="cloud"), "cursor"),
        (CatalogueQuery(cursor="1~x70", sort="brand"), "cursor"),
        (CatalogueQuery(cursor="x70~x70", sort="price"), "cursor"),
        (CatalogueQuery(cursor=f"{2**63}~x70", sort="price"), "cursor"),
        (CatalogueQuery(cursor="nan~x70", sort="rating"), "cursor"),
        (CatalogueQuery(cursor="x70 TO *~x70"), "cursor"),
        (CatalogueQuery(cursor="x70"), "cursor"),
        (CatalogueQuery(any_of={"colour": ("red",)}), "colour"),
        (CatalogueQuery(any_of={"brand": ()}), "brand"),
        (CatalogueQuery(any_of={"firmness": ("soft",)}), "firmness"),
        (CatalogueQuery(any_of={"in_stock": ("maybe",)}), "in_stock"),
        (CatalogueQuery(between={"brand": Range("a", "b")}), "brand"),
        (CatalogueQuery(between={"price": Range("cheap", None)}), "price"),
        (CatalogueQuery(between={"price": Range(float("nan"), None)}), "price"),
        (CatalogueQuery(between={"listed_at": Range("yesterday", None)}), "listed_at"),
        (CatalogueQuery(between={"listed_at": Range("2026-01-01T00:00:00", None)}), "listed_at"),
    ],
)
def test_question_that_cannot_be_answered_names_its_parameter(engine, query, parameter):
    stock(engine, item("a"))
    with pytest.raises(Problem) as refused:
        engine.find(query)
    assert (refused.value.code, refused.value.facts["parameter"]) == ("invalid-parameter", parameter)
    with pytest.raises(Problem):
        list(engine.items(query))
