"""The extractive answerer: reads a question by rules, runs the query it means, and tells what the feeds say."""

from functools import lru_cache

from msgspec import Struct

from tollhouse.questions.citations import Citations, Reference
from tollhouse.services.defense.chat.executor import find
from tollhouse.services.defense.chat.interpretation import Puzzled, understood
from tollhouse.services.defense.chat.parser import read
from tollhouse.services.defense.chat.query_types import Query
from tollhouse.services.defense.chat.renderer import told, window
from tollhouse.services.defense.chat.result import Finding
from tollhouse.services.defense.chat.snapshot import Snapshot
from tollhouse.services.defense.chat.vocabulary import Vocabulary

MODEL = "extractive"


class Reply(Struct, frozen=True):
    """`finding` is what the words were made from; None when the question was refused."""

    text: str
    citations: tuple[Reference, ...]
    finding: Finding | None


def answer(picture: Snapshot, prompt: str, before: Query | None) -> Reply:
    """The answer from this picture, after the query that was answered before, if any."""
    sentence = read(prompt, picture, _vocabulary(picture))
    meant = understood(sentence, picture, before)
    if isinstance(meant, Puzzled):
        return Reply(refusal(picture, meant), (), None)
    finding = find(picture, meant)
    citations = Citations()
    text = told(picture, finding, citations)
    return Reply(text, tuple(citations.cited), finding)


def refusal(picture: Snapshot, puzzled: Puzzled) -> str:
    """Why there is no answer, and what can be asked."""
    why = _WHY[puzzled.why].format(words=", ".join(f"“{word[:60]}”" for word in puzzled.words))
    return f"I cannot answer that from the feeds: {why} {_TRY} {window(picture)}"


@lru_cache(maxsize=2)
def _vocabulary(picture: Snapshot) -> Vocabulary:
    return Vocabulary(picture)


_WHY = {
    "foreign": "they hold nothing about {words}.",
    "beyond": "no question with {words} is understood here.",
    "outside-window": "{words} lies outside the 24 hours they hold.",
    "unknown-word": "nothing in them is called {words}.",
    "not-supported": "nothing that the model said stands in them.",
    "not-understood": "the question was not understood.",
}
_TRY = (
    "You can ask how many events there were by country, category, severity or time, which country had the most, what "
    "happened somewhere, which stories tell of something, who is mentioned, what deaths are reported, and for the "
    "brief's procurement money, capability gaps and freshness: for example “How many battles were there in Ethiopia?”."
)
