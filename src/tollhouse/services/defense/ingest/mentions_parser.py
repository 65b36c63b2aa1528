"""How a GDELT 2.0 mentions file becomes records of who reported which event, and how surely.

16 tab-separated columns, no header, no quoting (Event codebook 2.0, mentions table).
"""

from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

from tollhouse.services.defense.ingest.export_parser import BadRow
from tollhouse.services.defense.links import tidy_link

COLUMNS = 16
LONGEST_LINE = 8192

_WEB = "1"


class Mention(Struct, frozen=True, gc=False):
    """One report of an event. `event_id` is the GlobalEventID; `source` the outlet's host, as GDELT writes it.

    `confidence` is 10..100, GDELT's own judgement of this extraction. `tone` is the document's, -100..100.
    """

    event_id: str
    mentioned_at: datetime
    source: str
    url: str
    confidence: int
    tone: float | None


class ParsedMentions(Struct, frozen=True):
    """The usable rows in the file's order. `total` counts every line that is not empty."""

    mentions: list[Mention]
    bad: list[BadRow]
    total: int


def parse_mentions(raw: bytes) -> ParsedMentions:
    """Every mention on a web page. Rows about broadcasts and print, which have no address, count as bad."""
    mentions: list[Mention] = []
    bad: list[BadRow] = []
    total = 0
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line or line == b"\r":
            continue
        total += 1
        try:
            mentions.append(_mention(line.decode("utf-8", "replace")))
        except ValueError as fault:
            bad.append(BadRow(number, str(fault)))
    return ParsedMentions(mentions, bad, total)


def _mention(line: str) -> Mention:
    f = line.split("\t")
    if len(f) != COLUMNS or len(line) > LONGEST_LINE:
        raise ValueError(f"{len(f)} columns in {len(line)} characters; {COLUMNS} in at most {LONGEST_LINE} expected")
    if not (f[0].isascii() and f[0].isdecimal()):
        raise ValueError("the event id is not a number")
    if f[3] != _WEB:
        raise ValueError("the document is no web page")
    return Mention(f[0], _moment(f[2]), f[4], _address(f[5]), _confidence(f[11]), _tone(f[13]))


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime:
    """YYYYMMDDHHMMSS in UTC."""
    if len(text) != 14 or not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text[:20]!r} is not a date")
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    return datetime(year, month, day, int(text[8:10]), int(text[10:12]), int(text[12:]), tzinfo=UTC)


@lru_cache(maxsize=16384)
def _address(text: str) -> str:
    url = tidy_link(text)
    if not url:
        raise ValueError("the document is not an http(s) address")
    return url


@lru_cache(maxsize=128)
def _confidence(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 <= int(text) <= 100:
        raise ValueError(f"{text[:20]!r} is not a confidence of 0..100")
    return int(text)


def _tone(text: str) -> float | None:
    try:
        tone = float(text)
    except ValueError:
        return None
    return tone if -100 <= tone <= 100 else None
