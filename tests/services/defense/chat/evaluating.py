"""How many questions are finished right: `python -m tests.services.defense.chat.evaluating dev|held [--wrong]`.

What is expected is worked out here from the feeds' plain JSON, by scans of their own; the answerer's code is not used.
A question is right when the answer says the expected figures or names, and cites exactly the ids they rest on (as many
as an answer cites), or, where the feeds hold no answer, when it says so, cites nothing and says what can be asked.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.services.defense.chat.conftest import Recorded, load_recorded
from tollhouse.services.defense.chat.answers import Reply, answer

FOLDER = Path(__file__).parent
MOST_CITED = 25
MARK = re.compile(r"\[[0-9-]+\]")
WINDOW = re.compile(r"Window: the 24 hours up to .*$")
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?")

Json = dict[str, Any]


def questions(half: str) -> list[Json]:
    return [json.loads(line) for line in (FOLDER / f"questions_{half}.jsonl").read_text("utf-8").splitlines()]


def numbers_in(text: str) -> list[str]:
    """The numbers an answer claims: its markers and the window's own are none."""
    return [number.rstrip(",").replace(",", "") for number in NUMBER.findall(MARK.sub("", WINDOW.sub("", text)))]


class Gold:
    """What the feeds say, worked out the plain way."""

    def __init__(self, feeds: Json) -> None:
        self.feeds = feeds
        table = json.loads(files("tollhouse.services.defense").joinpath("data", "countries.json").read_text("utf-8"))
        self.world = {row["name"]: row["region"] for row in table}

    def is_right(self, expect: Json, reply: Reply) -> bool:
        (kind, wanted), *_ = expect.items()
        cited = [reference.id for reference in reply.citations]
        words = MARK.sub("", WINDOW.sub("", reply.text))
        return bool(getattr(self, f"_{kind}")(wanted, expect, words, numbers_in(reply.text), cited))

    def events(self, f: Json) -> list[Json]:
        def passes(event: Json) -> bool:
            own = {
                "category": event["category"],
                "country": event["geo"]["country"],
                "region": event["geo"]["region"],
                "severity": event["metrics"]["severity_tier"],
                "subcategory": event["subcategory"],
                "day": event["event_date"],
                "world": self.world.get(event["geo"]["country"]),
            }
            if "since" in f and self.feeds["reported"][event["id"]] <= f["since"] + "Z":
                return False
            return all(own[name] == value for name, value in f.items() if name != "since")

        return [event for event in self.feeds["events"] if passes(event)]

    def stories(self, text: str) -> list[Json]:
        """The stories that hold every word somewhere in their titles or summary, singular or plural."""
        found = []
        for story in self.feeds["stories"]:
            whole = " ".join([story["title"], story["summary"], *(a["title"] for a in story["articles"])]).lower()
            if all(re.search(rf"\b{word.rstrip('s')}", whole) for word in text.split()):
                found.append(story)
        return found

    def _rests_on(self, ids: list[str], cited: list[str]) -> bool:
        return set(cited) <= set(ids) and len(cited) == min(len(ids), MOST_CITED)

    def _count(self, f: Json, _expect: Json, _words: str, numbers: list[str], cited: list[str]) -> bool:
        ids = [event["id"] for event in self.events(f)]
        return numbers[:1] == [str(len(ids))] and self._rests_on(ids, cited)

    def _top_country(self, f: Json, expect: Json, words: str, numbers: list[str], cited: list[str]) -> bool:
        ranked = self._ranked(f)[: expect.get("n", 1)]
        places = [words.find(name) for name, _ in ranked]
        known = {event["id"] for event in self.events(f)}
        said = -1 not in places and places == sorted(places) and all(str(count) in numbers for _, count in ranked)
        return said and set(cited) <= known and bool(cited)

    def _ranked(self, f: Json) -> list[tuple[str, int]]:
        counts: dict[str, int] = {}
        for event in self.events(f):
            if name := event["geo"]["country"]:
                counts[name] = counts.get(name, 0) + 1
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    def _top_events(self, f: Json, expect: Json, _words: str, _numbers: list[str], cited: list[str]) -> bool:
        ranked = sorted(self.events(f), key=lambda e: (-round(e["metrics"]["significance"] * 10_000), e["id"]))
        return cited == [event["id"] for event in ranked[: expect["n"]]]

    def _about(self, f: Json, _expect: Json, _words: str, numbers: list[str], cited: list[str]) -> bool:
        """The number of events, and events or stories of that country."""
        ids = {event["id"] for event in self.events(f)}
        ids |= {story["id"] for story in self.feeds["stories"] if f["country"] in story["countries"]}
        return str(len(self.events(f))) in numbers and bool(cited) and set(cited) <= ids

    def _compare(self, sides: list[Json], _expect: Json, _words: str, numbers: list[str], cited: list[str]) -> bool:
        found = [[event["id"] for event in self.events(side)] for side in sides]
        said = [str(len(ids)) for ids in found]
        return [n for n in numbers if n in said][: len(said)] == said and set(cited) <= set().union(*found)

    def _share(self, sides: list[Json], _expect: Json, _words: str, numbers: list[str], cited: list[str]) -> bool:
        part, whole = (self.events(side) for side in sides)
        percent = f"{100 * len(part) / len(whole):.1f}"
        return numbers[:1] == [percent] and set(cited) <= {event["id"] for event in part} and bool(cited or not part)

    def _deaths(self, f: Json, _expect: Json, words: str, numbers: list[str], cited: list[str]) -> bool:
        """The highest toll and how many events have one, or that none is reported."""
        events = self.events(f)
        tolls = [event["fatalities"] for event in events if event["fatalities_basis"] != "not_reported"]
        if tolls:
            return numbers[:3] == [str(max(tolls)), str(len(tolls)), str(len(events))] and bool(cited)
        if not events:
            return numbers == ["0"] and not cited
        silent = "no death toll is reported" in words.lower() and numbers == [f"{len(events)}"]
        return silent and set(cited) <= {event["id"] for event in events}

    def _stories(self, text: str, _expect: Json, _words: str, _numbers: list[str], cited: list[str]) -> bool:
        ids = [story["id"] for story in self.stories(text)]
        return bool(cited) and set(cited) <= set(ids) and ids[0] == cited[0]

    def _top_stories(self, n: int, _expect: Json, _words: str, _numbers: list[str], cited: list[str]) -> bool:
        ranked = sorted(self.feeds["stories"], key=lambda s: (-round(s["significance"] * 10_000), s["id"]))
        return cited == [story["id"] for story in ranked[:n]]

    def _story_count(self, _f: Json, _expect: Json, _words: str, numbers: list[str], _cited: list[str]) -> bool:
        return numbers[:1] == [str(len(self.feeds["stories"]))]

    def _top_entities(self, kind: str, expect: Json, words: str, numbers: list[str], cited: list[str]) -> bool:
        chosen = [entity for entity in self.feeds["entities"] if entity["type"] == kind]
        chosen = sorted(chosen, key=lambda e: (-e["mentions"], e["id"]))[: expect["n"]]
        told = {story for entity in chosen for story in entity["story_ids"]}
        said = all(entity["name"] in words and str(entity["mentions"]) in numbers for entity in chosen)
        return said and bool(cited) and set(cited) >= {chosen[0]["story_ids"][0]} and bool(told)

    def _entity(self, name: str, _expect: Json, words: str, numbers: list[str], cited: list[str]) -> bool:
        entity = next(entity for entity in self.feeds["entities"] if entity["name"] == name)
        said = name in words and numbers[:1] == [str(entity["mentions"])]
        return said and bool(cited) and set(cited) <= set(entity["story_ids"])

    def _related(self, name: str, _expect: Json, words: str, _numbers: list[str], _cited: list[str]) -> bool:
        entity = next(entity for entity in self.feeds["entities"] if entity["name"] == name)
        return all(other["name"] in words for other in entity["related"][:5])

    def _brief(self, path: list[str], expect: Json, _words: str, numbers: list[str], _cited: list[str]) -> bool:
        value: Any = self.feeds["brief"]
        for name in path:
            value = value[name]
        return f"{value:.{expect['digits']}f}" in numbers

    def _program(self, name: str, _expect: Json, words: str, numbers: list[str], _cited: list[str]) -> bool:
        programs = self.feeds["brief"]["production_summary"]["programs"]
        value = next(program["value_b"] for program in programs if program["name"] == name)
        return name in words and numbers[:1] == [f"{value:.2f}"]

    def _gap(self, area: str, _expect: Json, words: str, numbers: list[str], _cited: list[str]) -> bool:
        gaps = [gap for gap in self.feeds["brief"]["capability_gaps"] if gap["gap_score"] is not None]
        widest = max(gaps, key=lambda gap: gap["gap_score"])
        gap = widest if area == "widest" else next(gap for gap in gaps if gap["area"] == area)
        others = [other["area"] for other in gaps if other is not gap]
        head = words.partition(".  ")[0]
        first = min((head.find(other) for other in others if other in head), default=len(head))
        return 0 <= head.find(gap["area"]) < first and f"{gap['gap_score']:.2f}" in numbers

    def _as_of(self, _wanted: bool, _expect: Json, words: str, _numbers: list[str], _cited: list[str]) -> bool:
        return self.feeds["as_of"][:19] in words

    def _publishers(self, text: str, _expect: Json, words: str, numbers: list[str], cited: list[str]) -> bool:
        stories = self.stories(text)
        names = {name for story in stories for name in story["sources"]}
        said = numbers[:1] == [str(len(names))] and sum(name in words for name in names) >= min(len(names), 20)
        return said and set(cited) == {story["id"] for story in stories[:MOST_CITED]}

    def _refused(self, _wanted: bool, _expect: Json, words: str, _numbers: list[str], cited: list[str]) -> bool:
        return not cited and words.startswith("I cannot answer") and "You can ask" in words


def replied(recorded: Recorded, question: Json) -> Reply:
    """The answer to the last of the question's turns."""
    before, reply = None, None
    for turn in question["turns"]:
        reply = answer(recorded.snapshot, turn, before)
        before = reply.result.query if reply.result else before
    assert reply is not None
    return reply


def main() -> None:
    half = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        recorded = asyncio.run(load_recorded(Path(folder)))
    gold, right = Gold(recorded.feeds), 0
    asked, by_set = questions(half), Counter()
    for question in asked:
        reply = replied(recorded, question)
        fits = gold.is_right(question["expect"], reply)
        right += fits
        by_set[question["set"]] += fits
        if not fits and "--wrong" in sys.argv:
            print(question, "\n   ", reply.result.query if reply.result else None, "\n   ", reply.text[:300])  # noqa: T201
    share = round(right / len(asked), 4)
    scored = {"half": half, "questions": len(asked), "right": right, "sets": by_set, "share": share}
    print(json.dumps(scored))  # noqa: T201


if __name__ == "__main__":
    main()
