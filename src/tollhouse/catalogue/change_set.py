"""What a change set does to what is stored: which items are new, cost another price, changed otherwise, or went."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from tollhouse import clock
from tollhouse.catalogue.items import Item, packed, prices, shown
from tollhouse.catalogue.schema import Schema


class Change(Struct, frozen=True):
    """An item as it is now (None: removed) and as it was (None: new, or here again), both as readers see them."""

    id: str
    item: Item | None
    before: Item | None


class Changes(Struct, frozen=True):
    """Each changed item in one of the four: `price_changed` where its price or its sale price is another one."""

    created: list[Change] = field(default_factory=list)
    price_changed: list[Change] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    removed: list[Change] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.created) + len(self.price_changed) + len(self.changed) + len(self.removed)


class Stored(Struct, frozen=True):
    """An item's row."""

    id: str
    removed: bool
    created_at: str
    updated_at: str
    body: bytes

    @classmethod
    def of(cls, row: Any) -> "Stored":
        """The part of a row that counts here."""
        return cls(row.id, row.removed, row.created_at, row.updated_at, bytes(row.body))

    def item(self, schema: Schema) -> Item:
        """The whole item with the store's stamps in it."""
        item: Item = msgspec.json.decode(self.body)
        stamps = ((schema.created, self.created_at), (schema.updated, self.updated_at))
        return item | {name: moment for name, moment in stamps if name}


class Decision(Struct, frozen=True):
    """What to write, and what to tell."""

    rows: list[Stored]
    price_rows: list[dict[str, object]]
    changes: Changes


def decide(
    schema: Schema, stored: Mapping[str, Stored], upserts: Iterable[Item], removals: Iterable[str], at: datetime
) -> Decision:
    """Compare prepared items with what is stored."""
    decision = Decision([], [], Changes())
    for item in upserts:
        _take(schema, decision, stored.get(item["id"]), item, clock.iso(at))
    for identity in removals:
        known = stored.get(identity)
        if known and not known.removed:
            decision.rows.append(msgspec.structs.replace(known, removed=True, updated_at=clock.iso(at)))
            decision.changes.removed.append(Change(identity, None, shown(schema, known.item(schema))))
    return decision


def _take(schema: Schema, decision: Decision, known: Stored | None, item: Item, at: str) -> None:
    body = packed(item)
    current = known if known and not known.removed else None
    if current and current.body == body:
        return
    created_at = known.created_at if known else at
    row = Stored(item["id"], removed=False, created_at=created_at, updated_at=at, body=body)
    before = current.item(schema) if current else None
    costs, cost = prices(schema, item), prices(schema, before or {})
    change = Change(row.id, shown(schema, row.item(schema)), shown(schema, before) if before else None)
    told = decision.changes
    (told.created if before is None else told.price_changed if costs != cost else told.changed).append(change)
    decision.rows.append(row)
    if costs and costs != cost:
        decision.price_rows.append({"item_id": row.id, "at": at, "price_micros": costs[0], "current_micros": costs[1]})
