"""Whom a surname alone means: the one of that surname whom its story names in full, else whom everybody does."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from tollhouse.services.defense.news.reported_article import Named, Reported

# How often, and how many times as often as any other of the surname, the window must name somebody in full to make it
# clear who is meant without a story's help.
CLEAR_FROM = 2
CLEAR_TIMES = 2

FullNames = dict[str, Counter[Named]]


def with_full_names(reports: Iterable[Reported], story_of: Mapping[str, str]) -> tuple[list[Reported], dict[str, str]]:
    """The reports with surnames resolved, and which entity id so became which everywhere in the window."""
    kept = list(reports)
    everywhere: FullNames = {}
    by_story: dict[str, FullNames] = {}
    for report in kept:
        story = story_of.get(report.article.id, report.article.id)
        for named in filter(_is_full, report.names):
            for names in (everywhere, by_story.setdefault(story, {})):
                names.setdefault(_surname(named), Counter())[replace(named, text="")] += 1
    clear = {surname: who for surname, names in everywhere.items() if (who := _clearly(names))}
    resolved = []
    for report in kept:
        told = by_story.get(story_of.get(report.article.id, report.article.id), {})
        resolved.append(_resolved(report, told, clear))
    return resolved, _merged(kept, clear)


def _resolved(report: Reported, told: FullNames, clear: Mapping[str, Named]) -> Reported:
    if not any(map(_is_surname, report.names)):
        return report
    return replace(report, names=tuple(_whole(named, told, clear) for named in report.names))


def _whole(named: Named, told: FullNames, clear: Mapping[str, Named]) -> Named:
    if not _is_surname(named):
        return named
    here = told.get(_surname(named))
    who = next(iter(here)) if here and len(here) == 1 else clear.get(_surname(named))
    return replace(who, text=named.text) if who else named


def _clearly(names: Counter[Named]) -> Named | None:
    (who, count), *others = names.most_common(2)
    next_count = others[0][1] if others else 0
    return who if count >= CLEAR_FROM and count >= CLEAR_TIMES * next_count else None


def _merged(reports: Iterable[Reported], clear: Mapping[str, Named]) -> dict[str, str]:
    surnames = (named for report in reports for named in report.names if _is_surname(named))
    return {named.id: clear[_surname(named)].id for named in surnames if _surname(named) in clear}


def _is_full(named: Named) -> bool:
    return named.type == "person" and " " in named.name


def _is_surname(named: Named) -> bool:
    return named.type == "person" and " " not in named.name


def _surname(named: Named) -> str:
    return named.name.rpartition(" ")[2].casefold()
