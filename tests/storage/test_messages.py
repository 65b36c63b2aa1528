"""A message reaches every process, also after the connection was lost."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from redis import Redis
from sqlalchemy import text

from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.storage import messages as module
from tollhouse.storage.database import open_database
from tollhouse.storage.messages import Messages, open_messages


@pytest.fixture(autouse=True)
def reconnects_soon(monkeypatch):
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.05)


@asynccontextmanager
async def opened(settings):
    """Messages of one process, and the texts that have arrived under the topic `news`."""
    database = open_database(settings)
    messages = open_messages(settings, database)
    arrived: list[str] = []
    messages.subscribe("news", arrived.append)
    task = asyncio.create_task(messages.run())
    yield messages, arrived, database
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await messages.close()
    await database.close()


async def reaches(sender: Messages, content, arrived):
    """Send until it arrives: what is sent while a connection is made is lost."""

    async def has_arrived() -> bool:
        await sender.publish("news", content)
        return content in arrived

    await until(has_arrived)


@pytest.fixture(params=["notify", "redis"])
def settings(request, postgres_url):
    redis_url = request.getfixturevalue("redis_url") if request.param == "redis" else ""
    return Settings(database_url=postgres_url, redis_url=redis_url)


async def test_message_reaches_the_handlers_of_its_topic_in_both_processes(settings):
    async with opened(settings) as (one, here, _), opened(settings) as (other, there, _):
        ignored: list[str] = []
        other.subscribe("other", ignored.append)
        await reaches(one, "first", there)
        await reaches(other, "words with spaces, and ünicode", here)
        assert "first" in here
        assert ignored == []


async def test_message_arrives_after_the_connection_was_ended(settings):
    async with opened(settings) as (one, _, database), opened(settings) as (_, there, _):
        await reaches(one, "before", there)
        if settings.redis_url:
            with Redis.from_url(settings.redis_url) as client:
                client.client_kill_filter(_type="pubsub")
        else:
            async with database.writing() as connection:
                await connection.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"
                    )
                )
        await reaches(one, "after", there)


async def test_message_that_cannot_be_sent_reaches_its_own_process_and_stops_nobody(tmp_path):
    settings = Settings(data_dir=str(tmp_path), redis_url="redis://127.0.0.1:1/0")
    async with opened(settings) as (one, here, _):
        await one.publish("news", "alone")
        assert here == ["alone"]
