"""Spellings that a refused question may stand for: its unknown words as function words, or as words of the texts."""

from collections.abc import Iterator
from itertools import islice, product

from rapidfuzz import process
from rapidfuzz.distance import OSA

from tollhouse.questions.linking import Linked, Linker
from tollhouse.questions.normalise import Token, function_words, language_of, tokenise

# A question with more unknown words than these is none that typos of short words explain.
MOST_UNKNOWN = 4
MOST_SPELLINGS = 32
MOST_CANDIDATES = 4
# From how many letters on a word may be a word of the texts.
TEXT_WORD_FROM = 6


def spellings(text: str, linker: Linker) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """The texts with unknown words corrected by one letter, likeliest first, each with its corrections."""
    text = " ".join(text.split())
    tokens = tokenise(text)
    language = language_of(tokens)
    linked = linker.link(text, language=language)
    unknown = [tokens[item.start] for item in linked.items if item.find("unknown")]
    near = [(token, _near(token.folded, linker, language)) for token in unknown]
    near = [(token, words) for token, words in near if words]
    if not near or len(near) > MOST_UNKNOWN:
        return
    near = sorted([*near, *_values(linked, tokens)], key=lambda pair: pair[0].start)
    for chosen in islice(product(*(words for _, words in near)), MOST_SPELLINGS):
        corrected = text
        for (token, _), word in zip(reversed(near), reversed(chosen), strict=True):
            corrected = corrected[: token.start] + word + corrected[token.end :]
        yield corrected, tuple((token.text, word) for (token, _), word in zip(near, chosen, strict=True))


def _values(linked: Linked, tokens: list[Token]) -> Iterator[tuple[Token, list[str]]]:
    """The misspelt values that can stand for one thing only: texts are searched for them as they are written."""
    corrected = dict(linked.corrected)
    for item in linked.items:
        if item.text in corrected and len(item.meanings) == 1 and item.find("value"):
            yield tokens[item.start], [corrected[item.text]]


def _near(word: str, linker: Linker, language: str) -> list[str]:
    """Function words at one letter; of a word that no one writes also long words of the texts."""
    if not word.isalpha() or len(word) < 2:
        return []
    functions = sorted(other for other in function_words(language) if len(other) > 2)
    near = [other for other in _at_one_letter(word, functions) if _is_slip(word, other)]
    if len(word) >= TEXT_WORD_FROM and not linker.is_ordinary(word):
        near += _at_one_letter(word, sorted(linker.text_words))
    return list(dict.fromkeys(near))[:MOST_CANDIDATES]


def _at_one_letter(word: str, others: list[str]) -> list[str]:
    matched = process.extract(word, others, scorer=OSA.distance, score_cutoff=1, limit=None)
    return [other for other, distance, _ in matched if distance == 1]


def _is_slip(word: str, other: str) -> bool:
    """Whether two neighbouring letters are swapped, or one behind the first is left out."""
    return sorted(word) == sorted(other) or (len(other) > len(word) and word[0] == other[0])
