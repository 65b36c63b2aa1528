"""What one machine does, every other one knows: keys, limits, money, data and deliveries, through crashes of each."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from standardwebhooks.webhooks import Webhook

from tests.attacks.target import CALL_MICROS, DOLLAR, FEED, FEED_PATH, PAGE, PAGE_MICROS, Answer, Target, first
from tests.catalogue.importers.feeding import mattress, shopify
from tests.cluster.cluster import PLENTY, SERVERS, WORKERS, Cluster
from tests.fakes.gdelt import FakeGdelt, fake_gdelt, recent_slots
from tests.fakes.receiver import Receiver, Told, receiver
from tests.waiting import until
from tollhouse.accounts.keys import NewKey
from tollhouse.admission.context import open_context
from tollhouse.client import Agent
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.storage.counters_postgres import StoredCounts

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

SLOTS = recent_slots(5)
# After so long no process accepts a revoked key.
REVOKED_SECONDS = 1.0
# After so long another worker does the work of one that was killed.
TAKEN_OVER_SECONDS = 15.0
# And has done what waited for it, on a busy machine.
DONE_SECONDS = 60.0
LIMIT, PRODUCTS = 10, 5

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def gdelt() -> Iterator[FakeGdelt]:
    with fake_gdelt() as provider:
        provider.publish(SLOTS[0], 0)
        yield provider


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(gdelt, tmp_path_factory) -> AsyncIterator[Cluster]:
    async with LocalChain.start() as chain:
        started = await asyncio.to_thread(Cluster, tmp_path_factory.mktemp("cluster"), chain, gdelt)
        try:
            yield started
        finally:
            await asyncio.to_thread(started.stop)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(cluster, tmp_path_factory) -> AsyncIterator[Target]:
    names = ("database_url", "redis_url", "evm_rpc_url", "treasury_address", "deposit_confirmations")
    given = {name: cluster.settings[name] for name in names}
    settings = Settings(data_dir=str(tmp_path_factory.mktemp("reader")), **given)
    async with open_context(settings, answers_calls=False) as context:
        key = await context.keys.create("operator@example.org", "enterprise", per_minute=PLENTY)
        yield Target("cluster", cluster.ports, context, cluster.chain, key.text)


@dataclass
class Hook:
    """Who receives the webhooks of the mattress service under `/products`, with that secret."""

    receiver: Receiver
    secret: str
    folder: Path


@pytest.fixture(scope="module")
def hook(cluster, tmp_path_factory) -> Iterator[Hook]:
    with receiver() as listening:
        url = listening.url("/products")
        added = ("webhooks", "add", "--service", "mattress", "--url", url, "--email", "a@b.example")
        yield Hook(listening, cluster.command(1, *added)["secret"], tmp_path_factory.mktemp("feeds"))


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def everywhere(target: Target, path: str, headers: dict[str, str]) -> list[Answer]:
    return list(await asyncio.gather(*(target.send(path, headers, process=number) for number in range(SERVERS))))


async def key_is_refused(target: Target, key: str, revoked_at: float) -> None:
    """By each server whenever it is called later than a second after that moment."""

    async def last_accepted(number: int) -> float:
        accepted_at, sent_at, status = 0.0, 0.0, 0
        while sent_at <= REVOKED_SECONDS or status == 503:
            sent_at = time.monotonic() - revoked_at
            status = (await target.send(FEED, bearer(key), process=number)).status
            assert status in {200, 401, 503}
            accepted_at = sent_at if status == 200 else accepted_at
            await asyncio.sleep(0.1)
        return accepted_at

    assert max(await asyncio.gather(*map(last_accepted, range(SERVERS)))) <= REVOKED_SECONDS


async def key_opens_all_and_ends_on_all(target: Target, machine: int) -> None:
    key = await target.new_key(f"everywhere-{machine}@example.org", process=machine + 1)
    assert [answer.status for answer in await everywhere(target, FEED, bearer(key))] == [200] * SERVERS
    revoked = await target.send("/api/keys/revoke", bearer(key), method="POST", process=machine)
    assert revoked.status == 200
    await key_is_refused(target, key, time.monotonic())


async def limit_is_exact(target: Target, created: NewKey | None = None, used: int = 0) -> None:
    key = created or await target.context.keys.create("limit@example.org", "free", per_day=LIMIT, per_minute=PLENTY)
    answers = await target.at_once(target.send(FEED, bearer(key.text), process=number) for number in range(3 * LIMIT))
    assert Counter(answer.status for answer in answers) == {200: LIMIT - used, 429: 2 * LIMIT + used}


async def payment_buys_one_answer(target: Target) -> None:
    payer, before = await target.payer(PAGE_MICROS), await target.earned()
    payment = first(payer)
    answers = await target.at_once(target.send(PAGE, payment, process=number) for number in range(9))
    assert {answer.status for answer in answers} <= {200, 402}
    assert len({answer.body for answer in answers if answer.status == 200}) == 1
    assert await target.earned() - before == PAGE_MICROS
    assert await target.held(payer) == 0


@contextlib.asynccontextmanager
async def import_is_delivered_once(cluster: Cluster, target: Target, hook: Hook, machine: int) -> AsyncIterator[None]:
    """Products are imported on one machine; when the block ends, all show them."""
    retailer = f"shop-{next(_numbers)}"
    file = hook.folder / f"{retailer}.json"
    file.write_text(shopify(*(mattress(number) for number in range(1, PRODUCTS + 1))), "utf-8")
    imported = ("import", "mattress", file, "--format", "shopify", "--retailer", retailer)
    assert (await asyncio.to_thread(cluster.command, machine, *imported))["created"] == PRODUCTS
    yield

    async def shows() -> bool:
        path = f"/mattress/api/products?retailer={retailer}&limit=1"
        pages = await everywhere(target, path, bearer(target.operator_key))
        return [page.json["total"] for page in pages] == [PRODUCTS] * SERVERS

    def told() -> list[Told]:
        return [told for told in hook.receiver.taken if told.path == "/products" and retailer.encode() in told.body]

    await until(shows, DONE_SECONDS)
    await until(lambda: len({told.id for told in told()}) == PRODUCTS, DONE_SECONDS)
    delivered = told()
    assert len(delivered) == PRODUCTS
    products = [Webhook(hook.secret).verify(told.body, told.headers) for told in delivered]
    assert {product["type"] for product in products} == {"product.created"}


@contextlib.asynccontextmanager
async def alert_is_delivered_once(target: Target, hook: Hook, machine: int) -> AsyncIterator[None]:
    """A rule is made on one machine; when the block ends, a worker evaluates it, and all know it."""
    path = f"/alert-{next(_numbers)}"
    url = hook.receiver.url(path)
    rule = {"name": "Any event", "metric": "event_count", "operator": ">=", "threshold": 1, "url": url}
    made = await target.post("/defense/api/alerts", rule, bearer(target.operator_key), process=machine)
    assert made.status == 200, made
    yield
    await until(lambda: any(told.path == path for told in hook.receiver.taken), DONE_SECONDS)
    [told] = [told for told in hook.receiver.taken if told.path == path]
    assert Webhook(made.json["secret"]).verify(told.body, told.headers)["type"] == "alert.triggered"
    seen = await everywhere(target, f"/defense/api/alerts/{made.json['id']}", bearer(target.operator_key))
    assert [answer.status for answer in seen] == [200] * SERVERS


@contextlib.asynccontextmanager
async def work_goes_on(
    cluster: Cluster, target: Target, hook: Hook, gdelt: FakeGdelt, slot: int
) -> AsyncIterator[None]:
    """There is work; when the block ends, it is done, whoever does it."""
    gdelt.publish(SLOTS[slot], slot)
    async with (
        import_is_delivered_once(cluster, target, hook, slot),
        alert_is_delivered_once(target, hook, slot),
    ):
        yield
        await reaches(target, SLOTS[slot])
        await stories_are_the_same(target)


async def calls_are_right(target: Target, machine: int) -> None:
    await asyncio.gather(
        key_opens_all_and_ends_on_all(target, machine), limit_is_exact(target), payment_buys_one_answer(target)
    )
    assert await target.is_balanced()


async def reaches(target: Target, slot: str) -> None:
    """Wait until every server serves a slot of the provider."""
    as_of = f"{slot[:4]}-{slot[4:6]}-{slot[6:8]}T{slot[8:10]}:{slot[10:12]}:{slot[12:]}Z"

    async def shows() -> bool:
        pages = await everywhere(target, "/defense/feeds/events?limit=1", bearer(target.operator_key))
        return all(page.status == 200 and page.json["as_of"] == as_of for page in pages)

    await until(shows, DONE_SECONDS)


async def stories_are_the_same(target: Target) -> None:
    async def are_whole() -> bool:
        pages = await everywhere(target, "/defense/feeds/stories?limit=100", bearer(target.operator_key))
        if any(page.status != 200 for page in pages):
            return False
        ids = [[story["id"] for story in page.json["stories"]] for page in pages]
        return bool(ids[0]) and ids[0] == ids[1] == ids[2]

    await until(are_whole, DONE_SECONDS)


async def test_key_of_one_machine_opens_all_and_ends_on_all(target):
    await asyncio.gather(*(key_opens_all_and_ends_on_all(target, machine) for machine in range(SERVERS)))


async def test_limit_of_a_key_is_exact_over_all_machines(target):
    await limit_is_exact(target)


async def test_credit_of_a_wallet_is_spent_once_whichever_machine_is_called(target):
    wallet = await target.wallet(DOLLAR)
    calls = [wallet.headers(FEED_PATH) for _ in range(130)]
    answers = await target.at_once(target.send(FEED, headers, process=number) for number, headers in enumerate(calls))
    assert Counter(answer.status for answer in answers) == {200: DOLLAR // CALL_MICROS, 402: 30}
    assert await target.credit(wallet) == 0
    paid = next(headers for headers, answer in zip(calls, answers, strict=True) if answer.status == 200)

    async def is_used() -> bool:
        """Until its answer is known to have arrived, the same answer is given again, without a charge."""
        return {answer.code for answer in await everywhere(target, FEED, paid)} == {"nonce-reused"}

    await until(is_used)
    assert await target.credit(wallet) == 0


async def test_payment_buys_one_answer_whichever_machine_gets_it(target):
    await payment_buys_one_answer(target)
    assert await target.is_balanced()


async def test_import_on_one_machine_shows_on_all_and_is_delivered_once(cluster, target, hook):
    async with import_is_delivered_once(cluster, target, hook, 2):
        pass


async def test_stories_are_the_same_on_all_machines(target):
    await stories_are_the_same(target)


async def test_alert_of_one_machine_is_evaluated_by_a_worker_and_delivered_once(target, hook):
    async with alert_is_delivered_once(target, hook, 2):
        pass


async def calls_are_right_when_a_server_is_killed(cluster: Cluster, target: Target, server: int) -> None:
    wallet = await target.wallet(DOLLAR, process=server + 1)
    calls = [wallet.headers(FEED_PATH) for _ in range(60)]
    answered: dict[int, list[Answer]] = {number: [] for number in range(len(calls))}

    async def call(number: int) -> None:
        """As a client does: the same request again, to the next server, until it is answered."""
        for attempt in range(200):
            with contextlib.suppress(OSError):
                answer = await target.send(FEED, calls[number], process=number + attempt)
                answered[number].append(answer)
                if answer.status in {200, 401, 402}:
                    return
            await asyncio.sleep(0.2)

    calling = asyncio.gather(*map(call, range(len(calls))))
    await asyncio.to_thread(cluster.kill_server, server)
    await calling
    await asyncio.to_thread(cluster.start_server, server)
    assert {answers[-1].status for answers in answered.values()} == {200}
    assert await target.credit(wallet) == DOLLAR - len(calls) * CALL_MICROS
    await calls_are_right(target, server)


async def jobs_are_taken_over(cluster: Cluster, worker: int, killed_at: float) -> None:
    """Measured on the workers' clocks."""
    terms = cluster.terms()
    jobs = {term.job for term in terms if term.worker == worker and term.since < killed_at < term.until}
    assert jobs

    def taken() -> dict[str, float]:
        return {term.job: term.since for term in reversed(cluster.terms()) if term.since > killed_at}

    await until(lambda: jobs <= taken().keys(), DONE_SECONDS)
    assert max(taken()[job] for job in jobs) - killed_at < TAKEN_OVER_SECONDS


async def worker_is_killed(
    cluster: Cluster, target: Target, hook: Hook, gdelt: FakeGdelt, worker: int, server: int
) -> None:
    """And a server before the worker's leases end."""
    await until(lambda: {term.worker for term in cluster.terms() if term.until > time.time()} == {0, 1}, DONE_SECONDS)
    killed_at = await asyncio.to_thread(cluster.kill_worker, worker)
    async with work_goes_on(cluster, target, hook, gdelt, worker + 1):
        taking_over = asyncio.create_task(jobs_are_taken_over(cluster, worker, killed_at))
        await calls_are_right_when_a_server_is_killed(cluster, target, server)
        await taking_over
    cluster.start_worker(worker)


async def test_everything_goes_on_when_any_machine_is_killed(cluster, target, hook, gdelt):
    """Each of the servers and workers, one after the other."""
    await worker_is_killed(cluster, target, hook, gdelt, 0, server=0)
    await calls_are_right_when_a_server_is_killed(cluster, target, 2)
    await worker_is_killed(cluster, target, hook, gdelt, 1, server=1)


async def test_everything_goes_on_after_postgres_crashed(cluster, target, hook, gdelt):
    wallet = await target.wallet(DOLLAR)
    await asyncio.to_thread(cluster.crash_postgres)
    await all_answer(target)
    async with work_goes_on(cluster, target, hook, gdelt, 3):
        await credit_is_right(target, wallet)
        await calls_are_right(target, 1)


async def test_everything_goes_on_after_redis_has_lost_its_counts(cluster, target, hook, gdelt):
    """And the message that a key was revoked."""
    wallet, revoked = await target.wallet(DOLLAR), await target.context.keys.create("lost@example.org", "free")
    limited = await target.context.keys.create("limit@example.org", "free", per_day=LIMIT, per_minute=PLENTY)
    for key in (limited, limited, revoked):
        answers = await everywhere(target, FEED, bearer(key.text))
        assert [answer.status for answer in answers] == [200] * SERVERS
    stored = StoredCounts(target.context.database)

    async def is_copied() -> bool:
        return (limited.holder.key_id, 2 * SERVERS) in {(subject, used) for subject, _, used in await stored.since(0)}

    await until(is_copied)
    await asyncio.to_thread(cluster.stop_redis)
    await target.context.keys.revoke(revoked.holder.key_id)
    revoked_at = time.monotonic()
    cluster.start_redis()
    await key_is_refused(target, revoked.text, revoked_at)
    await all_answer(target)
    async with work_goes_on(cluster, target, hook, gdelt, 4):
        await credit_is_right(target, wallet)
        await limit_is_exact(target, limited, 2 * SERVERS)
        await calls_are_right(target, 2)


async def all_answer(target: Target) -> None:
    async def work() -> bool:
        answers = await everywhere(target, FEED, bearer(target.operator_key))
        return [answer.status for answer in answers] == [200] * SERVERS

    await until(work, 30)


async def credit_is_right(target: Target, wallet: Agent) -> None:
    for number in range(SERVERS):
        assert (await target.send(FEED, wallet.headers(FEED_PATH), process=number)).status == 200
    assert await target.credit(wallet) == DOLLAR - SERVERS * CALL_MICROS


async def test_no_job_ever_had_two_holders(cluster):
    """In all that was done above."""
    by_job = itertools.groupby(sorted(cluster.terms(), key=lambda term: (term.job, term.since)), lambda term: term.job)
    terms = {job: list(terms) for job, terms in by_job}
    assert all({term.worker for term in of_job} == set(range(WORKERS)) for of_job in terms.values())
    pairs = [pair for of_job in terms.values() for pair in itertools.pairwise(of_job)]
    assert [(former, later) for former, later in pairs if former.until > later.since] == []
