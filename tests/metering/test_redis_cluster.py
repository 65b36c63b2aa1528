"""The meter over a real Redis Cluster of three servers."""

import asyncio
import contextlib
import socket
import subprocess
import time

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from tests.servers.redis import program
from tests.waiting import until
from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.meter import SECONDS_PER_DAY, Windows
from tollhouse.metering.redis_meter import RedisMeter, epoch_key, group_of, tally_key
from tollhouse.storage.counters_postgres import StoredCounts

pytestmark = pytest.mark.both_databases

SLOTS = 16_384
BUS_OFFSET = 10_000
FREE = Windows(30, None)


def free_ports(count):
    """Ports that are free, and whose cluster bus is free too."""
    ports = []
    while len(ports) < count:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1] - BUS_OFFSET
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The ports of three servers that hold a third of the slots each."""
    ports, processes = free_ports(3), []
    for port in ports:
        home = tmp_path_factory.mktemp("redis")
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), "--cluster-enabled", "yes"]
        command = [program(), *options, "--save", "", "--appendonly", "no", "--cluster-require-full-coverage", "no"]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    clients = [Redis(port=port) for port in ports]
    try:
        for number, client in enumerate(clients):
            wait_for(client.ping)
            client.cluster("ADDSLOTS", *range(number * SLOTS // 3, (number + 1) * SLOTS // 3))
        for port in ports[1:]:
            clients[0].cluster("MEET", "127.0.0.1", port)
        for client in clients:
            wait_for(lambda client=client: client.cluster("INFO")["cluster_state"] == "ok" and knows_all(client))
        yield ports
    finally:
        for client in clients:
            client.close()
        for process in processes:
            process.kill()
            process.wait()


def knows_all(client):
    return client.cluster("INFO")["cluster_known_nodes"] == "3" and len(client.cluster("SLOTS")) == 3


def wait_for(condition):
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(RedisError):
            if condition():
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
async def open_meter(cluster, database):
    opened = []
    for port in cluster:
        async with AsyncRedis(port=port) as node:
            await node.flushall()

    def open_one() -> RedisMeter:
        opened.append(RedisMeter(f"redis+cluster://127.0.0.1:{cluster[0]}", StoredCounts(database)))
        return opened[-1]

    yield open_one
    for meter in opened:
        await meter.close()


async def test_many_callers_at_once_are_counted_exactly(open_meter):
    meters = [open_meter() for _ in range(2)]
    calls = [meters[n % 2].reserve(f"key_{n % 12}", FREE) for n in range(12 * 50)]
    fitted = [one for one in await asyncio.gather(*calls) if one.verdict.refused_by is None]
    assert len(fitted) == 12 * 30
    for reservation in fitted[:40]:
        await meters[1].release(reservation)
    used = [(await meters[0].peek(f"key_{n}", FREE)).day.used for n in range(12)]
    assert sum(used) == 12 * 30 - 40


async def test_counts_are_on_every_server(open_meter, cluster):
    meter = open_meter()
    await asyncio.gather(*(meter.reserve(f"key_{n}", FREE) for n in range(300)))
    for port in cluster:
        async with AsyncRedis(port=port) as node:
            assert sum([b"epoch" not in key async for key in node.scan_iter("th:*")]) > 50


def test_keys_of_a_subject_are_in_one_slot(cluster):
    with Redis(port=cluster[0]) as node:
        for number in range(50):
            subject = f"address:2001:db8:{number:x}::/64"
            keys = tally_key(subject), epoch_key(group_of(subject))
            assert len({node.cluster("KEYSLOT", key) for key in keys}) == 1


async def test_script_flush_and_lost_connections_are_survived(open_meter, cluster):
    meter = open_meter()
    for _ in range(3):
        for port in cluster:
            async with AsyncRedis(port=port) as node:
                await node.script_flush()
                await node.client_kill_filter(_type="normal", skipme=True)
        with contextlib.suppress(Problem):  # a call that was cut off is lost
            await meter.reserve("key_a", FREE)
        calls = [meter.reserve(f"key_{n}", FREE) for n in range(200)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(answer).__name__ for answer in answers} <= {"Reservation", "Problem"}
        fresh = await asyncio.gather(*(meter.reserve(f"key_{n}", FREE) for n in range(200)))
        assert all(one.verdict.refused_by is None for one in fresh)


async def test_server_that_was_emptied_gets_the_days_counts_back(open_meter, cluster, database):
    meters = [open_meter() for _ in range(2)]
    for _ in range(20):
        await asyncio.gather(*(meters[n % 2].reserve(f"key_{n}", FREE) for n in range(30)))
    today = int(clock.seconds() // SECONDS_PER_DAY)

    async def is_stored() -> bool:
        rows = await StoredCounts(database).since(today)
        return len(rows) == 30 and all(used == 20 for _, _, used in rows)

    await until(is_stored)
    async with AsyncRedis(port=cluster[1]) as node:
        await node.flushall()
    answers = await asyncio.gather(
        *(meters[(n + call) % 2].reserve(f"key_{n}", FREE) for n in range(30) for call in range(15))
    )
    assert sum(one.verdict.refused_by is None for one in answers) == 30 * 10
