"""Pages by position: each item once, also while the list changes between two pages."""

import re

import pytest

from tollhouse.services.defense.paging import Cursor, position, sliced

PATTERN = Cursor.__metadata__[0].pattern


def items(*values: int) -> list[tuple[int, str]]:
    """Sorted as a feed is: equal values in the order of their ids."""
    return sorted(((value, f"thing_{number:016x}") for number, value in enumerate(values)), key=place)


def place(item: tuple[int, str]):
    return position(*item)


def read(listed, limit):
    found, cursor, pages = [], None, 0
    while True:
        page = sliced(listed, place, cursor, limit)
        assert page.total == len(listed)
        assert len(page.items) <= limit
        found += page.items
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            return found, pages
        assert re.fullmatch(PATTERN, cursor)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 100])
def test_pages_hold_every_item_once_in_order(limit):
    listed = items(5, 9, 5, 0, 5, 10_000, 5)
    found, pages = read(listed, limit)
    assert found == listed
    assert pages == -(-len(listed) // limit)
    assert [value for value, _ in found] == [10_000, 9, 5, 5, 5, 5, 0]


def test_nothing_is_one_empty_page():
    page = sliced([], place, None, 10)
    assert (page.items, page.total, page.next_cursor) == ([], 0, None)


def test_item_that_arrives_before_the_cursor_repeats_nothing():
    listed = items(9, 8, 7, 6)
    first = sliced(listed, place, None, 2)
    newer = sorted([*listed, (10, f"thing_{99:016x}")], key=place)
    assert sliced(newer, place, first.next_cursor, 2).items == listed[2:]


def test_item_that_the_cursor_stood_on_may_be_gone():
    listed = items(9, 8, 7, 6)
    first = sliced(listed, place, None, 2)
    assert sliced([listed[0], *listed[2:]], place, first.next_cursor, 2).items == listed[2:]


def test_cursor_behind_the_end_finds_nothing():
    page = sliced(items(9, 8), place, "0-ffffffffffffffff", 5)
    assert (page.items, page.total, page.next_cursor) == ([], 2, None)
