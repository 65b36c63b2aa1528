"""Read the XML of a feed (RSS 0.9x, 1.0, 2.0, RDF, Atom) into entries with named fields.

expat parses it and refuses all declarations, so that no entity can expand. If a document is not well-formed, each
entry is parsed on its own, so that one stray character costs one entry.
"""

import re
from collections.abc import Iterator
from html import unescape
from xml.parsers import expat

from msgspec import Struct, field

from tollhouse import charset

MOST_ENTRIES = 2000
LONGEST_FIELD = 100_000
DEEPEST = 200

_ROOTS = frozenset({"rss", "rdf", "feed", "channel"})
_ENTRIES = frozenset({"item", "entry"})
# Prefixes by namespace; the feed formats themselves need none.
_VOCABULARIES = {
    "http://www.w3.org/2005/Atom": "",
    "http://purl.org/atom/ns#": "",
    "http://purl.org/rss/1.0/": "",
    "http://backend.userland.com/rss2": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://channel.netscape.com/rdf/simple/0.9/": "",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://search.yahoo.com/mrss/": "media:",
}


class Entry(Struct):
    """One item or entry: text by lower-case field name (`title`, `dc:date`, `link`). `base` is xml:base."""

    fields: dict[str, str] = field(default_factory=dict)
    base: str = ""
    language: str = ""


class FeedDocument(Struct):
    """A feed. `broken` counts malformed entries, `left_out` those beyond MOST_ENTRIES."""

    fields: dict[str, str] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    base: str = ""
    language: str = ""
    broken: int = 0
    left_out: int = 0
    is_well_formed: bool = True


class FeedReader:
    """Collects the entries of one document from expat's events. Use each reader once."""

    def __init__(self) -> None:
        self.document = FeedDocument()
        self._prefixes: dict[str, str] = {}
        self._path: list[str] = []
        self._entry: Entry | None = None
        self._entry_depth = 0
        self._name = ""
        self._pieces: list[str] = []
        self._length = 0

    def read(self, text: str) -> None:
        """Parse a document. Raises ExpatError if it is not well-formed, ValueError if it is not a feed."""
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        # With a foreign DTD declared, expat reports &nbsp; and similar entities instead of failing.
        parser.UseForeignDTD(True)  # noqa: FBT003 - expat takes it by position
        parser.EntityDeclHandler = _refuse_declaration
        # An attribute default can be as long as the feed and would be repeated for every element.
        parser.AttlistDeclHandler = _refuse_declaration
        parser.SkippedEntityHandler = self._skipped
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.Parse(text.encode("utf-8", "replace"), True)  # noqa: FBT003 - as above

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = self._local(name, attributes)
        self._path.append(local)
        if len(self._path) > DEEPEST:
            raise ValueError(f"the feed nests deeper than {DEEPEST} elements")
        if len(self._path) == 1:
            if local.removeprefix("rdf:") not in _ROOTS:
                raise ValueError(f"not a feed: the root element is <{local[:30]}>")
            self.document.base, self.document.language = attributes.get("xml:base", ""), attributes.get("xml:lang", "")
        elif self._entry is None and local in _ENTRIES:
            self._entry = Entry(base=attributes.get("xml:base", ""), language=attributes.get("xml:lang", ""))
            self._entry_depth = len(self._path)
        elif self._name:
            self._text(" ")
        elif local != "channel" and self._is_field():
            self._begin(local, attributes)

    def _is_field(self) -> bool:
        """Whether the element is a direct child of an entry, the feed or its channel."""
        if self._entry is not None:
            return len(self._path) == self._entry_depth + 1
        return len(self._path) == 2 or (len(self._path) == 3 and self._path[1] == "channel")

    def _begin(self, local: str, attributes: dict[str, str]) -> None:
        self._name, self._pieces, self._length = local, [], 0
        if local == "link" and "href" in attributes:
            self._name = "link" if attributes.get("rel", "alternate") == "alternate" else "link." + attributes["rel"]
            self._text(attributes["href"])
        elif local == "guid" and attributes.get("isPermaLink", "true").strip().lower() == "false":
            self._name = "guid.name"

    def _end(self, _name: str) -> None:
        depth = len(self._path)
        if self._name and self._is_field():
            fields = self.document.fields if self._entry is None else self._entry.fields
            text = "".join(self._pieces).strip()
            # Keep the first non-empty field of a name.
            if text and not fields.get(self._name):
                fields[self._name] = text
            self._name = ""
        elif self._entry is not None and depth == self._entry_depth:
            if len(self.document.entries) < MOST_ENTRIES:
                self.document.entries.append(self._entry)
            else:
                self.document.left_out += 1
            self._entry = None
        elif self._name:
            self._text(" ")
        self._path.pop()

    def _text(self, text: str) -> None:
        if self._name and self._length < LONGEST_FIELD:
            self._pieces.append(text)
            self._length += len(text)

    def _skipped(self, name: str, is_parameter: bool) -> None:  # noqa: FBT001 - expat calls it by position
        if not is_parameter:
            self._text(unescape(f"&{name};"))

    def _local(self, name: str, attributes: dict[str, str]) -> str:
        """The element name in lower case with the usual prefix of its namespace, whichever prefix the feed uses."""
        for key, value in attributes.items():
            if key.startswith("xmlns:") and value in _VOCABULARIES and len(self._prefixes) < 100:
                self._prefixes[key[6:]] = _VOCABULARIES[value]
        prefix, colon, local = name.rpartition(":")
        if not colon:
            return local.lower()
        known = {"atom": "", "rss": ""} if prefix not in self._prefixes else self._prefixes
        return (known.get(prefix, prefix + ":") + local).lower()


def _refuse_declaration(*_: object) -> None:
    raise ValueError("the feed declares XML entities or attributes; both are refused")


_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def feed_text(raw: bytes, content_type: str = "") -> str:
    """Decode a feed, without its XML declaration and without characters that XML 1.0 forbids."""
    text = charset.decoded(raw, content_type)
    return _FORBIDDEN.sub("", _DECLARATION.sub("", text.removeprefix("\ufeff")))


_PIECE = re.compile(r"<((?:\w+:)?(?:item|entry))(?=[\s>])", re.IGNORECASE)
_NAMESPACE = re.compile(r"""\bxmlns:([\w.-]{1,30})\s*=\s*("[^"<]{0,200}"|'[^'<]{0,200}')""")
_STRAY = re.compile(
    r"&(?!(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{0,31});)|&#(?:[xX](?:1?\d|1?[A-Fa-f])|(?:[12]?\d|3[01]));"
)


def read_document(text: str) -> FeedDocument:
    """Read a feed's entries in their order. Raises ValueError if it is not a feed or declares entities."""
    if not text.strip():
        raise ValueError("the feed is empty")
    reader = FeedReader()
    try:
        reader.read(text)
    except expat.ExpatError:
        return _read_entries_alone(text, reader.document)
    return reader.document


def _read_entries_alone(text: str, whole: FeedDocument) -> FeedDocument:
    """Read every entry that is well-formed by itself; `whole` has the feed's fields read so far."""
    pieces = list(_pieces(text))
    if not pieces:
        raise ValueError("not a feed: it is not well-formed and has no entries")
    prefixes = dict(_NAMESPACE.findall(text[:20_000]))
    opening = "<rss " + " ".join(f"xmlns:{prefix}={value}" for prefix, value in prefixes.items()) + ">"
    document = FeedDocument(whole.fields, base=whole.base, language=whole.language, is_well_formed=False)
    document.left_out = max(0, len(pieces) - MOST_ENTRIES)
    for piece in pieces[:MOST_ENTRIES]:
        reader = FeedReader()
        try:
            reader.read(f"{opening}{_repaired(piece)}</rss>")
        except (expat.ExpatError, ValueError):
            document.broken += 1
        else:
            document.entries += reader.document.entries
    return document


def _pieces(text: str) -> Iterator[str]:
    """The text of each entry, from its start tag to its end tag or, if that is missing, to the next entry."""
    starts = list(_PIECE.finditer(text))
    for start, following in zip(starts, [*starts[1:], None], strict=False):
        piece = text[start.start() : following.start() if following else len(text)]
        closing = piece.rfind(f"</{start[1]}")
        yield piece if closing < 0 else f"{piece[:closing]}</{start[1]}>"


def _repaired(piece: str) -> str:
    """Escape stray ampersands and drop references to control characters, the most common faults."""
    return _STRAY.sub(lambda stray: "&amp;" if stray[0] == "&" else "", piece)
