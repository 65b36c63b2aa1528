"""Static text vectors: a text's vector is the sum of its word pieces' vectors, of unit length.

The vectors of 27,558 English word pieces were fitted to a sentence model's vectors by tools/build_text_vectors.py; see
data/README.md for their origin and licence. No model runs here, and word order does not count.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

# Longer texts count by their beginning, longer words not at all.
TEXT_CHARS = 4_000
WORD_CHARS = 100
# Words whose pieces are remembered (some 4 MB), and texts that are embedded at a time.
REMEMBERED_WORDS = 20_000
BATCH = 128

# Han characters are words of their own; an underscore separates words.
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")


class WordPieces:
    """Splits texts into the pieces of a vocabulary: the longest that fits, from left to right, as BERT does.

    Pieces inside a word begin with ## in the vocabulary. Case and accents do not count. A word that cannot be split
    has no pieces.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._known: dict[str, tuple[int, ...]] = {}

    def split(self, text: str) -> list[int]:
        """The vocabulary's numbers of a text's pieces, in order."""
        known, pieces = self._known, list[int]()
        for word in words(text):
            match = known.get(word)
            if match is None:
                if len(known) >= REMEMBERED_WORDS:
                    known.clear()
                match = known[word] = self.split_word(word)
            pieces += match
        return pieces

    def split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of one word in lower case and without accents."""
        pieces, start, length = list[int](), 0, len(word)
        if length > WORD_CHARS:
            return ()
        while start < length:
            for end in range(length, start, -1):
                piece = self._vocabulary.get(word[start:end] if start == 0 else f"##{word[start:end]}")
                if piece is not None:
                    pieces.append(piece)
                    start = end
                    break
            else:
                return ()
        return tuple(pieces)


def words(text: str) -> list[str]:
    """The words at the beginning of a text, in lower case and without accents."""
    text = text[:TEXT_CHARS].lower()
    if text.isascii():
        return _ASCII_WORD.findall(text)
    return _WORD.findall(without_accents(text))


def without_accents(text: str) -> str:
    return "".join([char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn"])


class TextVectors:
    """Vectors of texts. `rows` has a vector per word piece as small integers, to be multiplied by its `scales`."""

    def __init__(self, pieces: Sequence[str], rows: NDArray[np.int8], scales: NDArray[np.float32]) -> None:
        self._splitter = WordPieces({piece: number for number, piece in enumerate(pieces)})
        self._rows = rows
        self._scales = scales
        self.dimensions = int(rows.shape[1])
        # In the order of frequency.
        self.whole_words = tuple(piece for piece in pieces if piece.isalpha())

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length per text, of zeros where no word is known. Similarity is the dot product."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for start in range(0, len(texts), BATCH):
            self._embed(texts[start : start + BATCH], vectors[start : start + BATCH])
        return vectors

    def _embed(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        split = [self._splitter.split(text) for text in texts]
        known = [number for number, pieces in enumerate(split) if pieces]
        if not known:
            return
        pieces = np.array([piece for number in known for piece in split[number]], dtype=np.intp)
        starts = np.cumsum([0, *(len(split[number]) for number in known[:-1])])
        weighted = self._rows[pieces] * self._scales[pieces, None]
        sums = np.add.reduceat(weighted, starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        vectors[known] = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0)


@cache
def text_vectors() -> TextVectors:
    """The vectors that come with the package, read once."""
    with resources.as_file(resources.files("tollhouse") / "data" / "text_vectors.npz") as path, np.load(path) as stored:
        pieces = stored["pieces"].tobytes().decode().split("\n")
        return TextVectors(pieces, stored["rows"], stored["scales"].astype(np.float32))
