"""Names for the slots of training sentences, from the gazetteers and generated.

Generated names teach the tagger to recognize names by context, for names that no list contains.
"""

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from tollhouse.services.defense.entities import lexicon
from tollhouse.services.defense.entities.lexicon import table
from tollhouse.services.defense.gazetteer import COUNTRIES

Fill = Callable[[Random], str]

_OURS = tomllib.loads((Path(__file__).parent / "data" / "entity_slots.toml").read_text("utf-8"))
_PLACES = table("places")["places"]
_PLATFORMS = table("platforms")["names"]


def draw(slot: str, random: Random) -> str:
    """A filling for a slot."""
    return _SLOTS[slot](random)


def _parts(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in line.split("|") if part.strip()]


def _of(choices: Iterable[str]) -> Fill:
    listed = list(choices)
    return lambda random: random.choice(listed)


def _ours(name: str) -> Fill:
    return _of(_parts(_OURS["choices"][name]))


def _made(*kinds: str) -> Fill:
    """A name of a beginning and an end, of one of the kinds."""
    parts = [[half.split() for half in _OURS["made"][kind]] for kind in kinds]

    def fill(random: Random) -> str:
        first, last = random.choice(parts)
        return random.choice(first) + random.choice(last)

    return fill


def _mostly(usual: Fill, other: Fill, share: float) -> Fill:
    """The usual filling, but the other one for a share of cases."""
    return lambda random: other(random) if random.random() < share else usual(random)


def _listed(name: str, most_aliases: int) -> list[str]:
    return [known for key, aliases in table(name).items() for known in (key, *aliases[:most_aliases])]


_given = _of(sorted(lexicon.GIVEN))
_any_given = _mostly(_given, _made("arabic", "western"), 0.25)
_surname = _mostly(_of(sorted(lexicon.SURNAMES)), _made("western", "slavic", "arabic"), 0.7)
_western, _arabic_part, _town_part = _made("western"), _made("arabic"), _made("towns")


def _person(random: Random) -> str:
    chance = random.random()
    if chance > 0.9:
        return _arabic(random)
    middle = f" {random.choice('ABCDEFGHJKLMPRSTW')}." if chance < 0.12 else ""
    double = f"-{_surname(random)}" if 0.12 < chance < 0.15 else ""
    return f"{_any_given(random)}{middle} {_surname(random)}{double}"


def _arabic(random: Random) -> str:
    first = random.choice(("Abu ", "Abdul ", "Ibn ", "")) if random.random() < 0.4 else ""
    particle = random.choice(("al-", "al-", "Al-", "el-", "bin ", ""))
    return f"{first}{_any_given(random)} {particle}{_arabic_part(random)}"


def _kunya(random: Random) -> str:
    if random.random() < 0.6:
        return f"Abu {_arabic_part(random)}"
    return f"Abu {_given(random)} al-{_arabic_part(random)}"


def _town(random: Random) -> str:
    start = draw("town_start", random) if random.random() < 0.6 else ""
    return start + _town_part(random)


def _made_place(random: Random) -> str:
    name = _town(random) if random.random() < 0.7 else _surname(random)
    return f"{name} {draw('site_kind', random)}"


def _made_org(random: Random) -> str:
    kind, subject = draw("kind", random), draw("subject", random)
    if kind.endswith((" for", " of", " on")):
        return f"{kind} {subject}"
    before = random.choice(("", draw("demonym", random), draw("region", random), "International", "National"))
    return f"{before} {subject} {kind}".strip()


def _force(random: Random) -> str:
    chance = random.random()
    if 0.4 <= chance < 0.8:
        return draw("body", random)
    return f"{draw('demonym' if chance < 0.4 else 'country', random)} {draw('made_body', random)}"


def _ministry(random: Random) -> str:
    chance, portfolio = random.random(), draw("portfolio", random)
    if chance < 0.4:
        return f"{draw('demonym', random)} {portfolio} {random.choice(('Ministry', 'Department'))}"
    if chance < 0.7:
        return f"{random.choice(('Ministry', 'Department'))} of {portfolio}"
    return draw("seat", random)


def _ship(random: Random) -> str:
    return f"{draw('ship_prefix', random)} {_surname(random) if random.random() < 0.6 else _person(random)}"


def _abbreviation(random: Random) -> str:
    return "".join(random.choice("ABCDEFGHIKLMNOPRSTUV") for _ in range(random.choice((3, 3, 3, 4, 4, 5))))


def _designator(random: Random) -> str:
    return f"{draw('letters', random)}-{random.randint(1, 400)}{random.choice(('', '', 'A', 'B', 'M', 'E'))}"


def _together(*slots: str) -> Fill:
    return lambda random: " ".join(draw(slot, random) for slot in slots)


_SLOTS: dict[str, Fill] = {
    "abbreviation": _abbreviation,
    "agency": _ours("agencies"),
    "arabic": _arabic,
    "body": _of(_listed("forces", 99)),
    "caller": _ours("callers"),
    "city": _mostly(_of([*_parts(_PLACES["capitals"]), *_parts(_PLACES["cities"])]), _town, 0.2),
    "company": _mostly(_of(_listed("companies", 2)), _together("western", "company_end"), 0.3),
    "company_end": _ours("company_ends"),
    "country": _mostly(
        _of(name for country in COUNTRIES for name in (country.name, *country.aliases[:1])),
        _ours("busy_countries"),
        0.25,
    ),
    "day": lambda random: str(random.randint(1, 31)),
    "demonym": _of(sorted(lexicon.DEMONYMS)),
    "force": _force,
    "given": _any_given,
    "kind": _ours("kinds"),
    "kunya": _kunya,
    "letters": _ours("letters"),
    "made_body": _ours("bodies"),
    "made_org": _made_org,
    "made_place": _made_place,
    "ministry": _ministry,
    "month": _ours("months"),
    "number": _ours("numbers"),
    "office": lambda random: draw("office_cap", random).lower(),
    "office_cap": _ours("offices"),
    "ordinal": _ours("ordinals"),
    "person": _person,
    "place": _mostly(_of(_parts(_PLACES["cities"])), _town, 0.6),
    "platform": _mostly(_of(name for names in _PLATFORMS.values() for name in _parts(names)), _designator, 0.35),
    "portfolio": _ours("portfolios"),
    "rank": _ours("ranks"),
    "region": _of(_parts(_PLACES["regions"])),
    "seat": _ours("seats"),
    "ship": _ship,
    "ship_prefix": _ours("ship_prefixes"),
    "site": _mostly(_of(_parts(_PLACES["sites"])), _together("site_start", "western"), 0.4),
    "site_kind": _ours("sites"),
    "site_start": _ours("site_starts"),
    "subject": _ours("subjects"),
    "surname": _surname,
    "surname_caps": lambda random: f"{draw('caller', random)} {_surname(random).upper()}",
    "title": _ours("titles"),
    "town_start": _ours("town_starts"),
    "unit": _together("ordinal", "unit_kind"),
    "unit_kind": _ours("units"),
    "water": _of(_parts(_PLACES["waters"])),
    "weekday": _ours("weekdays"),
    "western": _western,
    "word_cap": _ours("words"),
    "year": lambda random: str(random.randint(1972, 2026)),
}
