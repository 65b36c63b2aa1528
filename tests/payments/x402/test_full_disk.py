"""A server whose disk is full takes no payments, and loses none."""

import json

import pytest

from tests.payments.x402.full_disk_client import fill
from tests.payments.x402.purchases import seller_holds
from tests.payments.x402.signed_payments import PRICE, v1
from tests.servers.processes import run
from tollhouse.payments.x402.reconciliation import reconcile

COUNT = 60


@pytest.fixture
def outcomes(data_dir, chain):
    """A function that pays a process until a file of its is full; how each payment ended."""

    def paid(fills: str) -> list[str]:
        payments = [v1() for _ in range(COUNT)]
        done = run(fill, str(data_dir), chain.url, payments, fills, cwd=data_dir)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return paid


async def test_ledger_that_cannot_be_written_ends_payments_before_they_are_sent(chain, outcomes):
    assert outcomes("ledger") == ["storage-unavailable"] * 3
    assert await seller_holds(chain) == 0


async def test_database_that_fills_up_ends_payments_and_loses_none(chain, outcomes, open_sqlite_server):
    codes = outcomes("database")
    settled = codes.count("settled")
    assert 0 < settled < COUNT
    assert codes[-1] == "storage-unavailable"
    # One may have been under way when the last server was used.
    moved = await seller_holds(chain) // PRICE
    assert moved - settled <= codes.count("payment-pending") <= 1
    server = await open_sqlite_server()
    await server.x402.recover()
    assert len(await server.ledger.transfers("x402", 0.0)) >= settled
    assert (await reconcile(chain.client, server.ledger)).agrees
