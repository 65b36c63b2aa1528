"""Labelled questions over invented vocabularies, for rows and relations of any service.

templates/relations.toml has what questions look like, whatever they are about; `invented` the words to fill in. A query
is made of the same choices as its question.
"""

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import msgspec

from tollhouse.questions.answering import Engine
from tollhouse.questions.conditions import all_of, any_of, negated
from tollhouse.questions.parser_input import parser_input
from tollhouse.questions.plans import NoPlan, Realiser, key
from tollhouse.questions.query import (
    AllOf,
    Among,
    AnyOf,
    Condition,
    Not,
    Query,
    Refusal,
    Related,
    Test,
    rows_in,
)
from tollhouse.questions.years import with_years
from tollhouse.vectors import text_vectors
from tools.question_encoding import encode
from tools.question_generator.forms import Drawn, meaning_of
from tools.question_generator.invented import (
    DECLARED,
    SaidAttribute,
    SaidKind,
    Vocabulary,
    countries,
    engine,
    parts_of,
    texts_of,
    vocabularies,
)
from tools.question_generator.slots import LANGUAGES, NUMBERS
from tools.question_generator.surface import TEMPLATES, choose_alternatives, frame, write_carelessly

WEIGHTS = {"en": 60, "de": 20, "es": 10, "fr": 10}
LED, STRANGE, NAMELESS, FRAMED = 0.15, 0.14, 0.04, 0.08
"""Shares of questions with a clause that says nothing, with an unknown word where it counts, with a name that no row
has, and in a polite frame."""

DEEPEST = 14
ATTEMPTS = 40
"""How often a question is drawn of a family before another one is."""

_SLOT = re.compile(r"\{(~?)([\w:@]+)(?:\.(\w+))?\}")
_MEANING = re.compile(r"\$([\w:@]+)")
# A slot with a 2 is another choice of the same rule.
_SECOND = re.compile(r"2(?=:|$)")
_STRANGE, _NAME = "\x01", "\x02"
_NOUNS = frozenset({"kind", "sources", "targets"})
_QUESTIONED = ("q", "art", "w", "ws")
_ARTICLES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "de": {
        "m": {"w": "welcher", "ws": "welche", "art": "die", "rel": "der"},
        "f": {"w": "welche", "ws": "welche", "art": "die", "rel": "die"},
        "n": {"w": "welches", "ws": "welche", "art": "die", "rel": "das"},
    },
    "es": {
        "m": {"w": "qué", "ws": "qué", "art": "los", "q": "cuántos", "rel": "que"},
        "f": {"w": "qué", "ws": "qué", "art": "las", "q": "cuántas", "rel": "que"},
    },
    "fr": {
        "m": {"w": "quel", "ws": "quels", "art": "les", "q": "combien de", "rel": "qui"},
        "f": {"w": "quelle", "ws": "quelles", "art": "les", "q": "combien de", "rel": "qui"},
    },
}
_ENGLISH = {"rel": "that", "w": "which", "ws": "which", "art": "the", "q": "how many"}


class Unsaid(LookupError):
    """A choice that a language or a vocabulary has no words for."""


class Rule(NamedTuple):
    """One choice for a name: what it means, and its texts by language and form."""

    means: Any
    words: Mapping[str, Sequence[Mapping[str, str]]]
    share: float = 1.0


class Template(NamedTuple):
    """A question about whatever it is bound to. `names` gives the rules that its slots stand for."""

    family: str
    means: Any
    before: Any
    words: Mapping[str, Sequence[str]]
    names: Mapping[str, str]


class Case(NamedTuple):
    """A question: its engine, the query before it and what is right."""

    family: str
    engine: Engine
    text: str
    before: Query | None
    right: Query | Refusal


def cases(
    number: int, seed: int = 1, *, about: Sequence[str] = ()
) -> Iterator[tuple[Engine, str, Query | None, Query | Refusal]]:
    """Different questions with their engine, the query before, and the query that is right or why there is none.

    `about` names vocabularies; all without it. The same arguments give the same questions.
    """
    for case in families(number, seed, about=about):
        yield case.engine, case.text, case.before, case.right


def families(number: int, seed: int = 1, *, about: Sequence[str] = ()) -> Iterator[Case]:
    """The questions of `cases`, each with the family of its template."""
    chance = random.Random(seed)  # noqa: S311
    writers = {name: _Writer(name, vocabularies()[name], chance) for name in about or vocabularies()}
    shares: dict[str, float] = _templates()["families"]
    seen: set[tuple[str, str, Query | None]] = set()
    while len(seen) < number:
        language = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        family = chance.choices(list(shares), list(shares.values()))[0]
        for _ in range(ATTEMPTS):
            name = chance.choice(list(writers))
            case = writers[name].question(family, language, engine(name, chance.randrange(len(DECLARED))))
            if case is not None and (said := (name, case.text.casefold(), case.before)) not in seen:
                seen.add(said)
                yield case
                break


@cache
def _templates() -> Mapping[str, Any]:
    return tomllib.loads((TEMPLATES / "relations.toml").read_text("utf-8"))


class _Writer:
    """Draws questions about one vocabulary."""

    def __init__(self, name: str, said: Vocabulary, chance: random.Random) -> None:
        self._chance = chance
        self._several = {of for kind in said.kinds.values() for of, each in kind.attributes.items() if each.several}
        self._rules = _Grammar(name, said).rules
        self._by_family: dict[str, list[list[Template]]] = {}
        for entry in _templates()["question"]:
            bound = [
                Template(
                    entry["family"],
                    _named(entry.get("means"), names),
                    _named(entry.get("before"), names),
                    {language: entry[language] for language in LANGUAGES if language in entry},
                    names,
                )
                for names in _bindings(said, entry["over"])
            ]
            if bound:
                self._by_family.setdefault(entry["family"], []).append(bound)

    def question(self, family: str, language: str, of: Engine) -> Case | None:
        """A question that has a plan; None where what was drawn says nothing."""
        bound = [each for each in self._by_family.get(family, ()) if language in each[0].words]
        if not bound:
            return None
        template = self._chance.choice(self._chance.choice(bound))
        try:
            drawn = self._filled(template, language)
        except Unsaid:
            return None
        text, before, right = drawn
        if not (_makes_sense(right, self._several) and (before is None or _makes_sense(before, self._several))):
            return None
        if before is not None and key(before) == key(right):
            return None
        text, is_strange = self._strange(text, language, of, is_refused=isinstance(right, Refusal))
        text = self._written(text, language, of)
        right = Refusal("unclear") if is_strange else right
        is_said = not any(re.search(pattern, text) for pattern in _templates()["unsaid"].get(language, ()))
        is_good = is_said and _has_plan(text, before, right, of)
        return Case("strange" if is_strange else family, of, text, before, right) if is_good else None

    def _filled(self, template: Template, language: str) -> tuple[str, Query | None, Query | Refusal]:
        text = choose_alternatives(self._chance.choice(list(template.words[language])), self._chance)
        inside = [template.names.get(slot, slot) for _, slot, _ in _SLOT.findall(text)]
        inside += _MEANING.findall(f"{template.means}{template.before}")
        drawn = {name: self._draw(name, language, 0) for name in dict.fromkeys(inside)}
        _check(drawn)
        text = _SLOT.sub(lambda slot: _form(drawn[template.names.get(slot[2], slot[2])], slot[3] or ""), text)
        means = meaning_of(template.means, drawn)
        if "reason" in means:
            right: Query | Refusal = Refusal(means["reason"])
        else:
            right = _tidied(msgspec.convert(means, Query))
        before = None
        if template.before:
            before = _tidied(msgspec.convert(meaning_of(template.before, drawn), Query))
        return text, before, right

    def _draw(self, name: str, language: str, depth: int) -> Drawn:
        """A choice for a name with choices for all the names in it. Raises Unsaid."""
        rules = [rule for rule in self._rules.get(_SECOND.sub("", name), ()) if rule.words.get(language)]
        if not rules or depth > DEEPEST:
            raise Unsaid(name)
        rule = self._chance.choices(rules, [each.share for each in rules])[0]
        forms = self._chance.choice(list(rule.words[language]))
        inside = [slot for text in forms.values() for _, slot, _ in _SLOT.findall(text)]
        inside += _MEANING.findall(str(rule.means))
        drawn = {slot: self._draw(slot, language, depth + 1) for slot in dict.fromkeys(inside)}
        _check(drawn)
        state = self._chance.getstate()
        said: dict[str, str] = {}
        for form, text in forms.items():
            self._chance.setstate(state)
            chosen = choose_alternatives(text, self._chance)
            said[form] = _SLOT.sub(
                lambda slot, f=form: _form(drawn[slot[2]], slot[3] or (f if slot[1] else "")), chosen
            )
        return Drawn(meaning_of(rule.means, drawn), said)

    def _strange(self, text: str, language: str, of: Engine, *, is_refused: bool) -> tuple[str, bool]:
        """The text, seldom with an unknown name or an unknown word beside a noun for rows, so that it has no query."""
        places = [place for place, letter in enumerate(text) if letter == _STRANGE]
        names = re.findall(f"{_NAME}.*?{_NAME}", text)
        is_strange = not is_refused
        if is_refused:
            pass
        elif places and self._chance.random() < STRANGE:
            at = self._chance.choice(places)
            word = _word(of, self._chance, is_new=self._chance.random() < 0.5)
            text = f"{text[:at]}{f'{word} ' if language in ('en', 'de') else f' {word}'}{text[at:]}"
        elif names and self._chance.random() < NAMELESS:
            text = text.replace(self._chance.choice(names), _word(of, self._chance, is_new=True).capitalize())
        else:
            is_strange = False
        return text.replace(_STRANGE, "").replace(_NAME, ""), is_strange

    def _written(self, text: str, language: str, of: Engine) -> str:
        """The text with its endings put right, as people write it, perhaps beside a clause that says nothing."""
        if self._chance.random() < LED:
            text = led(text, language, of, self._chance)
        elif self._chance.random() < FRAMED:
            text = frame(text, "question" if text.endswith("?") else "text", language, self._chance)
        for pattern, replacement in _templates()["agreement"].get(language, ()):
            text = re.sub(pattern, replacement, text)
        if self._chance.random() < 0.9:
            text = text[0].upper() + text[1:]
        return write_carelessly(text, self._chance) if self._chance.random() < 0.3 else text


def led(text: str, language: str, of: Engine, chance: random.Random) -> str:
    """The question beside a clause that says nothing, with words that the vocabulary does not know."""
    lead = choose_alternatives(chance.choice(_templates()["lead"][language]), chance)
    while "{w}" in lead:
        lead = lead.replace("{w}", _word(of, chance) if language == "en" else _foreign(of, language, chance), 1)
    is_name = text[1:2].isupper() or any(text.startswith(name) for name in _names(of))
    inner = text if is_name or lead.startswith("{}") else text[0].lower() + text[1:]
    return lead.replace("{}", inner).replace("?,", ",").replace(" ?.", " ?").replace("?.", "?")


@cache
def _names(of: Engine) -> tuple[str, ...]:
    return tuple(name.text for name in of.dataset.names() if name.text[:1].isupper())


def _word(of: Engine, chance: random.Random, *, is_new: bool = False) -> str:
    """A word that the vocabulary does not know: an ordinary one, or one that no language has."""
    while True:
        word = _new_word(chance) if is_new else chance.choice(_ordinary())
        if _is_unknown(word, of):
            return word


def _foreign(of: Engine, language: str, chance: random.Random) -> str:
    while True:
        word = chance.choice(_templates()["ordinary"][language])
        if _is_unknown(word, of):
            return str(word)


@cache
def _ordinary() -> tuple[str, ...]:
    return tuple(word for word in text_vectors().whole_words[300:6000] if word.isalpha() and 4 <= len(word) <= 10)


def _new_word(chance: random.Random) -> str:
    start = "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(chance.randint(1, 2)))
    return start + chance.choice(("rbly", "ndish", "lp", "xal", "mpous", "rk", "nken", "ggy", "thic", "vvent"))


def _is_unknown(word: str, of: Engine) -> bool:
    return all(
        [meaning.role for meaning in item.meanings] == ["unknown"]
        for language in LANGUAGES
        for item in of.linker.link(word, language=language).items
    )


def _check(drawn: Mapping[str, Drawn]) -> None:
    """Whether choices of one rule are different. Raises Unsaid."""
    for name, choice in drawn.items():
        first = drawn.get(_SECOND.sub("", name))
        if first is not None and first is not choice and first.means == choice.means:
            raise Unsaid(name)


def _form(drawn: Drawn, form: str) -> str:
    """The text in a form: one that a language does not tell apart is the plural. Raises Unsaid."""
    if form in ("past", "did", "that") and form not in drawn.text:
        raise Unsaid(form)
    return drawn.text.get(form, drawn.text[""])


class _Grammar:
    """The rules of a vocabulary: its own words, and the templates for conditions and rows that they are put into."""

    def __init__(self, name: str, said: Vocabulary) -> None:
        self.rules: dict[str, list[Rule]] = {}
        self._countries = countries(name)
        for kind, of in said.kinds.items():
            self._kind(kind, of)
        for relation, related in said.relations.items():
            for role in ("sources", "targets"):
                texts = getattr(related, role)
                words = {language: [_noun(text, language) for text in texts[language]] for language in texts}
                self._add(f"{role}:{relation}", Rule(relation, words))
            self._add(f"verb:{relation}", Rule(relation, _verbs({each: texts_of(related, each) for each in LANGUAGES})))
            self._add(f"inverse:{relation}", Rule(relation, _verbs(related.inverse)))
            self._add(f"transitive:{relation}", Rule(relation, _plain(related.transitive)))
            for attribute, each in related.link.items():
                self._values(relation, attribute, each, f"link:{relation}")
        for operation, called in said.operations.items():
            a, b = f"{{name:{called.kind}}}", f"{{name2:{called.kind}}}"
            texts = {
                language: [text.replace("{a}", a).replace("{b}", b) for text in texts_of(called, language)]
                for language in LANGUAGES
            }
            sides = [
                {"kind": called.kind, "where": f"$name{'' if number == 0 else '2'}:{called.kind}"}
                for number in range(called.rows[0])
            ]
            self._add("call", Rule({"type": "call", "operation": operation, "rows": sides}, _plain(texts)))
        for unavailable in said.unavailable.values():
            self._add("subject", Rule("", _plain(unavailable)))
        self._numbers()
        for entry in _templates()["phrase"]:
            for names in _bindings(said, entry["over"]):
                self._template(entry, names)

    def _add(self, name: str, rule: Rule) -> None:
        if any(rule.words.values()):
            self.rules.setdefault(name, []).append(rule)

    def _numbers(self) -> None:
        """Small numbers, places in an order, and places in a list."""
        for number in range(2, 6):
            words = {each: [{"": str(number)}, {"": NUMBERS[each].split()[number - 1]}] for each in LANGUAGES}
            self._add("few", Rule(number, words))
        for name, ordinals in _templates()["ordinals"].items():
            for language, texts in ordinals.items():
                for skip, text in enumerate(texts, start=name == "rank"):
                    self._add(name, Rule(skip, _plain({language: text.split("|")})))

    def _template(self, entry: Mapping[str, Any], names: Mapping[str, str]) -> None:
        name = entry["name"]
        words = {}
        for language in LANGUAGES:
            texts = entry.get(language) or entry.get("any", ())
            forms = [dict(zip(("", "one", "dat"), text.split("/"), strict=False)) for text in texts]
            forms = [{"one": each[""], **each} for each in forms]
            if name.endswith(("rows", "some")):
                forms = [_as_rows(each, language) for each in forms]
            words[language] = [{form: _slots(text, names) for form, text in each.items()} for each in forms]
        self._add(names.get(name, name), Rule(_named(entry["means"], names), words, entry.get("share", 1)))

    def _kind(self, kind: str, said: SaidKind) -> None:
        nouns = {language: [_noun(text, language) for text in texts_of(said, language)] for language in LANGUAGES}
        self._add(f"kind:{kind}", Rule(kind, nouns))
        person = "who" if said.person else "that"
        who = {
            "en": [{"": person}, {"": person}, {"": "that"}],
            **{
                language: [
                    {"": f"{comma}{which}", "one": f"{comma}{noun['rel_word']}"}
                    for noun in nouns[language][:1]
                    for comma in (("", ", ") if language == "de" else ("",))
                ]
                for language, which in (("de", "die"), ("es", "que"), ("fr", "qui"))
            },
        }
        self._add(f"who:{kind}", Rule(kind, who))
        for slot, texts in _templates()["people" if said.person else "things"].items():
            self._add(f"{slot}:{kind}", Rule(kind, _plain(texts)))
        for name in said.names:
            texts = [name, name.rpartition(" ")[2]] if said.person and " " in name else [name]
            words = [{"": f"{_NAME}{text}{_NAME}"} for text in texts]
            self._add(f"name:{kind}", Rule(_test("id", name, name), dict.fromkeys(LANGUAGES, words)))
            self._add(f"name_id:{kind}", Rule(name, dict.fromkeys(LANGUAGES, words)))
        for attribute, each in said.attributes.items():
            nouns = {language: [_noun(text, language) for text in texts_of(each, language)] for language in LANGUAGES}
            self._add(f"noun:{kind}@{attribute}", Rule(attribute, nouns))
            if each.type in ("keyword", "place"):
                self._add(f"group_of:{kind}", Rule(attribute, nouns))
            self._add(
                f"how:{kind}@{attribute}", Rule(attribute, _plain(_replaced(each.how, "{name}", f"{{name:{kind}}}")))
            )
            for role, texts, is_most in (("most", each.most, True), ("least", each.least, False)):
                self._add(f"{role}:{kind}@{attribute}", Rule({"by": attribute, "descending": is_most}, _plain(texts)))
                comparatives = {"en": [more for text in texts.get("en", ()) if (more := _comparative(text))]}
                self._add(f"{'more' if is_most else 'less'}:{kind}@{attribute}", Rule(attribute, _plain(comparatives)))
                if texts:
                    order = {"by": attribute, "descending": is_most}
                    self._add(f"extreme:{kind}", Rule(order, _plain(dict.fromkeys(LANGUAGES, ("",)))))
            self._values(kind, attribute, each, "")

    def _values(self, kind: str, attribute: str, said: SaidAttribute, link: str) -> None:
        """What is said of an attribute's values: after a noun or "are" (post), in a verb (do), before a noun (adj)."""
        of = f"{kind}@{attribute}"
        if said.type in ("number", "money"):
            for amount in said.at:
                self._add(f"n:{of}", Rule(amount, _amounts(amount, said)))
            for role, texts in (("post", said.phrase), ("do", said.do)):
                self._add(f"{role}:{of}", Rule(f"$amount:{of}", _pairs(_replaced(texts, "{n}", f"{{amount:{of}}}"))))
            return
        if said.type == "time" or said.time:
            for year in said.years:
                for means, words in _years(attribute, year):
                    self._add(link or f"t:{of}", Rule(means.get("of", [means]) if link else means, words))
            self._add(f"do:{of}", Rule(f"$t:{of}", _pairs(_replaced(said.do, "{t}", f"{{t:{of}}}"))))
            return
        if said.type == "place":
            self._places(of, attribute)
            return
        values = said.values or ["true"]
        for value in values:
            texts = said.values[value] if isinstance(said.values, dict) else dict.fromkeys(LANGUAGES, (value,))
            means = _test(attribute, True if said.type == "flag" else value, value)
            for role, patterns in ((link or f"post:{of}", said.phrase), (f"do:{of}", said.do), (f"adj:{of}", said.adj)):
                filled = {
                    language: [
                        pattern.replace("{v}", text)
                        for pattern in patterns[language]
                        for text in texts.get(language, ["true"] if "{v}" not in pattern else [])
                    ]
                    for language in patterns
                }
                self._add(role, Rule([means] if role == link else means, _pairs(filled)))
            self._add(f"value:{of}", Rule(means, _plain(texts) if said.type != "flag" else {}))

    def _places(self, of: str, attribute: str) -> None:
        for country in self._countries:
            means = _test(attribute, country.gold, country.gold)
            forms = {language: country.forms(language) for language in LANGUAGES}
            self._add(
                f"post:{of}", Rule(means, {each: [{"": text} for text in forms[each]["from"]] for each in LANGUAGES})
            )
            self._add(f"adj:{of}", Rule(means, {"en": [{"": text} for text in forms["en"]["adj"]]}))
            names = {each: [{"": text} for text in forms[each][""]] for each in ("en", "de", "es")}
            self._add(f"value:{of}", Rule(means, names))


def _test(attribute: str, value: Any, words: Any) -> dict[str, Any]:
    return {"type": "test", "attribute": attribute, "comparison": "is", "values": [value], "words": str(words)}


def _plain(texts: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, str]]]:
    return {language: [{"": text} for text in said] for language, said in texts.items()}


def _pairs(texts: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, str]]]:
    """Texts "plural/singular" by form."""
    return {
        language: [dict(zip(("", "one"), text.split("/"), strict=False)) for text in said]
        for language, said in texts.items()
    }


def _replaced(texts: Mapping[str, Sequence[str]], slot: str, by: str) -> dict[str, list[str]]:
    return {language: [text.replace(slot, by) for text in said] for language, said in texts.items()}


def _comparative(superlative: str) -> str:
    """The English comparative: "heavier", "more valuable"; empty where it is not regular."""
    first, _, rest = superlative.partition(" ")
    if rest:
        return {"most": f"more {rest}", "least": f"less {rest}"}.get(first, "")
    return f"{first.removesuffix('est')}er" if first.endswith("est") else ""


def _noun(text: str, language: str) -> dict[str, str]:
    """A noun in its forms, with the words for "which" and "how many" that agree with it."""
    forms, gender = parts_of(text)
    words = _ENGLISH if language == "en" else _ARTICLES[language].get(gender, _ARTICLES[language]["m"])
    named = {"one": forms[0], **dict(zip(("", "one", "dat"), forms, strict=False))}
    asking = {form: f"{word} {named['one' if form == 'w' else '']}" for form, word in words.items() if form != "rel"}
    return {**named, **asking, **{f"{form}_word": word for form, word in words.items()}}


def _verbs(texts: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, str]]]:
    """Verbs in their forms; in Spanish and French with what stands before the subject where the object comes first."""
    words: dict[str, list[dict[str, str]]] = {}
    for language, said in texts.items():
        every = [dict(zip(("", "one", "past", "did"), parts_of(text)[0], strict=False)) for text in said]
        words[language] = [{form: text for form, text in forms.items() if text} for forms in every]
        for forms in words[language]:
            if "past" in forms:
                forms.setdefault("did", forms["past"])
        for forms in words[language] if language in ("es", "fr") else ():
            verb, _, preposition = forms["one"].rpartition(" ")
            if language == "es" and preposition in ("a", "en"):
                forms.update({"that": f"{preposition} los que", "bare": verb})
            elif not verb:
                forms.update({"that": "que", "bare": preposition})
    return words


def _as_rows(forms: Mapping[str, str], language: str) -> dict[str, str]:
    """Rows in their forms, with what asks for them before the noun: "which", "how many", "the"."""
    noun = next(slot for text in forms.values() for _, slot, _ in _SLOT.findall(text) if slot.split("_")[-1] in _NOUNS)
    marked = {form: _marked(text, noun, language) for form, text in forms.items()}
    plural, one = marked[""], marked.get("one", marked[""])
    asking = {form: f"{{{noun}.{form}_word}} {one if form == 'w' else plural}" for form in _QUESTIONED}
    if language == "de":
        asking["q"] = f"wie viele {plural}"
    return {**marked, **asking}


def _marked(text: str, noun: str, language: str) -> str:
    """The text with a mark where an unknown word may stand beside the noun."""
    pattern = re.compile(rf"((?:\{{adj\}} )?\{{~?{noun}(?:\.\w+)?\}})")
    return pattern.sub(f"{_STRANGE}\\1" if language in ("en", "de") else f"\\1{_STRANGE}", text, count=1)


def _amounts(amount: float, said: SaidAttribute) -> dict[str, list[dict[str, str]]]:
    """An amount with its unit: whole, the number alone ("bare") and the unit alone ("unit")."""
    words: dict[str, list[dict[str, str]]] = {}
    for language in LANGUAGES:
        unit = said.unit.get(language, "")
        numbers = [f"{amount:g}"]
        if amount >= 10_000:
            numbers = [f"{amount:,.0f}"] if language == "en" else [f"{amount:.0f}"]
        if 2 <= amount <= 12:
            numbers.append(NUMBERS[language].split()[int(amount) - 1])
        words[language] = [{"": f"{number} {unit}".strip(), "bare": number, "unit": unit} for number in numbers]
        if language == "en":
            words[language] += [
                {"": f"{amount / factor:g} {other}", "bare": f"{amount / factor:g}", "unit": other}
                for other, factor in said.units.items()
                if other.isascii()
                and other.endswith("s")
                and other[0].islower()
                and factor > 1
                and amount % factor == 0
                and amount > factor
            ]
    return words


def _years(attribute: str, year: int) -> Iterator[tuple[Any, dict[str, list[dict[str, str]]]]]:
    """The times that a year is said with."""
    first, end = (datetime(each, 1, 1, tzinfo=UTC).isoformat() for each in (year, year + 1))
    since = {"type": "test", "attribute": attribute, "comparison": "at_least", "values": [first], "words": str(year)}
    until = {"type": "test", "attribute": attribute, "comparison": "below", "values": [end], "words": str(year)}
    said = _templates()["years"]
    for name, means in (
        ("in", {"type": "all", "of": [since, until]}),
        ("since", since),
        ("before", {**until, "values": [first]}),
        ("after", {**since, "values": [end]}),
    ):
        yield means, _plain(_replaced(said[name], "{y}", str(year)))


# What templates are about.


def _bindings(said: Vocabulary, over: str) -> list[dict[str, str]]:
    """For everything in a vocabulary that a template is about, the rules that its slots stand for.

    `over` is "all", "kind", "relation" between two kinds, "within" one kind, "any relation", or types of attributes.
    """
    if over == "all":
        return [{}]
    if over == "kind":
        return [_of_kind(kind) for kind in said.kinds]
    if over in ("relation", "within", "any relation"):
        return [
            {
                "%R": name,
                "%S": relation.ends[0],
                "%T": relation.ends[1],
                **{f"s_{each}": of for each, of in _of_kind(relation.ends[0]).items()},
                **{f"t_{each}": of for each, of in _of_kind(relation.ends[1]).items()},
                **{each: f"{each}:{name}" for each in ("verb", "inverse", "sources", "targets", "transitive", "link")},
            }
            for name, relation in said.relations.items()
            if over == "any relation" or (relation.ends[0] == relation.ends[1]) == (over == "within")
        ]
    return [
        {
            **_of_kind(kind),
            "%A": name,
            **{
                each: f"{each}:{kind}@{name}"
                for each in (
                    "noun",
                    "how",
                    "most",
                    "more",
                    "less",
                    "least",
                    "n",
                    "n2",
                    "t",
                    "post",
                    "do",
                    "adj",
                    "value",
                    "value2",
                    "post2",
                )
            },
            "amount": f"amount:{kind}@{name}",
        }
        for kind, of in said.kinds.items()
        for name, attribute in of.attributes.items()
        if attribute.type in over.split()
    ]


def _of_kind(kind: str) -> dict[str, str]:
    slots = (
        "kind",
        "who",
        *_templates()["people"],
        "name",
        "name2",
        "tested",
        "short",
        "short2",
        "pre",
        "linked",
        "to",
        "rows",
        "some",
        "name_id",
        "group_of",
        "extreme",
    )
    return {"%K": kind, **{slot: f"{slot}:{kind}" for slot in slots}}


def _slots(text: str, names: Mapping[str, str]) -> str:
    def renamed(slot: re.Match[str]) -> str:
        return f"{{{slot[1]}{names.get(slot[2], slot[2])}{f'.{slot[3]}' if slot[3] else ''}}}"

    return re.compile(r"\{(~?)(\w+)(?:\.(\w+))?\}").sub(renamed, text)


def _named(means: Any, names: Mapping[str, str]) -> Any:
    """What a template means, of what it is bound to."""
    if isinstance(means, str):
        if means.startswith("$"):
            return f"${names.get(means[1:], means[1:])}"
        return re.sub(r"%[A-Z]", lambda name: names[name[0]], means)
    if isinstance(means, list):
        return [_named(each, names) for each in means]
    if isinstance(means, dict):
        return {each: _named(value, names) for each, value in means.items()}
    return means


# Whether what was drawn says something.


def _tidied(part: Any) -> Any:
    """A query as the engine writes it: nothing denied twice, and alternatives of one attribute as one test."""
    if isinstance(part, tuple):
        return tuple(map(_tidied, part))
    if not isinstance(part, msgspec.Struct):
        return part
    part = msgspec.structs.replace(part, **{name: _tidied(getattr(part, name)) for name in part.__struct_fields__})
    if isinstance(part, Not):
        return negated(part.of)
    if isinstance(part, AllOf) and part.of:
        return all_of([each for each in part.of if each != AllOf()])
    if isinstance(part, AnyOf):
        joined: Condition = part.of[0]
        for each in part.of[1:]:
            joined = any_of(joined, each)
        return joined
    return part


def _makes_sense(query: Query | Refusal, several: set[str]) -> bool:
    """Whether no condition repeats or contradicts another."""
    if isinstance(query, Refusal):
        return True
    every = rows_in(query)
    asked = {
        getattr(query, "by", None),
        getattr(query, "attribute", None),
        getattr(getattr(query, "measure", None), "attribute", None),
    }
    asked |= {rows.order.by for rows in every if rows.order is not None}
    if any(
        isinstance(part, Test) and part.attribute in asked and part.comparison == "is"
        for rows in every
        for part in rows.parts
    ):
        return False
    sides = [key(rows) for rows in every]
    names = [list(_named_rows(rows.where)) for rows in every]
    if any(len(set(each)) < len(each) for each in names):
        return False
    return len(set(map(str, sides))) == len(sides) and all(_is_sound(rows.where, several) for rows in every)


def _named_rows(condition: Condition) -> Iterator[Any]:
    if isinstance(condition, Test):
        yield from condition.values if condition.attribute == "id" else ()
    elif isinstance(condition, AllOf | AnyOf):
        for each in condition.of:
            yield from _named_rows(each)
    elif isinstance(condition, Related):
        yield from _named_rows(condition.to)
    elif isinstance(condition, Not):
        yield from _named_rows(condition.of)


def _is_sound(condition: Condition, several: set[str]) -> bool:
    if isinstance(condition, Among):
        return _is_sound(condition.rows.where, several)
    if isinstance(condition, Related):
        return _is_sound(condition.to, several)
    if isinstance(condition, Not):
        return _is_sound(condition.of, several)
    if isinstance(condition, Test):
        return len(set(condition.values)) == len(condition.values)
    if not all(_is_sound(each, several) for each in condition.of):
        return False
    return all(_are_two(*pair, several, is_any=isinstance(condition, AnyOf)) for pair in combinations(condition.of, 2))


def _are_two(first: Condition, second: Condition, several: set[str], *, is_any: bool) -> bool:
    """Whether two conditions that stand side by side each say something of their own."""
    if key(first) == key(second) or key(negated(first)) == key(second):
        return False
    if is_any:
        return True
    tests = [each.of if isinstance(each, Not) else each for each in (first, second)]
    if not all(isinstance(each, Test) for each in tests):
        return True
    one, other = tests
    if one.attribute != other.attribute:
        return True
    is_denied = [isinstance(each, Not) for each in (first, second)]
    if one.comparison == "at_least" and other.comparison in ("at_most", "below"):
        return one.values < other.values
    return one.attribute in several or all(is_denied)


def _has_plan(text: str, before: Query | None, right: Query | Refusal, of: Engine) -> bool:
    """Whether the words of a text can make its query."""
    linker = of.linker
    corrections = next(linker.spellings(text), (0.0, ()))[1]
    linked = with_years(linker.link(text, of.dataset.now, of.dataset.hours, corrections=corrections), linker)
    try:
        tokens = encode(right, parser_input(linked, linker, before, is_named=False).leaves, before)
        return key(Realiser(tokens, before).query()) == key(right)
    except NoPlan:
        return False
