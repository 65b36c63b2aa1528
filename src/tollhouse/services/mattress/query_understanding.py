"""A wish in plain words, read as filters: "cheap firm queen mattress for hot side sleepers under 1500"."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from tollhouse.services.mattress.budget_parser import taken_budget

# Each phrase, and what it asks for; the earlier ones are looked for first.
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
_DEAR = "most expensive|luxury|premium|high end|top of the range"
_STOCKED = "in stock|available now|available"
_DISCOUNTED = "on sale|discounted|biggest discount|specials?"
# They make a wish of what stands beside them, and need not be found in a product.
_THINGS = "mattress(?:es)?|matress(?:es)?|mattreses|beds?|sleepers?|sleeping|sleeps?|sizes?|sized"
_FILLING = (
    "i|we|am|are|is|looking|look|find|show|want|need|would|like|please|some|something|any|good|best|great|nice|for|with|"
    "my|our|me|us|a|an|the|and|or|of|to|in|on|that|who|which|size|sized|made|adult|person|people|someone|somebody"
)
# Behind these words a firmness is not the bed's: "soft cover".
_NOT_THE_BED = r"(?![ -](?:cover|knit|knitted|fabric|edge|edges|quilt|quilted|touch|case|base|support))"


class Wish(Struct, frozen=True):
    """What the words ask for: filters by their parameters' names, with the words that said so, and the words left.

    `sort` is the order asked for, "" for none.
    """

    filters: dict[str, Any]
    words: dict[str, str]
    text: str
    sort: str = ""

    @property
    def is_empty(self) -> bool:
        """Nothing but words to look for."""
        return not self.filters and not self.sort


class _Reading(Struct):
    """A text from which understood words are taken out one after the other."""

    left: str
    filters: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    sort: str = ""

    def take(self, pattern: str) -> re.Match[str] | None:
        """The first place where the pattern stands as whole words; it is there no longer."""
        match = re.search(rf"(?<![\w$-])(?:{pattern})(?![\w-])", self.left)
        if match:
            self.left = f"{self.left[: match.start()]} ; {self.left[match.end() :]}"
        return match

    def wish(self, filters: dict[str, Any], said: str) -> None:
        """Ask for this because these words say so; what was asked for before stands."""
        for name, value in filters.items():
            if name not in self.filters and value is not None:
                self.filters[name] = value
                self.words[name] = said.strip()


def read_wish(text: str, brands: Sequence[str] = ()) -> Wish:
    """What a shopper's words ask for. `brands` are the names that exist.

    One word alone is no wish, nor are words with a single quality and no bed in them: "cooling gel" is to be looked
    for as it stands. A budget, or a quality or brand beside "mattress" or "sleepers", or two of them, are.
    """
    asked = plain(text)
    if len(asked.split()) < 2:
        return Wish({}, {}, text)
    reading = _Reading(asked)
    has_thing = re.search(rf"\b(?:{_THINGS})\b", asked) is not None
    for take in (_take_brand(brands), taken_budget, _take_sizes, _take_cooling_and_positions, _take_firmness,
                 _take_materials, _take_orders):  # fmt: skip
        take(reading)
    qualities = {name.partition("_")[0] for name in reading.filters}
    is_wish = bool({"min_price", "max_price"} & reading.filters.keys() or len(qualities) > 1)
    if not is_wish and not (has_thing and (qualities or reading.sort)):
        return Wish({}, {}, text)
    while reading.take(_THINGS):
        pass
    return Wish(reading.filters, reading.words, _left(reading.left), reading.sort)


def plain(text: str) -> str:
    """Small letters, plain quotes, one space between words, thousands without commas."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return " ".join(re.sub(r"(?<=\d),(?=\d{3}\b)", "", folded).split())


def _take_brand(brands: Sequence[str]) -> Any:
    def take(reading: _Reading) -> None:
        for brand in sorted(brands, key=len, reverse=True):
            name = plain(brand)
            # Most of a thousand brands are not there at all, and finding that out so is cheap.
            match = reading.take(re.escape(name)) if name in reading.left else None
            if match:
                reading.wish({"brand": [brand]}, match[0])

    return take


def _take_sizes(reading: _Reading) -> None:
    _take_values(reading, "size", ((f"(?:{words})(?:[ -](?:size|sized|bed))?", (size,)) for words, size in _SIZES))


def _take_materials(reading: _Reading) -> None:
    _take_values(reading, "material", _MATERIALS)


def _take_values(reading: _Reading, name: str, phrases: Any) -> None:
    """Every value that is named: any of them will do."""
    values: dict[str, None] = {}
    said: list[str] = []
    for pattern, meant in phrases:
        while match := reading.take(pattern):
            values |= dict.fromkeys(meant)
            said.append(match[0])
    if values:
        reading.wish({name: list(values)}, " ".join(said))


def _take_cooling_and_positions(reading: _Reading) -> None:
    """The position first: "hot side sleepers" are side sleepers, and hot."""
    said = [match for pattern in (_SLEEPERS, _LYING) if (match := reading.take(pattern))]
    labels = [label for words, label in _POSITIONS for match in said if re.search(rf"\b(?:{words})\b", match["said"])]
    if labels:
        reading.wish({"sleep_position": labels}, " ".join(match[0] for match in said))
    cool = reading.take(_COOL)
    if cool:
        reading.wish({"cooling_min": 4}, cool[0])


def _take_firmness(reading: _Reading) -> None:
    exact = reading.take(_RATED) or reading.take(_OUT_OF_TEN)
    if exact:
        low, high = int(exact["low"]), int(exact["high"] or exact["low"])
        reading.wish({"firmness_min": min(low, high), "firmness_max": max(low, high)}, exact[0])
        return
    for pattern, (low_end, high_end) in _FIRMNESS:
        match = reading.take(pattern + _NOT_THE_BED)
        if match:
            reading.wish({"firmness_min": low_end, "firmness_max": high_end}, match[0])
            return


def _take_orders(reading: _Reading) -> None:
    for pattern, sort in ((_CHEAP, "price"), (_DEAR, "-price"), (_DISCOUNTED, "discount")):
        match = reading.take(pattern)
        if match and not reading.sort:
            reading.sort = sort
            reading.words["sort"] = match[0]
    match = reading.take(_STOCKED)
    if match:
        reading.wish({"in_stock": True}, match[0])


def _left(text: str) -> str:
    """The words that say something, in their order."""
    return " ".join(_meaning(re.sub(r"[;,]", " ", text).split()))


def _meaning(words: Sequence[str]) -> Iterator[str]:
    return (word for word in words if re.search(r"\w", word) and not re.fullmatch(_FILLING, word))
