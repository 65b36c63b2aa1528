"""Two deployments on one chain: one process on SQLite, and two on PostgreSQL with Redis."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.attacks.target import TREASURY, Target
from tests.journeys.conftest import recorded_data, start_server
from tests.journeys.server import Server
from tests.payments.x402.signed_payments import RELAYER, SELLER
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import ACCOUNTS, LocalChain

PLENTY = 10_000_000
# Both deployments pay into one account, as two servers of one operator may; each sends its own transactions.
RELAYERS = {"sqlite": RELAYER, "postgres": ACCOUNTS[5]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chain() -> AsyncIterator[LocalChain]:
    async with LocalChain.start() as chain:
        yield chain


@pytest.fixture(scope="module")
def own_postgres_url(new_postgres_database, migrated_template) -> str:
    return new_postgres_database(migrated_template)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def targets(
    chain, start_server, own_postgres_url, redis_server, tmp_path_factory
) -> AsyncIterator[dict[str, Target]]:
    """Both deployments by their kind; started together, stopped with the module."""
    redis_url = f"{redis_server}/{63 - int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')) % 8}"
    paid = {"evm_rpc_url": chain.url, "treasury_address": TREASURY.address, "deposit_confirmations": 1,
            "x402_pay_to": SELLER.address, "free_per_ip_per_day": 0, "trusted_proxies": "127.0.0.0/8",
            "keys_per_address_per_hour": PLENTY, "request_deadline_seconds": 3}  # fmt: skip
    shared = {"database_url": own_postgres_url, "redis_url": redis_url}
    own = {kind: {"x402_facilitator_key": account.private_key} for kind, account in RELAYERS.items()}
    homes = [tmp_path_factory.mktemp("attacked") for _ in range(3)]

    def start(number: int, *arguments: object, **settings: object) -> Server:
        return start_server(*arguments, home=homes[number], **paid, **settings)

    sqlite, *postgres = await asyncio.gather(
        asyncio.to_thread(start, 0, **own["sqlite"]),
        *(asyncio.to_thread(start, number, **shared, **own["postgres"]) for number in (1, 2)),
    )
    async with AsyncExitStack() as stack:
        found = {}
        for kind, servers, url in (("sqlite", [sqlite], ""), ("postgres", postgres, own_postgres_url)):
            settings = Settings(data_dir=str(servers[0].data_dir), database_url=url, evm_rpc_url=chain.url,
                                treasury_address=TREASURY.address, deposit_confirmations=1)  # fmt: skip
            context = await stack.enter_async_context(open_context(settings, answers_calls=False))
            key = await context.keys.create("operator@example.org", "enterprise", per_minute=PLENTY)
            found[kind] = Target(kind, [server.port for server in servers], context, chain, key.text)
        yield found


__all__ = ["recorded_data", "start_server"]
