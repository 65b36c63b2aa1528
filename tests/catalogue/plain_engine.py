"""The engine's interface answered by looking at every item: slow, and plain enough to be seen to be right."""

from collections.abc import Iterable, Iterator

from tollhouse.catalogue.items import Item, bound, comparable, comparable_values, key, visible_members
from tollhouse.catalogue.query import (
    CatalogueQuery,
    Clause,
    Facet,
    HistogramBucket,
    NumberFacet,
    Range,
    SearchResult,
    Suggestion,
    Value,
    ValueCount,
)
from tollhouse.catalogue.schema import Field, Schema
from tollhouse.catalogue.tokens import STOPWORDS, query_words, stem, text_words

ENOUGH = 20
MICROS = 1_000_000


class PlainEngine:
    """Knows no typos, no synonyms, no joined words; its relevance is the number of words, then the id."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._coming: dict[str, Item] = {}
        self._items: dict[str, Item] = {}

    def put(self, upserts: Iterable[Item], removals: Iterable[str] = ()) -> None:
        for identity in removals:
            self._coming.pop(identity, None)
        for item in upserts:
            self._coming[item["id"]] = item

    def clear(self) -> None:
        self._coming = {}

    def publish(self) -> None:
        self._items = dict(self._coming)

    def __len__(self) -> int:
        return len(self._items)

    def find(self, query: CatalogueQuery) -> SearchResult:
        query.check(self._schema)
        matching = self._ordered(self._matching(query, None), query)
        page = matching[query.offset : query.offset + query.limit]
        facets = {name: self._facet(query, self._schema.by_name[name]) for name in query.facets}
        return SearchResult(len(matching), [visible_members(self._schema, item) for item in page], facets)

    def items(self, query: CatalogueQuery) -> Iterator[Item]:
        query.check(self._schema)
        for item in sorted(self._matching(query, None), key=lambda item: item["id"]):
            yield visible_members(self._schema, item)

    def get(self, identity: str) -> Item | None:
        item = self._items.get(identity)
        return visible_members(self._schema, item) if item else None

    def similar(self, identity: str, limit: int = 10) -> list[Item]:
        """By how many words of the title and how many values of `alike` they share."""
        mine = self._items.get(identity)
        if mine is None:
            return []
        scored = [(len(self._traits(mine) & self._traits(item)), item) for item in self._items.values()]
        ranked = sorted(scored, key=lambda pair: (-pair[0], pair[1]["id"]))
        return [visible_members(self._schema, item) for n, item in ranked if n and item["id"] != identity][:limit]

    def suggest(self, text: str, limit: int = 10) -> list[Suggestion]:
        typed = [word.raw for word in query_words(text)]
        found = []
        for item in self._items.values():
            words = text_words(item.get(self._schema.title, ""))
            if typed and set(typed[:-1]) <= set(words) and any(word.startswith(typed[-1]) for word in words):
                found.append(Suggestion(item[self._schema.title], id=item["id"]))
        return found[:limit]

    def _traits(self, item: Item) -> set[object]:
        words = {word.stem for word in query_words(item.get(self._schema.title, ""))}
        return words | {
            (name, value) for name in self._schema.alike for value in comparable_values(self._schema, item, name)
        }

    def _matching(self, query: CatalogueQuery, left_out: str | None) -> list[Item]:
        found = self._meant(query) if query.text is not None else list(self._items.values())
        for name, values in query.any_of.items():
            if name != left_out:
                found = [item for item in found if self._has_any(item, name, values)]
        for name, ends in query.between.items():
            if name != left_out:
                found = [item for item in found if self._lies(item, name, ends)]
        for group in query.where:
            if {clause.field for clause in group} != {left_out}:
                found = [item for item in found if any(self._holds(item, clause) for clause in group)]
        return found

    def _holds(self, item: Item, clause: Clause) -> bool:
        if not clause.field:
            texts = [{word.stem for word in query_words(str(value))} for value in clause.values]
            holds = any(words and words <= self._stems(item) for words in texts)
        elif clause.ends is None:
            holds = self._has_any(item, clause.field, clause.values)
        else:
            holds = self._lies(item, clause.field, clause.ends)
        return holds != clause.negated

    def _meant(self, query: CatalogueQuery) -> list[Item]:
        """Those with all words, and with fewer and fewer of them while there are not 20."""
        words = query_words(query.text or "")
        wanted = {word.stem for word in words if word.raw not in STOPWORDS} or {word.stem for word in words}
        for least in range(len(wanted), 0, -1):
            found = [item for item in self._items.values() if len(wanted & self._stems(item)) >= least]
            if len(found) >= ENOUGH or least == 1 or query.every_word:
                return found
        return []

    def _stems(self, item: Item) -> set[str]:
        texts = [item.get(field.name, "") for field in self._schema.searched]
        flat = [part for text in texts for part in (text if isinstance(text, list) else [text])]
        return {stem(raw) for text in flat for raw in text_words(text)}

    def _has_any(self, item: Item, name: str, values: Iterable[Value]) -> bool:
        if name == "id":
            return item["id"] in values
        kind = self._schema.by_name[name].type
        return bool({comparable(kind, value) for value in values} & set(comparable_values(self._schema, item, name)))

    def _lies(self, item: Item, name: str, ends: Range) -> bool:
        kind = self._schema.by_name[name].type
        if ends.minimum is None and ends.maximum is None:
            return True
        low = float("-inf") if ends.minimum is None else bound(kind, ends.minimum, is_minimum=True)
        high = float("inf") if ends.maximum is None else bound(kind, ends.maximum, is_minimum=False)
        return any(low <= value <= high for value in comparable_values(self._schema, item, name))

    def _ordered(self, found: list[Item], query: CatalogueQuery) -> list[Item]:
        by_id = sorted(found, key=lambda item: item["id"])
        if not query.sort:
            return by_id
        name = query.sort.removeprefix("-")

        def value(item: Item) -> object:
            return item["id"] if name == "id" else comparable_values(self._schema, item, name)[0]

        without = [item for item in by_id if name != "id" and not comparable_values(self._schema, item, name)]
        having = [item for item in by_id if item not in without]
        # Python's sort keeps equals in their order, reversed or not.
        return sorted(having, key=value, reverse=query.sort.startswith("-")) + without

    def _facet(self, query: CatalogueQuery, field: Field) -> Facet:
        items = self._matching(query, field.name)
        values = [each for item in items for each in comparable_values(self._schema, item, field.name)]
        if field.type in ("number", "money"):
            return self._spread(field, values)
        counts = dict.fromkeys((comparable(field.type, each) for each in query.any_of.get(field.name, ())), 0)
        for value in values:
            counts[value] = counts.get(value, 0) + 1
        labels = self._labels(items, field) if field.type in ("keyword", "keywords") else {}
        told = [ValueCount(self._value(query, field, value, labels), count) for value, count in counts.items()]
        return sorted(told, key=lambda each: (-each.count, self._rank(each.value)))

    def _value(self, query: CatalogueQuery, field: Field, value: Value, labels: dict[str, str]) -> Value:
        if field.type == "boolean":
            return bool(value)
        asked = {comparable(field.type, each): each for each in reversed(query.any_of.get(field.name, ()))}
        return labels.get(value, asked.get(value, value)) if isinstance(value, str) else value

    def _rank(self, value: Value) -> object:
        return (key(value), value) if isinstance(value, str) else value

    def _labels(self, items: list[Item], field: Field) -> dict[str, str]:
        """The commonest spelling of each value; of equals the first in the alphabet."""
        spelt: dict[str, dict[str, int]] = {}
        for item in items:
            written = item.get(field.name, [])
            for label in written if isinstance(written, list) else [written]:
                counts = spelt.setdefault(key(label), {})
                counts[label] = counts.get(label, 0) + 1
        return {each: min(counts, key=lambda label: (-counts[label], label)) for each, counts in spelt.items()}

    def _spread(self, field: Field, values: list) -> NumberFacet:
        if not values:
            return NumberFacet(None, None, [])
        unit = MICROS if field.type == "money" else 1
        low, high = min(values), max(values)
        # The grid of the bars is the engine's choice: here there is one bar.
        return NumberFacet(low / unit, high / unit, [HistogramBucket(low / unit, high / unit, len(values))])
