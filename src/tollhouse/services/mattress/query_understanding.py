"""Parses a shopper's search text into filters: "cheap firm queen mattress for hot side sleepers under 1500"."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

# A number followed by one of these is not a price.
_UNITS = (
    "cm|mm|kgs?|nights?|days?|weeks?|months?|years?|yrs?|zones?|springs?|coils?|layers?|stars?|inch(?:es)?|%|/ ?10"
    "|out of|people|persons?"
)
_NO_PRICE = rf"(?! ?(?:{_UNITS}))"
_TO = "(?:and|to|-|\u2013)"
_SIGN = r"(?:(?:aud|au\$|a\$|\$) ?)"
_AT_MOST_WORDS = (
    r"(?:under|below|less than|cheaper than|up to|upto|max(?:imum)?(?: of)?|(?:no|not) more than|at most|within"
    r"|(?:a |my )?budget(?: of| is|:)?|for less than|<=?)"
)

# "Around" means this share more or less.
_ROUGHLY = 0.15
_HIGHEST = 1_000_000.0

# Phrases and their values; the first match wins.
_SIZES = (
    ("super king", "Super King"),
    ("king single|single king", "King Single"),
    ("double|full size", "Double"),
    ("queen", "Queen"),
    ("king", "King"),
    ("single|twin", "Single"),
)
_MATERIALS = (
    ("memory foam|visco(?:elastic)?(?: foam)?", ("memory foam",)),
    ("hybrid", ("hybrid",)),
    ("latex|rubber", ("latex",)),
    ("pocket(?:ed)? (?:spring|coil)s?|pocket sprung", ("pocket spring",)),
    ("inner ?springs?|bonnell", ("innerspring",)),
    ("springs?|coils?", ("pocket spring", "innerspring")),
    ("foam", ("foam", "memory foam")),
)
_FIRMNESS = (
    (r"(?:not|\w+n't)(?: be)? (?:too |so |very )?(?:firm|hard)", (None, 6)),
    (r"(?:not|\w+n't)(?: be)? (?:too |so |very )?(?:soft|plush)", (5, None)),
    ("(?:extra|very|ultra|super)[ -](?:soft|plush)", (None, 3)),
    ("(?:extra|very|ultra|super|rock)[ -](?:firm|hard)", (8, None)),
    ("(?:medium|gentle|luxury)[ -](?:to[ -])?firm", (6, 7)),
    ("medium[ -](?:to[ -])?(?:soft|plush)", (4, 5)),
    ("medium", (5, 6)),
    ("(?:firmer|firm|hard)", (7, None)),
    ("(?:softer|soft|plush)", (None, 4)),
)
_ENDS = "(?P<low>10|[1-9])(?:(?: to |-)(?P<high>10|[1-9]))?"
_RATED = f"firmness(?: of| level| rating)* {_ENDS}(?: ?/ ?10| out of (?:10|ten))?"
_OUT_OF_TEN = f"{_ENDS}(?: ?/ ?10| out of (?:10|ten))"
_POSITIONS = (
    ("side", "side"),
    ("back", "back"),
    ("stomach|tummy|belly|front", "stomach"),
    ("combination|combo", "combination"),
)
_POSITION = "|".join(words for words, _ in _POSITIONS)
_SLEEPERS = rf"(?P<said>(?:{_POSITION})(?:(?: | and | or |/|, ?| & )+(?:{_POSITION}))*)(?:[ -]sleep(?:ers?|ing)?)"
_LYING = (
    "(?:sleeps?|sleeping|lies?|lying) on (?:my |his |her |our |their |your |the |one )?"
    rf"(?P<said>{_POSITION})s?"
)
_COOL = (
    "hot sleep(?:ers?|ing)|sleeps? (?:very |too )?(?:hot|warm|cool)|sleeping (?:hot|warm|cool)"
    "|(?:runs?|running|gets?|am|is) hot|(?:stays?|keeps?)(?: me| us)? cool|night sweats?|sweat(?:s|y|ing)?"
    "|hot (?:flush(?:es)?|flash(?:es)?|nights?|summers?)|too hot|cooling|cooler|cool|hot"
)
_CHEAP = "cheap(?:est|er)?|budget|affordable|inexpensive|low cost|bargain"
_EXPENSIVE = "most expensive|luxury|premium|high end|top of the range"
_IN_STOCK = "in stock|available now|available"
_DISCOUNTED = "on sale|discounted|biggest discount|specials?"
# Words for the product itself: with a quality beside them the text is a description, not words to match.
_PRODUCT_WORDS = "mattress(?:es)?|matress(?:es)?|mattreses|beds?|sleepers?|sleeping|sleeps?|sizes?|sized"
_STOPWORDS = (
    "i|we|am|are|is|looking|look|find|show|want|need|would|like|please|some|something|any|good|best|great|nice|for|with|"
    "my|our|me|us|a|an|the|and|or|of|to|in|on|that|who|which|size|sized|made|adult|person|people|someone|somebody"
)
# Followed by one of these, a firmness is not the mattress's: "soft cover".
_NOT_THE_BED = r"(?![ -](?:cover|knit|knitted|fabric|edge|edges|quilt|quilted|touch|case|base|support))"


def _money(name: str, *, sign: str = "?") -> str:
    return rf"{_SIGN}{sign}(?P<{name}>\d+(?:\.\d+)?)(?P<{name}_k>k)?(?: ?(?:dollars|bucks|aud))?{_NO_PRICE}"


_BETWEEN = (
    rf"(?:between|from) {_money('low')} ?{_TO} ?{_money('high')}",
    rf"{_money('low', sign='')} ?{_TO} ?{_money('high')}",
    rf"(?P<low>\d{{3,}})(?P<low_k>k)? ?{_TO} ?(?P<high>\d{{3,}})(?P<high_k>k)?{_NO_PRICE}",
)
_AT_MOST = (
    rf"{_AT_MOST_WORDS} ?{_money('high')}",
    rf"{_money('high')} ?(?:or less|or under|max(?:imum)?|tops|budget)",
)
_ABOUT = (rf"(?:around|about|approx(?:imately)?|roughly|circa|~) ?{_money('about')}",)
_AT_LEAST = (
    rf"(?:over|above|more than|at least|starting at|min(?:imum)?(?: of)?|>=?) ?{_money('low')}",
    rf"{_money('low')} ?(?:or more|and up|plus)",
)
_BARE = (_money("high", sign=""),)


class ParsedQuery(Struct, frozen=True):
    """A parsed search text: filters by parameter name, the words they came from, and the remaining words.

    `sort` is the order that the text asks for, "" for none.
    """

    filters: dict[str, Any]
    words: dict[str, str]
    text: str
    sort: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a filter nor an order: just words to match."""
        return not self.filters and not self.sort


class _Parser(Struct):
    """A text from which matched phrases are removed one after the other."""

    remaining: str
    filters: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    sort: str = ""

    def take(self, pattern: str) -> re.Match[str] | None:
        """Remove and return the first match of the pattern as whole words."""
        match = re.search(rf"(?<![\w$-])(?:{pattern})(?![\w-])", self.remaining)
        if match:
            self.remaining = f"{self.remaining[: match.start()]} ; {self.remaining[match.end() :]}"
        return match

    def add(self, filters: dict[str, Any], phrase: str) -> None:
        """Add filters that the phrase asks for, unless they are set already."""
        for name, value in filters.items():
            if name not in self.filters and value is not None:
                self.filters[name] = value
                self.words[name] = phrase.strip()

    def take_brand(self, brands: Sequence[str]) -> None:
        for brand in sorted(brands, key=len, reverse=True):
            name = normalize(brand)
            # A substring test is cheap; most brands do not occur.
            match = self.take(re.escape(name)) if name in self.remaining else None
            if match:
                self.add({"brand": [brand]}, match[0])

    def take_budget(self) -> None:
        """Minimum and maximum price in Australian dollars."""
        for pattern in (*_BETWEEN, *_AT_MOST, *_ABOUT, *_AT_LEAST, *_BARE):
            match = self.take(pattern)
            if match:
                low, high, about = (_amount(match, name) for name in ("low", "high", "about"))
                if about is not None:
                    low, high = round(about * (1 - _ROUGHLY)), round(about * (1 + _ROUGHLY))
                if low is not None and high is not None and low > high:
                    low, high = high, low
                self.add({"min_price": low, "max_price": high}, match[0])

    def take_values(self, name: str, phrases: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Every value that is named; any of them matches."""
        values: dict[str, None] = {}
        matched: list[str] = []
        for pattern, labels in phrases:
            while match := self.take(pattern):
                values |= dict.fromkeys(labels)
                matched.append(match[0])
        if values:
            self.add({name: list(values)}, " ".join(matched))

    def take_positions_and_cooling(self) -> None:
        """Positions first: "hot side sleepers" are side sleepers, and hot."""
        matches = [match for pattern in (_SLEEPERS, _LYING) if (match := self.take(pattern))]
        labels = [
            label for words, label in _POSITIONS for match in matches if re.search(rf"\b(?:{words})\b", match["said"])
        ]
        if labels:
            self.add({"sleep_position": labels}, " ".join(match[0] for match in matches))
        cool = self.take(_COOL)
        if cool:
            self.add({"cooling_min": 4}, cool[0])

    def take_firmness(self) -> None:
        exact = self.take(_RATED) or self.take(_OUT_OF_TEN)
        if exact:
            low, high = int(exact["low"]), int(exact["high"] or exact["low"])
            self.add({"firmness_min": min(low, high), "firmness_max": max(low, high)}, exact[0])
            return
        for pattern, (minimum, maximum) in _FIRMNESS:
            match = self.take(pattern + _NOT_THE_BED)
            if match:
                self.add({"firmness_min": minimum, "firmness_max": maximum}, match[0])
                return

    def take_order_and_stock(self) -> None:
        for pattern, sort in ((_CHEAP, "price"), (_EXPENSIVE, "-price"), (_DISCOUNTED, "discount")):
            match = self.take(pattern)
            if match and not self.sort:
                self.sort = sort
                self.words["sort"] = match[0]
        match = self.take(_IN_STOCK)
        if match:
            self.add({"in_stock": True}, match[0])


def parse_query(text: str, brands: Sequence[str] = ()) -> ParsedQuery:
    """Parse a shopper's text. `brands` are the names of all brands.

    A single word is matched as it is, and so is a single quality without a word for the product: "cooling gel". A
    budget, two qualities, or a quality or brand beside "mattress" or "sleepers" become filters.
    """
    normal = normalize(text)
    if len(normal.split()) < 2:
        return ParsedQuery({}, {}, text)
    parser = _Parser(normal)
    parser.take_brand(brands)
    parser.take_budget()
    parser.take_values("size", ((f"(?:{words})(?:[ -](?:size|sized|bed))?", (size,)) for words, size in _SIZES))
    parser.take_positions_and_cooling()
    parser.take_firmness()
    parser.take_values("material", _MATERIALS)
    parser.take_order_and_stock()
    qualities = {name.partition("_")[0] for name in parser.filters}
    has_budget = bool({"min_price", "max_price"} & parser.filters.keys())
    names_product = re.search(rf"\b(?:{_PRODUCT_WORDS})\b", normal) is not None
    if not (has_budget or len(qualities) > 1 or (names_product and (qualities or parser.sort))):
        return ParsedQuery({}, {}, text)
    while parser.take(_PRODUCT_WORDS):
        pass
    words = re.sub(r"[;,]", " ", parser.remaining).split()
    remaining = (word for word in words if re.search(r"\w", word) and not re.fullmatch(_STOPWORDS, word))
    return ParsedQuery(parser.filters, parser.words, " ".join(remaining), parser.sort)


def normalize(text: str) -> str:
    """Lower case, plain quotes, one space between words, thousands without commas."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return " ".join(re.sub(r"(?<=\d),(?=\d{3}\b)", "", folded).split())


def _amount(match: re.Match[str], name: str) -> float | None:
    digits = match.groupdict().get(name)
    if digits is None:
        return None
    return min(_HIGHEST, float(digits) * (1000 if match.groupdict().get(f"{name}_k") else 1))
