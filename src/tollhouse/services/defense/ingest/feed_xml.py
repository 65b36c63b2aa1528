"""How feed XML becomes entries, broken XML too.

Where the whole is not well-formed each entry is read on its own, so that one stray character costs one entry and not
the feed.
"""

import re
from collections.abc import Iterator
from xml.parsers import expat

from tollhouse.services.defense.ingest.feed_elements import MOST_ENTRIES, FeedDocument, FeedReader

_PIECE = re.compile(r"<((?:\w+:)?(?:item|entry))(?=[\s>])", re.IGNORECASE)
_NAMESPACE = re.compile(r"""\bxmlns:([\w.-]{1,30})\s*=\s*("[^"<]{0,200}"|'[^'<]{0,200}')""")
_STRAY = re.compile(
    r"&(?!(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{0,31});)|&#(?:[xX](?:1?\d|1?[A-Fa-f])|(?:[12]?\d|3[01]));"
)


def read_document(text: str) -> FeedDocument:
    """The feed's entries in its order. ValueError when it is no feed at all, or declares entities."""
    if not text.strip():
        raise ValueError("the feed is empty")
    reader = FeedReader()
    try:
        reader.read(text)
    except expat.ExpatError:
        return _salvaged(text, reader.document)
    return reader.document


def _salvaged(text: str, whole: FeedDocument) -> FeedDocument:
    """Every entry that is well-formed by itself, under the feed's fields as far as they were read."""
    pieces = list(_pieces(text))
    if not pieces:
        raise ValueError("this is no feed: it is not well-formed and holds no entries")
    prefixes = dict(_NAMESPACE.findall(text[:20_000]))
    opening = "<rss " + " ".join(f"xmlns:{prefix}={value}" for prefix, value in prefixes.items()) + ">"
    document = FeedDocument(whole.fields, base=whole.base, language=whole.language, is_well_formed=False)
    document.left_out = max(0, len(pieces) - MOST_ENTRIES)
    for piece in pieces[:MOST_ENTRIES]:
        reader = FeedReader()
        try:
            reader.read(f"{opening}{_mended(piece)}</rss>")
        except (expat.ExpatError, ValueError):
            document.broken += 1
        else:
            document.entries += reader.document.entries
    return document


def _pieces(text: str) -> Iterator[str]:
    """The text of each entry, from its start tag to its end tag or, where that is missing, to the next entry."""
    starts = list(_PIECE.finditer(text))
    for start, following in zip(starts, [*starts[1:], None], strict=False):
        piece = text[start.start() : following.start() if following else len(text)]
        closing = piece.rfind(f"</{start[1]}")
        yield piece if closing < 0 else f"{piece[:closing]}</{start[1]}>"


def _mended(piece: str) -> str:
    """Stray ampersands are escaped and references to control characters dropped, the commonest faults of all."""
    return _STRAY.sub(lambda stray: "&amp;" if stray[0] == "&" else "", piece)
