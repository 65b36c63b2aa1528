"""Merge mentions into entities: aliases, abbreviations, titles, surnames and platform designators."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache

from msgspec import Struct

from tollhouse.services.defense.entities.lexicon import (
    BETWEEN_KIND,
    DEMONYMS,
    GIVEN,
    PARTICLES,
    SURNAMES,
    TITLES,
    EntityType,
    Mention,
    is_kind,
    shortened,
    table,
)
from tollhouse.services.defense.gazetteer import COUNTRIES, find_country

_MANY = re.compile(r"(?<=[\dA-Z])s$")
_SPACED_HYPHEN = re.compile(r"\s*[-\u2010\u2011\u2013]\s*")


def platform_name(text: str) -> str:
    """The canonical name of a platform: singular, hyphenated as in the lexicon, without the noun of its kind."""
    text = _SPACED_HYPHEN.sub("-", text)
    words = text.split()
    if _platform_key(text).removesuffix("s") not in _spellings() and is_kind(words[-1].lower()):
        del words[-1]
        while len(words) > 1 and words[-1].lower() in BETWEEN_KIND:
            del words[-1]
    name = _MANY.sub("", " ".join(words)) or text
    spelt = _spellings()
    return spelt.get(_platform_key(name)) or spelt.get(_platform_key(name).removesuffix("s")) or name


@cache
def _spellings() -> dict[str, str]:
    platforms = table("platforms")
    lists = (*platforms["names"].values(), platforms["common"]["names"])
    names = {name.strip() for list_ in lists for line in list_.splitlines() for name in line.split("|")}
    return {_platform_key(name): name for name in sorted(names)}


def _platform_key(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


_ARTICLE = re.compile(r"^(?:the|The|THE)\s+")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_COMPANY_ENDS = re.compile(
    r",?\s+(?:Inc|Corp|Corporation|Co|Company|Ltd|Limited|LLC|plc|PLC|AG|SA|SE|GmbH|SpA|AB|AS|Holdings)\.?$"
)
# "Al-Qaeda No. 2": the tokenizer ends the sentence after "No.".
_NUMBERED = re.compile(r"\s+No\.?$")
_ALSO_TITLES = frozenset(["PM", "FM", "Outgoing", "Incoming", "Ex", "Late"])
_SUFFIXES = frozenset(["Jr", "Jr.", "Sr", "Sr.", "II", "III", "IV"])
_SMALL = frozenset(["of", "for", "and", "the", "to", "de"])


class Identity(Struct, frozen=True):
    """An entity. `id` is derived from type and canonical name, so it is equal in all articles."""

    id: str
    name: str
    type: EntityType


class NamedEntity(Struct, frozen=True, gc=False):
    """An entity that a text names: `text` as in the text, `name` the canonical name."""

    id: str
    name: str
    type: EntityType
    text: str


def named_entities(mentions: Iterable[Mention]) -> tuple[NamedEntity, ...]:
    """The entities of one text's mentions, in their order."""
    listed = list(mentions)
    return tuple(
        NamedEntity(identity.id, identity.name, identity.type, mention.text)
        for mention, identity in zip(listed, identify(listed), strict=True)
        if identity is not None
    )


def identify(mentions: Sequence[Mention]) -> list[Identity | None]:
    """The entity of each mention in an article; None if a surname is ambiguous or only a given name is known."""
    return list(map(_Context(mentions).identity, mentions))


def entity_id(type_: EntityType, name: str) -> str:
    """`entity_` and 64 bits of SHA-256 in hexadecimal."""
    return "entity_" + hashlib.sha256(f"{type_}\n{name.casefold()}".encode()).hexdigest()[:16]


class _Context:
    """The full names in an article by their short forms."""

    def __init__(self, mentions: Iterable[Mention]) -> None:
        bare = {(mention.type, bare_name(mention)) for mention in mentions}
        self.people: dict[str, set[str]] = {}
        self.bodies: dict[str, set[str]] = {}
        for type_, name in sorted(bare):
            words = name.split()
            if type_ == "person" and len(words) > 1:
                self.people.setdefault(_key(words[-1]), set()).add(name)
            elif type_ == "organization" and len(words) > 1:
                for short in (words[0], "".join(word[0] for word in words if word not in _SMALL)):
                    self.bodies.setdefault(_key(short), set()).add(name)

    def identity(self, mention: Mention) -> Identity | None:
        name = bare_name(mention)
        type_ = mention.type
        known = _known(name, type_, is_written=mention.end > 0)
        if known:
            type_, name = known
        elif type_ == "person":
            full = self._full(name, self.people)
            # "George" is only a given name, "Prince George" is not.
            is_given_alone = full in GIVEN and full not in SURNAMES and len(mention.text.split()) == 1
            if full is None or is_given_alone:
                return None
            name = full
        elif type_ == "organization":
            name = self._full(name, self.bodies) or name
        return Identity(entity_id(type_, name), name, type_)

    def _full(self, name: str, longer: dict[str, set[str]]) -> str | None:
        """The full name of a single word, the word itself if there is none, None if there are several."""
        candidates = longer.get(_key(name), set()) if " " not in name else set()
        return None if len(candidates) > 1 else next(iter(candidates), name)


def bare_name(mention: Mention) -> str:
    """A mention's text without article, possessive, title, middle initials and legal form of a company."""
    text = _POSSESSIVE.sub("", _ARTICLE.sub("", " ".join(mention.text.split())))
    if mention.type == "person":
        return _person(text)
    text = _without_owner(_NUMBERED.sub("", text))
    if mention.type == "organization":
        return _COMPANY_ENDS.sub("", text)
    return " ".join(map(_cased, text.split())) if mention.type == "location" else text


def _without_owner(text: str) -> str:
    """Tigray for "Ethiopia's Tigray", Moscow for "Moscow president"."""
    owner, _, owned = text.partition("'s ")
    words = (owned if owned and find_country(owner) else text).split()
    while len(words) > 1 and words[-1].islower() and words[-1].capitalize() in TITLES:
        del words[-1]
    return " ".join(words)


def _person(text: str) -> str:
    words = text.replace(",", " ").split()
    while len(words) > 1 and (words[0] in TITLES | _ALSO_TITLES or words[0] in DEMONYMS or _leads_title(words)):
        del words[0]
    while len(words) > 2 and words[-1] in _SUFFIXES:
        del words[-1]
    name = [word for place, word in enumerate(words) if place in (0, len(words) - 1) or not _is_initial(word)]
    return " ".join(map(_cased, name))


def _leads_title(words: Sequence[str]) -> bool:
    """Whether the first word is inside a longer title: "of" in "Secretary of Defense"."""
    return words[0] in _SMALL or any(word in TITLES for word in words[1:-1])


def _is_initial(word: str) -> bool:
    return len(word) <= 2 and word[0].isupper() and word[1:] in ("", ".")


def _cased(word: str) -> str:
    is_lost = word.islower() and word.isalpha() and word not in PARTICLES and word not in _SMALL
    return word.capitalize() if is_lost or (word.isupper() and len(word) > 3) else word


def government_name(country: str) -> str:
    """The name of a country's government, an organization: the state as an actor, apart from the place."""
    article = "the " if country.split(maxsplit=1)[0] in _WITH_ARTICLE or country.endswith(_WITH_ARTICLE_ENDS) else ""
    return f"Government of {article}{country}"


_WITH_ARTICLE = frozenset(["United", "Central", "Democratic", "Dominican", "Republic", "Czech"])
_WITH_ARTICLE_ENDS = ("Netherlands", "Philippines", "Maldives", "Bahamas", "Islands", "Emirates", "Gambia")
_GOVERNMENT_OF = re.compile(r"^[Gg]overnment of (?:the )?(.+)$|^(.+?)(?:['\u2019]s?)? [Gg]overnment$")


def _known(name: str, type_: EntityType, *, is_written: bool) -> tuple[EntityType, str] | None:
    """Type and name in the lexicon. A country in the text is an organization where it acts (see `extract_names`)."""
    if type_ == "person":
        return None
    if type_ == "platform":
        return type_, platform_name(name)
    country = find_country(_shortened().get(_key(name), name))
    if country:
        is_government = type_ == "organization" and is_written
        return ("organization", government_name(country.name)) if is_government else ("location", country.name)
    if type_ == "organization" and (of := _GOVERNMENT_OF.match(name)) and (country := find_country(of[1] or of[2])):
        return type_, government_name(country.name)
    if type_ == "organization" and (canonical := _aliases().get(_key(name))):
        return type_, canonical
    return ("location", name) if _key(name) in _places() else None


@cache
def _shortened() -> dict[str, str]:
    return {_key(short): country.name for country in COUNTRIES for short in shortened(country.name)}


@cache
def _places() -> frozenset[str]:
    """The places in the lexicon, whatever their tag."""
    lists = table("places")["places"].values()
    return frozenset(_key(name) for names in lists for name in names.replace("\n", "|").split("|") if name.strip())


@cache
def _aliases() -> dict[str, str]:
    """The canonical names of organizations by their aliases."""
    return {
        _key(alias): canonical
        for list_ in ("companies", "forces")
        for canonical, aliases in table(list_).items()
        for alias in (*aliases, canonical)
    }


def _key(name: str) -> str:
    """A name for comparison, without case, points and hyphens."""
    return " ".join(name.casefold().replace(".", "").replace("\u2019", "'").replace("-", " ").split())
