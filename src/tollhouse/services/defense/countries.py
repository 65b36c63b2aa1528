"""Countries by code, by English name and by alias."""

import difflib
import re
import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

import msgspec


class Country(msgspec.Struct, frozen=True):
    """`alpha2`, `alpha3` and `numeric` are ISO 3166-1 (XK, XKX and "" for Kosovo); `region` is a part of the world.

    `fips` are the FIPS 10-4 codes in GDELT's places, main code first. `cameo` are actor codes other than `alpha3`.
    """

    alpha2: str
    alpha3: str
    numeric: str
    name: str
    region: str
    fips: tuple[str, ...]
    cameo: tuple[str, ...]
    aliases: tuple[str, ...]


COUNTRIES = msgspec.json.decode(
    files("tollhouse.services.defense").joinpath("data", "countries.json").read_bytes(), type=tuple[Country, ...]
)

# FIPS codes without one country: seas, undersea features, disputed islands, no man's land.
NOWHERE = frozenset({"OS", "UF", "UU", "PF", "PG", "PJ", "NM"})

_BY_FIPS = {code: country for country in COUNTRIES for code in country.fips}
_BY_CAMEO = {code: country for country in COUNTRIES for code in (country.alpha3, *country.cameo)}
_POINTS = re.compile(r"[.'\u2019`\u02bc]")
_BREAKS = re.compile(r"[\W_]+")


def country_by_fips(code: str) -> Country | None:
    """The country of a FIPS 10-4 code; None for `NOWHERE` and for unknown codes."""
    return _BY_FIPS.get(code)


def country_by_cameo(code: str) -> Country | None:
    """The country of a CAMEO actor code; None for regions such as AFR and for blocs such as EUR."""
    return _BY_CAMEO.get(code)


@lru_cache(maxsize=4096)
def find_country(text: str) -> Country | None:
    """The country for an English name, code or alias, ignoring case, accents and "the"."""
    return _by_key().get(_key(text))


def near_matches(text: str, limit: int = 5) -> list[str]:
    """Names of countries spelled like `text`, closest first."""
    names = [key for key in _by_key() if len(key) > 3]
    keys = difflib.get_close_matches(_key(text), names, n=limit * 4, cutoff=0.6)
    return list(dict.fromkeys(_by_key()[key].name for key in keys))[:limit]


@cache
def _by_key() -> dict[str, Country]:
    # Names come last so that no alias or code of another country replaces them.
    index = {_key(alias): country for country in COUNTRIES for alias in country.aliases}
    index |= {_key(code): country for country in COUNTRIES for code in (country.alpha3, country.alpha2)}
    return index | {_key(country.name): country for country in COUNTRIES}


def _key(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text[:100]).casefold()
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = _BREAKS.sub(" ", _POINTS.sub("", plain.replace("&", " and "))).split()
    if len(words) > 1 and words[0] == "the":
        del words[0]
    return " ".join("st" if word == "saint" else word for word in words)
