"""A large catalogue is answered by shorter ways: each must tell what looking at every item tells."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.catalogue.plain_engine import PlainEngine
from tests.catalogue.shop import SHOP, ids, item, stock
from tests.catalogue.test_conformance import histories, is_ranked, queries, without_bars
from tollhouse.catalogue import facets, index, scoring, search, term_matching
from tollhouse.catalogue.items import prepare_item
from tollhouse.catalogue.query import CatalogueQuery, Range, ValueCount
from tollhouse.catalogue.schema import Field, Schema
from tollhouse.catalogue.search_engine import TantivyEngine

WORDS = ["cloud", "dream", "harbour", "pillow", "river", "walnut", "velvet", "copper", "ember", "quartz"]
FACETS = ("brand", "size", "price", "current_price", "firmness")


def made(count):
    """Items whose words are as uneven as those of a language, some without a price."""
    rng = random.Random(11)
    commonness = [1 / (rank + 1) for rank in range(len(WORDS))]
    for number in range(count):
        words = rng.choices(WORDS, commonness, k=14)
        members = {
            "brand": rng.choice(["Koala", "koala", "Emma", "Ecosa"]),
            "size": rng.choice(["Queen", "King"]),
            "description": " ".join(words[3:]),
            "firmness": rng.randint(1, 5),
        }
        if number % 7:
            members |= {"price": rng.randint(0, 40) * 12.5, "rating": rng.choice([-1.5, 0.0, 2.25, 4.0])}
        yield item(f"p{number:04d}", " ".join(words[: rng.randint(1, 3)]), **members)


def filled(engine, count=600, parts=3):
    """In several segments."""
    items = list(made(count))
    for start in range(parts):
        stock(engine, *items[start::parts])
    return engine


def questions():
    rng = random.Random(12)
    for _ in range(60):
        between = {"current_price": Range(rng.randint(0, 200), rng.randint(200, 500))} if rng.random() < 0.7 else {}
        text = " ".join(rng.choices([*WORDS, "copprr"], k=rng.randint(1, 4)))
        yield CatalogueQuery(
            text=text, between=between, facets=FACETS, offset=rng.choice([0, 0, 5]), limit=rng.choice([1, 4, 20])
        )


def watched(monkeypatch, name, function):
    """What the function answers from now on."""
    reported = []
    monkeypatch.setattr(search, name, lambda *asked: reported.append(function(*asked)) or reported[-1])
    return reported


def place(address):
    return address.segment_ord, address.doc


def test_best_of_many_items_are_found_among_few(monkeypatch):
    monkeypatch.setattr(search, "RERANKED", 0)
    monkeypatch.setattr(scoring, "LARGE", 0)
    monkeypatch.setattr(search, "MIN_ROWS_PER_ITEM", 1)
    engine = filled(TantivyEngine(SHOP))
    among_few = search._among_few
    monkeypatch.setattr(search, "_among_few", lambda *_: [])
    among_all = [engine.find(query) for query in questions()]
    found = watched(monkeypatch, "_among_few", among_few)
    assert [engine.find(query) for query in questions()] == among_all
    assert 10 < sum(map(bool, found)) < len(found)


def test_score_bound_of_a_choice_holds(monkeypatch):
    monkeypatch.setattr(scoring, "LARGE", 0)
    monkeypatch.setattr(scoring, "FEW_SHARE", 1.0)
    engine = filled(TantivyEngine(SHOP))
    engine.put([], [f"p{number:04d}" for number in range(0, 600, 4)])
    engine.publish()
    view, matcher = engine._snapshot.view, engine._snapshot.matcher
    for text in ("quartz", "cloud quartz", "ember copper walnut"):
        ranking = matcher.match(text).ranking
        scores = {place(address): score for score, address in view.best(ranking.scored, 600)[1]}
        for number, rest in enumerate(ranking.rests):
            few = {place(address): score for score, address in view.best(ranking.choice(number), 600)[1]}
            assert few.items() <= scores.items()
            assert all(score <= rest for at, score in scores.items() if at not in few)


@pytest.mark.parametrize("text", ["zzzzz", "rubber", "zzzzz rubber", "", "the", "latex quartz", "queen bed zzzzz"])
def test_unknown_words_match_nothing(monkeypatch, text):
    small = filled(TantivyEngine(SHOP), 100)
    expected = small.find(CatalogueQuery(text=text, facets=FACETS))
    monkeypatch.setattr(scoring, "LARGE", 0)
    monkeypatch.setattr(search, "LARGE", 0)
    small.merge_segments()
    assert small.find(CatalogueQuery(text=text, facets=FACETS)) == expected


def test_sample_only_decides_whether_there_are_enough_matches(monkeypatch):
    whole = filled(TantivyEngine(SHOP))
    expected = [whole.find(query) for query in questions()]
    monkeypatch.setattr(index, "SAMPLED", 2)
    monkeypatch.setattr(term_matching.Matcher, "_is_common", lambda *_: True)
    engine = filled(TantivyEngine(SHOP))
    sampled = engine._snapshot.view.count(engine._snapshot.view.sample)
    assert 200 < sampled < 400
    assert [engine.find(query) for query in questions()] == expected


@pytest.mark.parametrize("text", [None, "cloud", "cloud dream"])
def test_page_by_a_number_is_found_below_what_a_sample_reaches(monkeypatch, text):
    monkeypatch.setattr(index, "SAMPLED", 8)
    monkeypatch.setattr(search, "SPARE", 1)
    monkeypatch.setattr(search, "LARGE", 0)
    monkeypatch.setattr(search, "READ_TIES", 3)
    engine, plain = filled(TantivyEngine(SHOP)), filled(PlainEngine(SHOP))
    found = watched(monkeypatch, "_by_sample", search._by_sample)
    for sort in ("price", "-price", "rating", "-rating", "-firmness", "current_price", "brand", "-id"):
        for offset in (0, 30, 110, 570):
            query = CatalogueQuery(text=text, sort=sort, offset=offset, limit=25)
            assert ids(engine.find(query)) == ids(plain.find(query))
    assert any(found)
    assert not all(found)


def test_interval_and_what_lies_in_it_are_counted_in_one_pass(monkeypatch):
    engine, plain = filled(TantivyEngine(SHOP), 200), filled(PlainEngine(SHOP), 200)
    view = engine._snapshot.view
    aggregate, asked = type(view).aggregate, []
    engine.find(CatalogueQuery(text="cloud", facets=FACETS))
    monkeypatch.setattr(type(view), "aggregate", lambda *each: asked.append(each) or aggregate(*each))
    query = CatalogueQuery(text="cloud", between={"firmness": Range(2, 4)}, facets=("brand", "firmness"), limit=1)
    assert engine.find(query).facets == plain.find(query).facets
    assert engine.find(query).total == plain.find(query).total
    # Two questions, and nothing else was asked of the index.
    assert len(asked) == 2


@pytest.mark.parametrize("most", [2, 8, 1_000])
def test_more_values_than_fit_beside_an_interval_are_counted_in_a_pass_of_their_own(monkeypatch, most):
    monkeypatch.setattr(facets, "MAX_RANGE_BUCKETS", most)
    engine, plain = filled(TantivyEngine(SHOP)), filled(PlainEngine(SHOP))
    for _ in range(2):
        query = CatalogueQuery(between={"firmness": Range(2, None)}, facets=("brand", "size", "firmness"))
        assert engine.find(query).facets == plain.find(query).facets


def test_range_of_a_field_without_values_matches_nothing():
    engine = stock(TantivyEngine(SHOP), item("a", "Cloud", brand="Emma"))
    found = engine.find(CatalogueQuery(between={"rating": Range(1, 2)}, facets=("brand", "rating"), text="cloud"))
    assert (found.total, found.items, found.facets["brand"]) == (0, [], [])


def test_fields_may_be_called_like_the_members_of_a_bucket():
    names = ("key", "doc_count", "from", "to", "sum_other_doc_count")
    fields = [Field(name, "keyword", filtered=True, faceted=True) for name in names]
    schema = Schema((Field("title", "text"), Field("cost", "number", filtered=True, faceted=True), *fields))
    engine = TantivyEngine(schema)
    stock(engine, *(prepare_item(schema, {"id": f"{n}", "cost": n, **dict.fromkeys(names, f"v{n}")}) for n in range(4)))
    found = engine.find(CatalogueQuery(between={"cost": Range(1, 2)}, facets=("cost", *names)))
    assert found.total == 2
    assert all(found.facets[name] == [ValueCount("v1", 1), ValueCount("v2", 1)] for name in names)
    assert (found.facets["cost"].min, found.facets["cost"].max) == (0, 3)


def test_item_put_twice_before_the_first_publication_is_there_once():
    engine = TantivyEngine(SHOP)
    engine.put([item("a", "Cloud"), item("b", "River"), item("a", "Velvet")], ["b"])
    engine.put([item("c", "Ember")], ["c", "unknown"])
    engine.put([], ["b"])
    engine.publish()
    assert [(each["id"], each["title"]) for each in engine.find(CatalogueQuery()).items] == [
        ("a", "Velvet"),
        ("c", "Ember"),
    ]
    engine.clear()
    stock(engine, item("c", "Dream"), item("c", "Copper"))
    assert [each["title"] for each in engine.find(CatalogueQuery()).items] == ["Copper"]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories(), asked=st.lists(queries, min_size=1, max_size=12))
def test_optimizations_match_a_full_scan(history, asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "SAMPLED", 3)
        patch.setattr(term_matching.Matcher, "_is_common", lambda *_: True)
        patch.setattr(scoring, "LARGE", 0)
        for name, value in {"LARGE": 0, "MIN_ROWS_PER_ITEM": 1, "READ_TIES": 4, "SPARE": 1}.items():
            patch.setattr(search, name, value)
        fast, plain = TantivyEngine(SHOP), PlainEngine(SHOP)
        for upserts, removals in history:
            for engine in (fast, plain):
                engine.put(upserts, removals)
                engine.publish()
        for query in asked:
            found, right = fast.find(query), plain.find(query)
            assert (found.total, without_bars(found.facets)) == (right.total, without_bars(right.facets))
            if is_ranked(query):
                assert len(found.items) == len(right.items)
            else:
                assert found.items == right.items
