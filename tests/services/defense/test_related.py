"""What is related to a story, an event or an entity, and when an entity was named: over the recording and by rule."""

from datetime import UTC, datetime

from tollhouse.services.defense.news.entity import PublishedEntity, RelatedEntity
from tollhouse.services.defense.news.feeds import build_timeline
from tollhouse.services.defense.related import MOST_NAMING, EntityOverlap

BEGIN = datetime(2020, 11, 15, 9, tzinfo=UTC)


def test_two_shared_names_relate_and_a_single_one_only_if_it_is_rare():
    common = [(f"other{at}", ["country"]) for at in range(MOST_NAMING)]
    overlap = EntityOverlap(
        [
            ("one", ["country", "rare"]),
            ("two", ["country", "rare"]),
            ("three", ["country"]),
            ("four", ["rare"]),
            *common,
        ]
    )
    near = overlap.nearest("one", ["country", "rare"])
    assert [(it.id, it.shared) for it in near] == [("two", ("rare", "country")), ("four", ("rare",))]
    assert near[0].weight == 1.0
    assert overlap.nearest("three", ["country"]) == []
    assert overlap.nearest("five", []) == []


def test_hour_of_which_nothing_was_read_is_unknown_and_not_zero():
    seen = datetime(2020, 11, 15, 10, 15, tzinfo=UTC)
    entity = PublishedEntity(
        "entity_1", "A", "person", 3, 1, seen, seen, [], [], [RelatedEntity("entity_2", "B", 0.5)], None,
        slots={"20201115101500": 2, "20201115120000": 1},
        related_slots={"entity_2": {"20201115101500": 1}},
    )  # fmt: skip
    timeline = build_timeline(entity, BEGIN, 4, {"20201115094500", "20201115101500", "20201115100000"})
    assert [(hour.since.hour, hour.coverage, hour.mentions) for hour in timeline.hours] == [
        (9, 0.5, 0), (10, 0.25, 2), (11, 0.0, 1), (12, 0.0, None),
    ]  # fmt: skip
    assert [(one.name, one.total, one.mentions) for one in timeline.related] == [("B", 1, [0, 1, None, None])]
