"""Which companies, categories and countries a sentence names, and what its other words mean."""

import re
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from tollhouse.services.infra.assistant.lexicon import (
    corrected,
    is_foreign,
    is_ordinary,
    meaning_of,
    number_of,
    respelt,
)
from tollhouse.services.infra.countries import Country, countries, plain
from tollhouse.services.infra.search import stem
from tollhouse.services.infra.supply_graph import Chain

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


class Token(Struct, frozen=True):
    """One link or word. `value` is an id, a code, a number, or what the word means; `text` is as it was written."""

    kind: str
    value: str
    text: str

    @property
    def is_name(self) -> bool:
        """Whether it is written like a name."""
        return self.text[:1].isupper()


class Linker:
    """Reads sentences against one chain."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._categories = {_stemmed(key): category.id for key, category in chain.names.categories.items()}
        self._whole_products, self._product_parts = _product_names(chain)
        named = (*chain.names.companies, *chain.names.categories, *_country_words(), *self._product_parts)
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
        return _stemmed(plain(text)) in self._whole_products

    def _respelt(self, key: str, raw: str, place: int) -> tuple[str, str]:
        """A word of the language as it should be spelt; what is or may be a name stays as it is."""
        if (place and raw[:1].isupper()) or key in self._name_words or self._chain.names.misspelt(key):
            return key, raw
        word = respelt(key)
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
                company = self._chain.names.misspelt("".join(key for key, _ in part))
                if company and not (length == 1 and corrected(part[0][0])):
                    return Token(COMPANY, company.id, raw), length
        return self._word(*pieces[place]), 1

    def _named(self, key: str, raw: str) -> Token | None:
        """A company, a country or a category of exactly this name."""
        if key in _IN_CAPITALS and not raw.isupper():
            return None
        company = self._chain.names.companies.get(key)
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
        number = key if key.isdigit() else number_of(key)
        if number:
            return Token(NUMBER, str(number), raw)
        if is_foreign(key):
            return Token(FOREIGN, key, raw)
        meaning = meaning_of(key)
        if meaning is None:
            meaning = corrected(key)
        return Token(UNKNOWN, key, raw) if meaning is None else Token(WORD, meaning, raw)


def _pieces(message: str) -> Iterator[tuple[str, str]]:
    """Each word as names are compared, and as it was written."""
    for match in _RAW.finditer(message):
        raw = _POSSESSIVE.sub("", match[0])
        parts = plain(raw).split()
        written = [part for part in _BREAKS.split(raw) if part]
        # "non-US" is two words; where accents change the count, each is written like the whole.
        yield from zip(parts, written if len(written) == len(parts) else [raw] * len(parts), strict=True)


def _tells(key: str) -> bool:
    """Whether some word of it is no word of every question."""
    return any(
        meaning_of(word) is None and number_of(word) is None and not word.isdigit() and not is_foreign(word)
        for word in key.split()
    )


def _product_names(chain: Chain) -> tuple[set[str], set[str]]:
    """The names of products and slots, and every run of words inside those and inside what edges are about."""
    whole = [text for company in chain.companies for text in company.products]
    whole += [slot for edge in chain.edges for slot in edge.slots]
    parts: set[str] = set()
    for text in [*whole, *(edge.product for edge in chain.edges if edge.product)]:
        words = _stemmed(plain(text)).split()
        parts |= {" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, min(i + 4, len(words)) + 1)}
    return {_stemmed(plain(text)) for text in whole}, parts


def _stemmed(key: str) -> str:
    return " ".join(map(stem, key.split()))


@cache
def _country_words() -> dict[str, Country]:
    found: dict[str, Country] = {}
    for country in countries().values():
        texts = (country.alpha2, country.alpha3, *country.aliases, *country.demonyms, country.name)
        found |= {plain(text): country for text in texts}
    return found
