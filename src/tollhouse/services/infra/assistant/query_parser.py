"""Parses a message into a graph query: rules over concepts, the most specific first, and follow-up questions."""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from tollhouse.services.infra.assistant.executor import MOST_RANKS, USUAL_RANKS, Attribute, GraphQuery, Operation
from tollhouse.services.infra.assistant.sentence import COMPANY, EntityLinker, Sentence, Token
from tollhouse.services.infra.company import Kind

# Words between two ideas, no company among them.
_GAP = r"(?:(?!C\d)\S+ )*?"
# What may stand between a company and the noun that belongs to it: "Anthropic's cloud providers".
_TRAIT = r"(?:(?:K|P|N|compute|power|manufacture|first|make) )*"

_Side = Literal["suppliers", "customers"]
# Suppliers or customers of C0: the place of the company in the sentence tells. The first that fits decides.
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

# Ideas that a question about a company alone may hold.
_HARMLESS = frozenset(
    {"what", "who", "do", "tell", "about", "make", "where", "based", "ticker", "company", "of", "from", "by", "list",
     "build", "on", "supply", "manufacture", "how", "and", "compute", "to", "only", "it"}
)  # fmt: skip
_HOLDERS = frozenset({"investor", "investors", "backer", "backers", "shareholder", "shareholders"})

_SETS = frozenset({"list", "makers", "suppliers", "customers", "upstream", "downstream"})
_PLACES = {"first": 0, "second": 1, "third": 2}
_OPENERS = frozenset({"and", "what", "who", "how", "if"})
# Whoever says so asks about no company in particular: "which companies could stop everything?".
_EVERYTHING = frozenset({"everything", "everyone"})
_BARE = frozenset({"and", "what", "about", "how", "of", "to", "from"})

Why = Literal["unknown-word", "no-company", "not-here", "not-understood"]

# Questions whose every word counts: an unknown one may be half of what is meant.
_EXACT = frozenset({"describe", "relation", "path", "compare"})
# "Does TSMC supply apple": in lower case as well, what ends a sentence there is who is asked about.
_IN_A_NAMES_PLACE = r"(?:V|buy|from|to|by) \?$"
_ABOUT_A_COMPANY = ("supplier", "customer", "supply", "buy", "depend", "compare", "path")


def parse_sentence(sentence: Sentence, linker: EntityLinker) -> GraphQuery | None:
    """The query of a sentence that stands on its own."""
    found = _by_rules(sentence)
    if found is None and len(sentence.companies) == 1 and sentence.has("it"):
        found = _by_rules(sentence.with_topic_put_in())
    if found is None:
        found = _makers(sentence, linker) or _listed(sentence) or _described(sentence)
    return msgspec.structs.replace(found, counts=True) if found and _counts(sentence) else found


def in_countries(query: GraphQuery, sentence: Sentence) -> GraphQuery:
    """The query for the country that the sentence names, or for all but it."""
    if not sentence.countries:
        return query
    if sentence.has("outside"):
        return msgspec.structs.replace(query, without_country=sentence.countries[0])
    return msgspec.structs.replace(query, country=sentence.countries[0])


def _by_rules(sentence: Sentence) -> GraphQuery | None:
    return next((query for rule in _RULES if (query := rule(sentence))), None)


def _counts(sentence: Sentence) -> bool:
    return sentence.says("how count") or sentence.says("count of") or sentence.line.startswith("count")


def _chokepoints(sentence: Sentence) -> GraphQuery | None:
    if not (sentence.has("chokepoint") or sentence.says("point of fail")):
        return None
    if sentence.says(r"(?:to|of|in) C\d") or sentence.says(r"C\d chokepoint"):
        return GraphQuery("chokepoints_for", companies=tuple(sentence.companies[:1]))
    if sentence.companies:
        return GraphQuery("fails_without", companies=tuple(sentence.companies[:1]))
    return GraphQuery("chokepoints", limit=_ranks(sentence, USUAL_RANKS))


def _failing(sentence: Sentence) -> GraphQuery | None:
    if not sentence.has("fail") or (len(sentence.companies) > 1 and sentence.has("path")):
        return None
    is_felled = sentence.says("(?:company|who|what) (?:do )?(?:buy )?fail C0") and not sentence.has("if")
    if is_felled and len(sentence.companies) == 1:
        return GraphQuery("chokepoints_for", companies=tuple(sentence.companies))
    if sentence.companies:
        return GraphQuery("fails_without", companies=tuple(sentence.companies[:5]))
    if sentence.countries and not sentence.has("list"):
        return GraphQuery("fails_without", country=sentence.countries[0])
    if not sentence.countries and sentence.says(_EVERYTHING_FAILS):
        return GraphQuery("chokepoints", limit=_ranks(sentence, USUAL_RANKS))
    return None


def _shared(sentence: Sentence) -> GraphQuery | None:
    if len(sentence.companies) < 2 or not sentence.has("shared"):
        return None
    pair = tuple(sentence.companies[:2])
    if sentence.has("supplier", "supply") or sentence.says(rf"C\d {_GAP}buy"):
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
    if sentence.says(rf"to C0 {_GAP}from C1") or sentence.says(rf"C0 {_GAP}depend {_GAP}C1"):
        first, second = second, first
    is_way = any(map(sentence.says, (rf"from C0 {_GAP}to C1", "to C0 from C1", "C0 buy to C1")))
    if is_way or (sentence.has("path", "depend") and not sentence.has("supplier", "customer")):
        return GraphQuery("path", companies=(first, second))
    return None


def _asked_whether(sentence: Sentence) -> GraphQuery | None:
    """Tell a question about two companies and supply: does A supply B, is A a customer of B, what does A sell to B."""
    if len(sentence.companies) != 2 or sentence.says(r"outside C\d"):
        return None
    first, second = sentence.companies
    from_second = (rf"C0 {_GAP}customer {_GAP}C1", rf"C0 {_GAP}buy {_GAP}C1", rf"C0 {_GAP}supply by {_GAP}C1")
    if any(map(sentence.says, from_second)):
        return GraphQuery("relation", companies=(second, first))
    if sentence.says(rf"C0 {_GAP}(?:V|supplier) {_GAP}C1"):
        return GraphQuery("relation", companies=(first, second))
    return None


def _invested(sentence: Sentence) -> GraphQuery | None:
    holds_shares = sentence.has("own") and sentence.has("shared")
    if not sentence.companies or sentence.has("most") or not (sentence.has("invest") or holds_shares):
        return None
    if len(sentence.companies) == 2 and sentence.line.startswith("do "):
        return _tied(sentence, "invests_in")
    company = tuple(sentence.companies[:1])
    if sentence.says(rf"(?:invest|own) {_GAP}by C0"):
        return GraphQuery("investments", companies=company)
    asks_for_holders = sentence.says("C0 (?:do )?invest by") or sentence.holds_word(_HOLDERS)
    is_holder = sentence.says(rf"C0 {_GAP}(?:invest|own)") and not asks_for_holders
    return GraphQuery("investments" if is_holder else "investors", companies=company)


def _partnered(sentence: Sentence) -> GraphQuery | None:
    if not sentence.companies or not sentence.has("partner"):
        return None
    if len(sentence.companies) == 2:
        return _tied(sentence, "partners_with")
    return GraphQuery("partners", companies=tuple(sentence.companies[:1]))


def _competing(sentence: Sentence) -> GraphQuery | None:
    if not sentence.companies or not sentence.has("compete"):
        return None
    if len(sentence.companies) == 2:
        return _tied(sentence, "competes_with")
    return GraphQuery("competitors", companies=tuple(sentence.companies[:1]))


def _tied(sentence: Sentence, kind: Kind) -> GraphQuery:
    return GraphQuery("relation", companies=tuple(sentence.companies), kinds=(kind,))


def _exposed(sentence: Sentence) -> GraphQuery | None:
    company = tuple(sentence.companies[:1])
    if not company:
        return None
    if sentence.has("upstream", "downstream"):
        return GraphQuery("upstream" if sentence.has("upstream") else "downstream", companies=company)
    if sentence.says("supply path"):
        return GraphQuery("upstream", companies=company)
    if not sentence.has("depend") or sentence.has("supply", "supplier", "customer"):
        return None
    rests_on_others = sentence.says(rf"C\d {_GAP}depend") or sentence.says(rf"depend of {_GAP}C\d")
    return GraphQuery("upstream" if rests_on_others else "downstream", companies=company)


def _ranked(sentence: Sentence) -> GraphQuery | None:
    if sentence.companies or not sentence.has("most"):
        return None
    operations: dict[str, Operation] = {"supplier": "most_suppliers", "customer": "most_customers"}
    return next(
        (GraphQuery(o, limit=_ranks(sentence, 1)) for idea, o in operations.items() if sentence.has(idea)), None
    )


def _ranks(sentence: Sentence, usual: int) -> int:
    return max(1, min(sentence.numbers[0], MOST_RANKS)) if sentence.numbers else usual


def _supplied(sentence: Sentence) -> GraphQuery | None:
    # How large an order is, nobody publishes per edge; and "all but this one" is not understood.
    if not sentence.companies or any(map(sentence.says, ("most", r"outside C\d", "how count P"))):
        return None
    side = next((side for pattern, side in _SIDES if sentence.says(pattern)), None)
    if side is None:
        return None
    is_filter = sentence.says(r"K (?:\S+ )*?(?:V|supplier|customer|buy)") or sentence.says("(?:supplier|customer) do K")
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
    _asked_whether,
    _invested,
    _partnered,
    _competing,
    _exposed,
    _ranked,
    _supplied,
)


def _makers(sentence: Sentence, linker: EntityLinker) -> GraphQuery | None:
    """Tell who makes a product, when it goes by its own name rather than its category's."""
    product = None if sentence.companies else sentence.product(with_categories=True)
    if product is None or sentence.says("how count P"):
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
    ideas = sentence.ideas()
    if not sentence.companies or ideas - _HARMLESS:
        return None
    attribute: Attribute | None = "country" if ideas & {"based", "where"} else None
    if "ticker" in ideas:
        attribute = "ticker"
    return GraphQuery("describe", companies=tuple(sentence.companies[:5]), attribute=attribute)


class ConversationFocus(Struct, frozen=True, array_like=True):
    """What an answer leaves to come back to: its query, the companies it was about, and those it named first."""

    query: GraphQuery
    companies: tuple[str, ...]
    named: tuple[str, ...]


def follow_up(linker: EntityLinker, sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """The query a sentence means after `focus`; None when it can stand on its own."""
    if sentence.companies:
        return _of_another_end(sentence, focus) or _of_another(sentence, focus)
    narrowed = _narrowed(sentence, focus)
    if narrowed:
        return narrowed
    meant = _meant(sentence, focus)
    if meant is None or sentence.unknown or sentence.holds_word(_EVERYTHING):
        return None
    return parse_sentence(sentence.with_company(Token(COMPANY, meant, meant)), linker)


def _of_another_end(sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """Tell "and from Zeiss?" after a path: the same way from another start, or to another end."""
    if focus.query.operation != "path" or len(sentence.companies) != 1 or not sentence.ideas() <= _BARE:
        return None
    source, target = focus.query.companies
    new = sentence.companies[0]
    return msgspec.structs.replace(focus.query, companies=(source, new) if sentence.has("to") else (new, target))


def _of_another(sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """Tell "and Oracle?": the same question of another company."""
    is_bare = sentence.ideas() <= _BARE and sentence.has("and", "about")
    if not is_bare or len(sentence.companies) != 1 or not focus.query.companies:
        return None
    # Of two companies the second is the one that changes: "is TSMC a supplier of AMD?", "and of Broadcom?".
    return msgspec.structs.replace(
        focus.query, companies=(*focus.query.companies[:1], *sentence.companies)[-len(focus.query.companies) :]
    )


def _narrowed(sentence: Sentence, focus: ConversationFocus) -> GraphQuery | None:
    """Tell "only the Korean ones": the same question, of fewer companies."""
    is_about_them = sentence.has("it", "only", "and", "about")
    if not is_about_them or not sentence.countries or focus.query.operation not in _SETS:
        return None
    return in_countries(focus.query, sentence)


def _meant(sentence: Sentence, focus: ConversationFocus) -> str | None:
    """The company that a pronoun or a place in a list stands for."""
    place = next((place for idea, place in _PLACES.items() if sentence.has(idea)), None)
    if place is not None:
        return focus.named[place] if place < len(focus.named) else None
    is_left_open = sentence.has("it") or sentence.line.split(" ")[0] in _OPENERS
    return focus.companies[0] if focus.companies and is_left_open else None


class ParseFailure(Struct, frozen=True):
    """Why a sentence is not understood, and the words that were in the way."""

    why: Why
    words: tuple[str, ...] = ()


def parse_message(linker: EntityLinker, message: str, focus: ConversationFocus | None) -> GraphQuery | ParseFailure:
    """The query a message means, after what was asked before."""
    sentence = Sentence(linker.read(message))
    if sentence.is_foreign:
        return ParseFailure("not-here")
    query = (follow_up(linker, sentence, focus) if focus else None) or parse_sentence(sentence, linker)
    return query if query and _may_be_trusted(sentence, query) else _puzzled(sentence)


def _may_be_trusted(sentence: Sentence, query: GraphQuery) -> bool:
    """An unknown word may be a company that is not here; only a plain relation bears one, and none like a name."""
    if not sentence.unknown:
        return True
    if len(sentence.unknown) > 1 or not query.companies or query.operation in _EXACT:
        return False
    if sentence.says(_IN_A_NAMES_PLACE):
        return False
    unknown = sentence.unknown[0]
    return not unknown.is_name or unknown is sentence.tokens[0]


def _puzzled(sentence: Sentence) -> ParseFailure:
    if sentence.unknown:
        return ParseFailure("unknown-word", tuple(token.text for token in sentence.unknown[:3]))
    lacks_company = not sentence.companies and sentence.has(*_ABOUT_A_COMPANY)
    return ParseFailure("no-company" if lacks_company else "not-understood")
