"""Text as words: how what is indexed and what is asked are cut, folded and stemmed alike."""

from functools import lru_cache

from msgspec import Struct
from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

MAX_CHARACTERS = 1_000
MAX_WORDS = 24
LONGEST_WORD = 60

# Words that hold a question together and say nothing of a thing: they need not be found.
FUNCTION_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "has", "have", "i", "in", "is", "it",
     "me", "my", "of", "on", "or", "that", "the", "this", "to", "was", "what", "which", "who", "with", "you", "your"}
)  # fmt: skip


class Word(Struct, frozen=True):
    """A word as typed, in lower case without accents, and its stem."""

    raw: str
    stem: str


def _whole_words() -> TextAnalyzerBuilder:
    cut = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(LONGEST_WORD))
    return cut.filter(Filter.lowercase()).filter(Filter.ascii_fold())


def stemming_analyzer() -> TextAnalyzer:
    """The analysis of searched text."""
    return _whole_words().filter(Filter.stemmer("english")).build()


def plain_analyzer() -> TextAnalyzer:
    """The same words before stemming."""
    return _whole_words().build()


_STEMS = stemming_analyzer()
_RAW = plain_analyzer()


@lru_cache(maxsize=20_000)
def stem(raw: str) -> str:
    """The stem of one word, itself where it has none."""
    found = _STEMS.analyze(raw)
    return found[0] if found else raw


def query_words(text: str) -> list[Word]:
    """The words of a question, in order: the first 24 of its first 1,000 characters, whatever it is made of."""
    clean = text[:MAX_CHARACTERS].encode(errors="replace").decode()
    return [Word(raw, stem(raw)) for raw in _RAW.analyze(clean)[:MAX_WORDS]]


def text_words(text: str) -> list[str]:
    """Every word of a text that is indexed, as typed."""
    return _RAW.analyze(text)
