"""Right answers about the defense feeds, worked out from the plain rows of their API."""

import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tools.question_gold import evaluation

Row = dict[str, Any]

PAGE = 100
"""The most rows that the API gives on one page."""

AFRICA = frozenset(
    {
        "Algeria", "Angola", "Benin", "Botswana", "Burkina Faso", "Burundi", "Cabo Verde", "Cameroon",
        "Central African Republic", "Chad", "Comoros", "Democratic Republic of the Congo", "Djibouti", "Egypt",
        "Equatorial Guinea", "Eritrea", "Eswatini", "Ethiopia", "Gabon", "Gambia", "Ghana", "Guinea", "Guinea-Bissau",
        "Ivory Coast", "Kenya", "Lesotho", "Liberia", "Libya", "Madagascar", "Malawi", "Mali", "Mauritania",
        "Mauritius", "Morocco", "Mozambique", "Namibia", "Niger", "Nigeria", "Republic of the Congo", "Rwanda",
        "Senegal", "Seychelles", "Sierra Leone", "Somalia", "South Africa", "South Sudan", "Sudan",
        "São Tomé and Príncipe", "Tanzania", "Togo", "Tunisia", "Uganda", "Western Sahara", "Zambia", "Zimbabwe",
    }
)  # fmt: skip
SOUTH_AMERICA = frozenset(
    {
        "Argentina", "Bolivia", "Brazil", "Chile", "Colombia", "Ecuador", "French Guiana", "Guyana", "Paraguay",
        "Peru", "Suriname", "Uruguay", "Venezuela",
    }
)  # fmt: skip
EUROPEAN_UNION = frozenset(
    {
        "Austria", "Belgium", "Bulgaria", "Croatia", "Cyprus", "Czechia", "Denmark", "Estonia", "Finland", "France",
        "Germany", "Greece", "Hungary", "Ireland", "Italy", "Latvia", "Lithuania", "Luxembourg", "Malta",
        "Netherlands", "Poland", "Portugal", "Romania", "Slovakia", "Slovenia", "Spain", "Sweden",
    }
)  # fmt: skip
SOUTH_EAST_ASIA = frozenset(
    {
        "Brunei", "Cambodia", "Indonesia", "Laos", "Malaysia", "Myanmar", "Philippines", "Singapore", "Thailand",
        "Timor-Leste", "Vietnam",
    }
)  # fmt: skip


def fetch_rows(base_url: str, key: str | None = None) -> Row:
    """Every page of the feeds of the service at `base_url`, and the time that they end at."""
    events, as_of = _pages(base_url, "events", key)
    stories, _ = _pages(base_url, "stories", key)
    entities, _ = _pages(base_url, "entities", key)
    brief = evaluation.fetch(f"{base_url}/feeds/defense-brief", key)
    return {"events": events, "stories": stories, "entities": entities, "brief": brief, "as_of": as_of}


def names(rows: Row) -> evaluation.Names:
    """Everything that a gold expression may name."""
    return {
        **rows,
        "as_of": moment(rows["as_of"]),
        "texts": _texts(rows["events"], rows["stories"]),
        "has": has,
        "moment": moment,
        "best": best,
        "africa": AFRICA,
        "south_america": SOUTH_AMERICA,
        "european_union": EUROPEAN_UNION,
        "south_east_asia": SOUTH_EAST_ASIA,
    }


def has(text: str, *words: str) -> bool:
    """Whether every word (or phrase) occurs in the text as a whole word, in any case, singular or plural."""
    return all(re.search(rf"(?<!\w){_either_number(word)}(?!\w)", text, re.IGNORECASE) for word in words)


def moment(text: str) -> datetime:
    """The time an ISO 8601 text names, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def best(counts: Mapping[str, float] | Iterable[str], *, lowest: bool = False) -> list[str]:
    """The names with the highest (or lowest) figure, all of them where they tie; of bare names, how often each is."""
    figures = counts if isinstance(counts, Mapping) else Counter(counts)
    if not figures:
        return []
    choose: Callable[[Iterable[float]], float] = min if lowest else max
    top = choose(figures.values())
    return sorted(name for name, figure in figures.items() if figure == top)


def _either_number(word: str) -> str:
    """A pattern for the word in the singular and the plural."""
    if re.search(r"[^aeiou]ies$", word, re.IGNORECASE):
        return re.escape(word[:-3]) + "(?:y|ies)"
    if re.search(r"[^aeiou]y$", word, re.IGNORECASE):
        return re.escape(word[:-1]) + "(?:y|ies)"
    if re.search(r"[^su]s$", word, re.IGNORECASE):
        return re.escape(word[:-1]) + "s?"
    return re.escape(word) + "(?:s|es)?"


def _texts(events: list[Row], stories: list[Row]) -> list[Row]:
    """What can be read of each event (its headline and place) and story (headline, summary, reports' headlines)."""
    read = [
        {
            "id": event["id"],
            "kind": "event",
            "text": " . ".join(filter(None, (event["title"], event["geo"]["region"], event["geo"]["country"]))),
        }
        for event in events
    ]
    read += [
        {
            "id": story["id"],
            "kind": "story",
            "text": " . ".join(
                filter(None, (story["title"], story["summary"], *(report["title"] for report in story["articles"])))
            ),
        }
        for story in stories
    ]
    return read


def _pages(base_url: str, feed: str, key: str | None) -> tuple[list[Row], str]:
    """All rows of a feed, in its own order, and the time that it ends at."""
    rows: list[Row] = []
    query: dict[str, str | int] = {"limit": PAGE}
    while True:
        page = evaluation.fetch(f"{base_url}/feeds/{feed}?{urllib.parse.urlencode(query)}", key)
        rows += page[feed]
        if not page["next_cursor"]:
            return rows, page["as_of"]
        query["cursor"] = page["next_cursor"]
