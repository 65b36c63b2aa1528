"""Excel workbooks, read by openpyxl: the first sheet, with a header in its first row that is not blank."""

import io
import zipfile
from xml.etree.ElementTree import ParseError

from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.registry import Format, register
from tollhouse.catalogue.importers.tables import Table, build_table, plain_cell

_MAX_UNPACKED = 512 * 1024 * 1024


def read_xlsx(documents: list[Document], _context: Context) -> Table:
    """The rows of the first sheet, by line. Raises UnreadableFeed, also without the extra."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise UnreadableFeed("XLSX needs the extra: pip install 'tollhouse[xlsx]'") from None
    try:
        with zipfile.ZipFile(io.BytesIO(documents[0].body)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_UNPACKED:
                raise UnreadableFeed(f"the workbook unpacks to more than {_MAX_UNPACKED} bytes")  # noqa: TRY301
        book = openpyxl.load_workbook(io.BytesIO(documents[0].body), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [[plain_cell(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
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
    numbered = ((line, line, cells) for line, cells in enumerate(rows, start=1))
    header = next((cells for _, _, cells in numbered if any(cell not in (None, "") for cell in cells)), [])
    while header and header[-1] in (None, ""):
        header.pop()
    if not header:
        raise UnreadableFeed("the first sheet is empty")
    width = len(header)
    return build_table(
        header, ((line, last, [*cells, *[None] * (width - len(cells))]) for line, last, cells in numbered)
    )


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
