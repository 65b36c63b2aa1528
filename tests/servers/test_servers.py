import asyncpg
import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers.postgres import emptied

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize("attempt", [1, 2])
async def test_database_is_empty_for_each_test(database_url, attempt):
    engine = create_async_engine(database_url)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE visits (id INTEGER PRIMARY KEY)"))
    await engine.dispose()


async def test_postgres_is_a_real_server(postgres_url):
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    assert (await connection.fetchval("SHOW server_version")).startswith("18")
    await connection.close()


async def _done(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


async def test_emptied_database_has_no_row_of_a_test(postgres_url, migrated_fingerprint):
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
    await _done(postgres_url, "INSERT INTO feed_revision VALUES ('events', 7)")
    assert emptied(postgres_url, migrated_fingerprint)
    counts = {row["relname"]: len(await _done(postgres_url, f"SELECT 1 FROM {row['relname']}"))  # noqa: S608
              for row in await _done(postgres_url, tables)}  # fmt: skip
    assert len(counts) > 20
    assert {name for name, count in counts.items() if count} == {
        "alembic_version", "ledger_version", "schema_compatibility",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE visits (id INTEGER)", "ALTER TABLE feed_revision ADD COLUMN note TEXT", "DROP TABLE lease",
        "CREATE INDEX more ON feed_revision (feed)", "ALTER TABLE transfer DISABLE TRIGGER ALL",
        "UPDATE alembic_version SET version_num = '0001'", "DELETE FROM ledger_version",
    ],
)  # fmt: skip
async def test_database_that_a_test_changed_otherwise_is_not_used_again(postgres_url, migrated_fingerprint, change):
    await _done(postgres_url, change)
    assert not emptied(postgres_url, migrated_fingerprint)


async def test_database_that_somebody_still_uses_is_not_used_again(postgres_url, migrated_fingerprint):
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    is_empty = emptied(postgres_url, migrated_fingerprint)
    await connection.close()
    assert not is_empty


@pytest.mark.parametrize("attempt", [1, 2])
async def test_redis_is_empty_for_each_test(redis_url, attempt):
    async with Redis.from_url(redis_url) as client:
        assert await client.incr("visits") == 1


async def test_redis_runs_lua(redis_url):
    async with Redis.from_url(redis_url) as client:
        assert await client.eval("return 1 + 1", 0) == 2
