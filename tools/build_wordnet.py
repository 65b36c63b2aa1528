"""Build the word lists that come from Open English WordNet: nouns of vehicles and weapons, words before a noun, verbs.

Usage: PYTHONPATH=src python -m tools.build_wordnet WORDNET_YAML_FOLDER VOCABULARY
`VOCABULARY` is a list of frequent words, one per line (the vocabulary of BERT, Apache-2.0): rarer words are left out.
Rewrites gazetteers/wordnet.toml, persons.txt and animals.txt in the defense service's data; same input, same files.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from textwrap import wrap

import numpy as np
import yaml

from tollhouse.services.defense.entities import lexicon
from tollhouse.vectors import text_vectors

DATA = Path(__file__).parents[1] / "src/tollhouse/services/defense/data"
# The number of the sense of each noun whose kinds are platforms, from 0.
_PLATFORMS = {
    "weapon": 0,
    "weaponry": 0,
    "ammunition": 0,
    "vehicle": 0,
    "explosive device": 0,
    "explosive": 0,
    "missile": 1,
}
_MOST_SENSES = 6
RIDGE, LEAST_LIKE_PERSONS = 1.0, -0.2
_CLOSED = lexicon.CLOSERS | lexicon.PREPOSITIONS | lexicon.DETERMINERS | lexicon.QUANTIFIERS
_HEADER = """\
# Words from Open English WordNet (https://en-word.net, CC BY 4.0), which is derived from Princeton WordNet (WordNet
# licence); made by tools/build_wordnet.py. `platforms` are nouns whose first sense is a kind of weapon, ammunition,
# explosive or vehicle; `modifiers` are frequent adjectives and nouns; `verbal` are those that are as often verbs.
# `verbs` are all verbs, and `addresses` those of them that are first of all verbs of communication.
"""

Senses = Mapping[str, Mapping[str, list[str]]]


def main(folder: Path, vocabulary: Path) -> None:
    senses, hypernyms, communication = _read(folder)
    frequent = frozenset(vocabulary.read_text("utf-8").split())
    roots = {senses[noun]["n"][number] for noun, number in _PLATFORMS.items()}
    platforms = [
        word
        for word, by_class in senses.items()
        if "n" in by_class and word.count(" ") < 2 and word not in _CLOSED and _is_noun(by_class)
        if roots & _above(by_class["n"][0], hypernyms)
    ]
    plain = [word for word in frequent & senses.keys() - _CLOSED if len(word) > 2]
    modifiers = [word for word in plain if senses[word].keys() & {"a", "n"}]
    verbal = [word for word in modifiers if _is_verbal(senses[word])]
    verbs = [word for word in senses if "v" in senses[word] and " " not in word]
    addresses = [word for word in verbs if senses[word]["v"][0] in communication]
    lists = {
        "platforms": platforms,
        "modifiers": modifiers,
        "verbal": verbal,
        "verbs": verbs,
        "addresses": addresses,
    }
    text = _HEADER + "".join(f'{name} = """\n{_lines(words)}"""\n' for name, words in lists.items())
    (DATA / "gazetteers" / "wordnet.toml").write_text(text, "utf-8")
    persons = _persons(senses, hypernyms)
    (DATA / "persons.txt").write_text(_lines(persons), "utf-8")
    (DATA / "animals.txt").write_text(_lines(_animals(senses, hypernyms).difference(persons)), "utf-8")


def _persons(senses: Senses, hypernyms: Mapping[str, list[str]]) -> list[str]:
    """Single words whose first sense as nouns is a kind of person; those that are mostly other words only by likeness.

    Left out are names of animals used of persons ("whale"): an animal of that name has more kinds than the person.
    """
    person, animal = (senses[word]["n"][0] for word in ("person", "animal"))
    kinds = Counter(kind for synset in hypernyms for kind in _above(synset, hypernyms))

    def is_animal(synset: str) -> bool:
        return animal in _above(synset, hypernyms)

    nouns = [word for word, by_class in senses.items() if "n" in by_class and " " not in word and _is_noun(by_class)]
    named = [word for word in senses if "n" in senses[word] and " " not in word]
    persons = {word for word in named if person in _above(senses[word]["n"][0], hypernyms)}
    persons = {word for word in persons if not is_animal(max(senses[word]["n"], key=kinds.__getitem__))}
    return [*persons.intersection(nouns), *_near(nouns, persons)]


def _animals(senses: Senses, hypernyms: Mapping[str, list[str]]) -> set[str]:
    """Single words that name an animal in their sense as nouns with the most kinds, and no person in the first."""
    person, animal = (senses[word]["n"][0] for word in ("person", "animal"))
    kinds = Counter(kind for synset in hypernyms for kind in _above(synset, hypernyms))
    nouns = (word for word in senses if "n" in senses[word] and " " not in word)
    named = {word for word in nouns if animal in _above(max(senses[word]["n"], key=kinds.__getitem__), hypernyms)}
    return {word for word in named if person not in _above(senses[word]["n"][0], hypernyms)}


def _near(nouns: Sequence[str], persons: AbstractSet[str]) -> list[str]:
    """Those of `persons` outside `nouns` whose text vectors are like persons', by ridge regression on `nouns`."""
    vectors = text_vectors()
    known = [word for word in nouns if word in vectors.whole_words]
    inputs = np.c_[vectors.embed(known), np.ones(len(known))].astype(np.float64)
    answers = np.array([1.0 if word in persons else -1.0 for word in known])
    weights = np.linalg.solve(inputs.T @ inputs + RIDGE * np.eye(inputs.shape[1]), inputs.T @ answers)
    others = sorted(persons.difference(nouns))
    scores = np.c_[vectors.embed(others), np.ones(len(others))] @ weights
    return [word for word, score in zip(others, scores, strict=True) if score > LEAST_LIKE_PERSONS]


def _read(folder: Path) -> tuple[dict[str, dict[str, list[str]]], dict[str, list[str]], set[str]]:
    """Per lower-case word its synsets by word class, most frequent first; per synset its hypernyms; verbs of speech."""
    communication: set[str] = set()
    senses: dict[str, dict[str, list[str]]] = {}
    hypernyms: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.stem == "frames":
            continue
        entries = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
        if path.stem == "verb.communication":
            communication = set(entries)
        for key, entry in entries.items():
            if not path.stem.startswith("entries"):
                hypernyms[key] = entry.get("hypernym", [])
            elif len(key) > 2 and key.islower() and key.replace(" ", "").isalpha():
                for word_class, listed in entry.items():
                    found = senses.setdefault(key, {}).setdefault(word_class[0], [])
                    found += [sense["synset"] for sense in listed["sense"]]
    return senses, hypernyms, communication


def _above(synset: str, hypernyms: Mapping[str, list[str]]) -> set[str]:
    """A synset and everything it is a kind of."""
    return {synset}.union(*(_above(kind, hypernyms) for kind in hypernyms.get(synset, ())))


def _is_noun(by_class: Mapping[str, list[str]]) -> bool:
    """Whether a word is mostly a noun, by the number of its senses, and has few other meanings."""
    count = len(by_class["n"])
    return count <= _MOST_SENSES and len(by_class.get("a", ())) < count and len(by_class.get("v", ())) <= count


def _is_verbal(by_class: Mapping[str, list[str]]) -> bool:
    return len(by_class.get("v", ())) >= len(by_class.get("n", ())) + len(by_class.get("a", ()))


def _lines(words: Iterable[str]) -> str:
    text = " ".join(word.replace(" ", "_") for word in sorted(words))
    return "".join(f"{line}\n" for line in wrap(text, 500, break_long_words=False, break_on_hyphens=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
