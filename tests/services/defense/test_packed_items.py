import tracemalloc
from sys import getsizeof

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event_set import PackedItems


class Item(Struct):
    number: int
    words: list[str]


BODIES = [msgspec.json.encode(Item(number, [f"word {number % 7} of many"] * 200)) for number in range(500)]


def test_an_item_is_read_as_it_was_packed() -> None:
    items = PackedItems(Item)
    packed = items.pack(BODIES)
    assert [items.unpack(one) for one in packed] == BODIES
    assert items.read(packed[3]).number == 3
    assert items.pack(BODIES[3:4]) == packed[3:4]


def test_packed_items_take_the_memory_of_their_own_size() -> None:
    items = PackedItems(Item)
    items.pack(BODIES[:1])
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    packed = items.pack(BODIES)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < 2 * sum(map(getsizeof, packed))
