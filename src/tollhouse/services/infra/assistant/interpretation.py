"""What a message means: a query, or why it is not understood."""

from typing import Literal

from msgspec import Struct

from tollhouse.services.infra.assistant.entity_linking import Linker
from tollhouse.services.infra.assistant.follow_ups import Focus, follow_up
from tollhouse.services.infra.assistant.intent_rules import asked_for
from tollhouse.services.infra.assistant.query_types import Query
from tollhouse.services.infra.assistant.sentence import Sentence

Why = Literal["unknown-word", "no-company", "not-here", "not-understood"]

# Questions whose every word counts: an unknown one may be half of what is meant.
_EXACT = frozenset({"describe", "relation", "path", "compare"})
# "Does TSMC supply apple": in lower case as well, what ends a sentence there is who is asked about.
_IN_A_NAMES_PLACE = r"(?:V|buy|from|to|by) \?$"
_ABOUT_A_COMPANY = ("supplier", "customer", "supply", "buy", "depend", "compare", "path")


class Puzzled(Struct, frozen=True):
    """Why a sentence is not understood, and the words that were in the way."""

    why: Why
    words: tuple[str, ...] = ()


def understood(linker: Linker, message: str, focus: Focus | None) -> Query | Puzzled:
    """The query a message means, after what was asked before."""
    sentence = Sentence(linker.read(message))
    if sentence.is_foreign:
        return Puzzled("not-here")
    query = (follow_up(linker, sentence, focus) if focus else None) or asked_for(sentence, linker)
    return query if query and _may_be_trusted(sentence, query) else _puzzled(sentence)


def _may_be_trusted(sentence: Sentence, query: Query) -> bool:
    """An unknown word may be a company that is not here; only a plain relation bears one, and none like a name."""
    if not sentence.unknown:
        return True
    if len(sentence.unknown) > 1 or not query.companies or query.operation in _EXACT:
        return False
    if sentence.says(_IN_A_NAMES_PLACE):
        return False
    unknown = sentence.unknown[0]
    return not unknown.is_name or unknown is sentence.tokens[0]


def _puzzled(sentence: Sentence) -> Puzzled:
    if sentence.unknown:
        return Puzzled("unknown-word", tuple(token.text for token in sentence.unknown[:3]))
    lacks_company = not sentence.companies and sentence.has(*_ABOUT_A_COMPANY)
    return Puzzled("no-company" if lacks_company else "not-understood")
