"""A report: what one page and its provider rows say. Reports that report one occurrence are resolved into an event."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from tollhouse.services.defense.article import Article, article_id, clean_url, find_publisher
from tollhouse.services.defense.entities.extractor import extract_names
from tollhouse.services.defense.entities.merge import NamedEntity, named_entities
from tollhouse.services.defense.events.classifier import Classified, ClassifierInput, classify_reports
from tollhouse.services.defense.events.event import Category, TitleBasis
from tollhouse.services.defense.events.place import PlaceEvidence, read_place
from tollhouse.services.defense.events.toll import Toll, read_toll
from tollhouse.services.defense.gazetteer import country_by_cameo
from tollhouse.services.defense.ingest.export_parser import (
    Row,
    cameo_category,
    cameo_label,
    heaviest_row,
    is_riot,
    is_strike,
    is_violence,
    time_of_slot,
)
from tollhouse.services.defense.ingest.url_title import title_from_url

# Stored reports of another version are read again from their kept rows when a server starts.
VERSION = 5

# GDELT dates "last week", "last month" and "last year" 7, about 30 and about 365 days back.
PAST_DAYS = 6

RejectionReason = Literal["no rows", "only mentions of the past"]
Headline = tuple[str, TitleBasis]

# The subcategory of a page without rows of its category.
UNCODED: dict[Category, str] = {
    "Battles": "Armed violence",
    "Protests": "Protest",
    "Political": "Political event",
    "Economic": "Economic event",
}

_PARTS = re.compile(r"(?i:https?://)?([^/?#]*)([^?#]*)(?:\?([^#]*))?")
_TRACKING = re.compile(
    r"(?:utm_\w*|fbclid|gclid|dclid|msclkid|yclid|igshid|mc_[ce]id|ocid|cmpid|cmp|ito|ns_\w*|smid|sref|_ga"
    r"|amp(?:=1|=true)?$|outputtype=amp)(?:=|$)",
    re.IGNORECASE,
)


class Page(Struct, frozen=True):
    """A page with its provider rows, which may come from several exports, and its headline if known.

    `article` is the page as a feed or GKG gave it, which a page without rows needs.
    """

    url: str
    rows: Sequence[Row]
    headline: Headline | None = None
    article: Article | None = None


class Report(Struct, frozen=True, gc=False):
    """What a page and its provider rows say.

    `id` is the id of an event of this report alone. `title` is empty where neither a page nor the URL gives one.
    `day` is that of the deciding row, else of publication. `code` is the deciding row's CAMEO code, empty without rows.
    `actors` are the names of the actors of all rows. `row_keys` name rows by day, code, actors and place. `clashes` are
    the pairs of countries whose governments or armed forces one row of the category sets against each other.
    """

    id: str
    article_id: str
    url: str
    title: str
    title_basis: TitleBasis
    publisher: str
    family: str
    day: date
    first_reported_at: datetime
    last_reported_at: datetime
    row_ids: tuple[str, ...]
    code: str
    subcategory: str
    goldstein: float
    is_riot: bool
    actors: tuple[str, ...]
    row_keys: tuple[str, ...]
    clashes: tuple[tuple[str, str], ...]
    names: tuple[NamedEntity, ...]
    place: PlaceEvidence
    toll: Toll
    classified: Classified

    @property
    def has_headline(self) -> bool:
        return bool(self.title)


class ReportHeadline(Struct, frozen=True, gc=False):
    """What finds a report, and its headline."""

    id: str
    article_id: str
    url: str
    title: str
    title_basis: TitleBasis


class Rejected(Struct, frozen=True):
    """Why the rows of a URL do not make a report."""

    reason: RejectionReason


def canonical_url(url: str) -> str:
    """Normalize a URL so that two addresses of one article are equal. The result identifies; it may not resolve.

    Drops the scheme, a leading "www.", default ports, the fragment, trailing slashes, a last path part "amp" and
    tracking parameters. Keeps everything else, including the order of other parameters: a wrong split costs a
    duplicate, a wrong merge loses an event.
    """
    match = _PARTS.match(clean_url(url) or url)
    assert match is not None
    host, path, query = match.groups()
    host = host.lower().removesuffix(":80").removesuffix(":443").removeprefix("www.")
    path = path.rstrip("/").removesuffix("/amp").rstrip("/")
    pairs = [pair for pair in query.split("&") if pair and not _TRACKING.match(pair)] if query else ()
    return f"https://{host}{path}" + (f"?{'&'.join(pairs)}" if pairs else "")


# Called twice per page: to group its rows and to read its report.
@lru_cache(maxsize=4096)
def event_id(url: str) -> str:
    """`conflict_` and the first 16 hex digits of the canonical URL's SHA-256."""
    return f"conflict_{sha256(canonical_url(url).encode()).hexdigest()[:16]}"


def read_reports(pages: Sequence[Page]) -> list[Report | Rejected]:
    """The report of each page, in their order, or why there is none.

    Ignores rows dated PAST_DAYS or more before their export: they report the past.
    """
    fresh = [[row for row in page.rows if _days_late(row.day, row.added) < PAST_DAYS] for page in pages]
    titles = [_title(page, rows) for page, rows in zip(pages, fresh, strict=True)]
    inputs = [
        ClassifierInput(title, page.url, rows, bool(title), page.article.published.date() if page.article else None)
        for page, rows, (title, _) in zip(pages, fresh, titles, strict=True)
    ]
    return [
        _report(page, rows, headline, classified)
        if rows or page.article
        else Rejected("only mentions of the past" if page.rows else "no rows")
        for page, rows, headline, classified in zip(pages, fresh, titles, classify_reports(inputs), strict=True)
    ]


def composed_title(subcategory: str, place: str, url: str) -> str:
    """The title of an event none of whose pages has a headline or words in its URL. `place` may be empty."""
    host = canonical_url(url).removeprefix("https://").partition("/")[0].partition("?")[0]
    return f"{subcategory} in {place} ({host})" if place else f"{subcategory} ({host})"


def _title(page: Page, rows: Sequence[Row]) -> Headline:
    return page.headline or (title_from_url(page.url, {row.geo_name for row in rows}) or "", "url")


def _report(page: Page, rows: Sequence[Row], headline: Headline, classified: Classified) -> Report:
    title, basis = headline
    deciding = _rows_of_category(rows, classified.category)
    row = heaviest_row(deciding) if deciding else None
    publisher = find_publisher(page.url)
    published = [page.article.published] if page.article else []
    moments = [time_of_slot(row.added) for row in rows] or published
    text = f"{title}.\n{page.article.text}" if page.article and page.article.text else title
    return Report(
        id=event_id(page.url),
        article_id=page.article.id if page.article else article_id(page.url),
        url=page.url,
        title=title,
        title_basis=basis,
        publisher=page.article.publisher if page.article else publisher.name,
        family=page.article.family if page.article else publisher.family,
        day=_date((row or heaviest_row(rows)).day) if rows else min(moments).date(),
        first_reported_at=min([*moments, *published]),
        last_reported_at=max(moments),
        row_ids=tuple(row.id for row in rows),
        code=row.code if row else "",
        subcategory=cameo_label(row.code) if row else UNCODED[classified.category],
        goldstein=row.goldstein if row else 0.0,
        is_riot=any(is_riot(row.code) for row in deciding),
        actors=tuple(sorted({name for row in rows for name in (row.actor1_name, row.actor2_name) if name})),
        row_keys=tuple(sorted({key for row in rows if (key := _row_key(row))})),
        clashes=tuple(sorted({pair for row in deciding if (pair := _clash(row))})),
        names=named_entities(extract_names(text)) if title else (),
        place=read_place(title, rows, page.url),
        toll=read_toll(title),
        classified=classified,
    )


def _rows_of_category(rows: Sequence[Row], category: Category) -> list[Row]:
    if category == "Battles":
        return [row for row in rows if is_violence(row.code)]
    return [row for row in rows if cameo_category(row.code) == category]


def _row_key(row: Row) -> str:
    """What identifies a row in other pages; empty for one without two actors or a city."""
    if not (row.actor1_name and row.actor2_name and row.geo_type in {3, 4}):
        return ""
    return f"{row.day} {row.code} {row.actor1_name} {row.actor2_name} {row.geo_name}"


def _clash(row: Row) -> tuple[str, str] | None:
    """The countries of a strike between two states' governments or armed forces, in alphabetical order."""
    first, second = country_by_cameo(row.actor1_country), country_by_cameo(row.actor2_country)
    is_between_states = is_strike(row.code) and {row.actor1_type, row.actor2_type} <= {"GOV", "MIL"}
    if not (is_between_states and first and second and first != second):
        return None
    one, other = sorted((first.name, second.name))
    return one, other


@lru_cache(maxsize=4096)
def _days_late(day: str, added: str) -> int:
    return (_date(added[:8]) - _date(day)).days


@lru_cache(maxsize=4096)
def _date(day: str) -> date:
    return date(int(day[:4]), int(day[4:6]), int(day[6:8]))
