"""Places that a title names, and what the words around them say about where it happened.

Titles derived from URLs have neither capitals nor punctuation, so nothing here needs them; where a title has
punctuation, its capitals are used.
"""

import re
from collections.abc import Sequence
from math import exp, log, log10
from typing import Literal

from msgspec import Struct

from tollhouse.services.defense.entities.lexicon import word_class
from tollhouse.services.defense.gazetteer import (
    CAPITAL,
    PERSON,
    SHORT,
    WORD,
    City,
    Name,
    Region,
    Sense,
    county_states,
    given_names,
    index,
    name_key,
    prominence,
)

# What the words around a name say. `where`: the name follows "in" or stands before "airport". `target`: it follows a
# word of attack. `source`: it follows "from". `object`: it follows another preposition. `people`: an adjective
# of nationality. `government`: a name such as "Kremlin". `first`, `later`: a bare country. `spot`: a bare town or
# region. `aside`: part of the name of a newspaper or a team, or of what follows the headline.
Role = Literal["where", "target", "source", "object", "people", "government", "first", "later", "spot", "aside"]


class Mention(Struct, frozen=True):
    """A name in a title, its role, and the share of each country among the places it may be."""

    text: str
    role: Role
    countries: dict[str, float]
    place: City | Region | None


class _Token(Struct, frozen=True):
    raw: str
    key: str
    # The text between this word and the previous one.
    gap: str


# Between towns of one name the larger is meant, unless other evidence names the country of another.
AGREEING = 8.0
# Countries that share a name with a town or region count as this large.
COUNTRY_POPULATION = 10_000_000
# Less probable countries of a name are left out.
LEAST = 0.05

_TOKEN = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019][sS]\b")
_INITIALS = re.compile(r"\b([A-Z])\.([A-Z])\.(?:([A-Z])\.)?")
_HEADLINE_MARKS = re.compile(r"[,:;?!\"|\u2018\u201c\u201d\u2013\u2014]")
_TAIL = re.compile(r"\s+[|\u2013\u2014-]\s+[^|\u2013\u2014]{3,60}$")
# What may stand between the words of one name.
_JOINTS = " -.'\u2019"
_AT, _ATTACKS, _SOURCES, _OBJECTS, _BETWEEN = (
    word_class("place_words", name) for name in ("at", "attacks", "sources", "objects", "between")
)
_SPOTS, _DIRECTIONS, _PAPERS, _EMBASSIES, _INSTITUTIONS = (
    word_class("place_words", name) for name in ("spots", "directions", "papers", "embassies", "institutions")
)
_STATES, _INITIALISMS, _PREFIXES, _TEAMS, _TITLES = (
    word_class("place_words", name) for name in ("states", "initialisms", "prefixes", "teams", "titles")
)


def read_mentions(title: str, context: frozenset[str]) -> list[Mention]:
    """The places that a title names, in its order.

    `context` are countries that other evidence names; they decide between towns of one name, and names that are also
    everyday words count only where they agree with it.
    """
    text = title
    if "'" in text or "\u2019" in text:
        text = _POSSESSIVE.sub("", text)
    if "." in text:
        text = _INITIALS.sub(lambda match: "".join(part for part in match.groups() if part), text)
    # Titles derived from URLs may have a colon after their first word.
    has_marks = _HEADLINE_MARKS.search(text, text.find(" ") + 1) is not None
    tail = _TAIL.search(text)
    tokens = _tokens(text)
    end = sum(1 for _ in _TOKEN.finditer(text, 0, tail.start())) if tail else len(tokens)
    spans = _spans(tokens, has_marks=has_marks)
    sure = {senses[0].country for start, _, senses in spans if start < end and not _is_doubtful(senses)}
    mentions: list[Mention] = []
    for start, stop, senses in spans:
        role = "aside" if start >= end else _role(tokens, start, stop, senses, is_first=not mentions)
        others = sure if len(sure) == 1 and _is_doubtful(senses) else ()
        mention = _mention(tokens, (start, stop), senses, role, context.union(others))
        if mention is not None:
            mentions.append(mention)
    return mentions


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    end = 0
    for match in _TOKEN.finditer(text):
        tokens.append(_Token(match[0], name_key(match[0]), text[end : match.start()]))
        end = match.end()
    return tokens


def _spans(tokens: Sequence[_Token], *, has_marks: bool) -> list[tuple[int, int, list[Sense]]]:
    """The longest names from left to right, with their senses."""
    names = index()
    spans: list[tuple[int, int, list[Sense]]] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        stop = at + 1
        senses: list[Sense] | None = None
        for length in range(min(names.longest.get(token.key, 0), len(tokens) - at), 0, -1):
            part = tokens[at : at + length]
            if length > 1 and any(_is_break(other.gap) for other in part[1:]):
                continue
            key = token.key if length == 1 else " ".join(other.key for other in part)
            senses = names.senses.get(key)
            if senses and length == 1 and not _is_name(token, senses, has_marks=has_marks):
                senses = None
            if senses:
                stop = at + length
                break
        if not senses and token.key[-1:] == "s" and len(token.key) > SHORT:
            # Slugs drop the apostrophe: "irans".
            senses = [sense for sense in names.senses.get(token.key[:-1], []) if _is_well_known(sense)]
        if stop < len(tokens) and tokens[stop].key == "county" and (states := county_states(token.key)):
            # Counties of one name in several states say the country only.
            senses = [sense for sense in names.senses[states[0]] if isinstance(sense, Region) and sense.country == "US"]
            senses, stop = senses if len(states) == 1 else [Name("US", "country")], stop + 1
        if senses and senses[0].country:
            spans.append((at, stop, senses))
        at = stop
    return spans


def _is_well_known(sense: Sense) -> bool:
    return isinstance(sense, Name) or not (sense.flags & (WORD | PERSON) or sense.population < 200_000)


def _is_name(token: _Token, senses: Sequence[Sense], *, has_marks: bool) -> bool:
    """Whether a single word can be a name: initials need capitals, and a headline with punctuation writes names so."""
    if token.key in _INITIALISMS:
        return token.raw.isupper()
    if has_marks and token.raw.islower():
        return False
    return len(token.key) > 2 or any(isinstance(sense, Name) for sense in senses)


def _is_doubtful(senses: Sequence[Sense]) -> bool:
    return all(
        not isinstance(sense, Name) and (sense.flags & (WORD | PERSON) or sense.population < 300_000)
        for sense in senses
    ) or (len({sense.country for sense in senses}) > 1)


def _role(tokens: Sequence[_Token], start: int, stop: int, senses: Sequence[Sense], *, is_first: bool) -> Role:
    kind = senses[0].kind if isinstance(senses[0], Name) else "spot"
    after = tokens[stop] if stop < len(tokens) else None
    follower = after.key if after and not _is_break(after.gap) else ""
    adjacent = tokens[start - 1].key if start else ""
    before = _before(tokens, start)
    is_dateline = start == 0 and after is not None and after.gap.startswith((":", "\u2013", "\u2014"))
    is_noted = follower in _PAPERS or follower in _TEAMS
    rules: tuple[tuple[bool, Role], ...] = (
        (kind == "spot" and is_noted, "aside"),
        (adjacent in _PREFIXES or follower in _EMBASSIES, "people"),
        (kind == "government" or (kind == "people" and follower in _INSTITUTIONS), "government"),
        (kind == "people" and (follower == "capital" or (follower in _SPOTS and before in _AT)), "where"),
        (kind == "people", "people"),
        (before in _AT or follower in _SPOTS or adjacent in _DIRECTIONS or is_dateline, "where"),
        (_follows_attack(tokens, start), "target"),
        (before in _SOURCES, "source"),
        (before in _OBJECTS, "object"),
        (kind == "spot", "spot"),
        (is_first, "first"),
    )
    return next((role for holds, role in rules if holds), "later")


def _is_break(gap: str) -> bool:
    return bool(gap.strip(_JOINTS))


def _before(tokens: Sequence[_Token], start: int) -> str:
    """The word before a name, past articles and words such as "northern"."""
    at = start - 1
    while at >= 0 and tokens[at].key in _BETWEEN and not _is_break(tokens[at + 1].gap):
        at -= 1
    return tokens[at].key if at >= 0 and not _is_break(tokens[at + 1].gap) else ""


def _follows_attack(tokens: Sequence[_Token], start: int) -> bool:
    for at in range(start - 1, max(start - 5, -1), -1):
        if tokens[at].key in _ATTACKS:
            return True
        if (
            tokens[at].key in _SOURCES
            or tokens[at].key in _OBJECTS - {"on", "against"}
            or _is_break(tokens[at + 1].gap)
        ):
            return False
    return False


def _mention(
    tokens: Sequence[_Token], span: tuple[int, int], senses: Sequence[Sense], role: Role, context: frozenset[str]
) -> Mention | None:
    start, stop = span
    text = " ".join(token.raw for token in tokens[start:stop])
    weights: dict[str, float] = {}
    trusts: dict[str, float] = {}
    for sense in senses:
        agrees = sense.country in context
        trust = 1.0 if isinstance(sense, Name) else _trust(tokens, span, sense, role, agrees=agrees)
        if trust > 0:
            weight = _frequency(sense) * (AGREEING if agrees else 1.0)
            weights[sense.country] = weights.get(sense.country, 0.0) + weight
            trusts[sense.country] = max(trusts.get(sense.country, 0.0), trust)
    if not weights:
        return None
    total = sum(weights.values())
    shares = {
        code: round(trusts[code] * weight / total, 3) for code, weight in weights.items() if weight >= LEAST * total
    }
    country = max(weights, key=lambda code: (weights[code], code))
    places = [sense for sense in senses if not isinstance(sense, Name) and sense.country == country]
    if stop < len(tokens) and tokens[stop].key in _STATES and not _is_break(tokens[stop].gap):
        places = [place for place in places if isinstance(place, Region)] or places
    place = max(places, key=prominence, default=None)
    return Mention(text, role, shares, place)


def _frequency(sense: Sense) -> float:
    """How often news means this place among those of its name in all countries, roughly."""
    if isinstance(sense, Name):
        return exp(0.85 * log(COUNTRY_POPULATION))
    more = 1.2 if isinstance(sense, Region) else 3.0 if sense.flags & CAPITAL else 1.0
    return exp(0.85 * log(max(sense.population, 20_000))) * more


def _trust(tokens: Sequence[_Token], span: tuple[int, int], sense: City | Region, role: Role, *, agrees: bool) -> float:
    """How surely a word is the name of this town, 0..1."""
    start, stop = span
    if sense.flags & WORD:
        return 0.7 if agrees and role == "where" else 0.0
    if role != "where" and stop == start + 1:
        given = given_names()
        if isinstance(sense, City) and tokens[start].key in given and not _is_famous(sense):
            return 0.4 if agrees else 0.1
        near = [tokens[at].key if 0 <= at < len(tokens) else "" for at in (start - 1, stop)]
        if near[0] in given or near[0] in _TITLES or (sense.flags & PERSON and near[1] in given):
            return 0.05
    large = (
        1.0
        if isinstance(sense, Region) and not sense.flags
        else min(max((log10(max(sense.population, 1)) - 3.8) / 2.2, 0.15), 1.0)
    )
    if sense.flags & PERSON and not _is_famous(sense):
        large *= 0.5
    if agrees:
        return max(large, 0.9)
    return max(large, 0.8) if role == "where" else large


def _is_famous(place: City | Region) -> bool:
    """Whether news means the place rather than a person of its name."""
    return bool(place.flags & CAPITAL) or place.population >= 1_000_000
