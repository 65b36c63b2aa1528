"""What one machine does, every other one knows: keys, limits, money, data and deliveries, through crashes of each."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from standardwebhooks.webhooks import Webhook

from tests.attacks.target import CALL_MICROS, DOLLAR, FEED, FEED_PATH, PAGE, PAGE_MICROS, Answer, Target, first
from tests.catalogue.importers.feeding import mattress, shopify
from tests.cluster.cluster import PLENTY, SERVERS, WORKERS, Cluster
from tests.fakes.gdelt import FakeGdelt, fake_gdelt, recent_slots
from tests.fakes.receiver import Receiver, receiver
from tests.waiting import until
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import LocalChain

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

SLOTS = recent_slots(4)
# After so long no process accepts a revoked key.
REVOKED_SECONDS = 1.0
# After so long another worker does the work of one that was killed.
TAKEN_OVER_SECONDS = 15.0
# And has read a slot, on a busy machine.
READ_SECONDS = 45.0


@pytest.fixture(scope="module")
def gdelt() -> Iterator[FakeGdelt]:
    with fake_gdelt() as provider:
        provider.publish(SLOTS[0], 0)
        yield provider


@pytest.fixture(scope="module")
def hook() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


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


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def everywhere(target: Target, path: str, headers: dict[str, str]) -> list[Answer]:
    return list(await asyncio.gather(*(target.send(path, headers, process=number) for number in range(SERVERS))))


async def test_key_of_one_machine_opens_all_and_ends_on_all(target):
    key = await target.new_key("everywhere@example.org")
    assert [answer.status for answer in await everywhere(target, FEED, bearer(key))] == [200] * SERVERS
    revoked = await target.send("/api/keys/revoke", bearer(key), method="POST", process=1)
    assert revoked.status == 200
    revoked_at = time.monotonic()
    accepted: list[float] = []

    async def is_over() -> bool:
        sent_at = time.monotonic() - revoked_at
        if any(answer.status != 401 for answer in await everywhere(target, FEED, bearer(key))):
            accepted.append(sent_at)
        return sent_at > REVOKED_SECONDS

    await until(is_over)
    assert [sent_at for sent_at in accepted if sent_at > REVOKED_SECONDS] == []


async def test_limit_of_a_key_is_exact_over_all_machines(target):
    created = await target.context.keys.create("limit@example.org", "free", per_day=20, per_minute=PLENTY)
    answers = await target.at_once(target.send(FEED, bearer(created.text), process=number) for number in range(60))
    assert Counter(answer.status for answer in answers) == {200: 20, 429: 40}


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
    payer, before = await target.payer(PAGE_MICROS), await target.earned()
    payment = first(payer)
    answers = await target.at_once(target.send(PAGE, payment, process=number) for number in range(9))
    assert {answer.status for answer in answers} <= {200, 402}
    assert len({answer.body for answer in answers if answer.status == 200}) == 1
    assert await target.earned() - before == PAGE_MICROS
    assert await target.held(payer) == 0
    assert await target.is_balanced()


async def test_import_on_one_machine_shows_on_all_and_is_delivered_once(cluster, target, hook, tmp_path):
    endpoint = await asyncio.to_thread(
        cluster.command, 1, "webhooks", "add", "--service", "mattress", "--url", hook.url("/products"),
        "--email", "a@b.example",
    )  # fmt: skip
    (tmp_path / "products.json").write_text(shopify(*(mattress(number) for number in range(1, 31))), "utf-8")
    imported = ("import", "mattress", tmp_path / "products.json", "--format", "shopify", "--retailer", "dunlin")
    assert (await asyncio.to_thread(cluster.command, 2, *imported))["created"] == 30

    async def shows() -> bool:
        pages = await everywhere(target, "/mattress/api/products?retailer=dunlin&limit=1", bearer(target.operator_key))
        return [page.json["total"] for page in pages] == [30] * SERVERS

    await until(shows, 30)
    await until(lambda: len({told.id for told in hook.taken if told.path == "/products"}) == 30, 60)
    delivered = [told for told in hook.taken if told.path == "/products"]
    assert len(delivered) == 30
    products = [Webhook(endpoint["secret"]).verify(told.body, told.headers) for told in delivered]
    assert {product["type"] for product in products} == {"product.created"}


async def test_stories_are_the_same_on_all_machines(target):
    async def are_whole() -> bool:
        pages = await everywhere(target, "/defense/feeds/stories?limit=100", bearer(target.operator_key))
        if any(page.status != 200 for page in pages):
            return False
        ids = [[story["id"] for story in page.json["stories"]] for page in pages]
        return bool(ids[0]) and ids[0] == ids[1] == ids[2]

    await until(are_whole, 60)


async def test_alert_of_one_machine_is_evaluated_by_a_worker_and_delivered_once(target, hook):
    rule = {"name": "Any event", "metric": "event_count", "operator": ">=", "threshold": 1, "url": hook.url("/alert")}
    made = await target.post("/defense/api/alerts", rule, bearer(target.operator_key), process=2)
    assert made.status == 200, made
    await until(lambda: any(told.path == "/alert" for told in hook.taken), 60)
    [told] = [told for told in hook.taken if told.path == "/alert"]
    assert Webhook(made.json["secret"]).verify(told.body, told.headers)["type"] == "alert.triggered"
    seen = await everywhere(target, f"/defense/api/alerts/{made.json['id']}", bearer(target.operator_key))
    assert [answer.status for answer in seen] == [200] * SERVERS


async def reaches(target: Target, slot: str, seconds: float) -> None:
    """Wait until every server serves a slot of the provider."""
    as_of = f"{slot[:4]}-{slot[4:6]}-{slot[6:8]}T{slot[8:10]}:{slot[10:12]}:{slot[12:]}Z"

    async def shows() -> bool:
        pages = await everywhere(target, "/defense/feeds/events?limit=1", bearer(target.operator_key))
        return all(page.status == 200 and page.json["as_of"] == as_of for page in pages)

    await until(shows, seconds)


async def jobs_are_taken_over(target: Target, killed: str, roles: set[str]) -> None:
    """Wait until other processes have these jobs of one that was killed just now."""
    killed_at = time.monotonic()

    async def are_held() -> bool:
        held = await target.context.database.held_jobs()
        return all(held.get(role, killed) != killed for role in roles)

    await until(are_held, READ_SECONDS)
    assert time.monotonic() - killed_at < TAKEN_OVER_SECONDS


async def money_is_right_when_a_server_is_killed_under_calls(cluster: Cluster, target: Target, server: int) -> None:
    wallet = await target.wallet(DOLLAR)
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
    assert await target.is_balanced()


async def worker_is_killed(cluster: Cluster, target: Target, gdelt: FakeGdelt, worker: int, server: int) -> None:
    """A worker, and a server before the worker's leases end."""

    async def have_jobs() -> bool:
        return len(set((await target.context.database.held_jobs()).values())) == WORKERS

    await until(have_jobs, READ_SECONDS)
    held = await target.context.database.held_jobs()
    pid = await asyncio.to_thread(cluster.kill_worker, worker)
    [killed] = {holder for holder in held.values() if f":{pid}:" in holder}
    roles = {role for role, holder in held.items() if holder == killed}
    taking_over = asyncio.create_task(jobs_are_taken_over(target, killed, roles))
    gdelt.publish(SLOTS[worker + 1], worker + 1)
    await money_is_right_when_a_server_is_killed_under_calls(cluster, target, server)
    await taking_over
    await reaches(target, SLOTS[worker + 1], READ_SECONDS)
    cluster.start_worker(worker)


async def test_work_goes_on_and_money_is_right_when_any_machine_is_killed(cluster, target, gdelt):
    """Each of the servers and workers, one after the other."""
    await worker_is_killed(cluster, target, gdelt, 0, server=0)
    await money_is_right_when_a_server_is_killed_under_calls(cluster, target, 2)
    await worker_is_killed(cluster, target, gdelt, 1, server=1)


@pytest.mark.parametrize("store", ["postgres", "redis"])
async def test_everything_goes_on_after_a_store_was_restarted(cluster, target, gdelt, store):
    wallet = await target.wallet(DOLLAR)
    await asyncio.to_thread(cluster.crash_postgres if store == "postgres" else cluster.restart_redis)

    async def works() -> bool:
        answers = await everywhere(target, FEED, bearer(target.operator_key))
        return [answer.status for answer in answers] == [200] * SERVERS

    await until(works, 30)
    for number in range(SERVERS):
        assert (await target.send(FEED, wallet.headers(FEED_PATH), process=number)).status == 200
    assert await target.credit(wallet) == DOLLAR - SERVERS * CALL_MICROS
    if store == "redis":
        gdelt.publish(SLOTS[3], 3)
        await reaches(target, SLOTS[3], 30)
    assert await target.is_balanced()
