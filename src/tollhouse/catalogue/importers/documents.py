"""Documents: the bytes of a file or of an HTTP response, decompressed and decoded."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from msgspec import Struct

from tollhouse import charset
from tollhouse.catalogue.importers.items import MAX_WHOLE_BYTES, UnreadableFeed

# A file that is read as a whole. One that is read part by part may be of any size.
MAX_FILE_BYTES = 4 * 1024 * 1024 * 1024
# A smaller file is read as a whole.
STREAMED_BYTES = 8 * 1024 * 1024

_CHUNK_BYTES = 256 * 1024
_PIECE_LENGTH = 64 * 1024
_LONGEST_LINE = 16 * 1024 * 1024
_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_DAMAGED = "the gzip file is damaged or cut short"

ReadText = Callable[[], Iterator[str]]


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
    def max_whole_size(self) -> int:
        """How many characters or bytes are read as a whole where they have to be: a file is trusted further."""
        return MAX_FILE_BYTES if self.file and not self.url else MAX_WHOLE_BYTES

    def open(self) -> BinaryIO:
        """The bytes as they are stored, as a file."""
        return self.file.open("rb") if self.file else io.BytesIO(self.content)

    @property
    def is_streamed(self) -> bool:
        """Whether this is a file whose rows are read anew in each iteration."""
        return are_streamed([self])

    @property
    def size(self) -> int:
        """The bytes as they are stored."""
        return self.file.stat().st_size if self.file else len(self.content)

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they are stored, in parts."""
        with self.open() as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def text(self) -> str:
        """The whole text. Raises UnreadableFeed, also where it is too large to be in memory."""
        pieces, length = [], 0
        for piece in self.pieces()():
            length += len(piece)
            if length > self.max_whole_size:
                raise UnreadableFeed(
                    f"the feed has more than {self.max_whole_size} characters and has to be read as a whole"
                    + (": import a file" if self.url else "")
                )
            pieces.append(piece)
        return "".join(pieces)

    def pieces(self, encoding: str = "") -> ReadText:
        """Reads the unpacked text in pieces of limited length, without a byte order mark.

        A mark decides the encoding, then `encoding`, then the zeros of UTF-16 without a mark, then
        `charset.encoding_of`, which reads all of it. Raises UnreadableFeed, also while the pieces are read.
        """
        return partial(self._parts, *self._encoding(encoding), _pieces)

    def lines(self, encoding: str = "") -> ReadText:
        """The same by lines, each with its end, which is a carriage return only in a text without a line feed."""
        name, errors = self._encoding(encoding)
        has_line_feed = any("\n" in piece for piece in self._parts(name, errors, _pieces))
        return partial(self._parts, name, errors, _lines, "\n" if has_line_feed else "\r")

    def _encoding(self, encoding: str) -> tuple[str, str]:
        """The encoding, and how errors in it are handled: what somebody says is checked, what is guessed is not."""
        head = next(self._unpacked_chunks(), b"")
        certain = charset.marked(head) or encoding or _utf_16_without_mark(head)
        if certain:
            return "utf-8-sig" if certain == "utf-8" else certain, "strict"
        return charset.encoding_of(self._unpacked_chunks, self.content_type), "replace"

    def _unpacked_chunks(self) -> Iterator[bytes]:
        with self._unpacked() as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def _parts(
        self, encoding: str, errors: str, split: Callable[[TextIO], Iterator[str]], line_end: str = "\n"
    ) -> Iterator[str]:
        try:
            with self._unpacked() as raw, io.TextIOWrapper(raw, encoding, errors, line_end) as text:
                for part in split(text):
                    if "\0" in part:
                        raise UnreadableFeed("this is no text: it contains zero bytes")
                    yield part
        except (UnicodeDecodeError, LookupError):
            raise UnreadableFeed(f"the feed is not text in {encoding[:40]}") from None

    @contextmanager
    def _unpacked(self) -> Iterator[BinaryIO]:
        """The unpacked bytes as a file. Raises UnreadableFeed, also while it is read."""
        with self.open() as stored:
            start = stored.read(len(_ZIP))
            stored.seek(0)
            if start == _ZIP:
                raise UnreadableFeed("this is a zip archive or a spreadsheet: unpack it, or use the format xlsx")
            try:
                yield cast("BinaryIO", gzip.GzipFile(fileobj=stored)) if start.startswith(_GZIP) else stored
            except (EOFError, zlib.error, gzip.BadGzipFile):
                raise UnreadableFeed(_DAMAGED) from None


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
            while piece := source.read(_CHUNK_BYTES):
                if not size and piece.startswith(_GZIP):
                    raise UnreadableFeed("the gzip file holds another gzip file")
                size += len(piece)
                if size > max_bytes:
                    raise FeedTooLarge
                target.write(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UnreadableFeed(_DAMAGED) from None
    unpacked.replace(file)


def _pieces(text: TextIO) -> Iterator[str]:
    return iter(partial(text.read, _PIECE_LENGTH), "")


def _lines(text: TextIO) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise UnreadableFeed(f"a line has more than {_LONGEST_LINE} characters")
        yield line


def _utf_16_without_mark(raw: bytes) -> str:
    head = raw[:64]
    if len(head) >= 8 and head[0] and head[2] and not any(head[1:8:2]):
        return "utf-16-le"
    if len(head) >= 8 and head[1] and head[3] and not any(head[0:8:2]):
        return "utf-16-be"
    return ""
