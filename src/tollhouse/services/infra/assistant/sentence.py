"""A sentence read for what was asked: its links, the ideas in it, and where they stand."""

import re
from collections.abc import Sequence

from tollhouse.services.infra.assistant import entity_linking
from tollhouse.services.infra.assistant.entity_linking import Token
from tollhouse.services.infra.company import Kind
from tollhouse.services.infra.countries import plain

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
_LINKS = frozenset({entity_linking.CATEGORY, entity_linking.COUNTRY, entity_linking.PRODUCT, entity_linking.NUMBER})
_PRONOUNS = frozenset({"it", "first", "second", "third"})


class Sentence:
    """Links and words in their order.

    `line` is the sentence in ideas: C0, C1 … for companies, K, N and P for categories, countries and products, # for
    numbers, ? for the unknown.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.companies = self._values(entity_linking.COMPANY)
        self.countries = self._values(entity_linking.COUNTRY)
        self.unknown = [token for token in tokens if token.kind == entity_linking.UNKNOWN]
        self.line = " ".join(symbol for symbol in map(self._symbol, tokens) if symbol)

    @property
    def is_foreign(self) -> bool:
        """Whether it asks for what is not here. A stock has a symbol, and that much is known."""
        return bool(set(self._values(entity_linking.FOREIGN)) - ({"stock"} if self.has("ticker") else set()))

    @property
    def numbers(self) -> list[int]:
        """The numbers in it, as far as anyone may ask for so many."""
        return [int(number) for number in self._values(entity_linking.NUMBER) if len(number) < 4]

    def ideas(self) -> set[str]:
        """The ideas that its words stand for."""
        return {token.value for token in self.tokens if token.kind == entity_linking.WORD and token.value}

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
        return next(iter(self._values(entity_linking.CATEGORY)), None)

    def kinds(self) -> tuple[Kind, ...]:
        """The kind of supply that the words speak of; empty for any."""
        ideas = self.ideas() | {_CATEGORY_IDEAS.get(category, "") for category in self._values(entity_linking.CATEGORY)}
        if "make" in ideas and self.companies and self.holds_word(frozenset({"chip", "chips", "wafers"})):
            return ("manufactures_for",)
        return next(((kind,) for idea, kind in _KINDS.items() if idea in ideas), ())

    def product(self, *, with_categories: bool) -> str | None:
        """The product that is spoken of; a category's word can stand for one ("HBM")."""
        wanted = {entity_linking.PRODUCT, entity_linking.CATEGORY} if with_categories else {entity_linking.PRODUCT}
        return next((plain(token.text) for token in self.tokens if token.kind in wanted), None)

    def with_topic_put_in(self) -> "Sentence":
        """Its only company put where the pronoun stands: "Micron: who buys its memory?"."""
        topic = next(token for token in self.tokens if token.kind == entity_linking.COMPANY)
        return Sentence([token for token in self.tokens if token.kind != entity_linking.COMPANY]).with_company(topic)

    def with_company(self, company: Token) -> "Sentence":
        """A company put where the pronoun stands, or else at the end."""
        tokens = list(self.tokens)
        place = next((i for i, token in enumerate(tokens) if token.value in _PRONOUNS), None)
        if place is None:
            return Sentence([*tokens, Token(entity_linking.WORD, "of", "of"), company])
        return Sentence([*tokens[:place], company, *tokens[place + 1 :]])

    def _values(self, kind: str) -> list[str]:
        return list(dict.fromkeys(token.value for token in self.tokens if token.kind == kind))

    def _symbol(self, token: Token) -> str:
        if token.kind == entity_linking.COMPANY:
            return f"C{self.companies.index(token.value)}"
        if token.kind in _LINKS:
            return token.kind
        return {entity_linking.WORD: token.value, entity_linking.FOREIGN: ""}.get(token.kind, "?")
