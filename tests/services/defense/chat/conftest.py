"""The recorded feeds, loaded once, and what they hold as plain JSON for scans that share no code with the answerer."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tollhouse.services.defense.chat.snapshot import Snapshot, load_recorded


@dataclass(frozen=True)
class Recorded:
    """`feeds` are plain JSON: what the four feeds answer."""

    snapshot: Snapshot
    feeds: dict[str, Any]


async def recorded_feeds(folder: Path) -> Recorded:
    """What the defense service serves from its bundled recording."""
    snapshot = await load_recorded(folder)
    holdings = snapshot.holdings
    plain = {
        "as_of": holdings.as_of.isoformat(),
        "events": [entry.event for entry in holdings.entries if entry.is_relevant],
        "reported": {entry.event.id: entry.reported_at for entry in holdings.entries},
        "stories": holdings.stories,
        "entities": holdings.entities,
        "brief": holdings.brief,
    }
    return Recorded(snapshot, json.loads(msgspec.json.encode(plain)))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Recorded:
    return asyncio.run(recorded_feeds(tmp_path_factory.mktemp("recorded")))


@pytest.fixture(scope="session")
def snapshot(recorded) -> Snapshot:
    return recorded.snapshot
