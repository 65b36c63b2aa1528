"""How shoppers write what a thing may cost: "under $1,500", "between 800 and 1200", "around 1k"."""

from typing import Any, Protocol

# Behind a number these say that it is no price.
_UNITS = (
    "cm|mm|kgs?|nights?|days?|weeks?|months?|years?|yrs?|zones?|springs?|coils?|layers?|stars?|inch(?:es)?|%|/ ?10"
    "|out of|people|persons?"
)
_NO_PRICE = rf"(?! ?(?:{_UNITS}))"
_TO = "(?:and|to|-|\u2013)"
_SIGN = r"(?:(?:aud|au\$|a\$|\$) ?)"


def _money(name: str, *, sign: str = "?") -> str:
    return rf"{_SIGN}{sign}(?P<{name}>\d+(?:\.\d+)?)(?P<{name}_k>k)?(?: ?(?:dollars|bucks|aud))?{_NO_PRICE}"


_BETWEEN = (
    rf"(?:between|from) {_money('low')} ?{_TO} ?{_money('high')}",
    rf"{_money('low', sign='')} ?{_TO} ?{_money('high')}",
    rf"(?P<low>\d{{3,}})(?P<low_k>k)? ?{_TO} ?(?P<high>\d{{3,}})(?P<high_k>k)?{_NO_PRICE}",
)
_AT_MOST_WORDS = (
    r"(?:under|below|less than|cheaper than|up to|upto|max(?:imum)?(?: of)?|(?:no|not) more than|at most|within"
    r"|(?:a |my )?budget(?: of| is|:)?|for less than|<=?)"
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

# So far "around" reaches to either side.
_ROUGHLY = 0.15
_HIGHEST = 1_000_000.0


class Reading(Protocol):
    """What a budget is taken out of."""

    def take(self, pattern: str) -> Any:
        """The first place where the pattern stands as whole words; it is there no longer."""

    def wish(self, filters: dict[str, Any], said: str) -> None:
        """Ask for this because these words say so."""


def taken_budget(reading: Reading) -> None:
    """Read the least and the most that may be paid, in Australian dollars."""
    for pattern in (*_BETWEEN, *_AT_MOST, *_ABOUT, *_AT_LEAST, *_BARE):
        match = reading.take(pattern)
        if match:
            reading.wish(_ends({name: _amount(match, name) for name in ("low", "high", "about")}), match[0])


def _ends(said: dict[str, float | None]) -> dict[str, float | None]:
    low, high, about = said["low"], said["high"], said["about"]
    if about is not None:
        low, high = round(about * (1 - _ROUGHLY)), round(about * (1 + _ROUGHLY))
    if low is not None and high is not None and low > high:
        low, high = high, low
    return {"min_price": low, "max_price": high}


def _amount(match: Any, name: str) -> float | None:
    found = match.groupdict().get(name)
    if found is None:
        return None
    return min(_HIGHEST, float(found) * (1000 if match.groupdict().get(f"{name}_k") else 1))
