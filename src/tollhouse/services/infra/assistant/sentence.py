"""A message as tokens: the companies, categories, countries and products it names, and the concepts of its words."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from string import ascii_lowercase
from typing import Any

from msgspec import Struct

from tollhouse.services.infra.company import Kind
from tollhouse.services.infra.company_search import nearest, stem
from tollhouse.services.infra.countries import Country, countries, normalize
from tollhouse.services.infra.supply_graph import SupplyGraph

# Only words of some length are corrected, and only to words that steer the answer.
_CORRECTED_FROM = 5
# A word that changes nothing would be left out of the question, and with it a name that is nearly so spelt.
_IGNORED_FROM = 8
_STEERING = ("supplier", "customer", "supply", "depend", "compare", "chokepoint", "compete", "invest", "company")

LONGEST_NAME_WORDS = 6
COMPANY, CATEGORY, COUNTRY, PRODUCT, NUMBER, WORD, UNKNOWN, FOREIGN = "C", "K", "N", "P", "#", "w", "?", "!"

_RAW = re.compile(r"[^\W_]+(?:[.\-&'\u2019/][^\W_]+)*")
_BREAKS = re.compile(r"[\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
# Tickers and codes that are also words: they mean a company or a country only in capitals.
_IN_CAPITALS = frozenset(
    {"be", "lite", "us", "it", "no", "in", "is", "my", "me", "so", "to", "at", "am", "do", "as", "and", "are", "can",
     "all", "by", "de", "la", "id", "sh", "pm", "hm", "per"}
)  # fmt: skip

# The idea next to a supply verb that says which kind of supply is meant; the first that is there decides.
_KINDS: dict[str, Kind] = {
    "manufacture": "manufactures_for",
    "package": "packages_tests_for",
    "build": "builds_systems_for",
    "power": "supplies_power_to",
    "lease": "leases_capacity_to",
    "compute": "provides_compute_to",
    "license": "licenses_ip",
}
_CATEGORY_IDEAS = {"energy": "power", "packaging_test": "package", "neocloud": "compute", "hyperscale_cloud": "compute"}
_SUPPLY = r"(?:supply|make|manufacture|build|package|power|lease|license)"
_LINK_KINDS = frozenset({CATEGORY, COUNTRY, PRODUCT, NUMBER})
_PRONOUNS = frozenset({"it", "first", "second", "third"})


@lru_cache(maxsize=8192)
def concept(word: str) -> str | None:
    """The idea a word stands for, an empty text for one that changes nothing, None for one that is not understood."""
    return next((_meanings()[form] for form in _forms(word) if form in _meanings()), None)


@lru_cache(maxsize=8192)
def correct_concept(word: str) -> str | None:
    """The idea a misspelt word must stand for."""
    if len(word) < _CORRECTED_FROM or is_ordinary(word):
        return None
    slip = nearest(word, _steering())
    return None if slip is None else _meanings()[slip]


@lru_cache(maxsize=8192)
def correct_spelling(word: str) -> str | None:
    """The word of the language that a misspelt one must be: two neighbours swapped, or a letter too many or too few.

    None where several of different meaning are as near, and for what may be a word or a name that is not known here.
    """
    if is_ordinary(word) or number_word(word) is not None:
        return None
    for slips in (_unswapped(word), _without_one(word), _with_one_more(word)):
        found = [slip for slip in slips if slip in _meanings()]
        if found:
            is_plain = len({_meanings()[slip] for slip in found}) == 1
            return found[0] if is_plain else None
    return None


def is_ordinary(word: str) -> bool:
    """Whether it is a word of the language, which no company's name may swallow."""
    return concept(word) is not None or is_out_of_scope(word) or word in _word_set("ordinary")


def number_word(word: str) -> int | None:
    """The number a word counts."""
    number: int | None = _read()["numbers"].get(word)
    return number


def is_out_of_scope(word: str) -> bool:
    """Whether it asks for something that the catalogue does not hold."""
    return word in _word_set("foreign")


def _unswapped(word: str) -> Iterator[str]:
    for place in range(len(word) - 1):
        yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _without_one(word: str) -> Iterator[str]:
    """The first letter is hardly ever wrong; and a short word, or one that changes nothing, may as well be a name."""
    for place in range(1, len(word)):
        slip = word[:place] + word[place + 1 :]
        is_doubled = word[place] == word[place - 1]
        if len(slip) >= _shortest(slip) - is_doubled:
            yield slip


def _with_one_more(word: str) -> Iterator[str]:
    for place in range(1, len(word) + 1):
        for letter in ascii_lowercase:
            slip = word[:place] + letter + word[place:]
            if len(slip) >= _shortest(slip):
                yield slip


def _shortest(slip: str) -> int:
    return _CORRECTED_FROM if _meanings().get(slip) else _IGNORED_FROM


def _forms(word: str) -> Iterator[str]:
    """The word, and the words it may be a form of."""
    yield from (word, stem(word))
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            base = word[: -len(ending)]
            yield from (base, f"{base}e", f"{base}s", f"{base}es")


@cache
def _meanings() -> dict[str, str]:
    table = _read()
    found = dict.fromkeys(table["ignored"]["words"], "")
    # The other way round: a form that stands in two lists means the first.
    for meaning, forms in reversed(table["meaning"].items()):
        found |= dict.fromkeys(forms, meaning)
    return found


@cache
def _steering() -> tuple[str, ...]:
    return tuple(word for word, meaning in _meanings().items() if meaning in _STEERING and len(word) >= _CORRECTED_FROM)


@cache
def _word_set(name: str) -> frozenset[str]:
    return frozenset(_read()[name]["words"])


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads(files("tollhouse.services.infra").joinpath("data", "assistant_words.toml").read_text("utf-8"))


class Token(Struct, frozen=True):
    """One link or word. `value` is an id, a code, a number, or what the word means; `text` is as it was written."""

    kind: str
    value: str
    text: str

    @property
    def is_name(self) -> bool:
        """Whether it is written like a name."""
        return self.text[:1].isupper()


class EntityLinker:
    """Reads sentences against one chain."""

    def __init__(self, graph: SupplyGraph) -> None:
        self._graph = graph
        self._categories = {_stemmed(key): category.id for key, category in graph.names.categories.items()}
        self._whole_products, self._product_parts = _product_names(graph)
        named = (*graph.names.companies, *graph.names.categories, *_country_words(), *self._product_parts)
        self._name_words = frozenset(word for name in named for word in name.split())

    def read(self, message: str) -> list[Token]:
        """The sentence as links and words, in its order."""
        pieces = [self._respelt(key, raw, place) for place, (key, raw) in enumerate(_pieces(message))]
        tokens: list[Token] = []
        place = 0
        while place < len(pieces):
            token, length = self._longest(pieces, place)
            tokens.append(token)
            place += length
        return tokens

    def is_product(self, text: str) -> bool:
        """Whether some product or slot is called exactly this."""
        return _stemmed(normalize(text)) in self._whole_products

    def _respelt(self, key: str, raw: str, place: int) -> tuple[str, str]:
        """A word of the language as it should be spelt; what is or may be a name stays as it is."""
        if (place and raw[:1].isupper()) or key in self._name_words or self._graph.names.misspelt(key):
            return key, raw
        word = correct_spelling(key)
        return (word, word) if word else (key, raw)

    def _longest(self, pieces: list[tuple[str, str]], place: int) -> tuple[Token, int]:
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
        """A company, a country or a category of exactly this name."""
        if key in _IN_CAPITALS and not raw.isupper():
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
        return Token(PRODUCT, key, raw) if _stemmed(key) in self._product_parts and _tells(key) else None

    def _word(self, key: str, raw: str) -> Token:
        number = key if key.isdigit() else number_word(key)
        if number:
            return Token(NUMBER, str(number), raw)
        if is_out_of_scope(key):
            return Token(FOREIGN, key, raw)
        meaning = concept(key)
        if meaning is None:
            meaning = correct_concept(key)
        return Token(UNKNOWN, key, raw) if meaning is None else Token(WORD, meaning, raw)


def _pieces(message: str) -> Iterator[tuple[str, str]]:
    """Each word as names are compared, and as it was written."""
    for match in _RAW.finditer(message):
        raw = _POSSESSIVE.sub("", match[0])
        parts = normalize(raw).split()
        written = [part for part in _BREAKS.split(raw) if part]
        # "non-US" is two words; where accents change the count, each is written like the whole.
        yield from zip(parts, written if len(written) == len(parts) else [raw] * len(parts), strict=True)


def _tells(key: str) -> bool:
    """Whether some word of it is no word of every question."""
    return any(
        concept(word) is None and number_word(word) is None and not word.isdigit() and not is_out_of_scope(word)
        for word in key.split()
    )


def _product_names(graph: SupplyGraph) -> tuple[set[str], set[str]]:
    """The names of products and slots, and every run of words inside those and inside what edges are about."""
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
    found: dict[str, Country] = {}
    for country in countries().values():
        texts = (country.alpha2, country.alpha3, *country.aliases, *country.demonyms, country.name)
        found |= {normalize(text): country for text in texts}
    return found


class Sentence:
    """Links and words in their order.

    `line` is the sentence in ideas: C0, C1 … for companies, K, N and P for categories, countries and products, # for
    numbers, ? for the unknown.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.companies = self._values(COMPANY)
        self.countries = self._values(COUNTRY)
        self.unknown = [token for token in tokens if token.kind == UNKNOWN]
        self.line = " ".join(symbol for symbol in map(self._symbol, tokens) if symbol)

    @property
    def is_foreign(self) -> bool:
        """Whether it asks for what is not here. A stock has a symbol, and that much is known."""
        return bool(set(self._values(FOREIGN)) - ({"stock"} if self.has("ticker") else set()))

    @property
    def numbers(self) -> list[int]:
        """The numbers in it, as far as anyone may ask for so many."""
        return [int(number) for number in self._values(NUMBER) if len(number) < 4]

    def ideas(self) -> set[str]:
        """The ideas that its words stand for."""
        return {token.value for token in self.tokens if token.kind == WORD and token.value}

    def has(self, *ideas: str) -> bool:
        """Whether any of these ideas is in the sentence."""
        return not self.ideas().isdisjoint(ideas)

    def says(self, pattern: str) -> bool:
        """Whether the ideas follow one another like that; V stands for any verb of supplying."""
        return re.search(rf"(?:^| ){pattern.replace('V', _SUPPLY)}(?: |$)", self.line) is not None

    def holds_word(self, words: frozenset[str]) -> bool:
        """Whether one of these very words is in it."""
        return any(token.text.casefold() in words for token in self.tokens)

    def category(self) -> str | None:
        """The first category named."""
        return next(iter(self._values(CATEGORY)), None)

    def kinds(self) -> tuple[Kind, ...]:
        """The kind of supply that the words speak of; empty for any."""
        ideas = self.ideas() | {_CATEGORY_IDEAS.get(category, "") for category in self._values(CATEGORY)}
        if "make" in ideas and self.companies and self.holds_word(frozenset({"chip", "chips", "wafers"})):
            return ("manufactures_for",)
        return next(((kind,) for idea, kind in _KINDS.items() if idea in ideas), ())

    def product(self, *, with_categories: bool) -> str | None:
        """The product that is spoken of; a category's word can stand for one ("HBM")."""
        wanted = {PRODUCT, CATEGORY} if with_categories else {PRODUCT}
        return next((normalize(token.text) for token in self.tokens if token.kind in wanted), None)

    def with_topic_put_in(self) -> "Sentence":
        """Its only company put where the pronoun stands: "Micron: who buys its memory?"."""
        topic = next(token for token in self.tokens if token.kind == COMPANY)
        return Sentence([token for token in self.tokens if token.kind != COMPANY]).with_company(topic)

    def with_company(self, company: Token) -> "Sentence":
        """A company put where the pronoun stands, or else at the end."""
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
        return {WORD: token.value, FOREIGN: ""}.get(token.kind, "?")
