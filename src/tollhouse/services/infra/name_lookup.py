"""Which company or category a name, an id, a ticker or an alias means, and what else it may have meant."""

from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from tollhouse.services.infra.company import Category, Company
from tollhouse.services.infra.countries import plain

NEAR_ENOUGH = 60
# A slip is a letter left out, put in, changed, or swapped with its neighbour.
_SHORTEST, _TWO_SLIPS_FROM = 4, 8


class Names:
    """Every name of every company and category, read without regard to case, accents and punctuation."""

    def __init__(self, companies: Sequence[Company], categories: Sequence[Category]) -> None:
        self.companies = {key: company for company in companies for key in _keys_of_company(company)}
        self.categories = {key: category for category in categories for key in _keys_of_category(category)}

    def company(self, text: str) -> Company | None:
        """The company of this id, name, ticker or alias."""
        return self.companies.get(plain(text))

    def category(self, text: str) -> Category | None:
        """The category of this id, name or alias."""
        return self.categories.get(plain(text))

    def near_companies(self, text: str, limit: int = 5, likeness: int = NEAR_ENOUGH) -> list[str]:
        """Ids of the companies with a name at least `likeness` (of 100) like `text`, the nearest first."""
        return _near(text, self.companies, limit, likeness)

    def near_categories(self, text: str, limit: int = 5) -> list[str]:
        """Ids of the categories with a name spelt like `text`, the nearest first."""
        return _near(text, self.categories, limit, NEAR_ENOUGH)

    def misspelt(self, text: str) -> Company | None:
        """The company with a name that `text` is a slip away from, two for a long one."""
        key = plain(text)
        return self.companies.get(nearest(key, self.companies.keys()) or "")


def nearest(word: str, among: Iterable[str]) -> str | None:
    """The one that `word` is a slip away from (two when it is long), the nearest; None when nothing is that near."""
    if len(word) < _SHORTEST:
        return None
    texts = list(among)
    # In a short word only two letters that changed places are a slip: any other short word is another word.
    swapped = next(
        (text for text in texts if len(text) == len(word) == _SHORTEST and sorted(text) == sorted(word)), None
    )
    longer = [text for text in texts if len(text) > _SHORTEST]
    found = process.extractOne(word, longer, scorer=OSA.distance, score_cutoff=_slips_in(word))
    return swapped or (found[0] if found and found[1] <= _slips_in(found[0]) else None)


def _slips_in(word: str) -> int:
    """How many slips a word of this length may hold and still be recognised."""
    return 2 if len(word) >= _TWO_SLIPS_FROM else 1


def _near(text: str, index: dict[str, Company] | dict[str, Category], limit: int, likeness: int) -> list[str]:
    found = process.extract(plain(text), index.keys(), scorer=fuzz.WRatio, limit=limit * 3, score_cutoff=likeness)
    return list(dict.fromkeys(index[key].id for key, _, _ in found))[:limit]


def _keys_of_company(company: Company) -> Iterable[str]:
    return (plain(text) for text in (*company.aliases, company.ticker or company.id, company.name, company.id))


def _keys_of_category(category: Category) -> Iterable[str]:
    return (plain(text) for text in (*category.aliases, category.name, category.id))
