"""Products come before their accessories."""

import pytest

from tests.catalogue.shop import SHOP, ids, item, stock
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.catalogue.reranking import RERANKED, accessory_degree
from tollhouse.catalogue.search_engine import TantivyEngine

RARE = ("pad", "cover", "arm")


def shop(*items: Item, fillers=200):
    """An engine with these items among others, so that their words are uncommon."""
    others = (item(f"x{number:03d}", f"Lamp {number} black") for number in range(fillers))
    return stock(TantivyEngine(SHOP), *items, *others)


def found(engine, text, **query: int):
    return ids(engine.find(CatalogueQuery(text=text, **query)))


def mice(count=6):
    return [item(f"m{number}", f"Koala mouse {number}00") for number in range(count)]


@pytest.mark.parametrize("title", ["Mouse pad", "Mouse pad black", "Case for mouse"])
def test_product_comes_before_its_accessory(title):
    engine = shop(*mice(), item("accessory", title))
    assert found(engine, "mouse")[-1] == "accessory"


@pytest.mark.parametrize("text", ["mouse pad", "pad for a mouse", "pad with mouse"])
def test_accessory_that_is_asked_for_comes_first(text):
    engine = shop(*mice(), *(item(f"pad{number}", f"Mouse pad {number}") for number in range(6)))
    assert found(engine, text)[0].startswith("pad")


def test_item_with_more_of_the_words_is_never_passed():
    engine = shop(*mice(), item("both", "Mouse pad", description="quartz"))
    assert found(engine, "quartz mouse")[0] == "both"


def test_few_products_do_not_change_the_order():
    engine = shop(*mice(4), item("pad", "Mouse pad"))
    assert found(engine, "mouse")[0] == "pad"


def test_word_of_most_titles_does_not_change_the_order():
    engine = shop(*mice(), item("pad", "Mouse pad"), fillers=0)
    assert found(engine, "mouse")[0] == "pad"


def test_pages_make_up_the_whole_list():
    covers = [item(f"c{number:02d}", "Mouse cover") for number in range(10)]
    engine = shop(*covers, *mice(60), fillers=2_000)
    whole = found(engine, "mouse", limit=70)
    assert len(whole) == 70
    assert whole.index("c00") > whole.index("m0")
    for size in (7, 20, RERANKED):
        pages = [found(engine, "mouse", limit=size, offset=start) for start in range(0, 70, size)]
        assert [identity for page in pages for identity in page] == whole


@pytest.mark.parametrize(
    ("texts", "degree"),
    [
        (["Koala mouse"], 0.0),
        (["Mouse black"], 0.0),
        (["Mouse 800 dpi", "Mouse pad"], 0.0),
        (["Mouse, pad"], 0.0),
        (["Mouse - pad"], 0.0),
        (["Mouse pad"], 1.0),
        (["Pad for a mouse"], 1.0),
        (["Mouse pad for a mouse"], 1.0),
        (["Koala pad"], 1.0),
        ([], 1.0),
    ],
)
def test_uncommon_word_after_the_head_makes_an_accessory(texts, degree):
    assert accessory_degree(frozenset({"mous"}), texts, lambda word: float(word in RARE)) == degree
