"""How articles become rows: one a product and size, other variants collapsed, attributes derived, faults told."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse.catalogue.importers.article import Faulty, FeedItem
from tollhouse.services.mattress.attributes.derive import LONGEST_TEXT, derive
from tollhouse.services.mattress.attributes.lexicon import DerivedAttribute, ProductTexts
from tollhouse.services.mattress.attributes.size import declared_size
from tollhouse.services.mattress.feed_item import ImportedRow
from tollhouse.services.mattress.product import CURRENCY, MATTRESSES

LONGEST_ID = 120
LONGEST_TITLE = 500
LONGEST_LABEL = 200
MOST_TAGS = 100

_SLUG = re.compile(r"[^a-z0-9]+")
# What stands where a product comes in one size only.
_NO_SIZE = frozenset({"", "default title", "default", "one size", "onesize", "n/a", "na", "-", "none", "standard"})


class Terms(Struct, frozen=True):
    """`currency` is taken where the feed names none; "" refuses such rows. `page` stands in for a missing address."""

    currency: str = ""
    page: str = ""


def rows_of(articles: Iterable[FeedItem], terms: Terms) -> list[ImportedRow]:
    """One row for each product and size, in the feed's order; an id that comes twice is refused the second time."""
    groups: dict[tuple[str, ...], list[FeedItem]] = {}
    lines: dict[tuple[str, str], int] = {}
    twice: list[ImportedRow] = []
    for place, article in enumerate(articles):
        told = lines.setdefault((article.group, article.id), article.line) if _is_grouped(article) else article.line
        if told != article.line:
            twice.append(ImportedRow(article.line, refused=f"has the id of line {told}"))
        else:
            groups.setdefault(_key(article, place), []).append(article)
    rows = [_row(group, _size_slug(group[0]) if group[0].group else "", terms) for group in groups.values()]
    return sorted([*rows, *twice], key=lambda row: row.line)


def _is_grouped(article: FeedItem) -> bool:
    """Whether other lines of the feed may belong to the same product."""
    return bool(article.group and article.id) and article.id != article.group


def _key(article: FeedItem, place: int) -> tuple[str, ...]:
    """What becomes one row. Things that stand alone never merge: whoever repeats an id hears of it."""
    if not article.group:
        return ("alone", str(place))
    return ("group", article.group, _size_slug(article), "" if _is_grouped(article) else str(article.line))


def _row(group: list[FeedItem], slug: str, terms: Terms) -> ImportedRow:
    first = group[0]
    identity = (f"{first.group}-{slug}" if slug else first.group) if first.group else first.id
    try:
        best = _best(group)
        product = _product(best, group, terms)
        _vet_identity(identity)
    except Faulty as fault:
        return ImportedRow(first.line, identity if _is_identity(identity) else "", refused=str(fault))
    return ImportedRow(first.line, identity, product)


def _best(group: list[FeedItem]) -> FeedItem:
    """Of a size in several colours, the cheapest that can be had; of equals the first. Raises Faulty."""
    good = [article for article in group if not article.fault and article.price]
    if not good:
        raise Faulty(next((article.fault for article in group if article.fault), "has no price"))
    return min(
        good, key=lambda article: (article.availability != "in stock", article.price.now if article.price else 0)
    )


def _product(article: FeedItem, group: list[FeedItem], terms: Terms) -> dict[str, Any]:
    if not article.title:
        raise Faulty("has no title")
    assert article.price is not None, "the best of a group has a price"
    currency = article.price.currency or terms.currency
    if not currency:
        raise Faulty(f"names no currency: give --currency {CURRENCY} if its prices are in it")
    if currency != CURRENCY:
        raise Faulty(f"is priced in {currency[:20]}, and this catalogue is in {CURRENCY}")
    page = article.page_url or terms.page
    if not _is_address(page):
        raise Faulty(f"has no http or https address of its page{f': {page[:60]!r}' if page else ''}")
    now, listed = article.price.now, article.price.listed
    product: dict[str, Any] = {
        "title": article.title[:LONGEST_TITLE].strip(),
        "price": float(now if listed is None else listed),
        "sale_price": float(now),
        "affiliate_url": page,
        "availability": article.availability,
        "brand": article.brand[:LONGEST_LABEL].strip(),
        "description": article.description[:LONGEST_TEXT],
        "image_url": article.image_url if _is_address(article.image_url) else "",
        "tags": _tags(article),
    }
    return {name: value for name, value in product.items() if value} | _attributes(article, group)


def _attributes(article: FeedItem, group: list[FeedItem]) -> dict[str, Any]:
    """What is known of the mattress, and in the hidden member `derived` by which words."""
    declared = {
        name: tuple(dict.fromkeys(text for each in group for text in each.declared.get(name, ())))
        for name in {name for each in group for name in each.declared}
    }
    has_size = _size_label(article) is not None
    if has_size:
        declared["size"] = (article.size,)
    _vet_numbers(declared)
    texts = ProductTexts(article.title, (article.kind, *article.tags), article.description, declared)
    findings = dict(derive(texts).findings)
    if has_size and "size" in findings and findings["size"].place != "declared":
        # A size that is none of the six is not one of them because the title says "King".
        del findings["size"]
    known: dict[str, Any] = {name: _plain(finding) for name, finding in findings.items() if finding.value is not None}
    if findings and "derived" in MATTRESSES.by_name:
        known["derived"] = {name: _told(finding) for name, finding in sorted(findings.items())}
    return known


def _vet_numbers(declared: dict[str, tuple[str, ...]]) -> None:
    """A number under a heading is a claim to be checked; one beyond its scale is refused, not guessed at."""
    for name, highest in (("firmness", 10), ("cooling", 5)):
        for text in declared.get(name, ()):
            number = text.strip()
            if re.fullmatch(r"-?\d{1,9}(?:\.\d{1,9})?", number) and not 1 <= float(number) <= highest:
                raise Faulty(f"the {name} {number} lies outside 1..{highest}")


def _plain(finding: DerivedAttribute) -> Any:
    return list(finding.value) if isinstance(finding.value, tuple) else finding.value


def _told(finding: DerivedAttribute) -> dict[str, Any]:
    return {"value": _plain(finding), "words": list(finding.words), "place": finding.place}


def _tags(article: FeedItem) -> list[str]:
    return [tag for tag in dict.fromkeys(each[:LONGEST_LABEL].strip() for each in article.tags) if tag][:MOST_TAGS]


def _size_label(article: FeedItem) -> str | None:
    """What the feed calls the size, where it names one."""
    said = " ".join(article.size.split())
    return None if said.lower() in _NO_SIZE else said


def _size_slug(article: FeedItem) -> str:
    """One text for all spellings of a size: it is part of the product's id, so it never changes."""
    said = _size_label(article)
    if said is None:
        return ""
    found = declared_size(said)
    return _SLUG.sub("-", str(found.value if found else said).lower()).strip("-")[:40]


def _vet_identity(identity: str) -> None:
    if not identity:
        raise Faulty("has no id")
    if not _is_identity(identity):
        raise Faulty(f"the id must be at most {LONGEST_ID} printable characters with a letter or digit among them")


def _is_identity(identity: str) -> bool:
    return identity.isprintable() and len(identity) <= LONGEST_ID and bool(re.search(r"[A-Za-z0-9]", identity))


def _is_address(text: str) -> bool:
    if not text or not text.isprintable() or " " in text or len(text) > 2_000:
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


def repeats_left_out(rows: Iterable[ImportedRow]) -> Iterator[ImportedRow]:
    """Without rows that say again, word for word, what an earlier one of the same id said."""
    seen: dict[str, ImportedRow] = {}
    for row in rows:
        before = seen.setdefault(row.id, row)
        if before is row or not row.id or before.product != row.product or before.refused != row.refused:
            yield row
