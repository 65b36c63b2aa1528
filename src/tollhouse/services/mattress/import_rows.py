"""Product feeds as mattresses: one row for each product and size, other variants collapsed, attributes derived."""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.catalogue.importers.items import FeedItem, FeedItemError
from tollhouse.catalogue.importers.values import is_url
from tollhouse.services.mattress.attributes.derive import LONGEST_TEXT, declared_size, derive
from tollhouse.services.mattress.attributes.lexicon import DerivedAttribute, ProductTexts
from tollhouse.services.mattress.product import CURRENCY, MATTRESSES
from tollhouse.storage.spool import Spool

ATTRIBUTES = ("material", "firmness", "cooling", "sleep_positions")
MAX_ID = 120
MAX_TITLE = 500
MAX_LABEL = 200
MAX_TAGS = 100
MAX_PRICE = Decimal(100_000)
"""No mattress costs more; a higher price is in a wrong unit."""

# The headings under which feeds declare an attribute: names of options, properties and columns.
_HEADINGS = {
    "size": ("size", "bed size", "mattress size", "sizes", "choose size", "select size", "dimensions", "pa size"),
    "firmness": ("firmness", "feel", "comfort", "comfort level", "comfort rating", "comfort feel", "firmness level",
                 "firmness rating", "tension", "mattress feel", "mattress firmness"),
    "cooling": ("cooling", "cooling rating", "cooling level", "temperature rating"),
    "sleep_positions": ("sleep position", "sleep positions", "sleeping position", "sleeping positions", "sleeper type",
                        "best for", "sleeping style"),
    "material": ("material", "mattress type", "construction", "mattress material", "core", "core material",
                 "mattress construction"),
}  # fmt: skip
_ATTRIBUTE_BY_HEADING = {heading: attribute for attribute, headings in _HEADINGS.items() for heading in headings}
_NOT_IN_SLUGS = re.compile(r"[^a-z0-9]+")
# What stands where a product comes in one size only.
_NO_SIZE = frozenset({"", "default title", "default", "one size", "onesize", "n/a", "na", "-", "none", "standard"})


class ImportedRow(Struct, frozen=True):
    """A product to store, or the reason why a row is refused: exactly one of `product` and `refused` is there.

    `line` is the line of the file, or the number of the entry from 1. `id` is the product's own in the retailer's
    feed; a refused row has it where it could be read, so that its product is not removed.

    `product` has members of `product.MATTRESSES` without `id`, `retailer`, `currency`, `created_at` and `updated_at`,
    which the import adds. `price` is the list price and `sale_price` what is to be paid now, in Australian dollars.
    `affiliate_url` is the product's page at the retailer, untagged.
    """

    line: int
    id: str = ""
    product: dict[str, Any] | None = None
    refused: str = ""


class Terms(Struct, frozen=True):
    """`currency` is taken where the feed names none; "" refuses such rows. `page` stands in for a missing address."""

    currency: str = ""
    page: str = ""


def rows_from_items(items: Iterable[FeedItem], terms: Terms, *, merges_repeats: bool = False) -> Iterator[ImportedRow]:
    """One row for each product and size, in the order in which the feed begins the products.

    Items are in a temporary file meanwhile, and those of one product in memory. An id that a product repeats is refused
    the second time. `merges_repeats` leaves out rows that repeat an earlier one of the same id word for word.
    """
    products = Spool(FeedItem)
    for place, item in enumerate(items):
        # Single items never merge, so that a repeated id is reported.
        products.add(f"group {item.group}" if item.group else f"alone {place}", item)
    rows = (row for members in products.groups() for row in _rows(members, terms))
    return _without_repeats(rows) if merges_repeats else rows


def _rows(members: list[FeedItem], terms: Terms) -> Iterator[ImportedRow]:
    """The rows of the items of one product, by line."""
    sizes: dict[tuple[str, str], list[FeedItem]] = {}
    lines: dict[str, int] = {}
    rows: list[ImportedRow] = []
    for place, item in enumerate(_with_sizes(members)):
        first_line = lines.setdefault(item.id, item.line) if _is_variant(item) else item.line
        if first_line != item.line:
            rows.append(ImportedRow(item.line, refused=f"has the id of line {first_line}"))
        else:
            size = (_size_slug(item), "" if _is_variant(item) else str(item.line)) if item.group else (str(place), "")
            sizes.setdefault(size, []).append(item)
    rows += [_row(group, terms) for group in sizes.values()]
    return iter(sorted(rows, key=lambda row: row.line))


def _with_sizes(items: list[FeedItem]) -> Iterator[FeedItem]:
    """Items of one product with the label of their size: the feed's own, or that of an option, choice or attribute."""
    heading = _size_heading(items)
    for item in items:
        choices = next((sizes for heading, sizes in item.choices if _attribute(heading) == "size"), ())
        if item.size or choices:
            yield from [replace(item, size=size) for size in choices] or [item]
            continue
        options = dict(item.options)
        declared = [value for name, value in item.attributes if _attribute(name) == "size"]
        if heading and options.get(heading):
            yield replace(item, size=options[heading], page_url=item.variant_url or item.page_url)
        elif len(declared) == 1 and (item.group or declared_size(declared[0])):
            yield replace(item, size=declared[0])
        else:
            yield replace(item, size=options.get("", ""))


def _size_heading(items: list[FeedItem]) -> str:
    """The option that is the size: the one called so, else one that has nothing but sizes; "" for none."""
    options = [dict(item.options) for item in items]
    headings = list(dict.fromkeys(heading for each in options for heading in each if heading))
    for heading in headings:
        if _attribute(heading) == "size" and any(each.get(heading, "").lower() not in _NO_SIZE for each in options):
            return heading
    return next((name for name in headings if all(name in each and declared_size(each[name]) for each in options)), "")


def _attribute(heading: str) -> str:
    return _ATTRIBUTE_BY_HEADING.get(_NOT_IN_SLUGS.sub(" ", heading.lower()).strip(), "")


def _is_variant(item: FeedItem) -> bool:
    """Whether an item has an id of its own beside that of its product."""
    return bool(item.group and item.id) and item.id != item.group


def _row(group: list[FeedItem], terms: Terms) -> ImportedRow:
    first = group[0]
    slug = _size_slug(first) if first.group else ""
    identity = (f"{first.group}-{slug}" if slug else first.group) if first.group else first.id
    try:
        product = _product(_best(group), group, terms)
        if not identity:
            raise FeedItemError("has no id")  # noqa: TRY301 - reported like any other fault
        if not _is_identity(identity):
            raise FeedItemError(f"the id must be at most {MAX_ID} printable characters with a letter or digit")  # noqa: TRY301
    except FeedItemError as fault:
        return ImportedRow(first.line, identity if _is_identity(identity) else "", refused=str(fault))
    return ImportedRow(first.line, identity, product)


def _best(group: list[FeedItem]) -> FeedItem:
    """Of a size in several colours, the cheapest in stock; of equals the first. Raises FeedItemError."""
    faults = [item.fault or _price_fault(item) for item in group]
    valid = [item for item, fault in zip(group, faults, strict=True) if not fault]
    if not valid:
        raise FeedItemError(faults[0])
    return min(valid, key=lambda item: (item.availability != "in stock", item.price.now if item.price else 0))


def _price_fault(item: FeedItem) -> str:
    """Why a price is impossible, "" for none."""
    if item.price is None:
        return "has no price"
    for amount, name in ((item.price.now, "price"), (item.price.listed, "price before the reduction")):
        if amount is None:
            continue
        if amount <= 0:
            return f"the {name} must be above zero, not {amount:f}"
        if amount > MAX_PRICE:
            return f"the {name} is above {MAX_PRICE:,}: {amount:f}"
        if amount != round(amount, 2):
            return f"the {name} has more than 2 decimals: {amount:f}"
    return ""


def _product(item: FeedItem, group: list[FeedItem], terms: Terms) -> dict[str, Any]:
    if not item.title:
        raise FeedItemError("has no title")
    assert item.price is not None, "the best of a group has a price"
    currency = item.price.currency or terms.currency
    if not currency:
        raise FeedItemError(f"names no currency: give --currency {CURRENCY} if its prices are in it")
    if currency != CURRENCY:
        raise FeedItemError(f"is priced in {currency[:20]}, and this catalogue is in {CURRENCY}")
    page = item.page_url or terms.page
    if not is_url(page):
        raise FeedItemError(f"has no http or https address of its page{f': {page[:60]!r}' if page else ''}")
    now, listed = item.price.now, item.price.listed
    product: dict[str, Any] = {
        "title": item.title[:MAX_TITLE].strip(),
        "price": float(now if listed is None else listed),
        "sale_price": float(now),
        "affiliate_url": page,
        "availability": item.availability,
        "brand": item.brand[:MAX_LABEL].strip(),
        "description": item.description[:LONGEST_TEXT],
        "image_url": item.image_url if is_url(item.image_url) else "",
        "tags": [tag for tag in dict.fromkeys(each[:MAX_LABEL].strip() for each in item.tags) if tag][:MAX_TAGS],
    }
    return {name: value for name, value in product.items() if value} | _attributes(item, group)


def _attributes(item: FeedItem, group: list[FeedItem]) -> dict[str, Any]:
    """The attributes of the mattress, with the words that decided in the hidden member `derived`."""
    pairs = [pair for each in group for pair in (*each.attributes, *each.options)]
    pairs += [(heading, value) for each in group for heading, parts in each.choices for value in parts]
    declared = {
        name: tuple(dict.fromkeys(value for heading, value in pairs if _attribute(heading) == name))
        for name in dict.fromkeys(_attribute(heading) for heading, _ in pairs)
        if name in ATTRIBUTES
    }
    has_size = _size_label(item) is not None
    if has_size:
        declared["size"] = (item.size,)
    _vet_numbers(declared)
    texts = ProductTexts(item.title, (item.category, *item.tags), item.description, declared)
    findings = derive(texts)
    if has_size and "size" in findings and findings["size"].place != "declared":
        # A size that is none of the six is not one of them because the title says "King".
        del findings["size"]
    known: dict[str, Any] = {name: _plain(finding) for name, finding in findings.items() if finding.value is not None}
    if findings and "derived" in MATTRESSES.by_name:
        known["derived"] = {
            name: {"value": _plain(finding), "words": list(finding.words), "place": finding.place}
            for name, finding in sorted(findings.items())
        }
    return known


def _vet_numbers(declared: dict[str, tuple[str, ...]]) -> None:
    """Refuse a declared number outside its scale. Raises FeedItemError."""
    for name, highest in (("firmness", 10), ("cooling", 5)):
        for text in declared.get(name, ()):
            number = text.strip()
            if re.fullmatch(r"-?\d{1,9}(?:\.\d{1,9})?", number) and not 1 <= float(number) <= highest:
                raise FeedItemError(f"the {name} {number} must be between 1 and {highest}")


def _plain(finding: DerivedAttribute) -> Any:
    return list(finding.value) if isinstance(finding.value, tuple) else finding.value


def _size_label(item: FeedItem) -> str | None:
    label = " ".join(item.size.split())
    return None if label.lower() in _NO_SIZE else label


def _size_slug(item: FeedItem) -> str:
    """One text for all spellings of a size: it is part of the product's id, so it never changes."""
    label = _size_label(item)
    if label is None:
        return ""
    size = declared_size(label)
    return _NOT_IN_SLUGS.sub("-", str(size.value if size else label).lower()).strip("-")[:40]


def _is_identity(identity: str) -> bool:
    return identity.isprintable() and len(identity) <= MAX_ID and bool(re.search(r"[A-Za-z0-9]", identity))


def _without_repeats(rows: Iterable[ImportedRow]) -> Iterator[ImportedRow]:
    """Without rows that equal an earlier one of the same id."""
    seen = Spool(ImportedRow)
    for row in rows:
        before = seen.get(row.id) if row.id else None
        if before is None or before.product != row.product or before.refused != row.refused:
            yield row
        if before is None and row.id:
            seen.add(row.id, row)
