"""What counting a call costs, where counts are kept, against lists of calls in the same run.

`python benchmarks/limits.py [--postgres-url URL] [--redis-url URL] [--rounds N]` prints one JSON object. The databases
are empty ones on this machine; without their URLs their parts are left out. Needs two cores.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from baselines import call_lists
from measuring.load import Target, saturate
from measuring.servers import first_answer, free_port, new_key, processor_seconds, running, tollhouse

from tollhouse import logs
from tollhouse.config.settings import Settings
from tollhouse.metering.allotments import AllotmentMeter
from tollhouse.metering.meter import CounterMeter, Meter, Windows
from tollhouse.storage.counters_file import COUNTS_FILE, FileCounters
from tollhouse.storage.counters_postgres import PostgresCounters
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

SECONDS = 2.0
KEYS = 600
WORK_MICROSECONDS = 52
"""What a keyed call costs beside its count: two workers share that work, and contend only for the count."""
IN_FLIGHT = 32
HTTP_SECONDS = 4
BARE_TURNS = 2_500
"""About what a keyed call costs beside the server that both have in common."""
BASELINES = Path(__file__).parent / "baselines"
ADDED_BY_SERVER = {"date", "server", "content-length"}
PATH = "/defense/feeds/events?limit=20"
WINDOWS = Windows(100_000_000, 10_000)
GOAL_METERING, GOAL_HTTP, GOAL_PROCESSOR, GOAL_BYTES = 1.6, 1.0, 1.15, 220

Count = Callable[[str], Awaitable[object]]
HttpRun = tuple[float, float, float, float]
"""Calls a second, microseconds of processor time a call, cores taken, and cores of the load."""


def counting(kind: str, folder: Path) -> Count:
    """What counts one call of a subject."""
    if kind == "lists in memory":
        return _of_lists(call_lists.InMemory())
    if kind == "lists in SQLite":
        return _of_lists(call_lists.InSqlite(folder))
    is_shared = kind == "shared file"
    counters = FileCounters(folder, shared=is_shared)
    meter = AllotmentMeter(counters) if is_shared else CounterMeter(counters)
    return lambda name: meter.reserve(name, WINDOWS)


def _of_lists(lists: Any) -> Count:
    return lambda name: lists.change(name, lambda calls: call_lists.reserve(calls, 100_000_000, 10_000, time.time()))


def worker(kind: str, folder: str, work: int, start_at: float, results: Any) -> None:
    """Count until the time is over; put the number of calls and the processor time they took."""

    async def count() -> tuple[int, float]:
        one, calls = counting(kind, Path(folder)), 0
        await asyncio.sleep(max(0.0, start_at - time.time()))
        until, spent = time.perf_counter() + SECONDS, time.process_time()
        while (now := time.perf_counter()) < until:
            await one(f"key_{(calls * 7919 + os.getpid()) % KEYS:016x}")
            calls += 1
            while work and time.perf_counter() < now + work / 1e6:
                pass
        return calls, time.process_time() - spent

    results.put(asyncio.run(count()))


def per_second(kind: str, workers: int, work: int) -> tuple[float, float]:
    """Calls a second, and calls a second of processor time times the workers: that of cores of their own."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        results, start_at = context.Queue(), time.time() + 2.5
        started = [context.Process(target=worker, args=(kind, folder, work, start_at, results)) for _ in range(workers)]
        for each in started:
            each.start()
        counted = [results.get(timeout=60) for _ in started]
        for each in started:
            each.join()
    calls, spent = (sum(each) for each in zip(*counted, strict=True))
    return calls / SECONDS, calls / spent * workers


def metering(rounds: int) -> dict[str, Any]:
    runs = [("lists in memory", 1), ("file", 1), ("shared file", 2), ("lists in SQLite", 2)]
    report: dict[str, Any] = {}
    for work in (WORK_MICROSECONDS, 0):
        rates: dict[str, list[float]] = {f"{kind}, {workers}": [] for kind, workers in runs}
        own_cores: dict[str, list[float]] = {name: [] for name in rates}
        for _ in range(rounds):
            for kind, workers in runs:
                rate, own = per_second(kind, workers, work)
                rates[f"{kind}, {workers}"].append(rate)
                own_cores[f"{kind}, {workers}"].append(own)
        middle = {name: statistics.median(each) for name, each in own_cores.items()}
        pairs = zip(rates["shared file, 2"], rates["file, 1"], strict=True)
        report[f"with {work} microseconds of other work a call"] = {
            "per_second": {name: round(statistics.median(each)) for name, each in rates.items()},
            "per_second_of_own_cores": {name: round(rate) for name, rate in middle.items()},
            "two_workers_of_one": [round(two / one, 2) for two, one in pairs],
            "two_workers_of_one_by_processor_time": round(middle["shared file, 2"] / middle["file, 1"], 2),
            "one_of_lists_in_memory": round(middle["file, 1"] / middle["lists in memory, 1"], 2),
            "two_of_lists_in_sqlite": round(middle["shared file, 2"] / middle["lists in SQLite, 2"], 2),
        }
    return report


def http(rounds: int) -> dict[str, Any]:
    """Keyed calls a second of one worker and of two, and of a bare application that works as long, on the same cores.

    Where one worker and the load take all cores, two workers cannot answer more: the bare application, which
    shares nothing, tells that from waits for each other.
    """
    runs: dict[str, list[HttpRun]] = {f"{name}, {workers}": [] for name in ("tollhouse", "bare") for workers in (1, 2)}
    targets, pids = {}, {}
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder, received, body, key = Path(made), [], b"", ""
        for name in runs:
            kind, _, workers = name.partition(", ")
            port, data_dir, prepared = free_port(), folder / f"data-{workers}", folder / "answer.json"
            if kind == "tollhouse":
                key = json.loads(new_key(data_dir, folder / "keys.log"))["api_key"]
                command = [*tollhouse(port, data_dir), "--workers", workers]
            else:
                sent = [(each, value) for each, value in received if each.lower() not in ADDED_BY_SERVER]
                prepared.write_text(json.dumps({"headers": sent, "body": body.decode()}), "utf-8")
                command = [sys.executable, BASELINES / "bare.py", str(port), workers, str(BARE_TURNS), prepared]
            server = stack.enter_context(running(command, folder / f"{name}.log", PYTHONPATH=str(BASELINES)))
            received, body = first_answer(server, port, PATH, {"Authorization": f"Bearer {key}"})
            pids[name], targets[name] = server.pid, Target(port, PATH, key, len(body))
        for _ in range(rounds):
            for name, target in targets.items():
                runs[name].append(_http_run(target, pids[name]))
    middle = {name: [statistics.median(each) for each in zip(*run, strict=True)] for name, run in runs.items()}
    columns = zip(("per_second", "processor_microseconds_a_call", "cores_taken", "cores_of_the_load"), (0, 1, 2, 2),
                  strict=True)  # fmt: skip
    report: dict[str, Any] = {
        column: {name: round(figures[at], digits) for name, figures in middle.items()}
        for at, (column, digits) in enumerate(columns)
    }
    for kind in ("tollhouse", "bare"):
        pairs = list(zip(runs[f"{kind}, 2"], runs[f"{kind}, 1"], strict=True))
        report[f"{kind}: two workers of one"] = [round(two[0] / one[0], 2) for two, one in pairs]
        report[f"{kind}: processor time a call of one"] = round(middle[f"{kind}, 2"][1] / middle[f"{kind}, 1"][1], 2)
    return report


def _http_run(target: Target, pid: int) -> HttpRun:
    spent, load_spent = processor_seconds(pid), _children_seconds()
    load = saturate(target, HTTP_SECONDS)
    spent, seconds = processor_seconds(pid) - spent, load.requests / load.per_second
    return load.per_second, spent / load.requests * 1e6, spent / seconds, (_children_seconds() - load_spent) / seconds


def _children_seconds() -> float:
    """The processor time of the processes that this one started and that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


async def many(count: Count, keys: int, seconds: float = SECONDS) -> float:
    """Calls a second, so many at once as IN_FLIGHT says."""
    until, calls = time.perf_counter() + seconds, 0

    async def caller(number: int) -> None:
        nonlocal calls
        while time.perf_counter() < until:
            await count(f"key_{(number * 7919 + calls) % keys:016x}")
            calls += 1

    await asyncio.gather(*(caller(number) for number in range(IN_FLIGHT)))
    return calls / seconds


async def postgres(url: str, redis_url: str, rounds: int) -> dict[str, Any]:
    database = open_database(Settings(database_url=url))
    await migrate(database)
    lists = call_lists.InPostgres(database)
    await lists.make()
    meters: dict[str, Meter] = {"buckets": CounterMeter(PostgresCounters(database))}
    counts: dict[str, Count] = {"lists": _of_lists(lists)}
    if redis_url:
        from tollhouse.metering.redis_meter import RedisMeter

        meters["redis"] = RedisMeter(redis_url)
    for name, meter in meters.items():
        counts[name] = lambda subject, meter=meter: meter.reserve(subject, WINDOWS)  # type: ignore[misc]
    report = {}
    for keys in (1, KEYS):
        rates: dict[str, list[float]] = {name: [] for name in counts}
        for _ in range(rounds):
            for name, count in counts.items():
                rates[name].append(await many(count, keys))
        middle = {name: statistics.median(each) for name, each in rates.items()}
        report[f"{keys} keys"] = {
            "per_second": {name: round(rate) for name, rate in middle.items()},
            "of_lists": round(middle["buckets"] / middle["lists"], 1),
            "of_redis": round(middle["buckets"] / middle["redis"], 2) if redis_url else None,
        }
    for meter in meters.values():
        await meter.close()
    await database.close()
    return report


async def redis(url: str) -> dict[str, Any]:
    """Memory of a subject whose every second has calls, and processor time of the server for a call."""
    from redis.asyncio import Redis

    from tollhouse.metering.redis_meter import COUNT, RedisMeter, epoch_key, group_of, tally_key

    meter = RedisMeter(url)
    client = Redis.from_url(url)
    sizes, now = {}, float(int(time.time()))
    script = client.register_script(COUNT)
    for limit in (60, 10_000, 1_000_000):
        subject = f"key_{limit:016x}"
        await meter.peek(subject, WINDOWS)
        each = min(-(-limit // 60), 400)
        for second in range(61):
            for _ in range(each):
                keys = [tally_key(subject), epoch_key(group_of(subject))]
                moment = repr(now - 60 + second)
                await script(keys=keys, args=["reserve", moment, 60, -1, limit, moment, 1, repr(now * 2)])
        sizes[str(limit)] = await client.memory_usage(tally_key(subject))
    spent = {}
    listed = client.register_script(call_lists.SCRIPT)
    for name in ("lists", "buckets", "lists", "buckets"):
        before = await client.info("cpu")

        async def one(subject: str, name: str = name) -> None:
            if name == "buckets":
                await meter.reserve(subject, WINDOWS)
            else:
                await listed(keys=[f"{subject}:day", f"{subject}:recent"], args=[repr(time.time()), 60, 10_000])

        rate = await many(one, KEYS)
        after = await client.info("cpu")
        used = sum(after[f"used_cpu_{kind}"] - before[f"used_cpu_{kind}"] for kind in ("user", "sys"))
        spent[name] = round(used / (rate * SECONDS) * 1e6, 1)
    await client.aclose()
    await meter.close()
    return {"bytes_a_subject_by_limit": sizes, "server_microseconds_a_call": spent}


def memory(kind: str, subjects: int, results: Any) -> None:
    """Put what a process takes more for so many subjects: of its own memory, and in the file, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        count = counting(kind, Path(folder))

        async def fill() -> None:
            for number in range(subjects):
                await count(f"address:{number:x}::/64")

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        asyncio.run(fill())
        taken = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        file = Path(folder, COUNTS_FILE)
        size = file.stat().st_size if file.exists() else 0
    results.put(
        {
            "process_mb": round((after - before) / 1024, 1),
            "file_mb": round(size / 2**20, 1),
            "microseconds_a_new_subject": round(taken / subjects * 1e6, 1),
        }
    )


def memories() -> dict[str, Any]:
    context, report = multiprocessing.get_context("spawn"), {}
    for kind in ("lists in memory", "file"):
        for subjects in (10_000, 100_000, 1_000_000):
            results = context.Queue()
            process = context.Process(target=memory, args=(kind, subjects, results))
            process.start()
            report[f"{kind}, {subjects:,} subjects"] = results.get(timeout=300)
            process.join()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres-url", default="")
    parser.add_argument("--redis-url", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-http", action="store_true")
    options = parser.parse_args()
    logs.configure("error")
    report: dict[str, Any] = {"metering": metering(options.rounds)}
    print(json.dumps(report), file=sys.stderr)
    if not options.without_http:
        report["http"] = http(options.rounds)
    if options.postgres_url:
        report["postgres"] = asyncio.run(postgres(options.postgres_url, options.redis_url, options.rounds))
    if options.redis_url:
        report["redis"] = asyncio.run(redis(options.redis_url))
    report["memory"] = memories()
    scaling = report["metering"][f"with {WORK_MICROSECONDS} microseconds of other work a call"]["two_workers_of_one"]
    report["goals"] = {
        f"two workers >= {GOAL_METERING} of one in the metering": statistics.median(scaling) >= GOAL_METERING,
        f"at most {GOAL_BYTES} bytes a subject in Redis": max(report["redis"]["bytes_a_subject_by_limit"].values())
        <= GOAL_BYTES
        if options.redis_url
        else None,
    }
    if "http" in report:
        ratios, processor = (
            report["http"][f"tollhouse: {column}"] for column in ("two workers of one", "processor time a call of one")
        )
        report["goals"] |= {
            f"two workers >= {GOAL_HTTP} of one over HTTP": statistics.median(ratios) >= GOAL_HTTP,
            f"processor time a call of two workers <= {GOAL_PROCESSOR} of one's": processor <= GOAL_PROCESSOR,
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
