"""A document is read in the encoding that it is in, which is not always the one that somebody names."""

import pytest

from tollhouse import charset

PLAIN = b"<rss>a feed in bytes</rss>"


@pytest.mark.parametrize(
    ("raw", "content_type", "claimed"),
    [
        (PLAIN, "text/xml; charset=Shift_JIS", "shift-jis"),
        (PLAIN, 'text/xml; charset="koi8-r"', "koi8-r"),
        (b"<?xml version='1.0' encoding='windows-1251'?>" + PLAIN, "text/xml", "windows-1251"),
        (b"<html><meta charset=euc-kr>", "text/html", "euc-kr"),
        (b"<?xml encoding='gbk'?>", "text/xml; charset=big5", "big5"),
        (PLAIN, "text/xml; charset=ISO-8859-1", "cp1252"),
        ("a".encode("utf-16-le") * 99, "text/xml; charset=utf-16le", "utf-16le"),
    ],
)
def test_header_and_then_the_document_are_believed(raw, content_type, claimed):
    assert charset.claimed(raw, content_type) == claimed


@pytest.mark.parametrize(
    "name", ["utf-8", "punycode", "unicode-escape", "zip", "iso-8859-99", "utf-16", "UTF-32BE", ""]
)
def test_what_needs_no_name_or_cannot_be_is_not_believed(name):
    assert not charset.claimed(PLAIN, f"text/xml; charset={name}")


def test_header_that_cannot_be_leaves_the_word_to_the_document():
    assert charset.claimed(b"<?xml version='1.0' encoding='big5'?>", "text/xml; charset=utf-16") == "big5"


@pytest.mark.parametrize("name", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_mark_names_the_encoding(name):
    text = "Grüße"
    raw = text.encode(name)
    assert raw.decode(charset.marked(raw)).removeprefix("\ufeff") == text
    assert not charset.marked(text.encode())


@pytest.mark.parametrize(
    ("raw", "content_type", "text"),
    [
        ("Grüße".encode(), "text/xml; charset=big5", "Grüße"),
        ("Grüße".encode(), "text/xml; charset=iso-2022-jp", "Grüße"),
        ("日本の寝具".encode("iso-2022-jp"), "text/xml; charset=iso-2022-jp", "日本の寝具"),
        ("日本の寝具".encode("shift-jis"), "text/xml; charset=Shift_JIS", "日本の寝具"),
        ("plain".encode("utf-16-be"), "text/xml; charset=utf-16be", "plain"),
    ],
)
def test_valid_utf_8_is_believed_over_a_claim_unless_what_is_claimed_passes_for_it(raw, content_type, text):
    assert charset.decoded(raw, content_type) == text


def test_few_broken_bytes_leave_utf_8_and_many_are_another_encoding():
    assert charset.decoded("Grüße aus Köln, Düsseldorf".encode() + b"\xff", "") == "Grüße aus Köln, Düsseldorf\ufffd"
    assert charset.decoded("Grüße aus Köln".encode("cp1252"), "") == "Grüße aus Köln"
