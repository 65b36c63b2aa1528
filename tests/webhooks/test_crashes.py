"""A receiver that is down for an hour, and a delivering process that is killed in the middle: nothing is lost."""

import signal
import time
from collections import Counter

import pytest

from tests.servers.processes import ForkedProcess
from tests.webhooks import delivering_client
from tests.webhooks.conftest import is_signed
from tollhouse import clock
from tollhouse.webhooks import outbox
from tollhouse.webhooks.schedule import DEFAULT_CAPACITY

pytestmark = pytest.mark.both_databases

EVENTS = 120
MINUTE = 60.0
HOUR = 3_600.0


@pytest.fixture
def deliver(database_url, tmp_path):
    """A process that delivers from one simulated moment to another; `kill_when` ends it with SIGKILL."""

    def run(start: float, stop: float, step: float, kill_when=None) -> None:
        log = tmp_path / "delivering.log"
        process = ForkedProcess(
            delivering_client.deliver, database_url, str(tmp_path), start, stop, step,
            cwd=tmp_path, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while process.poll() is None and not (kill_when and kill_when()):
                time.sleep(0.005)
            if kill_when:
                assert process.poll() is None, "it ended before it could be killed"
                process.kill()
            assert process.wait(200) == (-signal.SIGKILL if kill_when else 0)
        finally:
            process.kill()
            process.wait()

    return run


# Hundreds of attempts and four processes: more than the usual limit on a busy machine.
@pytest.mark.timeout(300)
async def test_hour_of_outage_and_processes_killed_lose_no_event(sender, hook, deliver):
    made = await sender.register(hook.url())
    events = [outbox.Event("product.created", {"number": n}, f"prod_{n}") for n in range(EVENTS)]
    async with sender.database.writing() as transaction:
        assert await outbox.put_all(transaction, "mattress", events) == EVENTS
    put = {delivery.event_id for delivery in await sender.deliveries(limit=2 * EVENTS)}
    assert len(put) == EVENTS
    start = clock.seconds()

    # Down for an hour; the first process dies among its first attempts, when not even all were tried once.
    hook.mode = "error"
    deliver(start, start + HOUR, MINUTE, kill_when=lambda: len(hook.told) >= 60)
    assert hook.taken == []
    deliver(start + 2 * MINUTE, start + HOUR, 40 * MINUTE)
    endpoint = await sender.endpoint(made.endpoint.id)
    assert endpoint.status == "failing"
    assert endpoint.consecutive_failures > EVENTS

    # Up again, slowly; the next dies with attempts under way that the receiver has got.
    hook.mode, hook.slow_seconds = "slow", 0.02
    deliver(start + HOUR, start + 4 * HOUR, 10 * MINUTE, kill_when=lambda: len(hook.taken) >= 90)
    hook.mode = "ok"
    deliver(start + HOUR, start + 5 * HOUR, 10 * MINUTE)

    times = Counter(told.id for told in hook.taken)
    assert set(times) == put
    assert all(is_signed(told, made.secret) for told in hook.taken)
    # At least once: what was under way at the kill came again, and nothing else.
    assert sum(times.values()) - EVENTS <= 2 * DEFAULT_CAPACITY.each
    assert Counter(one.state for one in await sender.deliveries(limit=2 * EVENTS)) == {"delivered": EVENTS}
    assert (await sender.endpoint(made.endpoint.id)).status == "active"


async def test_two_processes_with_a_killed_third_share_the_rest(sender, hook, deliver):
    await sender.register(hook.url())
    for number in range(100):
        await sender.put(number)
    start = clock.seconds()
    hook.mode, hook.slow_seconds = "slow", 0.05
    deliver(start, start, 1, kill_when=lambda: len(hook.told) >= 20)
    hook.mode = "ok"
    context = [sender.new_webhooks(), sender.new_webhooks()]
    for now in (start, start + 2 * MINUTE):
        for webhooks in context:
            await webhooks.deliver_due(now)
    assert len({told.id for told in hook.taken}) == 100
