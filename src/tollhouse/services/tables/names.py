"""Names: which a service may have, and which a column gets however it is headed."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

# A catalogue's name in the database has room for 40, with its shape behind it.
MAX_SERVICE_NAME = 28
MAX_FIELD_NAME = 40

# What stands at the root of a host, beside the services' prefixes. A test compares it with what is mounted there.
ROOT_PATHS = frozenset({
    "alerts", "api", "ask", "board", "chat", "console", "docs", "facilitator", "feeds", "guide", "health", "keys",
    "llms", "mattresses", "mcp", "metrics", "operator", "problems", "studio-catalogue", "tables", "value-chain",
    "wallet",
})  # fmt: skip
# Parameters of the operations, and names that the catalogue derives.
TAKEN_FIELDS = frozenset({
    "id", "current_price", "discount", "q", "sort", "facets", "fields", "limit", "offset", "format", "item",
})  # fmt: skip
# How the ends of a range are asked for.
_ENDS = ("min_", "max_")

_SERVICE = re.compile(rf"[a-z][a-z0-9-]{{0,{MAX_SERVICE_NAME - 1}}}")
_FIELD = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_FIELD_NAME - 1}}}")
# Letters that Unicode does not take apart.
_SPELT = str.maketrans({"ß": "ss", "æ": "ae", "ø": "o", "đ": "d", "ł": "l", "œ": "oe", "þ": "th", "ð": "d"})


def service_fault(name: str, taken: Iterable[str]) -> str:
    """Why a service cannot be called this, "" when it can."""
    if not _SERVICE.fullmatch(name) or name.endswith("-"):
        return f"a service's name is 1 to {MAX_SERVICE_NAME} small letters, digits and hyphens, a letter first"
    if name in {*taken, *ROOT_PATHS}:
        return f"the name {name} is taken by the server itself"
    return ""


def field_fault(name: str) -> str:
    """Why a field cannot be called this, "" when it can."""
    if not _FIELD.fullmatch(name):
        return f"a field's name is 1 to {MAX_FIELD_NAME} small letters, digits and underscores, a letter first"
    if name in TAKEN_FIELDS:
        return f"the name {name} is taken: {', '.join(sorted(TAKEN_FIELDS))} are"
    if name.startswith(_ENDS):
        return f"a name cannot begin with {' or '.join(_ENDS)}: that is how the ends of a range are asked for"
    return ""


def field_names(headers: Iterable[str]) -> Iterator[str]:
    """A name for each header, no two alike: `Prix (€)` is `prix`, a second one `prix_2`, `最高` is `column_3`."""
    given = set(TAKEN_FIELDS)
    for number, header in enumerate(headers, start=1):
        name = _plain(header) or f"column_{number}"
        for end in _ENDS:
            if name.startswith(end):
                name = f"{name.removeprefix(end)}_{end.rstrip('_')}".strip("_")
        yield _free(name, given)


def _plain(header: str) -> str:
    apart = unicodedata.normalize("NFKD", header).casefold().translate(_SPELT)
    letters = "".join(sign for sign in apart if not unicodedata.combining(sign))
    # isbn13Code and ISBN-13 code alike become words.
    words = re.sub(r"[^a-z0-9]+", "_", letters).strip("_")
    return (words if not words[:1].isdigit() else f"n_{words}")[: MAX_FIELD_NAME - 4].rstrip("_")


def _free(name: str, given: set[str]) -> str:
    found, number = name, 1
    while found in given:
        number += 1
        found = f"{name[: MAX_FIELD_NAME - 4]}_{number}"
    given.add(found)
    return found
