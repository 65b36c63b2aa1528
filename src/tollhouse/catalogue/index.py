"""The index of one catalogue in tantivy: rows put in and taken out, and a view of what was last published."""

import ctypes
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from tantivy import Document, Index, Order, Searcher
from tantivy import Query as IndexQuery

from tollhouse.catalogue import index_columns
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.tokens import raw_words, stems

# A million products are held before a segment is written; no more memory is taken than they need. Each segment costs
# every question some time of its own.
WRITER_BYTES = 900_000_000

Hit = tuple[Any, Any]

# Asked beside other aggregations, it tells in the same pass how many rows match.
TOTAL = "#"
COUNT = {TOTAL: {"value_count": {"field": "id"}}}


class CatalogueIndex:
    """Rows are put in and become visible together at `publish`. One thread may write while others read views.

    In memory, or in `folder`, which is made where it is missing and must belong to this object alone.
    """

    def __init__(self, schema: Schema, folder: Path | None = None) -> None:
        self.schema = schema
        self.columns = index_columns.built(schema)
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        # Rows lie by id in each segment, so that equals come out by id without being looked at.
        self._index = Index(self.columns, path=str(folder) if folder else None, sort_by_field="id")
        self._index.register_tokenizer(index_columns.STEMMED, stems())
        self._index.register_tokenizer(index_columns.UNSTEMMED, raw_words())
        self._writer = self._index.writer(WRITER_BYTES, 1)
        self.view = self._newest()
        # The ids put into an index that was empty, until they are published.
        self._first: set[str] | None = set() if not len(self.view) else None

    def put(self, upserts: Iterable[Item], removals: Iterable[str] = ()) -> None:
        """Take prepared items in, each in the place of the one with its id, and take others out."""
        for identity in removals:
            self._writer.delete_documents_by_term("id", identity)
        for item in upserts:
            self._make_room(item["id"])
            row = index_columns.row(self.schema, item)
            self._writer.add_document(Document.from_dict(row, self.columns))

    def clear(self) -> None:
        """Take everything out."""
        self._writer.delete_all_documents()
        self._first = set()

    def publish(self) -> None:
        """Show what was put in and taken out since the last time, all of it at once."""
        self._writer.commit()
        self._first = None
        self.view = self._newest()

    def settle(self) -> None:
        """Wait until the segments have been merged: after a great many rows."""
        self._writer.wait_merging_threads()
        self._writer = self._index.writer(WRITER_BYTES, 1)
        self.view = self._newest()
        _give_back_freed_memory()

    def _make_room(self, identity: str) -> None:
        """Take out the row of this id. An index that is filled for the first time mostly has none.

        The writer keeps more than a kilobyte for each row that is to be taken out, until they are published.
        """
        if self._first is not None and identity not in self._first:
            self._first.add(identity)
        else:
            self._writer.delete_documents_by_term("id", identity)

    def _newest(self) -> "View":
        self._index.reload()
        return View(self.schema, self.columns, self._index.searcher())


class View:
    """The rows as they were at one publication: whatever is put in later does not show in it."""

    def __init__(self, schema: Schema, of: Any, searcher: Searcher) -> None:
        self.schema = schema
        self.columns = of
        self._searcher = searcher
        # One row of some hundred.
        self.sample = IndexQuery.term_query(of, index_columns.ROWS, index_columns.SAMPLE, index_option="basic")
        self.is_one_segment = searcher.num_segments <= 1
        # What is counted of all rows stays as it is for as long as the view.
        self.counts: dict[str, Any] = {}

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    @cached_property
    def rows_ever(self) -> int:
        """How many rows there are, those taken out since the last merge among them."""
        return self.holders(index_columns.ROWS, index_columns.ANY_ROW)

    def count(self, query: IndexQuery) -> int:
        """How many rows match."""
        return int(self.aggregate(query, COUNT)[TOTAL]["value"])

    def best(self, query: IndexQuery, limit: int) -> tuple[int, list[Hit]]:
        """How many rows match, and those of the highest scores; of equals in one segment the smallest ids."""
        found: Any = self._searcher.search(query, max(limit, 1))
        return int(found.count), found.hits[:limit]

    def first(self, query: IndexQuery, column: str, limit: int, *, backwards: bool = False) -> list[Hit]:
        """The matching rows with the smallest values in a column, or the largest; of equals any."""
        order = Order.Desc if backwards else Order.Asc
        return self._searcher.search(query, max(limit, 1), count=False, order_by_field=column, order=order).hits[:limit]

    def aggregate(self, query: IndexQuery, wanted: dict[str, Any]) -> dict[str, Any]:
        """What tantivy's aggregations say of the matching rows."""
        return self._searcher.aggregate(query, wanted)

    def holders(self, column: str, term: str) -> int:
        """In how many rows a word stands, rows taken out since the last merge among them."""
        return int(self._searcher.doc_freq(column, term))

    def item(self, address: Any) -> Item:
        """The members that are shown of the item in a row."""
        body: Any = self._searcher.doc(address).get_first(index_columns.BODY)
        item: Item = msgspec.json.decode(body)
        return item


def _give_back_freed_memory() -> None:
    """Filling an index takes twice what it is then; glibc would keep the difference for this process."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
