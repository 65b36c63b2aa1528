"""Questions to the services with their queries, made by rules: templates/forms.toml says what they look like.

Plain ones for both directions of a relation, denials once and twice, alternatives in any order; and forms that few
people use: whether all rows of a set are of another, groups that have rows of one set but none of another, means over
groups, failures, one number of a row against another, shares of sums, amounts in millions, texts with one word but not
another.
"""

import random
import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tollhouse.questions.answering import Engine
from tollhouse.questions.coverage import nodes
from tollhouse.questions.leaves import leaves_of
from tollhouse.questions.linking import Meaning
from tollhouse.questions.parser_input import parser_input
from tollhouse.questions.plans import NoPlan
from tollhouse.questions.query import Compare, Figure, Groups, List, Not, Query, Rows, Share, Test
from tollhouse.questions.years import with_years
from tools.question_encoding import encode
from tools.question_generator.generator import LANGUAGE_WEIGHTS
from tools.question_generator.slots import LANGUAGES, Forms, places
from tools.question_generator.surface import TEMPLATES, choose_alternatives, frame

ATTEMPTS = 40
"""How often a question is drawn for each that is wanted."""

LONGEST_NAME = 22
NO_END, FRAMED, CAPITAL = 0.12, 0.1, 0.4
"""Shares of questions without their last sign, of those in a frame, and of headings that begin with a capital."""

SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
MEANING = re.compile(r"\$(\w+)")


class Rule(NamedTuple):
    """One choice for a name: its words by language and form, and what they mean, both with other names in them."""

    means: Any
    words: dict[str, Forms]
    share: float = 1


class Drawn(NamedTuple):
    """A choice that is made: what it means, as the builtins of msgspec, and its text by form."""

    means: Any
    text: dict[str, str]


Rules = dict[str, list[Rule]]


def cases(service: str, engine: Engine, number: int = 1_200, seed: int = 1) -> Iterator[tuple[str, Query]]:
    """At most `number` different questions, each with its query, which has a plan for the parser of questions.

    `service` is "infra" or "defense", and `engine` answers its questions; the names of rows are those of its data. The
    same data and seed give the same questions.
    """
    chance = random.Random(f"{service}{seed}")  # noqa: S311
    templates = tomllib.loads((TEMPLATES / "forms.toml").read_text("utf-8"))
    rules = _rules(service, templates, engine)
    seen: set[str] = set()
    for _ in range(ATTEMPTS * number):
        if len(seen) == number:
            return
        language = chance.choices(list(LANGUAGE_WEIGHTS), list(LANGUAGE_WEIGHTS.values()))[0]
        drawn = _draw("question", rules, language, chance)
        query = msgspec.convert(drawn.means, Query)
        text = _written(drawn.text[""], language, templates["agreement"].get(language, ()), chance)
        if text.casefold() not in seen and _makes_sense(query) and _has_plan(text, query, engine):
            seen.add(text.casefold())
            yield text, query


def _rules(service: str, templates: dict[str, Any], engine: Engine) -> Rules:
    rows = [(name, row) for part in ("both", service) for name, choices in templates[part].items() for row in choices]
    rules: Rules = {}
    for name, row in rows:
        words = {key: _forms(row.get(key) or row["any"]) for key in LANGUAGES if key in row or "any" in row}
        rules.setdefault(name, []).append(Rule(row["means"], words, row.get("share", 1)))
    countries = places((lambda code, _: code) if service == "infra" else (lambda _, name: name))
    rules["country"] = [Rule(country.gold, country.words) for country in countries]
    rules |= {kind.name: _named(engine, kind.name) for kind in engine.dataset.declaration.kinds}
    rules["goods"] = list(_goods(engine))
    return rules


def _goods(engine: Engine) -> Iterator[Rule]:
    """Products by names that have several words or capitals, with the condition of links that they mean."""
    for name in engine.dataset.names():
        items = engine.linker.link(name.text).items
        is_product = name.kind == "company" and name.attribute == "product" and len(items) == 1
        if not is_product or (name.text.islower() and " " not in name.text):
            continue
        links = [leaf.value for leaf in leaves_of(items, engine.linker) if leaf.type == "link" and leaf.hint == "text"]
        if links:
            yield Rule(msgspec.to_builtins(replace(links[0], words="")), {key: {"": [name.text]} for key in LANGUAGES})


def _forms(texts: list[str]) -> Forms:
    """Texts "plural/singular" as words in the two forms."""
    pairs = [text.partition("/") for text in texts]
    return {"": [plural for plural, _, _ in pairs], "one": [singular or plural for plural, _, singular in pairs]}


def _named(engine: Engine, kind: str) -> list[Rule]:
    """Each row of a kind by those of its names that mean nothing else."""
    texts: dict[Any, list[str]] = {}
    for name in engine.dataset.names():
        is_code = name.exact or name.text == name.value or name.text.isdigit() or name.text.endswith(" maker")
        if name.kind == kind and name.attribute == "id" and not is_code and len(name.text) < LONGEST_NAME:
            items = engine.linker.link(name.text).items
            if len(items) == 1 and _means(items[0].meanings[0], name.value):
                texts.setdefault(name.value, []).append(name.text)
    return [Rule(value, {key: {"": names} for key in LANGUAGES}) for value, names in texts.items()]


def _means(meaning: Meaning, value: object) -> bool:
    return (meaning.role, meaning.name, meaning.value) == ("value", "id", value)


def _draw(name: str, rules: Rules, language: str, chance: random.Random) -> Drawn:
    """A choice for a name with choices for all the names in it."""
    choices = [rule for rule in rules[name.rstrip("2")] if language in rule.words]
    rule = chance.choices(choices, [each.share for each in choices])[0]
    texts = {form: choose_alternatives(chance.choice(words), chance) for form, words in rule.words[language].items()}
    inside = [slot for text in texts.values() for slot, _ in SLOT.findall(text)] + MEANING.findall(str(rule.means))
    drawn = {slot: _draw(slot, rules, language, chance) for slot in dict.fromkeys(inside)}
    filled = {form: SLOT.sub(lambda slot: drawn[slot[1]].text[slot[2] or ""], text) for form, text in texts.items()}
    return Drawn(meaning_of(rule.means, drawn), filled)


def meaning_of(means: Any, drawn: dict[str, Drawn]) -> Any:
    """What a rule means with the meanings of the names in it; conditions that must all hold are one list."""
    if isinstance(means, str):
        return drawn[means[1:]].means if means.startswith("$") else means
    if isinstance(means, list):
        return [meaning_of(each, drawn) for each in means]
    if not isinstance(means, dict):
        return means
    made = {key: meaning_of(each, drawn) for key, each in means.items()}
    if made.get("type") != "all":
        return made
    parts = [part for each in made.get("of", ()) for part in (each.get("of", ()) if each["type"] == "all" else [each])]
    return parts[0] if len(parts) == 1 else {"type": "all", "of": parts}


def _makes_sense(query: Query) -> bool:
    """Whether a query compares different things, and asks nothing that its own conditions answer."""
    if not all(_is_sound(node) for node in nodes(query) if isinstance(node, Rows)):
        return False
    if isinstance(query, Share) and not query.is_every:
        return query.part.where != query.whole.where
    if isinstance(query, Share):
        is_same = query.part.where in query.whole.parts
        return not is_same and _tested(query.part).isdisjoint(_tested(query.whole))
    if isinstance(query, Groups):
        others = [rows for rows in (query.without, query.also) if rows is not None]
        is_tested = any(query.by in _tested(rows) for rows in (query.rows, *others))
        return not is_tested and query.rows not in others
    if isinstance(query, List | Figure):
        parts = [part.of if isinstance(part, Not) else part for part in query.rows.parts]
        tested = [part.attribute for part in parts if isinstance(part, Test)]
        values = [value for part in parts if isinstance(part, Test) for value in part.values]
        return len(set(tested)) == len(tested) and len(set(values)) == len(values)
    return not isinstance(query, Compare) or query.sides[0] != query.sides[1]


def _is_sound(rows: Rows) -> bool:
    """Whether rows have no condition twice or with its denial, and no row is named twice."""
    parts = rows.parts
    names = [
        (place, value)
        for place, part in enumerate(parts)
        for node in nodes(part)
        if isinstance(node, Test) and node.attribute == "id"
        for value in node.values
    ]
    named = [value for place, value in names if parts[place] in (node for node in parts if isinstance(node, Test))]
    is_twice = any(sum(value == each for _, each in names) > 1 for value in named) or len(names) != len(set(names))
    return not is_twice and len(set(parts)) == len(parts) and not any(Not(part) in parts for part in parts)


def _tested(rows: Rows) -> set[str]:
    return {part.attribute for part in rows.parts if isinstance(part, Test)}


def _has_plan(text: str, query: Query, engine: Engine) -> bool:
    linker, dataset = engine.linker, engine.dataset
    linked = with_years(linker.link(text, dataset.now, dataset.hours), linker)
    try:
        encode(query, parser_input(linked, linker, None).leaves)
    except NoPlan:
        return False
    return True


def _written(text: str, language: str, agreement: list[tuple[str, str]], chance: random.Random) -> str:
    """The text with its endings put right, as people write it."""
    for pattern, replacement in agreement:
        text = re.sub(pattern, replacement, text)
    is_sentence = text.endswith(("?", "."))
    if is_sentence or chance.random() < CAPITAL:
        text = text[0].upper() + text[1:]
    if is_sentence and chance.random() < FRAMED:
        text = frame(text, "question", language, chance)
    return text.rstrip("?. ") if chance.random() < NO_END else text
