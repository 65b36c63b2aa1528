"""The words of searches after changes are those of a catalogue that is read anew, and only what changed is made."""

import random
import sys

from tollhouse.questions.description import read_description
from tollhouse.services.mattress.search import read_search_words
from tollhouse.services.mattress.vocabulary import names_of

# Few words, so that names are parts of each other and stand for several things.
WORDS = ("Grey", "Heron", "grey", "Cloud & Down", "Down", "Cumulus", "The Cloud Co", "Cloud", "Queenly", "Nimbus")


def some(chance, words=WORDS):
    return chance.sample(words, len(words) // 2)


def test_words_after_changes_are_those_of_a_catalogue_that_is_read_anew():
    chance = random.Random(4)
    words, was_followed = None, 0
    for _ in range(12):
        brands, shops, models = some(chance, WORDS[2:6]), some(chance, WORDS[5:8]), some(chance)
        models += [f"Model{number}" for number in range(30)]
        names = list(names_of(brands, {shop.casefold(): shop for shop in shops}, models))
        before, anew = words, read_search_words(names, ["100 night trial"])
        words = read_search_words(names, ["100 night trial"], before)
        was_followed += before is not None and words.linker.kinds is before.linker.kinds
        texts = [f"firm {chance.choice(WORDS)} {chance.choice(WORDS)}" for _ in range(12)] + [*WORDS, "cumullus"]
        assert [words.linker.link(text) for text in texts] == [anew.linker.link(text) for text in texts]
        for text in texts:
            assert read_description(text, words.linker, "product") == read_description(text, anew.linker, "product")
        assert words.linker.described == anew.linker.described
    assert was_followed > 3


def test_shop_that_keeps_one_of_its_two_names_keeps_it():
    models = [f"Model{number}" for number in range(30)]
    before = read_search_words(names_of([], {"cloud": "Cloud Pty Ltd"}, models), [])
    names = list(names_of([], {"cloud": "Cloud"}, models))
    words, anew = read_search_words(names, [], before), read_search_words(names, [])
    assert len(before.names) == len(names) + 1
    assert words.linker.described == anew.linker.described
    assert words.linker.link("Cloud") == anew.linker.link("Cloud")


def test_change_of_a_title_is_not_work_for_the_other_titles():
    """Counted in calls of Python's functions."""
    calls = []
    for count in (500, 4_000):
        models = [f"word{number}" for number in range(count)]
        before = read_search_words(names_of(["Heron"], {"shop": "Shop"}, models), [])
        names = list(names_of(["Heron"], {"shop": "Shop"}, [*models[1:], "changed"]))
        calls.append(0)

        def count_call(_frame: object, event: str, _value: object) -> None:
            calls[-1] += event == "call"

        sys.setprofile(count_call)
        read_search_words(names, [], before)
        sys.setprofile(None)
    assert calls[1] < 1.2 * calls[0], calls
