"""Which companies a few words mean, best first: names before products, products before descriptions."""

from functools import lru_cache

from tollhouse.services.infra.company import Category, Company
from tollhouse.services.infra.countries import country_of, plain
from tollhouse.services.infra.supply_graph import Chain

_NAME, _PRODUCT, _CATEGORY, _DESCRIPTION = 10.0, 5.0, 3.0, 2.0
_EXACT = 100.0

Texts = tuple[tuple[float, frozenset[str]], ...]


class CompanySearch:
    """The companies of a chain, made ready to be searched."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._texts = [_texts(company, chain.category(company.category)) for company in chain.companies]

    def search_companies(self, q: str) -> list[Company]:
        """The companies meant by `q`, the best first; equals in the catalogue's order.

        All words must be found in a company, each in whichever of its texts it stands; where no company has them all,
        any of them will do. A name, ticker or alias that is exactly `q` comes first, and misspelt names are understood.
        """
        words = stems(q)
        found = {node: scores for node, texts in enumerate(self._texts) if (scores := _scores(texts, words))}
        whole = {node: scores for node, scores in found.items() if len(scores) == len(words)}
        totals = {node: sum(scores.values()) for node, scores in (whole or found).items()}
        named = self._chain.names.company(q) or (None if totals else self._chain.names.misspelt(q))
        if named:
            totals[self._chain.node(named.id)] = _EXACT
        return [self._chain.companies[node] for node in sorted(totals, key=lambda node: (-totals[node], node))]


def stems(text: str) -> tuple[str, ...]:
    """The words of a text without plural endings, each once."""
    return tuple(dict.fromkeys(stem(word) for word in plain(text).split()))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The word without a plural ending, in one spelling of the two English has."""
    word = {"centre": "center", "centres": "center", "fibre": "fiber", "fibres": "fiber"}.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _scores(texts: Texts, words: tuple[str, ...]) -> dict[str, float]:
    """What each word that is found in the texts is worth."""
    found: dict[str, float] = {}
    for weight, text in texts:
        for word in words:
            if word in text:
                found.setdefault(word, weight)
    return found


def _texts(company: Company, category: Category) -> Texts:
    """The company's words by what they are worth, the heaviest first."""
    country = country_of(company.country)
    origin = (country.alpha2, country.name, *country.demonyms)
    return (
        (_NAME, _words(company.id, company.name, company.ticker, *company.aliases)),
        (_PRODUCT, _words(*company.products)),
        (_CATEGORY, _words(category.name, *category.aliases)),
        (_DESCRIPTION, _words(company.description, *origin)),
    )


def _words(*texts: str | None) -> frozenset[str]:
    return frozenset(stems(" ".join(text for text in texts if text)))
