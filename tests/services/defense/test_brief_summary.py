from datetime import UTC, datetime

from tests.services.defense.served import count_events
from tests.services.defense.test_brief import battle
from tollhouse.services.defense.brief.brief import summarize
from tollhouse.services.defense.brief.live_events import Coverage, EventCounts, events_live
from tollhouse.services.defense.stories.story import Story

AS_OF = datetime(2026, 11, 21, 7, 45, tzinfo=UTC)
SOURCE = ("The GDELT Project", "https://www.gdeltproject.org/")


def story(number: int, source_count: int) -> Story:
    return Story(
        id=f"story_{number:016x}", title=f"Headline {number}", summary="", category="Battles", countries=["Ukraine"],
        first_seen=AS_OF, last_seen=AS_OF, article_count=source_count, source_count=source_count, sources=[],
        articles=[], entities=[], event_ids=[], significance=0.5, tone=0.0,
    )  # fmt: skip


def test_each_figure_and_headline_of_the_summary_is_cited():
    live = events_live(count_events(battle(n) for n in range(3)), {}, SOURCE[0], Coverage(0.18, 0))
    said = summarize(live, AS_OF, [story(1, 12), story(2, 1), story(3, 1)], SOURCE)
    volume, where, stories = (one.text for one in said)
    assert volume.startswith("3 events were reported in the 24 hours to 21 November 2026, 07:45 UTC, 3 of them battles")
    assert volume.endswith("none of high or critical severity; 18% of the provider's updates were read.")
    assert where == "The country with most events is Ukraine (3)."
    assert "“Headline 1” (12 independent sources) and “Headline 2” (1 independent source)." in stories
    assert [one.path for one in said[1].citations] == ["/feeds/events?country=Ukraine"]
    assert [one.id for one in said[2].citations] == ["story_0000000000000001", "story_0000000000000002"]


def test_summary_of_nothing_is_empty():
    assert summarize(events_live(EventCounts(), {}, SOURCE[0]), AS_OF, [story(1, 1)], SOURCE) == []
    assert summarize(events_live(count_events([battle(1)]), {}, SOURCE[0]), None, [], SOURCE) == []
