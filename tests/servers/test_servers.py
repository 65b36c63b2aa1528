import asyncpg
import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

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


@pytest.mark.parametrize("attempt", [1, 2])
async def test_redis_is_empty_for_each_test(redis_url, attempt):
    async with Redis.from_url(redis_url) as client:
        assert await client.incr("visits") == 1


async def test_redis_runs_lua(redis_url):
    async with Redis.from_url(redis_url) as client:
        assert await client.eval("return 1 + 1", 0) == 2
