"""The bundled recording comes told, and says what taking its exports in and telling them would say."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from tests.services.defense.test_exports import EXCERPT
from tollhouse.config.settings import Settings
from tollhouse.services.defense import store
from tollhouse.services.defense.ingest import recording
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.ingest.recording import EXPORT_ENDING, PREPARED, load_recording
from tollhouse.services.defense.ingest.recording import ingest_recording as ingest_exports
from tollhouse.services.defense.news.publisher import Publisher
from tollhouse.services.defense.news.store import read_tables
from tollhouse.services.defense.recordings import EXPORTS_OF_2020
from tollhouse.services.defense.settings import DefenseSettings
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

OTHER = "20191024143000"


@pytest.fixture
def settings(database_url, tmp_path):
    return Settings(database_url=database_url, data_dir=str(tmp_path), recorded=True)


@pytest.fixture
async def database(settings):
    database = open_database(settings)
    await migrate(database)
    yield database
    await database.close()


def prepared():
    return recording.unpacked(EXPORTS_OF_2020.files(PREPARED)[0].read_bytes())


async def stored(database):
    async with database.reading() as connection:
        return await read_tables(connection)


async def slots(database):
    async with database.reading() as connection:
        query = select(store.gdelt_slot.c.slot, store.gdelt_slot.c.ingested_at)
        return dict((await connection.execute(query)).all())


@pytest.mark.timeout(240)
async def test_prepared_recording_is_what_its_exports_make(tmp_path):
    settings = Settings(data_dir=str(tmp_path))
    database = open_database(settings)
    await migrate(database)
    await ingest_exports(database)
    publisher = Publisher(database, settings.section(DefenseSettings).retention_days)
    await publisher.publish_stored(tmp_path)
    await publisher.publish_stored(tmp_path)
    made, kept = await stored(database), prepared()
    await database.close()
    assert made.keys() == kept.keys()
    differing = [name for name in made if made[name] != kept[name]]
    assert not differing, "run tools/prepare_recording.py: taking in or telling says something else now"


@pytest.mark.both_databases
async def test_untouched_store_gets_the_prepared_recording(database, settings, tmp_path):
    await load_recording(database, settings)
    before = await slots(database)
    assert sorted(before) == [export.name[:14] for export in EXPORTS_OF_2020.files(EXPORT_ENDING)]
    assert all(before.values()), "every slot tells when it was taken in"
    await load_recording(database, settings)
    await Publisher(database, settings.section(DefenseSettings).retention_days).publish_stored(tmp_path)
    assert await stored(database) == prepared(), "a second start found everything told"
    assert await slots(database) == before


@pytest.mark.timeout(240)
@pytest.mark.parametrize("reason", ["something is stored", "less is kept"])
async def test_exports_are_taken_in_where_the_prepared_recording_does_not_fit(database, settings, reason):
    if reason == "something is stored":
        await ingest_export(database, f"{OTHER}.export.CSV", EXCERPT, "file")
    else:
        settings = replace(settings, sections=(DefenseSettings(retention_days=1),))
    await load_recording(database, settings)
    found = await stored(database)
    assert {export.name[:14] for export in EXPORTS_OF_2020.files(EXPORT_ENDING)} <= (await slots(database)).keys()
    assert not found["story"], "nobody has told them yet"
    assert {row[1] for row in prepared()["event_report"]} <= {row[1] for row in found["event_report"]}
    assert (OTHER in await slots(database)) == (reason == "something is stored")
