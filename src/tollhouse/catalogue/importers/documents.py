"""Documents: the bytes of a file or of an HTTP response, decompressed and decoded."""

import gzip
import io
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from msgspec import Struct

from tollhouse import charset
from tollhouse.catalogue.importers.items import MAX_WHOLE_BYTES, UnreadableFeed

# A file that is read as a whole. One that is read line by line may be of any size.
MAX_FILE_BYTES = 4 * 1024 * 1024 * 1024
# A smaller file is read as a whole.
STREAMED_BYTES = 8 * 1024 * 1024

_HEAD_BYTES = 1024 * 1024
_PIECE_LENGTH = 64 * 1024
_LONGEST_LINE = 16 * 1024 * 1024
_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_DAMAGED = "the gzip file is damaged or cut short"

ReadLines = Callable[[], Iterator[str]]


class FeedTooLarge(Exception):
    """The feed unpacks to more than it may."""


class Document(Struct, frozen=True):
    """One response, or one file, whose content is read when it is needed. `url` is the address after redirects.

    A response is in a temporary file, unpacked.
    """

    content: bytes = b""
    content_type: str = ""
    url: str = ""
    file: Path | None = None

    @property
    def body(self) -> bytes:
        """Raises UnreadableFeed for a file that is too large to be read as a whole, OSError."""
        if self.file is None:
            return self.content
        if self.file.stat().st_size > self.max_whole_bytes:
            raise UnreadableFeed(
                f"the response is larger than {self.max_whole_bytes} bytes and has to be read as a whole: import a file"
                if self.url
                else f"the file is larger than {self.max_whole_bytes} bytes"
            )
        return self.file.read_bytes()

    @property
    def max_whole_bytes(self) -> int:
        """How large it may be, unpacked, where it is read as a whole: an operator's file is trusted further."""
        return MAX_FILE_BYTES if self.file and not self.url else MAX_WHOLE_BYTES

    def open(self) -> BinaryIO:
        """The bytes as they are stored, as a file."""
        return self.file.open("rb") if self.file else io.BytesIO(self.content)

    @property
    def is_streamed(self) -> bool:
        """Whether this is a file whose rows are read anew in each iteration."""
        return self.file is not None and self.size >= STREAMED_BYTES

    @property
    def size(self) -> int:
        """The bytes as they are stored."""
        return self.file.stat().st_size if self.file else len(self.content)

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they are stored, in parts."""
        with self.open() as file:
            while chunk := file.read(_HEAD_BYTES):
                yield chunk

    def text(self, encoding: str = "") -> str:
        """The decompressed text. Raises UnreadableFeed."""
        return decoded_text(decompressed(self.body, self.max_whole_bytes), self.content_type, encoding)

    def lines(self, encoding: str = "") -> ReadLines | None:
        """Reads the lines of a large file, each with its end; None for a document that has to be read as a whole.

        The lines raise UnicodeDecodeError where the text is not in the given encoding, or else in UTF-8, and
        UnreadableFeed.
        """
        streamed = self._streamed_encoding(encoding)
        # Only "\n" ends a line.
        if streamed is None or streamed[1].startswith(("utf-16", "utf-32")) or b"\n" not in streamed[2]:
            return None
        file, name, head = streamed
        claimed = "" if encoding or charset.marked(head) else charset.claimed(b"", self.content_type)
        if not claimed:
            return lambda: _texts(file, name, _lines)
        return None if charset.passes_for_utf_8(claimed, head) else _first_valid(file, (name, claimed), _lines)

    def pieces(self, encoding: str = "") -> ReadLines | None:
        """The same of pieces of limited length. Reads the file to see that all of it is in the encoding.

        Text that is not in UTF-8 may be in the encoding that the document itself declares.
        """
        streamed = self._streamed_encoding(encoding)
        if streamed is None:
            return None
        file, name, head = streamed
        declared = charset.claimed(head, self.content_type)
        if charset.passes_for_utf_8(declared, head) and not charset.marked(head):
            return None
        return _first_valid(file, (name, declared), lambda text: iter(partial(text.read, _PIECE_LENGTH), ""))

    def _streamed_encoding(self, encoding: str) -> tuple[Path, str, bytes] | None:
        """The large file, its encoding and the first of its unpacked bytes."""
        if self.file is None or not self.is_streamed:
            return None
        try:
            with _unpacked(self.file) as unpacked:
                head = unpacked.read(_HEAD_BYTES)
        except (OSError, EOFError, zlib.error):
            return None
        name = charset.marked(head) or encoding or _utf_16_without_mark(head) or "utf-8"
        return None if head.startswith(_ZIP) else (self.file, "utf-8-sig" if name == "utf-8" else name, head)


def _unpacked(file: Path) -> BinaryIO:
    with file.open("rb") as raw:
        is_gzip = raw.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(file)) if is_gzip else file.open("rb")


def are_streamed(documents: Sequence[Document]) -> bool:
    """Whether these are large files together, whose items are read anew in each iteration."""
    return all(document.file for document in documents) and sum(each.size for each in documents) >= STREAMED_BYTES


def unpack(file: Path, max_bytes: int) -> None:
    """Replace a gzip file by its content. Raises UnreadableFeed when that is damaged or larger than `max_bytes`."""
    with file.open("rb") as raw:
        if raw.read(2) != _GZIP:
            return
    unpacked, size = file.with_suffix(".unpacked"), 0
    try:
        with gzip.open(file) as source, unpacked.open("wb") as target:
            while piece := source.read(_HEAD_BYTES):
                if not size and piece.startswith(_GZIP):
                    raise UnreadableFeed("the gzip file holds another gzip file")
                size += len(piece)
                if size > max_bytes:
                    raise FeedTooLarge
                target.write(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UnreadableFeed(_DAMAGED) from None
    unpacked.replace(file)


def _first_valid(file: Path, encodings: Iterable[str], parts: Callable[[TextIO], Iterator[str]]) -> ReadLines | None:
    """Reads the file in the first of these encodings that all of it is in."""
    for encoding in filter(None, encodings):
        read = partial(_texts, file, encoding, parts)
        with suppress(UnicodeDecodeError):
            deque(read(), maxlen=0)
            return read
    return None


def _lines(text: TextIO) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise UnreadableFeed(f"a line has more than {_LONGEST_LINE} characters")
        yield line


def _texts(file: Path, encoding: str, parts: Callable[[TextIO], Iterator[str]]) -> Iterator[str]:
    try:
        with _unpacked(file) as raw, io.TextIOWrapper(raw, encoding, newline="\n") as text:
            for part in parts(text):
                if "\0" in part:
                    raise UnreadableFeed("this is no text: it contains zero bytes")
                yield part
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UnreadableFeed(_DAMAGED) from None
    except LookupError:
        raise UnreadableFeed(f"the feed is not text in {encoding[:40]}") from None


def decompressed(raw: bytes, max_bytes: int = MAX_WHOLE_BYTES) -> bytes:
    """The bytes, unpacked if they are gzip. Raises UnreadableFeed when they are damaged or too large."""
    if raw.startswith(_ZIP):
        raise UnreadableFeed("this is a zip archive or a spreadsheet: unpack it, or use the format xlsx")
    if not raw.startswith(_GZIP):
        if len(raw) > max_bytes:
            raise UnreadableFeed(f"the feed is larger than {max_bytes} bytes")
        return raw
    unpacked = bytearray()
    while raw.startswith(_GZIP):
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            # One byte more than allowed is enough to see that it is too much: a bomb unpacks a thousandfold.
            unpacked += inflater.decompress(raw, max_bytes + 1 - len(unpacked))
        except zlib.error:
            raise UnreadableFeed("the gzip file is damaged") from None
        if len(unpacked) > max_bytes:
            raise UnreadableFeed(f"the feed unpacks to more than {max_bytes} bytes")
        if not inflater.eof:
            raise UnreadableFeed("the gzip file is cut short")
        raw = inflater.unused_data
    return bytes(unpacked)


def decoded_text(raw: bytes, content_type: str = "", encoding: str = "") -> str:
    """The text of a feed. Raises UnreadableFeed for binary data.

    A byte order mark decides, then `encoding`, then the zeros of UTF-16 without a mark, then `charset.decoded`.
    """
    certain = charset.marked(raw) or encoding or _utf_16_without_mark(raw)
    if certain:
        try:
            text = raw.decode(certain)
        except (UnicodeDecodeError, LookupError):
            raise UnreadableFeed(f"the feed is not text in {certain[:40]}") from None
    else:
        text = charset.decoded(raw, content_type)
    if "\0" in text:
        raise UnreadableFeed("this is no text: it contains zero bytes")
    return text.removeprefix("\ufeff")


def _utf_16_without_mark(raw: bytes) -> str:
    head = raw[:64]
    if len(head) >= 8 and head[0] and head[2] and not any(head[1:8:2]):
        return "utf-16-le"
    if len(head) >= 8 and head[1] and head[3] and not any(head[0:8:2]):
        return "utf-16-be"
    return ""
