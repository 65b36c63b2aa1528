"""A receiver that is down for an hour, and a delivering process that is killed in the middle: nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.webhooks.conftest import is_signed
from tollhouse import clock
from tollhouse.webhooks import outbox

pytestmark = pytest.mark.both_databases

EVENTS = 300
MINUTE = 60.0
HOUR = 3_600.0

# Goes through time in steps, as fast as the work allows.
DELIVERING = """
import asyncio, sys
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database
from tollhouse.webhooks.webhooks import open_webhooks

async def main(url, folder, start, stop, step):
    settings = Settings(database_url=url, data_dir=folder, webhook_allow_loopback=True)
    database = open_database(settings)
    room = open_webhooks(settings, database)
    now = start
    while now <= stop:
        await room.deliver_due(now)
        print(now, flush=True)
        now += step
    await room.close()
    await database.close()

asyncio.run(main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])))
"""


@pytest.fixture
def deliver(database_url, tmp_path):
    """A process that delivers from one simulated moment to another; `kill_when` ends it with SIGKILL."""

    def run(start: float, stop: float, step: float, kill_when=None) -> None:
        arguments = [sys.executable, "-c", DELIVERING, database_url, tmp_path, *map(str, (start, stop, step))]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        try:
            while process.poll() is None and not (kill_when and kill_when()):
                time.sleep(0.005)
            if kill_when:
                assert process.poll() is None, "it ended before it could be killed"
                os.kill(process.pid, signal.SIGKILL)
            assert process.wait(200) == (-signal.SIGKILL if kill_when else 0)
        finally:
            process.kill()
            process.wait()

    return run


# A thousand attempts and four processes: more than the usual limit on a busy machine.
@pytest.mark.timeout(300)
async def test_hour_of_outage_and_processes_killed_lose_no_event(house, hook, deliver):
    made = await house.register(hook.url())
    put = set()
    for first in range(0, EVENTS, 100):
        events = [outbox.Event("product.created", {"number": n}, f"prod_{n}") for n in range(first, first + 100)]
        async with house.database.writing() as transaction:
            assert await outbox.put_all(transaction, "mattress", events) == 100
    put = {delivery.event_id for delivery in await house.deliveries(limit=2 * EVENTS)}
    assert len(put) == EVENTS
    start = clock.seconds()

    # Down for an hour; the first process dies among its first attempts, when not even all were tried once.
    hook.mode = "error"
    deliver(start, start + HOUR, MINUTE, kill_when=lambda: len(hook.told) >= 60)
    assert hook.taken == []
    deliver(start + 2 * MINUTE, start + HOUR, 40 * MINUTE)
    endpoint = await house.endpoint(made.endpoint.id)
    assert endpoint.status == "failing"
    assert endpoint.consecutive_failures > EVENTS

    # Up again, slowly; the next dies with attempts under way that the receiver has got.
    hook.mode, hook.slow_seconds = "slow", 0.02
    deliver(start + HOUR, start + 4 * HOUR, 10 * MINUTE, kill_when=lambda: len(hook.taken) >= 90)
    hook.mode = "ok"
    deliver(start + HOUR, start + 5 * HOUR, 10 * MINUTE)

    times = Counter(told.id for told in hook.taken)
    assert set(times) == put, "300 of 300"
    assert all(is_signed(told, made.secret) for told in hook.taken)
    # At least once: what was under way at the kill came again, and nothing else.
    assert sum(times.values()) - EVENTS <= 16
    assert Counter(one.state for one in await house.deliveries(limit=2 * EVENTS)) == {"delivered": EVENTS}
    assert (await house.endpoint(made.endpoint.id)).status == "active"


async def test_two_processes_with_a_killed_third_share_the_rest(house, hook, deliver):
    await house.register(hook.url())
    for number in range(100):
        await house.put(number)
    start = clock.seconds()
    hook.mode, hook.slow_seconds = "slow", 0.05
    deliver(start, start, 1, kill_when=lambda: len(hook.told) >= 20)
    hook.mode = "ok"
    context = [house.open_room(), house.open_room()]
    for now in (start, start + 2 * MINUTE):
        for room in context:
            await room.deliver_due(now)
    assert len({told.id for told in hook.taken}) == 100
