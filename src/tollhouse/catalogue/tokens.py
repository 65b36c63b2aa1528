"""Tokenization: indexed texts and queries are split, folded and stemmed in the same way."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile

from msgspec import Struct
from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

MAX_CHARACTERS = 1_000
MAX_WORDS = 24
LONGEST_WORD = 60

# Stopwords: an item need not contain them.
STOPWORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "has", "have", "i", "in", "is", "it",
     "me", "my", "of", "on", "or", "that", "the", "this", "to", "was", "what", "which", "who", "with", "you", "your"}
)  # fmt: skip
# A product is named before these words, and what it belongs to after them.
PREPOSITIONS = frozenset({"for", "with"})


class Word(Struct, frozen=True):
    """A word in lower case without accents, and its stem."""

    raw: str
    stem: str


def _plain_builder() -> TextAnalyzerBuilder:
    cut = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(LONGEST_WORD))
    return cut.filter(Filter.lowercase()).filter(Filter.ascii_fold())


def stemming_analyzer() -> TextAnalyzer:
    """Words with stemming, for searched text."""
    return _plain_builder().filter(Filter.stemmer("english")).build()


def plain_analyzer() -> TextAnalyzer:
    return _plain_builder().build()


_STEMS = stemming_analyzer()
_RAW = plain_analyzer()


@lru_cache(maxsize=20_000)
def stem(raw: str) -> str:
    """The stem of one word; the word itself if it has none."""
    stems = _STEMS.analyze(raw)
    return stems[0] if stems else raw


def query_words(text: str) -> list[Word]:
    """The words of a query, in order: the first 24 of its first 1,000 characters."""
    clean = text[:MAX_CHARACTERS].encode(errors="replace").decode()
    return [Word(raw, stem(raw)) for raw in _RAW.analyze(clean)[:MAX_WORDS]]


def head_stem(words: Sequence[Word]) -> str:
    """The stem of the word that names a product: the last one, or the last before a preposition; "" without words."""
    before = list(takewhile(lambda word: word.raw not in PREPOSITIONS, words))
    significant = [word for word in before or words if word.raw not in STOPWORDS] or words
    return significant[-1].stem if significant else ""


def text_words(text: str) -> list[str]:
    return _RAW.analyze(text)
