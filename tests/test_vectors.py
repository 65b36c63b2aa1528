"""Text vectors: what they promise about shape, length and nearness."""

import numpy as np
import pytest

from tollhouse.vectors import TextVectors, WordPieces, text_vectors

RELATED = [
    ("Drone strikes oil tanker off Hodeidah port", "Tanker hit by unmanned aircraft near Yemen"),
    ("Defence minister resigns over contract", "Minister of defense quits in procurement scandal"),
    ("Earthquake flattens villages, dozens dead", "Quake destroys hamlets and kills many"),
    ("Central bank raises interest rates", "Borrowing costs go up as inflation persists"),
    ("Thousands march against the government", "Protesters fill the streets of the capital"),
]


@pytest.fixture(scope="module")
def vectors() -> TextVectors:
    return text_vectors()


def test_each_text_has_one_row_of_unit_length(vectors):
    rows = vectors.embed([title for pair in RELATED for title in pair])
    assert rows.shape == (10, vectors.dimensions)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert vectors.embed([]).shape == (0, vectors.dimensions)


def test_titles_of_one_event_are_nearer_than_others(vectors):
    one, other = (vectors.embed([pair[side] for pair in RELATED]) for side in (0, 1))
    assert (one @ other.T).argmax(axis=1).tolist() == list(range(len(RELATED)))


@pytest.mark.parametrize("text", ["", "  ", "!?…", "\U0001f680\U0001f680", "x" * 101, "Взрыв на складе", "انفجار"])
def test_text_without_known_words_is_a_row_of_zeros(vectors, text):
    (row, known) = vectors.embed([text, "tanker"])
    assert not row.any()
    assert known.any()


def test_case_accents_and_punctuation_do_not_count(vectors):
    one, other = vectors.embed(["The café in São Tomé: closed!", "the CAFE in sao tome closed"])
    assert np.allclose(one, other, atol=1e-6)


def test_vector_of_a_text_does_not_depend_on_its_company(vectors):
    alone = vectors.embed(["Drone strikes oil tanker"])
    among = vectors.embed([*("Ministers meet in Geneva " + str(n) for n in range(700)), "Drone strikes oil tanker"])
    assert np.array_equal(alone[0], among[-1])


def test_long_words_are_split_into_the_longest_pieces():
    pieces = WordPieces({"tank": 0, "##er": 1, "##e": 2, "##r": 3, "s": 4})
    assert pieces.split("Tanker's tank") == [0, 1, 4, 0]
    assert pieces.split("tanks 7") == []
