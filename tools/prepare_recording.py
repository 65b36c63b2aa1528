"""Writes data/recording/prepared.msgpack.zst: what the store holds once the bundled recording is taken in and told.

To be run again whenever the code that takes in or tells says something else of the recording; a test says when.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tollhouse import logs
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.services.defense.ingest import recording
from tollhouse.services.defense.ingest.recording import PREPARED, ingest_recording
from tollhouse.services.defense.news.story_publisher import StoryPublisher
from tollhouse.services.defense.settings import DefenseSettings

TARGET = Path(__file__).parents[1] / "src/tollhouse/services/defense/data/recording" / PREPARED


async def prepare(folder: Path) -> recording.Tables:
    """The tables of a store that took the recording in and told it."""
    settings = Settings(data_dir=str(folder), background_work=False)
    async with open_context(settings, answers_calls=False) as context:
        await ingest_recording(context.database)
        desk = StoryPublisher(context.database, settings.section(DefenseSettings).retention_days)
        await desk.publish_stored(folder)
        # Telling one pool adds its pages: a second look finds that they say nothing of the other.
        await desk.publish_stored(folder)
        async with context.database.reading() as connection:
            return await recording.tables(connection)


def main() -> None:
    logs.configure("warning")
    with tempfile.TemporaryDirectory() as folder:
        packed = recording.packed(asyncio.run(prepare(Path(folder))))
    TARGET.write_bytes(packed)
    print(f"{len(packed)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
