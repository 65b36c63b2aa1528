"""What a platform is called, however it is written: one F-35 and many, with or without what it is."""

import re
from functools import cache

from tollhouse.services.defense.entities.gazetteers import table

# What a platform is, said after its name: "Tomahawk cruise missiles".
_KIND = re.compile(
    r" (?:cruise |ballistic |fighter |main battle )?(?:missile|rocket|drone|tank|jet|fighter|bomber|helicopter|howitzer"
    r"|rifle|system|battery|batterie|aircraft|vehicle|round|launcher)s?$",
    re.IGNORECASE,
)
_MANY = re.compile(r"(?<=[\dA-Z])s$")
_SPACED_HYPHEN = re.compile(r"\s*[-\u2010\u2011\u2013]\s*")


def platform_name(text: str) -> str:
    """The canonical name of a platform: singular, hyphenated as in our lists, without its kind where it can stand."""
    text = _SPACED_HYPHEN.sub("-", text)
    name = _MANY.sub("", _KIND.sub("", text)) or text
    spelt = _spellings()
    return spelt.get(_key(name)) or spelt.get(_key(name).removesuffix("s")) or name


@cache
def _spellings() -> dict[str, str]:
    lists = table("platforms")["names"].values()
    names = {_KIND.sub("", name.strip()) for list_ in lists for line in list_.splitlines() for name in line.split("|")}
    return {_key(name): name for name in sorted(names) if name.removesuffix("s") == name or name[:-1] not in names}


def _key(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
