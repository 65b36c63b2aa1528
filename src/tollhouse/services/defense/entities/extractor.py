"""From text to the names in it: sentences, what is known beforehand, the tagger, and what of its finds is a name."""

from collections.abc import Iterator, Sequence

from tollhouse.services.defense.entities.gazetteers import find_known
from tollhouse.services.defense.entities.joined_names import told_apart
from tollhouse.services.defense.entities.lexicon import DEMONYMS, TITLES
from tollhouse.services.defense.entities.mention import Mention, Span
from tollhouse.services.defense.entities.metonymy import as_governments
from tollhouse.services.defense.entities.phrases import mentions
from tollhouse.services.defense.entities.tagger import tag
from tollhouse.services.defense.entities.tokens import sentences

# Headlines capitalise them, and they do what people do: strike, spread, win.
_THINGS = frozenset(["hurricane", "typhoon", "cyclone", "covid", "covid-19", "coronavirus", "diwali", "thanksgiving"])
_BUILDINGS = frozenset(
    ["center", "centre", "tower", "towers", "stadium", "airport", "hospital", "hall", "park", "museum"]
)
_SMALL = frozenset(["of", "for", "the", "and", "to", "in", "-"])


def find_names(text: str) -> Iterator[Mention]:
    """The names in a headline or an article, in order, none overlapping another."""
    for sentence in sentences(text):
        for span in sentence_names([token.text for token in sentence]):
            start, end = sentence[span.start].start, sentence[span.end - 1].end
            yield Mention(text[start:end], span.type, start, end)


def sentence_names(words: Sequence[str]) -> list[Span]:
    """The names among a sentence's words. An office alone, "Foreign Secretary", names nobody."""
    known = find_known(words, _lowered(words))
    found = told_apart(tag(words, known), words, known)
    return [span for span in found if not _is_nobody(span, words[span.start : span.end])]


def sentence_mentions(words: Sequence[str]) -> list[Span]:
    """Names, nouns and pronouns with the words that belong to them, as ACE and re3d mark them; none overlap."""
    lowers = _lowered(words)
    known = find_known(words, lowers)
    return mentions(words, lowers, as_governments(lowers, tag(words, known), known))


def _lowered(words: Sequence[str]) -> list[str]:
    return [word.lower() for word in words]


def _is_nobody(span: Span, words: Sequence[str]) -> bool:
    """Whether it is an office without a name, or a thing that headlines write like a name."""
    if any(word.lower() in _THINGS for word in words):
        return True
    return span.type == "person" and (_is_office(words) or words[-1].lower() in _BUILDINGS)


def _is_office(words: Sequence[str]) -> bool:
    return all(word in TITLES or word in DEMONYMS or word in _SMALL for word in words)
