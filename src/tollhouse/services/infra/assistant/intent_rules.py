"""What the ideas of a sentence ask for: rules, the most telling first."""

from collections.abc import Callable
from typing import Literal

import msgspec

from tollhouse.services.infra.assistant.entity_linking import Linker
from tollhouse.services.infra.assistant.query_types import MOST_RANKS, USUAL_RANKS, Attribute, Operation, Query
from tollhouse.services.infra.assistant.sentence import Sentence
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


def asked_for(sentence: Sentence, linker: Linker) -> Query | None:
    """The query of a sentence that stands on its own."""
    found = _by_rules(sentence)
    if found is None and len(sentence.companies) == 1 and sentence.has("it"):
        found = _by_rules(sentence.with_topic_put_in())
    if found is None:
        found = _makers(sentence, linker) or _listed(sentence) or _described(sentence)
    return msgspec.structs.replace(found, counts=True) if found and _counts(sentence) else found


def in_countries(query: Query, sentence: Sentence) -> Query:
    """The query for the country that the sentence names, or for all but it."""
    if not sentence.countries:
        return query
    if sentence.has("outside"):
        return msgspec.structs.replace(query, without_country=sentence.countries[0])
    return msgspec.structs.replace(query, country=sentence.countries[0])


def _by_rules(sentence: Sentence) -> Query | None:
    return next((query for rule in _RULES if (query := rule(sentence))), None)


def _counts(sentence: Sentence) -> bool:
    return sentence.says("how count") or sentence.says("count of") or sentence.line.startswith("count")


def _chokepoints(sentence: Sentence) -> Query | None:
    if not (sentence.has("chokepoint") or sentence.says("point of fail")):
        return None
    if sentence.says(r"(?:to|of|in) C\d") or sentence.says(r"C\d chokepoint"):
        return Query("chokepoints_for", companies=tuple(sentence.companies[:1]))
    if sentence.companies:
        return Query("fails_without", companies=tuple(sentence.companies[:1]))
    return Query("chokepoints", limit=_ranks(sentence, USUAL_RANKS))


def _failing(sentence: Sentence) -> Query | None:
    if not sentence.has("fail") or (len(sentence.companies) > 1 and sentence.has("path")):
        return None
    is_felled = sentence.says("(?:company|who|what) (?:do )?(?:buy )?fail C0") and not sentence.has("if")
    if is_felled and len(sentence.companies) == 1:
        return Query("chokepoints_for", companies=tuple(sentence.companies))
    if sentence.companies:
        return Query("fails_without", companies=tuple(sentence.companies[:5]))
    if sentence.countries and not sentence.has("list"):
        return Query("fails_without", country=sentence.countries[0])
    if not sentence.countries and sentence.says(_EVERYTHING_FAILS):
        return Query("chokepoints", limit=_ranks(sentence, USUAL_RANKS))
    return None


def _shared(sentence: Sentence) -> Query | None:
    if len(sentence.companies) < 2 or not sentence.has("shared"):
        return None
    pair = tuple(sentence.companies[:2])
    if sentence.has("supplier", "supply") or sentence.says(rf"C\d {_GAP}buy"):
        return Query("shared_suppliers", companies=pair)
    return Query("shared_customers", companies=pair) if sentence.has("customer", "buy") else None


def _compared(sentence: Sentence) -> Query | None:
    if len(sentence.companies) >= 2 and sentence.has("compare"):
        return Query("compare", companies=tuple(sentence.companies[:2]))
    return None


def _path(sentence: Sentence) -> Query | None:
    if len(sentence.companies) < 2:
        return None
    first, second = sentence.companies[:2]
    if sentence.says(rf"to C0 {_GAP}from C1") or sentence.says(rf"C0 {_GAP}depend {_GAP}C1"):
        first, second = second, first
    is_way = any(map(sentence.says, (rf"from C0 {_GAP}to C1", "to C0 from C1", "C0 buy to C1")))
    if is_way or (sentence.has("path", "depend") and not sentence.has("supplier", "customer")):
        return Query("path", companies=(first, second))
    return None


def _asked_whether(sentence: Sentence) -> Query | None:
    """Tell a question about two companies and supply: does A supply B, is A a customer of B, what does A sell to B."""
    if len(sentence.companies) != 2 or sentence.says(r"outside C\d"):
        return None
    first, second = sentence.companies
    from_second = (rf"C0 {_GAP}customer {_GAP}C1", rf"C0 {_GAP}buy {_GAP}C1", rf"C0 {_GAP}supply by {_GAP}C1")
    if any(map(sentence.says, from_second)):
        return Query("relation", companies=(second, first))
    if sentence.says(rf"C0 {_GAP}(?:V|supplier) {_GAP}C1"):
        return Query("relation", companies=(first, second))
    return None


def _invested(sentence: Sentence) -> Query | None:
    holds_shares = sentence.has("own") and sentence.has("shared")
    if not sentence.companies or sentence.has("most") or not (sentence.has("invest") or holds_shares):
        return None
    if len(sentence.companies) == 2 and sentence.line.startswith("do "):
        return _tied(sentence, "invests_in")
    company = tuple(sentence.companies[:1])
    if sentence.says(rf"(?:invest|own) {_GAP}by C0"):
        return Query("investments", companies=company)
    asks_for_holders = sentence.says("C0 (?:do )?invest by") or sentence.holds_word(_HOLDERS)
    is_holder = sentence.says(rf"C0 {_GAP}(?:invest|own)") and not asks_for_holders
    return Query("investments" if is_holder else "investors", companies=company)


def _partnered(sentence: Sentence) -> Query | None:
    if not sentence.companies or not sentence.has("partner"):
        return None
    if len(sentence.companies) == 2:
        return _tied(sentence, "partners_with")
    return Query("partners", companies=tuple(sentence.companies[:1]))


def _competing(sentence: Sentence) -> Query | None:
    if not sentence.companies or not sentence.has("compete"):
        return None
    if len(sentence.companies) == 2:
        return _tied(sentence, "competes_with")
    return Query("competitors", companies=tuple(sentence.companies[:1]))


def _tied(sentence: Sentence, kind: Kind) -> Query:
    return Query("relation", companies=tuple(sentence.companies), kinds=(kind,))


def _exposed(sentence: Sentence) -> Query | None:
    company = tuple(sentence.companies[:1])
    if not company:
        return None
    if sentence.has("upstream", "downstream"):
        return Query("upstream" if sentence.has("upstream") else "downstream", companies=company)
    if sentence.says("supply path"):
        return Query("upstream", companies=company)
    if not sentence.has("depend") or sentence.has("supply", "supplier", "customer"):
        return None
    rests_on_others = sentence.says(rf"C\d {_GAP}depend") or sentence.says(rf"depend of {_GAP}C\d")
    return Query("upstream" if rests_on_others else "downstream", companies=company)


def _ranked(sentence: Sentence) -> Query | None:
    if sentence.companies or not sentence.has("most"):
        return None
    operations: dict[str, Operation] = {"supplier": "most_suppliers", "customer": "most_customers"}
    return next((Query(o, limit=_ranks(sentence, 1)) for idea, o in operations.items() if sentence.has(idea)), None)


def _ranks(sentence: Sentence, usual: int) -> int:
    return max(1, min(sentence.numbers[0], MOST_RANKS)) if sentence.numbers else usual


def _supplied(sentence: Sentence) -> Query | None:
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
    return in_countries(Query(side, companies=company, kinds=kinds, product=product, category=category), sentence)


_RULES: tuple[Callable[[Sentence], Query | None], ...] = (
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


def _makers(sentence: Sentence, linker: Linker) -> Query | None:
    """Tell who makes a product, when it goes by its own name rather than its category's."""
    product = None if sentence.companies else sentence.product(with_categories=True)
    if product is None or sentence.says("how count P"):
        return None
    is_own_name = linker.is_product(product) and sentence.has("make", "supply", "manufacture", "build", "buy", "who")
    if sentence.category() is None or is_own_name:
        return in_countries(Query("makers", product=product), sentence)
    return None


def _listed(sentence: Sentence) -> Query | None:
    if sentence.companies:
        return None
    if sentence.category() or sentence.countries:
        return in_countries(Query("list", category=sentence.category()), sentence)
    is_all = sentence.has("company") and (sentence.has("list", "what") or _counts(sentence))
    return Query("list") if is_all else None


def _described(sentence: Sentence) -> Query | None:
    ideas = sentence.ideas()
    if not sentence.companies or ideas - _HARMLESS:
        return None
    attribute: Attribute | None = "country" if ideas & {"based", "where"} else None
    if "ticker" in ideas:
        attribute = "ticker"
    return Query("describe", companies=tuple(sentence.companies[:5]), attribute=attribute)
