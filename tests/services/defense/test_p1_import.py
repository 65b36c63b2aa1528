import io
import sys
import types
import zipfile

import pytest

from tollhouse.services.defense.brief.p1_import import NO_OPENPYXL, BadRow, read_exhibit

HEADER = (
    "Account,Account Title,Organization,Budget Activity,Line Number,Budget Line Item,Budget Line Item (BLI) Title,"
    "Add/Non-Add,FY 2025 Actuals Quantity,FY 2025 Actuals Amount,FY 2026 Total Quantity,FY 2026 Total Amount"
)
RAIDER = '3010F,"Aircraft Procurement, Air Force",F,01,1,B02100,B-21 Raider,Add,,"2,600,468",,"7,332,016"'


def exhibit(*rows: str, header=HEADER, preamble=""):
    return read_exhibit("\n".join([*preamble.splitlines(), header, *rows]).encode())


def test_line_is_read_with_its_amounts_in_thousands():
    read = exhibit(RAIDER)
    assert read.amounts_k(2026) == {("3010F", "B02100"): 7_332_016}
    assert read.amounts_k(2025) == {("3010F", "B02100"): 2_600_468}
    assert (read.lines[0].title, read.lines[0].account_title) == ("B-21 Raider", "Aircraft Procurement, Air Force")
    assert (read.bad, read.memo_rows, read.total_rows) == ([], 0, 0)


@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("Budget Line Item", "Budget Line Item (BLI) Title"),
        ("Budget Line Item", "Program Element/Budget Line Item (BLI) Title"),
        ("PE / BLI", "Program Element / Budget Line Item (BLI) Title"),
        ("PE/BLI", "PROGRAM ELEMENT/BUDGET LINE ITEM (BLI)  TITLE"),
        ("Line Item", "Line Item Title"),
    ],
)
def test_every_years_wording_of_the_header_is_known(code, title):
    header = HEADER.replace("Budget Line Item (BLI) Title", title).replace(",Budget Line Item,", f",{code},")
    assert exhibit(RAIDER, header=header).amounts_k(2026) == {("3010F", "B02100"): 7_332_016}


def test_header_below_title_rows_and_with_line_breaks_is_found():
    header = HEADER.replace("FY 2026 Total Amount", '"FY 2026\nTotal Amount"')
    read = exhibit(RAIDER, header=header, preamble="Exhibit P-1 (Dollars in Thousands)\n,,,Total of Displayed Rows,99")
    assert read.amounts_k(2026) == {("3010F", "B02100"): 7_332_016}


def test_reordered_year_columns_give_the_same_amounts():
    header = (
        "FY 2026 Total Amount,Budget Line Item,FY 2025 Actuals Amount,Add/Non-Add,Account,Budget Line Item (BLI) Title"
    )
    read = exhibit("7332016,B02100,2600468,Add,3010F,B-21 Raider", header=header)
    assert (read.amounts_k(2025), read.amounts_k(2026)) == (
        {("3010F", "B02100"): 2_600_468},
        {("3010F", "B02100"): 7_332_016},
    )


@pytest.mark.parametrize("mark", ["Non-Add", "non-add", "NON ADD", "NonAdd"])
def test_memo_row_is_counted_and_not_added(mark):
    read = exhibit(RAIDER, RAIDER.replace(",Add,", f",{mark},"))
    assert read.amounts_k(2026) == {("3010F", "B02100"): 7_332_016}
    assert read.memo_rows == 1


def test_row_outside_the_total_obligation_authority_is_a_memo_too():
    header = HEADER.replace("Add/Non-Add", "Include In TOA")
    read = exhibit(RAIDER.replace(",Add,", ",Y,"), RAIDER.replace(",Add,", ",N,"), header=header)
    assert (read.amounts_k(2026), read.memo_rows) == ({("3010F", "B02100"): 7_332_016}, 1)


def test_rows_of_one_line_are_netted():
    advance = '3010F,"Aircraft Procurement, Air Force",F,01,1,B02100,B-21 Raider (AP),Add,,,,"(1,000,016)"'
    read = exhibit(RAIDER, advance)
    assert read.amounts_k(2026) == {("3010F", "B02100"): 6_332_000}
    assert read.lines[0].rows == [2, 3]


def test_same_code_in_another_account_is_another_line():
    read = exhibit(RAIDER, RAIDER.replace("3010F", "3020F", 1))
    assert set(read.amounts_k(2026)) == {("3010F", "B02100"), ("3020F", "B02100")}


@pytest.mark.parametrize("total", ["Total Aircraft Procurement", "GRAND TOTAL", "Sub-total", "Subtotal, Army"])
def test_total_row_is_ignored(total):
    read = exhibit(RAIDER, f"{total},,,,,,,,,,,9999999")
    assert (len(read.lines), read.total_rows, read.bad) == (1, 1, [])


def test_line_whose_title_begins_with_total_is_no_total():
    read = exhibit(RAIDER.replace("B-21 Raider", "Total Airspace Tool"))
    assert (len(read.lines), read.total_rows) == (1, 0)


def test_empty_cell_is_absent_and_zero_is_zero():
    read = exhibit('3010F,Title,F,01,1,X1,Thing,Add,,-,4,"0"')
    assert (read.amounts_k(2025), read.amounts_k(2026)) == ({}, {("3010F", "X1"): 0})
    assert read.quantities(2026) == {("3010F", "X1"): 4}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (RAIDER.replace("7,332,016", "lots"), "'lots' is not a whole number, in the amount of FY2026"),
        (RAIDER.replace("7,332,016", "1.5"), "'1.5' is not a whole number, in the amount of FY2026"),
        (RAIDER.replace("7,332,016", "1e400"), "'1e400' is not a whole number, in the amount of FY2026"),
        (RAIDER.replace("7,332,016", "nan"), "'nan' is not a whole number, in the amount of FY2026"),
        (RAIDER.replace("B02100", ""), "the code is missing"),
        (RAIDER.replace("3010F", "", 1), "the account is missing"),
        (RAIDER.replace(",Add,", ",Perhaps,"), "'Perhaps' is neither Add nor Non-Add, in the column add"),
        (RAIDER.replace(",Add,", ",,"), "'' is neither Add nor Non-Add, in the column add"),
        ("3010F", "'' is neither Add nor Non-Add, in the column add"),
    ],
)
def test_bad_row_is_reported_with_its_line_and_stops_nothing(row, reason):
    read = exhibit(row, RAIDER)
    assert read.bad == [BadRow(2, reason)]
    assert read.amounts_k(2026) == {("3010F", "B02100"): 7_332_016}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "it is empty"),
        (b"\x00\xff\xfe\x81garbage" * 50, "no header"),
        (b"name,price\nsofa,3\n", "has a column Account"),
        (b"Account,Budget Line Item,Budget Line Item (BLI) Title,FY 2026 Amount\n", "lacks add/non-add"),
        (b"Account,Budget Line Item,Add/Non-Add\n", "lacks budget line item (bli) title, an amount"),
        (f"{HEADER},FY 2026 Total Amount\n".encode(), "is there twice"),
        (f"Dollars in Millions\n{HEADER}\n".encode(), "not in thousands"),
        (b'"' + b"x" * 200_000 + b'"', "not readable as CSV"),
        (b"PK\x03\x04garbage", "XLSX"),
    ],
)
def test_file_that_is_no_exhibit_is_refused_in_words(raw, said, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", workbooks({}))
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace(")", r"\)")):
        read_exhibit(raw)


def test_year_in_several_stages_without_a_total_is_refused():
    header = HEADER.replace("FY 2025 Actuals Quantity", "FY 2025 Reconciliation Amount")
    with pytest.raises(ValueError, match="several amount columns and no total: reconciliation, actuals"):
        exhibit(RAIDER, header=header).amounts_k(2025)


def test_total_column_is_preferred_to_its_parts():
    header = HEADER.replace("FY 2026 Total Quantity", "FY 2026 Discretionary Enacted")
    read = exhibit(RAIDER.replace(',,"7,332,016"', ',5,"7,332,016"'), header=header)
    assert read.amounts_k(2026) == {("3010F", "B02100"): 7_332_016}


def test_year_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no amount column for FY2031"):
        exhibit(RAIDER).amounts_k(2031)


def test_difference_of_years_is_no_amount():
    read = exhibit(f"{RAIDER},181.9", header=f"{HEADER},FY 2026 % Change")
    assert (read.bad, len(read.lines)) == ([], 1)


def test_csv_of_a_windows_spreadsheet_is_read():
    raw = f"{HEADER}\r\n{RAIDER}\r\n".replace("B-21", "B\u201321").encode("cp1252")
    assert read_exhibit(raw).lines[0].title == "B\u201321 Raider"


def test_workbook_is_read_from_the_sheet_that_holds_everything(monkeypatch):
    rows = [("Account", "Budget Line Item", "Budget Line Item (BLI) Title", "Add/Non-Add", "FY 2026 Total")]
    book = {"Other": [("nothing",)], "Exhibit P-1": [*rows, ("3010F", "B02100", "B-21", "Add", 7332016.0)]}
    monkeypatch.setitem(sys.modules, "openpyxl", workbooks(book))
    assert read_exhibit(zipped()).amounts_k(2026) == {("3010F", "B02100"): 7_332_016}


def test_workbook_without_the_library_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ModuleNotFoundError, match="openpyxl, which is not installed") as caught:
        read_exhibit(zipped())
    assert str(caught.value) == NO_OPENPYXL


def test_real_workbook_is_read_where_the_library_is_installed():
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [HEADER.split(","), ["3010F", "AF", "F", "01", 1, "B02100", "B-21", "Add", None, None, None, 7332016]]:
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    assert read_exhibit(file.getvalue()).amounts_k(2026) == {("3010F", "B02100"): 7_332_016}


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("sheet", "")
    return file.getvalue()


def workbooks(sheets):
    """A stand-in for openpyxl, whose workbooks all hold these sheets; like it, it refuses what is no zip."""
    return types.SimpleNamespace(load_workbook=lambda file, **_: zipfile.ZipFile(file).close() or Book(sheets))


class Book(dict):
    def __getitem__(self, name) -> object:
        return types.SimpleNamespace(iter_rows=lambda **_: iter(self.get(name)))

    @property
    def sheetnames(self) -> list[str]:
        return list(self)
