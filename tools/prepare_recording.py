"""Write data/recording/prepared.msgpack.zst: the tables of a store that ingested and published the bundled recording.

Run it again when ingestion or publishing changes its results for the recording; a test fails then.
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
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.news.store import Tables, read_tables
from tollhouse.services.defense.settings import DefenseSettings

TARGET = Path(__file__).parents[1] / "src/tollhouse/services/defense/data/recording" / PREPARED


async def prepare(folder: Path) -> Tables:
    """The tables of a store that ingested and published the recording."""
    settings = Settings(data_dir=str(folder), background_work=False)
    async with open_context(settings, answers_calls=False) as context:
        await ingest_recording(context.database)
        publisher = Publisher(context.database, settings.section(DefenseSettings).retention_days)
        await publisher.publish_stored(folder)
        # Publishing adds pages to the articles; the second run records them as seen by the other source mode too.
        await publisher.publish_stored(folder)
        async with context.database.reading() as connection:
            return await read_tables(connection)


def main() -> None:
    logs.configure("warning")
    with tempfile.TemporaryDirectory() as folder:
        packed = recording.packed(asyncio.run(prepare(Path(folder))))
    TARGET.write_bytes(packed)
    print(f"{len(packed)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
