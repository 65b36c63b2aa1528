"""A message as tokens: the companies, categories, countries and products it names, and the concepts of its words."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from string import ascii_lowercase
from typing import Any

from msgspec import Struct

from tollhouse.questions.places import Country, countries, normalize
from tollhouse.services.infra.company import Kind
from tollhouse.services.infra.company_search import nearest, stem
from tollhouse.services.infra.supply_graph import SupplyGraph

# Only longer words are corrected, and only to words that change the meaning.
_CORRECTED_FROM = 5
# Corrections to ignored words need more letters: the word may be an unknown name.
_IGNORED_FROM = 8
_KEY_CONCEPTS = ("supplier", "customer", "supply", "depend", "compare", "chokepoint", "compete", "invest", "company")

LONGEST_NAME_WORDS = 6
COMPANY, CATEGORY, COUNTRY, PRODUCT, NUMBER, WORD, UNKNOWN, OUT_OF_SCOPE = "C", "K", "N", "P", "#", "w", "?", "!"

_RAW = re.compile(r"[^\W_]+(?:[.\-&'\u2019/][^\W_]+)*")
_BREAKS = re.compile(r"[\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
# Tickers and codes that are also words: they name a company or country only in capitals.
_AMBIGUOUS = frozenset(
    {"be", "lite", "us", "it", "no", "in", "is", "my", "me", "so", "to", "at", "am", "do", "as", "and", "are", "can",
     "all", "by", "de", "la", "id", "sh", "pm", "hm", "per"}
)  # fmt: skip

# The kind of supply by concept; the first match wins.
_KINDS: dict[str, Kind] = {
    "manufacture": "manufactures_for",
    "package": "packages_tests_for",
    "build": "builds_systems_for",
    "power": "supplies_power_to",
    "lease": "leases_capacity_to",
    "compute": "provides_compute_to",
    "license": "licenses_ip",
}
_CATEGORY_CONCEPTS = {
    "energy": "power",
    "packaging_test": "package",
    "neocloud": "compute",
    "hyperscale_cloud": "compute",
}
_SUPPLY = r"(?:supply|make|manufacture|build|package|power|lease|license)"
_LINK_KINDS = frozenset({CATEGORY, COUNTRY, PRODUCT, NUMBER})
_PRONOUNS = frozenset({"it", "first", "second", "third"})


@lru_cache(maxsize=8192)
def concept(word: str) -> str | None:
    """The concept of a word: "" for an ignored word, None for an unknown one."""
    return next((_concepts()[form] for form in _forms(word) if form in _concepts()), None)


@lru_cache(maxsize=8192)
def correct_concept(word: str) -> str | None:
    if len(word) < _CORRECTED_FROM or is_ordinary(word):
        return None
    match = nearest(word, _key_words())
    return None if match is None else _concepts()[match]


@lru_cache(maxsize=8192)
def correct_spelling(word: str) -> str | None:
    """The correction of a misspelt word: two letters swapped, or one letter too many or too few.

    None if there are corrections with different meanings, and if the word may be correct or a name.
    """
    if is_ordinary(word) or number_word(word) is not None:
        return None
    for candidates in (_swapped(word), _shortened(word), _extended(word)):
        known = [candidate for candidate in candidates if candidate in _concepts()]
        if known:
            return known[0] if len({_concepts()[word] for word in known}) == 1 else None
    return None


def is_ordinary(word: str) -> bool:
    """Whether it is a regular English word, never a misspelt company name."""
    return concept(word) is not None or is_out_of_scope(word) or word in _word_set("ordinary")


def number_word(word: str) -> int | None:
    """The number that a word such as "three" means."""
    number: int | None = _read()["numbers"].get(word)
    return number


def is_out_of_scope(word: str) -> bool:
    """Whether the word is about something that the catalogue does not have."""
    return word in _word_set("out_of_scope")


def _swapped(word: str) -> Iterator[str]:
    for place in range(len(word) - 1):
        yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _shortened(word: str) -> Iterator[str]:
    """The word with one letter removed, but not the first: that one is rarely wrong."""
    for place in range(1, len(word)):
        slip = word[:place] + word[place + 1 :]
        is_doubled = word[place] == word[place - 1]
        if len(slip) >= _shortest(slip) - is_doubled:
            yield slip


def _extended(word: str) -> Iterator[str]:
    for place in range(1, len(word) + 1):
        for letter in ascii_lowercase:
            slip = word[:place] + letter + word[place:]
            if len(slip) >= _shortest(slip):
                yield slip


def _shortest(slip: str) -> int:
    return _CORRECTED_FROM if _concepts().get(slip) else _IGNORED_FROM


def _forms(word: str) -> Iterator[str]:
    """The word and its possible base forms."""
    yield from (word, stem(word))
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            base = word[: -len(ending)]
            yield from (base, f"{base}e", f"{base}s", f"{base}es")


@cache
def _concepts() -> dict[str, str]:
    table = _read()
    concepts = dict.fromkeys(table["ignored"]["words"], "")
    # Reversed, so that the first list wins.
    for name, forms in reversed(table["concepts"].items()):
        concepts |= dict.fromkeys(forms, name)
    return concepts


@cache
def _key_words() -> tuple[str, ...]:
    return tuple(word for word, name in _concepts().items() if name in _KEY_CONCEPTS and len(word) >= _CORRECTED_FROM)


@cache
def _word_set(name: str) -> frozenset[str]:
    return frozenset(_read()[name]["words"])


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(files("tollhouse.services.infra").joinpath("data", "assistant_words.toml").read_text("utf-8"))


class Token(Struct, frozen=True):
    """A name or word. `value` is an id, a code, a number or a concept; `text` is the original text."""

    kind: str
    value: str
    text: str

    @property
    def is_name(self) -> bool:
        return self.text[:1].isupper()


class EntityLinker:
    """Tokenizes messages with the names of one graph."""

    def __init__(self, graph: SupplyGraph) -> None:
        self._graph = graph
        self._categories = {_stemmed(key): category.id for key, category in graph.names.categories.items()}
        self._products, self._product_parts = _product_names(graph)
        named = (*graph.names.companies, *graph.names.categories, *_country_words(), *self._product_parts)
        self._name_words = frozenset(word for name in named for word in name.split())

    def tokenize(self, message: str) -> list[Token]:
        pieces = [self._corrected(key, raw, place) for place, (key, raw) in enumerate(_pieces(message))]
        tokens: list[Token] = []
        place = 0
        while place < len(pieces):
            token, length = self._longest_match(pieces, place)
            tokens.append(token)
            place += length
        return tokens

    def is_product(self, text: str) -> bool:
        """Whether a product or slot has exactly this name."""
        return _stemmed(normalize(text)) in self._products

    def _corrected(self, key: str, raw: str, place: int) -> tuple[str, str]:
        """The word in its correct spelling, unless it is or may be a name."""
        if (place and raw[:1].isupper()) or key in self._name_words or self._graph.names.misspelt(key):
            return key, raw
        word = correct_spelling(key)
        return (word, word) if word else (key, raw)

    def _longest_match(self, pieces: list[tuple[str, str]], place: int) -> tuple[Token, int]:
        for length in range(min(LONGEST_NAME_WORDS, len(pieces) - place), 0, -1):
            part = pieces[place : place + length]
            token = self._named(" ".join(key for key, _ in part), " ".join(raw for _, raw in part))
            if token:
                return token, length
        for length in (2, 1):
            part = pieces[place : place + length]
            if len(part) == length and not any(is_ordinary(key) for key, _ in part):
                raw = " ".join(raw for _, raw in part)
                company = self._graph.names.misspelt("".join(key for key, _ in part))
                if company and not (length == 1 and correct_concept(part[0][0])):
                    return Token(COMPANY, company.id, raw), length
        return self._word(*pieces[place]), 1

    def _named(self, key: str, raw: str) -> Token | None:
        """The company, country, category or product with exactly this name."""
        if key in _AMBIGUOUS and not raw.isupper():
            return None
        company = self._graph.names.companies.get(key)
        if company:
            return Token(COMPANY, company.id, raw)
        country = _country_words().get(key)
        if country and (len(key) > 2 or raw.isupper()):
            return Token(COUNTRY, country.alpha2, raw)
        category = self._categories.get(_stemmed(key))
        if category:
            return Token(CATEGORY, category, raw)
        return Token(PRODUCT, key, raw) if _stemmed(key) in self._product_parts and _is_specific(key) else None

    def _word(self, key: str, raw: str) -> Token:
        number = key if key.isdigit() else number_word(key)
        if number:
            return Token(NUMBER, str(number), raw)
        if is_out_of_scope(key):
            return Token(OUT_OF_SCOPE, key, raw)
        name = concept(key)
        if name is None:
            name = correct_concept(key)
        return Token(UNKNOWN, key, raw) if name is None else Token(WORD, name, raw)


def _pieces(message: str) -> Iterator[tuple[str, str]]:
    """Each word in its normalized and its original form."""
    for match in _RAW.finditer(message):
        raw = _POSSESSIVE.sub("", match[0])
        parts = normalize(raw).split()
        written = [part for part in _BREAKS.split(raw) if part]
        # "non-US" is two words. If normalization changes the number of parts, each part keeps the whole original.
        yield from zip(parts, written if len(written) == len(parts) else [raw] * len(parts), strict=True)


def _is_specific(key: str) -> bool:
    """Whether at least one of its words is not a common question word."""
    return any(
        concept(word) is None and number_word(word) is None and not word.isdigit() and not is_out_of_scope(word)
        for word in key.split()
    )


def _product_names(graph: SupplyGraph) -> tuple[set[str], set[str]]:
    """The names of products and slots, and every sequence of up to four words in those and in products of edges."""
    whole = [text for company in graph.companies for text in company.products]
    whole += [slot for edge in graph.edges for slot in edge.slots]
    parts: set[str] = set()
    for text in [*whole, *(edge.product for edge in graph.edges if edge.product)]:
        words = _stemmed(normalize(text)).split()
        parts |= {" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, min(i + 4, len(words)) + 1)}
    return {_stemmed(normalize(text)) for text in whole}, parts


def _stemmed(key: str) -> str:
    return " ".join(map(stem, key.split()))


@cache
def _country_words() -> dict[str, Country]:
    return {
        normalize(text): country
        for country in countries().values()
        for text in (country.alpha2, country.alpha3, *country.aliases, *country.demonyms, country.name)
    }


class Sentence:
    """The tokens of a message.

    `line` is the sequence of concepts: C0, C1 … for companies, K, N and P for categories, countries and products, # for
    numbers, ? for unknown words. Rules are regular expressions over it.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.companies = self._values(COMPANY)
        self.countries = self._values(COUNTRY)
        self.unknown = [token for token in tokens if token.kind == UNKNOWN]
        self.line = " ".join(symbol for symbol in map(self._symbol, tokens) if symbol)

    @property
    def is_out_of_scope(self) -> bool:
        """Whether it asks about something that the catalogue does not have. Stock symbols are in the catalogue."""
        return bool(set(self._values(OUT_OF_SCOPE)) - ({"stock"} if self.has("ticker") else set()))

    @property
    def numbers(self) -> list[int]:
        """The numbers below 1,000."""
        return [int(number) for number in self._values(NUMBER) if len(number) < 4]

    def concepts(self) -> set[str]:
        return {token.value for token in self.tokens if token.kind == WORD and token.value}

    def has(self, *concepts: str) -> bool:
        return not self.concepts().isdisjoint(concepts)

    def matches(self, pattern: str) -> bool:
        """Whether the pattern occurs in `line`; V stands for any verb of supply."""
        return re.search(rf"(?:^| ){pattern.replace('V', _SUPPLY)}(?: |$)", self.line) is not None

    def has_word(self, words: frozenset[str]) -> bool:
        """Whether it has one of these words literally."""
        return any(token.text.casefold() in words for token in self.tokens)

    def category(self) -> str | None:
        return next(iter(self._values(CATEGORY)), None)

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of supply that the words name; empty for any."""
        concepts = self.concepts() | {_CATEGORY_CONCEPTS.get(category, "") for category in self._values(CATEGORY)}
        if "make" in concepts and self.companies and self.has_word(frozenset({"chip", "chips", "wafers"})):
            return ("manufactures_for",)
        return next(((kind,) for name, kind in _KINDS.items() if name in concepts), ())

    def product(self, *, with_categories: bool) -> str | None:
        """The first product; a category can also name one ("HBM")."""
        kinds = {PRODUCT, CATEGORY} if with_categories else {PRODUCT}
        return next((normalize(token.text) for token in self.tokens if token.kind in kinds), None)

    def with_topic_resolved(self) -> "Sentence":
        """With its only company in place of the pronoun: "Micron: who buys its memory?"."""
        topic = next(token for token in self.tokens if token.kind == COMPANY)
        return Sentence([token for token in self.tokens if token.kind != COMPANY]).with_company(topic)

    def with_company(self, company: Token) -> "Sentence":
        """With a company in place of the pronoun, or at the end."""
        tokens = list(self.tokens)
        place = next((i for i, token in enumerate(tokens) if token.value in _PRONOUNS), None)
        if place is None:
            return Sentence([*tokens, Token(WORD, "of", "of"), company])
        return Sentence([*tokens[:place], company, *tokens[place + 1 :]])

    def _values(self, kind: str) -> list[str]:
        return list(dict.fromkeys(token.value for token in self.tokens if token.kind == kind))

    def _symbol(self, token: Token) -> str:
        if token.kind == COMPANY:
            return f"C{self.companies.index(token.value)}"
        if token.kind in _LINK_KINDS:
            return token.kind
        return {WORD: token.value, OUT_OF_SCOPE: ""}.get(token.kind, "?")
