"""No text in a CSV of ours is run as a formula, and every text can be read back."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.csv_text import read_cell, write_rows

FORMULA_STARTS = "=+-@\t\r"


def read(written: bytes, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(written.decode(), newline=""), delimiter=delimiter))


@pytest.mark.parametrize("start", FORMULA_STARTS)
def test_text_that_a_spreadsheet_would_run_is_text(start):
    assert read(write_rows([[f"{start}1+1", f"'{start}1"]])) == [[f"'{start}1+1", f"''{start}1"]]


def test_numbers_stay_numbers():
    assert write_rows([[-3.5, 7, None, "-3.5", "-12", "-1e-9", True]]) == b"-3.5,7,,-3.5,-12,-1e-9,True\r\n"


def test_formula_does_not_begin_a_cell_where_semicolons_separate_them():
    assert read(write_rows([["a;=1+1", "b\t=1+1"]]), ";") == [['a;=1+1,"b\t=1+1"']]


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8")), min_size=2, max_size=3), max_size=3))
def test_every_text_is_read_back_as_it_was(rows):
    written = read(write_rows(rows))
    assert not any(
        cell.startswith(tuple(FORMULA_STARTS)) and not cell[1:2].isdigit() for row in written for cell in row
    )
    assert [[read_cell(cell) for cell in row] for row in written] == rows
