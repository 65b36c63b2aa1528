"""Years of a number: "in fiscal 2025", "FY25", "the 2026 budget" name the attribute that holds that year's figures."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from tollhouse.questions.linking import Item, Linked, Linker, Meaning

Place = tuple[int, int, int]

_FISCAL = re.compile(r"fy'?(\d\d|20\d\d)")
# Words before a year that say that money is meant, and others.
_FISCAL_WORDS = frozenset({"fy", "fiscal", "fiscal year", "haushaltsjahr", "ejercicio", "exercice", "ano fiscal"})
_YEAR_WORDS = frozenset({"year", "jahr", "ano", "año", "annee", "année"})


def with_years(linked: Linked, linker: Linker) -> Linked:
    """The text with years as the attributes of that year, where it is about rows that have them."""
    for kind in linker.declaration.kinds:
        years = {each.year: each.name for each in kind.attributes if each.year}
        usual = next((each.name for each in kind.attributes if each.year and each.preferred), "")
        items = [each for item in linked.items for each in _ends(item, years)]
        if years and (places := _places(items, years, kind.name)):
            return replace(linked, items=tuple(_rewritten(items, places, years, usual, kind.name)))
    return linked


def _ends(item: Item, years: Mapping[int, str]) -> tuple[Item, ...]:
    """The two years of a span, "from 2025 to 2026"; other items as they are."""
    ends = re.fullmatch(r".*(20\d\d)\D+(20\d\d)", item.text) if item.find("time") else None
    if ends is None or not years.keys() >= {int(ends[1]), int(ends[2])}:
        return (item,)
    return tuple(Item(each, (Meaning("number", value=float(each)),), item.start, item.end) for each in ends.groups())


def _places(items: Sequence[Item], years: Mapping[int, str], kind: str) -> list[Place]:
    """Where years stand, from the first word that belongs to one to before the next word, with the year."""
    places: list[Place] = []
    is_fiscal = False
    for place, item in enumerate(items):
        text = item.text.lower()
        said = _FISCAL.fullmatch(text)
        number = int(said[1]) if said else _year_of(item)
        start = place
        while start and (items[start - 1].text.lower() in _FISCAL_WORDS | _YEAR_WORDS):
            start -= 1
            is_fiscal = is_fiscal or items[start].text.lower() in _FISCAL_WORDS
        if number is not None and number < 100 and (said or start < place):
            number += 2000
        if number is not None and number in years:
            is_fiscal = is_fiscal or said is not None
            places.append((start, place + 1, number))
    kinds = {meaning.kind for item in items for meaning in item.meanings if meaning.role == "kind"}
    is_own = any(meaning.kind == kind for item in items for meaning in item.meanings)
    return places if kinds <= {kind} and (is_fiscal or is_own) else []


def _year_of(item: Item) -> int | None:
    """The year that an item is, as a number or as a time from its first day to its last."""
    time = item.find("time")
    if time is not None:
        since, until = time.value.since, time.value.until
        is_year = isinstance(since, datetime) and until == since.replace(year=since.year + 1) and since.month == 1
        return since.year if is_year and since.day == 1 else None
    return None if item.number is None or item.number != int(item.number) else int(item.number)


def _rewritten(
    items: Sequence[Item],
    places: Sequence[tuple[int, int, int]],
    years: Mapping[int, str],
    usual: str,
    kind: str,
) -> list[Item]:
    """The items with what they say of the usual year said of the year that is named; several are named one by one."""
    said = list(dict.fromkeys(year for _, _, year in places))
    inside = {place for start, end, _ in places for place in range(start, end)}
    rest = [place for place in range(len(items)) if place not in inside]
    is_general = any(_is_general(meaning, usual, kind) for place in rest for meaning in items[place].meanings)
    result: list[Item] = []
    for place, item in enumerate(items):
        at = next(((start, end, year) for start, end, year in places if start == place), None)
        if at is not None and (len(said) > 1 or not is_general):
            text = " ".join(each.text for each in items[at[0] : at[1]])
            if item.find("time"):
                result.append(Item("in", (Meaning("function", "in"),), item.start, item.start))
            result.append(Item(text, (Meaning("attribute", years[at[2]], kind),), item.start, items[at[1] - 1].end))
        if place in inside:
            continue
        if len(said) == 1:
            result.append(
                replace(item, meanings=tuple(_of_year(each, years[said[0]], years, kind) for each in item.meanings))
            )
        elif not (item.find("attribute") and all(_is_general(each, usual, kind) for each in item.meanings)):
            result.append(item)
    return result


def _is_general(meaning: Meaning, usual: str, kind: str) -> bool:
    return meaning.kind == kind and meaning.name == usual and meaning.role in ("attribute", "extreme", "unit")


def _of_year(meaning: Meaning, name: str, years: Mapping[int, str], kind: str) -> Meaning:
    return replace(meaning, name=name) if meaning.kind == kind and meaning.name in years.values() else meaning
