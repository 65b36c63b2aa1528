"""Excel workbooks, read by openpyxl: the first sheet, with a header in its first row that is not blank."""

import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import ParseError

from tollhouse.catalogue.importers.documents import MAX_FILE_BYTES, Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import Record, Table, build_table, plain_cell, stream_table

_SHARED_TEXTS = "xl/sharedStrings.xml"


def read_xlsx(documents: list[Document], _context: Context) -> Table:
    """The rows of the first sheet, by line; those of a large file are read anew in each iteration.

    Raises UnreadableFeed, also without the extra.
    """
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise UnreadableFeed("XLSX needs the extra: pip install 'tollhouse[xlsx]'") from None
    document = documents[0]

    def read() -> Iterator[Record]:
        return _records(openpyxl, document)

    header = _header(read())
    width = len(header)

    def below_header() -> Iterator[Record]:
        records = read()
        _header(records)
        return ((line, last, [*cells, *[None] * (width - len(cells))]) for line, last, cells in records)

    return stream_table(header, below_header) if document.is_streamed else build_table(header, below_header())


def _header(records: Iterator[Record]) -> list[Any]:
    """The cells of the first record that is not blank. Raises UnreadableFeed."""
    header = list(next((cells for _, _, cells in records if any(cell not in (None, "") for cell in cells)), []))
    while header and header[-1] in (None, ""):
        header.pop()
    if not header:
        raise UnreadableFeed("the first sheet is empty")
    return header


def _records(openpyxl: Any, document: Document) -> Iterator[Record]:
    """The rows of the first sheet, one after another. openpyxl has the texts that cells share in memory."""
    try:
        with document.open() as file:
            with zipfile.ZipFile(file) as archive:
                sizes = {member.filename: member.file_size for member in archive.infolist()}
                if sum(sizes.values()) > MAX_FILE_BYTES:
                    raise UnreadableFeed(f"the workbook unpacks to more than {MAX_FILE_BYTES} bytes")  # noqa: TRY301
                if sizes.get(_SHARED_TEXTS, 0) > document.max_whole_size:
                    raise UnreadableFeed(f"the workbook's texts have more than {document.max_whole_size} bytes")  # noqa: TRY301
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            for line, row in enumerate(book.worksheets[0].iter_rows(values_only=True), start=1):
                yield line, line, [plain_cell(cell) for cell in row]
    except UnreadableFeed:
        raise
    except (
        zipfile.BadZipFile,
        ParseError,
        KeyError,
        IndexError,
        ValueError,
        TypeError,
        AttributeError,
        OSError,
    ) as error:
        raise UnreadableFeed(f"is not a readable workbook: {str(error)[:200]}") from None


register(
    Format(
        name="xlsx",
        help="the first sheet of an Excel workbook, columns as in csv; needs the extra `tollhouse[xlsx]`",
        prices="numbers, or as shops write them",
        read_table=read_xlsx,
        names_currency=False,
        endings=(".xlsx",),
    )
)
