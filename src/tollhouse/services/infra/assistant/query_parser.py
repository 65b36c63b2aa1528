"""Parses a message into a graph query: rules over concepts, the most specific first, and follow-up questions."""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from tollhouse.services.infra.assistant.executor import DEFAULT_RANKS, MAX_RANKS, Attribute, GraphQuery, Operation
from tollhouse.services.infra.assistant.sentence import COMPANY, EntityLinker, Sentence, Token
from tollhouse.services.infra.company import Kind

# Any concepts except companies.
_GAP = r"(?:(?!C\d)\S+ )*?"
# Concepts between a company and its noun: "Anthropic's cloud providers".
_TRAIT = r"(?:(?:K|P|N|compute|power|manufacture|first|make) )*"

_Side = Literal["suppliers", "customers"]
# Suppliers or customers of C0, by the position of the company. The first match wins.
_SIDES: tuple[tuple[str, _Side], ...] = (
    (rf"C0 {_TRAIT}customer", "customers"),
    (rf"customer {_GAP}C0", "customers"),
    (rf"C0 {_TRAIT}supplier", "suppliers"),
    (r"C0 run on", "suppliers"),
    (r"^C0 supply$", "suppliers"),
    (rf"do C0 {_GAP}buy", "suppliers"),
    (rf"C0 buy {_GAP}from", "suppliers"),
    (rf"C0 (?:do )?{_GAP}V by", "suppliers"),
    (rf"V by {_GAP}C0", "customers"),
    (rf"(?:V|buy) {_GAP}from C0", "customers"),
    (rf"buy {_GAP}C0", "customers"),
    (rf"(?:V|supplier) {_GAP}C0", "suppliers"),
    (rf"C0 {_GAP}supply", "customers"),
    (rf"(?:who|to) {_GAP}C0 {_GAP}V", "customers"),
    (rf"C0 {_GAP}V (?:\S+ )*?to", "customers"),
    (r"C0 buy", "suppliers"),
)

# "Which companies could stop everything?"
_EVERYTHING_FAILS = r"(?:company|who)(?: do)?(?: fail)+(?: (?:most|of|supply|path))*$"

# Concepts that may occur in a question about one company.
_DESCRIPTIVE = frozenset(
    {"what", "who", "do", "tell", "about", "make", "where", "based", "ticker", "company", "of", "from", "by", "list",
     "build", "on", "supply", "manufacture", "how", "and", "compute", "to", "only", "it"}
)  # fmt: skip
_HOLDERS = frozenset({"investor", "investors", "backer", "backers", "shareholder", "shareholders"})

_LIST_OPERATIONS = frozenset({"list", "makers", "suppliers", "customers", "upstream", "downstream"})
_ORDINALS = {"first": 0, "second": 1, "third": 2}
_OPENERS = frozenset({"and", "what", "who", "how", "if"})
# Words that refer to no company: "which companies could stop everything?".
_EVERYTHING = frozenset({"everything", "everyone"})
_BARE = frozenset({"and", "what", "about", "how", "of", "to", "from"})

FailureReason = Literal["unknown-word", "no-company", "not-here", "not-understood"]

# Queries that allow no unknown word: it may be the name of a company.
_EXACT = frozenset({"describe", "relation", "path", "compare"})
# "Does TSMC supply apple": an unknown word at this place is a company, even in lower case.
_UNKNOWN_COMPANY = r"(?:V|buy|from|to|by) \?$"
_ABOUT_A_COMPANY = ("supplier", "customer", "supply", "buy", "depend", "compare", "path")


def parse_sentence(sentence: Sentence, linker: EntityLinker) -> GraphQuery | None:
    """The query of a sentence without context, or None."""
    query = _by_rules(sentence)
    if query is None and len(sentence.companies) == 1 and sentence.has("it"):
        query = _by_rules(sentence.with_topic_resolved())
    if query is None:
        query = _makers(sentence, linker) or _listed(sentence) or _described(sentence)
    return msgspec.structs.replace(query, counts=True) if query and _counts(sentence) else query


def in_countries(query: GraphQuery, sentence: Sentence) -> GraphQuery:
    """The query limited to the country that the sentence names, or to all others."""
    if not sentence.countries:
        return query
    if sentence.has("outside"):
        return msgspec.structs.replace(query, without_country=sentence.countries[0])
    return msgspec.structs.replace(query, country=sentence.countries[0])


def _by_rules(sentence: Sentence) -> GraphQuery | None:
    return next((query for rule in _RULES if (query := rule(sentence))), None)


def _counts(sentence: Sentence) -> bool:
    return sentence.matches("how count") or sentence.matches("count of") or sentence.line.startswith("count")


def _chokepoints(sentence: Sentence) -> GraphQuery | None:
    if not (sentence.has("chokepoint") or sentence.matches("point of fail")):
        return None
    if sentence.matches(r"(?:to|of|in) C\d") or sentence.matches(r"C\d chokepoint"):
        return GraphQuery("chokepoints_for", companies=tuple(sentence.companies[:1]))
    if sentence.companies:
        return GraphQuery("fails_without", companies=tuple(sentence.companies[:1]))
    return GraphQuery("chokepoints", limit=_ranks(sentence, DEFAULT_RANKS))


def _failing(sentence: Sentence) -> GraphQuery | None:
    if not sentence.has("fail") or (len(sentence.companies) > 1 and sentence.has("path")):
        return None
    asks_who_fails_it = sentence.matches("(?:company|who|what) (?:do )?(?:buy )?fail C0") and not sentence.has("if")
    if asks_who_fails_it and len(sentence.companies) == 1:
        return GraphQuery("chokepoints_for", companies=tuple(sentence.companies))
    if sentence.companies:
        return GraphQuery("fails_without", companies=tuple(sentence.companies[:5]))
    if sentence.countries and not sentence.has("list"):
        return GraphQuery("fails_without", country=sentence.countries[0])
    if not sentence.countries and sentence.matches(_EVERYTHING_FAILS):
        return GraphQuery("chokepoints", limit=_ranks(sentence, DEFAULT_RANKS))
    return None


def _shared(sentence: Sentence) -> GraphQuery | None:
    if len(sentence.companies) < 2 or not sentence.has("shared"):
        return None
    pair = tuple(sentence.companies[:2])
    if sentence.has("supplier", "supply") or sentence.matches(rf"C\d {_GAP}buy"):
        return GraphQuery("shared_suppliers", companies=pair)
    return GraphQuery("shared_customers", companies=pair) if sentence.has("customer", "buy") else None


def _compared(sentence: Sentence) -> GraphQuery | None:
    if len(sentence.companies) >= 2 and sentence.has("compare"):
        return GraphQuery("compare", companies=tuple(sentence.companies[:2]))
    return None


def _path(sentence: Sentence) -> GraphQuery | None:
    if len(sentence.companies) < 2:
        return None
    first, second = sentence.companies[:2]
    if sentence.matches(rf"to C0 {_GAP}from C1") or sentence.matches(rf"C0 {_GAP}depend {_GAP}C1"):
        first, second = second, first
    is_way = any(map(sentence.matches, (rf"from C0 {_GAP}to C1", "to C0 from C1", "C0 buy to C1")))
    if is_way or (sentence.has("path", "depend") and not sentence.has("supplier", "customer")):
        return GraphQuery("path", companies=(first, second))
    return None


def _relation(sentence: Sentence) -> GraphQuery | None:
    """Supply between two companies: does A supply B, is A a customer of B, what does A sell to B."""
    if len(sentence.companies) != 2 or sentence.matches(r"outside C\d"):
        return None
    first, second = sentence.companies
    from_second = (rf"C0 {_GAP}customer {_GAP}C1", rf"C0 {_GAP}buy {_GAP}C1", rf"C0 {_GAP}supply by {_GAP}C1")
    if any(map(sentence.matches, from_second)):
        return GraphQuery("relation", companies=(second, first))
    if sentence.matches(rf"C0 {_GAP}(?:V|supplier) {_GAP}C1"):
        return GraphQuery("relation", companies=(first, second))
    return None


def _invested(sentence: Sentence) -> GraphQuery | None:
    holds_shares = sentence.has("own") and sentence.has("shared")
    if not sentence.companies or sentence.has("most") or not (sentence.has("invest") or holds_shares):
        return None
    if len(sentence.companies) == 2 and sentence.line.startswith("do "):
        return _tied(sentence, "invests_in")
    company = tuple(sentence.companies[:1])
    if sentence.matches(rf"(?:invest|own) {_GAP}by C0"):
        return GraphQuery("investments", companies=company)
    asks_for_holders = sentence.matches("C0 (?:do )?invest by") or sentence.has_word(_HOLDERS)
    is_holder = sentence.matches(rf"C0 {_GAP}(?:invest|own)") and not asks_for_holders
    return GraphQuery("investments" if is_holder else "investors", companies=company)


def _peers(sentence: Sentence) -> GraphQuery | None:
    """Partners or competitors of a company, or whether two companies are that."""
    peers: tuple[tuple[str, Operation, Kind], ...] = (
        ("partner", "partners", "partners_with"),
        ("compete", "competitors", "competes_with"),
    )
    for concept, operation, kind in peers:
        if sentence.companies and sentence.has(concept):
            if len(sentence.companies) == 2:
                return _tied(sentence, kind)
            return GraphQuery(operation, companies=tuple(sentence.companies[:1]))
    return None


def _tied(sentence: Sentence, kind: Kind) -> GraphQuery:
    return GraphQuery("relation", companies=tuple(sentence.companies), kinds=(kind,))


def _exposed(sentence: Sentence) -> GraphQuery | None:
    company = tuple(sentence.companies[:1])
    if not company:
        return None
    if sentence.has("upstream", "downstream"):
        return GraphQuery("upstream" if sentence.has("upstream") else "downstream", companies=company)
    if sentence.matches("supply path"):
        return GraphQuery("upstream", companies=company)
    if not sentence.has("depend") or sentence.has("supply", "supplier", "customer"):
        return None
    rests_on_others = sentence.matches(rf"C\d {_GAP}depend") or sentence.matches(rf"depend of {_GAP}C\d")
    return GraphQuery("upstream" if rests_on_others else "downstream", companies=company)


def _ranked(sentence: Sentence) -> GraphQuery | None:
    if sentence.companies or not sentence.has("most"):
        return None
    operations: dict[str, Operation] = {"supplier": "most_suppliers", "customer": "most_customers"}
    return next(
        (GraphQuery(o, limit=_ranks(sentence, 1)) for name, o in operations.items() if sentence.has(name)), None
    )


def _ranks(sentence: Sentence, usual: int) -> int:
    return max(1, min(sentence.numbers[0], MAX_RANKS)) if sentence.numbers else usual


def _supplied(sentence: Sentence) -> GraphQuery | None:
    # Edges have no order sizes, and "all except this one" is not supported.
    if not sentence.companies or any(map(sentence.matches, ("most", r"outside C\d", "how count P"))):
        return None
    side = next((side for pattern, side in _SIDES if sentence.matches(pattern)), None)
    if side is None:
        return None
    is_filter = sentence.matches(r"K (?:\S+ )*?(?:V|supplier|customer|buy)") or sentence.matches(
        "(?:supplier|customer) do K"
    )
    category = sentence.category() if is_filter else None
    kinds = () if category else sentence.kinds()
    product = None if kinds else sentence.product(with_categories=category is None)
    company = tuple(sentence.companies[:1])
    return in_countries(GraphQuery(side, companies=company, kinds=kinds, product=product, category=category), sentence)


_RULES: tuple[Callable[[Sentence], GraphQuery | None], ...] = (
    _chokepoints,
    _failing,
    _shared,
    _compared,
    _path,
    _relation,
    _invested,
    _peers,
    _exposed,
    _ranked,
    _supplied,
)


def _makers(sentence: Sentence, linker: EntityLinker) -> GraphQuery | None:
    """Makers of a product that is named by its own name, not just by its category."""
    product = None if sentence.companies else sentence.product(with_categories=True)
    if product is None or sentence.matches("how count P"):
        return None
    is_own_name = linker.is_product(product) and sentence.has("make", "supply", "manufacture", "build", "buy", "who")
    if sentence.category() is None or is_own_name:
        return in_countries(GraphQuery("makers", product=product), sentence)
    return None


def _listed(sentence: Sentence) -> GraphQuery | None:
    if sentence.companies:
        return None
    if sentence.category() or sentence.countries:
        return in_countries(GraphQuery("list", category=sentence.category()), sentence)
    is_all = sentence.has("company") and (sentence.has("list", "what") or _counts(sentence))
    return GraphQuery("list") if is_all else None


def _described(sentence: Sentence) -> GraphQuery | None:
    concepts = sentence.concepts()
    if not sentence.companies or concepts - _DESCRIPTIVE:
        return None
    attribute: Attribute | None = "country" if concepts & {"based", "where"} else None
    if "ticker" in concepts:
        attribute = "ticker"
    return GraphQuery("describe", companies=tuple(sentence.companies[:5]), attribute=attribute)


class ConversationFocus(Struct, frozen=True, array_like=True):
    """The context for a follow-up: the last query, the companies it was about, and the first ones in the answer."""

    query: GraphQuery
    companies: tuple[str, ...]
    named: tuple[str, ...]


def follow_up(linker: EntityLinker, sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """The query of a follow-up to `focus`; None if the sentence is complete without it."""
    if sentence.companies:
        return _other_path_end(sentence, focus) or _same_for_another(sentence, focus)
    narrowed = _narrowed(sentence, focus)
    if narrowed:
        return narrowed
    company = _referent(sentence, focus)
    if company is None or sentence.unknown or sentence.has_word(_EVERYTHING):
        return None
    return parse_sentence(sentence.with_company(Token(COMPANY, company, company)), linker)


def _other_path_end(sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """After a path, "and from Zeiss?": a path with another start or end."""
    if focus.query.operation != "path" or len(sentence.companies) != 1 or not sentence.concepts() <= _BARE:
        return None
    source, target = focus.query.companies
    new = sentence.companies[0]
    return msgspec.structs.replace(focus.query, companies=(source, new) if sentence.has("to") else (new, target))


def _same_for_another(sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """The same question about another company: "and Oracle?"."""
    is_bare = sentence.concepts() <= _BARE and sentence.has("and", "about")
    if not is_bare or len(sentence.companies) != 1 or not focus.query.companies:
        return None
    # Of two companies the second one is replaced: "is TSMC a supplier of AMD?", "and of Broadcom?".
    return msgspec.structs.replace(
        focus.query, companies=(*focus.query.companies[:1], *sentence.companies)[-len(focus.query.companies) :]
    )


def _narrowed(sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """The same question with a country filter: "only the Korean ones"."""
    is_about_them = sentence.has("it", "only", "and", "about")
    if not is_about_them or not sentence.countries or focus.query.operation not in _LIST_OPERATIONS:
        return None
    return in_countries(focus.query, sentence)


def _referent(sentence: Sentence, focus: ConversationFocus) -> str | None:
    """The company that a pronoun or an ordinal refers to."""
    place = next((place for name, place in _ORDINALS.items() if sentence.has(name)), None)
    if place is not None:
        return focus.named[place] if place < len(focus.named) else None
    is_left_open = sentence.has("it") or sentence.line.split(" ")[0] in _OPENERS
    return focus.companies[0] if focus.companies and is_left_open else None


class ParseFailure(Struct, frozen=True):
    """Why a message has no query, and the words that are unknown."""

    reason: FailureReason
    words: tuple[str, ...] = ()


def parse_message(linker: EntityLinker, message: str, focus: ConversationFocus | None) -> GraphQuery | ParseFailure:
    sentence = Sentence(linker.tokenize(message))
    if sentence.is_out_of_scope:
        return ParseFailure("not-here")
    query = (follow_up(linker, sentence, focus) if focus else None) or parse_sentence(sentence, linker)
    return query if query and _is_reliable(sentence, query) else _failure(sentence)


def _is_reliable(sentence: Sentence, query: GraphQuery) -> bool:
    """Whether unknown words leave the query reliable: at most one, in a simple query, and not like a name."""
    if not sentence.unknown:
        return True
    if len(sentence.unknown) > 1 or not query.companies or query.operation in _EXACT:
        return False
    if sentence.matches(_UNKNOWN_COMPANY):
        return False
    unknown = sentence.unknown[0]
    return not unknown.is_name or unknown is sentence.tokens[0]


def _failure(sentence: Sentence) -> ParseFailure:
    if sentence.unknown:
        return ParseFailure("unknown-word", tuple(token.text for token in sentence.unknown[:3]))
    lacks_company = not sentence.companies and sentence.has(*_ABOUT_A_COMPANY)
    return ParseFailure("no-company" if lacks_company else "not-understood")
