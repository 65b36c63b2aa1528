"""Resolve the names of entities over all articles: surnames, spellings, abbreviations, types; drop doubtful names."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain, combinations

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.entities import lexicon
from tollhouse.services.defense.entities.merge import NamedEntity
from tollhouse.services.defense.gazetteer import City, Region, given_names, index, name_key
from tollhouse.services.defense.news.entity import geocode
from tollhouse.services.defense.news.reported_article import ReportedArticle

# A full name is the default for its surname from this count, and at this multiple of the next full name's count.
DEFAULT_FROM = 2
DEFAULT_RATIO = 2
# Of letters in common (Ratcliff and Obershelp): Lukashenko and Lukashenka, Zelensky and Zelenskyy.
SAME_SPELLING = 0.84

FullNames = dict[str, Counter[NamedEntity]]


class _Seen(Struct):
    """How the articles name an entity. `in_page_title` and `in_text` are about names that we found, not only GKG."""

    named: NamedEntity
    count: int = 0
    families: set[str] = set()
    stories: set[str] = set()
    in_page_title: bool = False
    in_text: bool = False


def resolve_entities(
    reports: Iterable[ReportedArticle], story_of: Mapping[str, str]
) -> tuple[list[ReportedArticle], dict[str, str]]:
    """Replace each name by the entity it means, and leave out names that too little supports.

    A surname means the only full name in the story, else the default of the window. One name has one type. Spellings of
    a person or an abbreviation and its long form are one entity if they agree. Returns the reports, and the entity ids
    that were replaced everywhere by another id.
    """
    reports = list(reports)
    seen = _count(reports, story_of)
    merged = dict(_same_entities(seen))
    for old, new in merged.items():
        _add(seen[new], seen[old])
    dropped = {id_ for id_, entity in seen.items() if id_ not in merged and not _is_supported(entity)}
    by_story: dict[str, FullNames] = {}
    everywhere: FullNames = {}
    for id_, it in seen.items():
        if id_ in merged or id_ in dropped or it.named.type != "person" or " " not in it.named.name:
            continue
        everywhere.setdefault(_surname(it.named), Counter())[it.named] = it.count
        for story in it.stories:
            by_story.setdefault(story, {}).setdefault(_surname(it.named), Counter())[it.named] += 1
    # A person whom two publishers name by surname alone needs no second full name.
    known = {_surname(it.named) for it in seen.values() if _is_surname(it.named) and len(it.families) > 1}
    defaults = {
        surname: who
        for surname, names in everywhere.items()
        if (who := _default_name(names, 1 if surname in known else DEFAULT_FROM))
    }
    resolved = []
    for report in reports:
        in_story = by_story.get(story_of.get(report.article.id, report.article.id), {})
        names = []
        for named in report.names:
            entity = _resolve(seen[merged[named.id]].named if named.id in merged else named, in_story, defaults)
            if entity.id not in dropped:
                names.append(named if entity is named else replace(entity, text=named.text))
        resolved.append(report if tuple(names) == report.names else replace(report, names=tuple(names)))
    for id_, it in seen.items():
        if _is_surname(it.named) and id_ not in merged and (who := defaults.get(_surname(it.named))):
            merged[id_] = who.id
    return resolved, merged


def _count(reports: Iterable[ReportedArticle], story_of: Mapping[str, str]) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = {}
    for report in reports:
        article = report.article
        story, is_page = story_of.get(article.id, article.id), article.source != "gdelt"
        text = f"{article.title}\n{article.text or ''}"
        for named in report.names:
            entity = seen.get(named.id)
            if entity is None:
                entity = seen[named.id] = _Seen(replace(named, text=""), 0, set(), set())
            entity.count += 1
            entity.families.add(article.family)
            entity.stories.add(story)
            if not (entity.in_text and entity.in_page_title) and named.text in text:
                entity.in_text = True
                entity.in_page_title |= is_page
    return seen


def _add(entity: _Seen, other: _Seen) -> None:
    entity.count += other.count
    entity.families |= other.families
    entity.stories |= other.stories
    entity.in_page_title |= other.in_page_title
    entity.in_text |= other.in_text


def _same_entities(seen: Mapping[str, _Seen]) -> Iterator[tuple[str, str]]:
    """Pairs of ids, the second of which replaces the first everywhere. No second id is also a first one."""
    replaced: set[str] = set()
    same = (_same_type(seen.values()), _same_person(seen), _same_place(seen.values()), _abbreviations(seen.values()))
    for first, second in chain(*same):
        more, less = (first, second) if first.count >= second.count else (second, first)
        if not {more.named.id, less.named.id} & replaced:
            replaced.add(less.named.id)
            yield less.named.id, more.named.id


def _same_type(entities: Iterable[_Seen]) -> Iterator[tuple[_Seen, _Seen]]:
    """Entities of one name and several types: the type that most articles give."""
    by_name: dict[str, list[_Seen]] = {}
    for entity in entities:
        by_name.setdefault(_letters(entity.named.name), []).append(entity)
    for same in by_name.values():
        best = max(same, key=lambda entity: (_is_listed(entity.named), entity.count, entity.named.type))
        yield from ((best, other) for other in same if other is not best)


def _same_place(entities: Iterable[_Seen]) -> Iterator[tuple[_Seen, _Seen]]:
    """Places with and without their kind: "Amhara state" and "Amhara"."""
    places = {entity.named.name: entity for entity in entities if entity.named.type == "location"}
    for name, entity in places.items():
        short, _, kind = name.rpartition(" ")
        if kind.lower() in ("state", "province", "region", "governorate", "oblast", "city") and short in places:
            yield places[short], entity


def _same_person(seen: Mapping[str, _Seen]) -> Iterator[tuple[_Seen, _Seen]]:
    """Persons whose names differ in spelling, and who are named in the same story unless all letters agree."""
    groups: dict[str, list[_Seen]] = {}
    for entity in seen.values():
        words = entity.named.name.split()
        if entity.named.type == "person" and len(words) > 1:
            for key in {f"{_sounds(words[0])} {_sounds(words[-1])[:1]}", f"{words[0][:1]} {_sounds(words[-1])}"}:
                groups.setdefault(key, []).append(entity)
    for group in groups.values():
        for one, other in combinations(sorted(group, key=lambda entity: -entity.count), 2):
            if _is_spelling(one.named.name, other.named.name, is_near=not one.stories.isdisjoint(other.stories)):
                yield one, other


def _is_spelling(one: str, other: str, *, is_near: bool) -> bool:
    """Whether two full names are spellings of one: equal in sound, or, in one story, alike or one within the other."""
    if _sounds(one) == _sounds(other):
        return True
    if not is_near:
        return False
    (given, *_, surname), (other_given, *_, other_surname) = one.split(), other.split()
    if _sounds(surname) != _sounds(other_surname) and not _is_alike(surname, other_surname):
        return False
    short, long = sorted((_sounds(given), _sounds(other_given)), key=len)
    words, other_words = set(one.split()), set(other.split())
    return long.startswith(short) or words < other_words or other_words < words or _is_alike(given, other_given)


def _is_alike(one: str, other: str) -> bool:
    ratio = SequenceMatcher(None, _sounds(one), _sounds(other)).ratio()
    return min(len(one), len(other)) > 4 and ratio >= SAME_SPELLING


def _abbreviations(entities: Iterable[_Seen]) -> Iterator[tuple[_Seen, _Seen]]:
    """Abbreviations and the only long form of those initials in a common story."""
    bodies = [entity for entity in entities if entity.named.type == "organization"]
    by_initials: dict[str, list[_Seen]] = {}
    for body in bodies:
        words = [word for word in body.named.name.replace("-", " ").split() if word[0].isupper()]
        if len(words) > 2:
            by_initials.setdefault("".join(word[0] for word in words), []).append(body)
    for body in bodies:
        near = [it for it in by_initials.get(body.named.name, ()) if not it.stories.isdisjoint(body.stories)]
        if len(near) == 1:
            yield near[0], body


def _resolve(named: NamedEntity, in_story: FullNames, defaults: Mapping[str, NamedEntity]) -> NamedEntity:
    if not _is_surname(named):
        return named
    here = in_story.get(_surname(named))
    return next(iter(here)) if here and len(here) == 1 else defaults.get(_surname(named), named)


def _default_name(names: Counter[NamedEntity], least: int) -> NamedEntity | None:
    (who, count), *others = names.most_common(2)
    next_count = others[0][1] if others else 0
    return who if count >= least and count >= DEFAULT_RATIO * next_count else None


def _is_surname(named: NamedEntity) -> bool:
    return named.type == "person" and " " not in named.name


def _surname(named: NamedEntity) -> str:
    return named.name.rpartition(" ")[2].casefold()


def _is_supported(entity: _Seen) -> bool:
    """Whether an entity is served: a list knows it, two publishers name it, or its name has the form of its type."""
    named = entity.named
    if named.type == "platform" or _is_listed(named):
        return True
    words = named.name.split()
    if named.type == "person":
        if not _is_personal(named.name, is_page=entity.in_page_title or not entity.in_text):
            return False
        return len(words) > 1 or words[0] in lexicon.SURNAMES or len(entity.families) > 1
    if len(entity.families) > 1 and entity.in_text:
        return True
    if named.type == "location":
        return words[-1].lower() in _SITES and len(words) < 4
    return _is_body(words, is_page=entity.in_page_title)


@lru_cache(maxsize=131072)
def _is_personal(name: str, *, is_page: bool) -> bool:
    """Whether it looks like a person's name. A URL has lost its capitals, so that one word must be a known name."""
    words = name.split()
    plain = [word for word in words if not _is_name_part(word)]
    is_two_places = len(words) > 1 and _is_place(words[0]) and _is_place(" ".join(words[1:]))
    if len(words) > 1 and (
        _is_place(name)
        or (is_two_places and words[0] in plain)
        or any(word.lower() in lexicon.COUNTRY_NAMES for word in plain)
    ):
        return False
    if any(word.lower() in lexicon.MODIFIERS for word in plain):
        return False
    return is_page or len(words) == 1 or len(plain) < len(words)


def _is_name_part(word: str) -> bool:
    """A given name, a known surname, or an initial."""
    return word in lexicon.GIVEN or word in lexicon.SURNAMES or name_key(word) in given_names() or len(word) < 3


def _is_body(words: Sequence[str], *, is_page: bool) -> bool:
    """Whether it looks like the name of an organization: a noun such as "Council" at an end, or capitals of a title."""
    if any(word.lower() in lexicon.CLOSERS and word[0].isupper() for word in words[1:]) or len(words) > 6:
        return False
    if words[-1] in lexicon.ORGANIZATION_HEADS or (len(words) > 2 and words[0] in lexicon.ORGANIZATION_HEADS):
        return len(words) > 1
    is_abbreviation = len(words) == 1 and words[0].isupper() and 2 < len(words[0]) < 7
    return is_page and (is_abbreviation or all(word[0].isupper() for word in words) or len(words) == 1)


# Nouns that end the names of places.
_SITES = frozenset(word.lower() for word in lexicon.LOCATION_HEADS) | {
    word for word, type_ in lexicon.HEADS.items() if type_ == "location"
}


@lru_cache(maxsize=131072)
def _is_listed(named: NamedEntity) -> bool:
    """Whether a gazetteer has the name, of its type."""
    words = named.name.split()
    known = lexicon.find_known(words, [word.lower() for word in words])
    if len(known) == 1 and known[0].start == 0 and known[0].end == len(words):
        is_body = known[0].label in ("body", "company", "country")
        return named.type == "organization" if is_body and known[0].label != "country" else named.type == "location"
    if named.type == "organization":
        return named.name.startswith("Government of ")
    return named.type == "location" and _is_place(named.name)


def _is_place(name: str) -> bool:
    senses = index().senses.get(name_key(name), ())
    return any(isinstance(sense, City | Region) for sense in senses) or geocode([name], ()) is not None


@lru_cache(maxsize=131072)
def _letters(name: str) -> str:
    """A name without case, accents, hyphens and blanks."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in plain if letter.isalnum())


_SPELLINGS = (
    ("sch", "sh"), ("tch", "ch"), ("kh", "h"), ("gh", "g"), ("ph", "f"), ("ck", "k"), ("x", "ks"), ("q", "k"),
    ("w", "v"), ("ou", "u"), ("oo", "u"), ("ee", "i"), ("ey", "i"), ("iy", "i"), ("yi", "i"), ("y", "i"), ("j", "i"),
    ("ae", "e"),
)  # fmt: skip


@lru_cache(maxsize=131072)
def _sounds(name: str) -> str:
    """A key that transliterations of one name share: Serhii and Serhiy, Mohammed and Mohamed, Suk Yeol and Suk-yeol."""
    key = _letters(name)
    for spelling, plain in _SPELLINGS:
        key = key.replace(spelling, plain)
    return "".join(letter for letter, before in zip(key, f" {key}", strict=False) if letter != before)
