"""A payment that a reorganisation removes is taken back in the ledger, and entered again when it is mined again."""

import pytest

from tests.payments.x402.purchases import bought
from tests.payments.x402.signed_payments import PRICE, decoded, read, upto, v1
from tollhouse.payments.reorganisation import WATCHED_BLOCKS
from tollhouse.payments.x402.reconciliation import PaymentMonitor, reconcile
from tollhouse.payments.x402.store import Attempts


@pytest.fixture
def monitor(sqlite_server, chain):
    return PaymentMonitor(chain.client, sqlite_server.ledger, 8453, Attempts(sqlite_server.database))


async def revenue(server) -> int:
    return (await server.ledger.account("revenue")).balance_micros


async def rounds(monitor, number: int = 2) -> None:
    for _ in range(number):
        await monitor.poll()


@pytest.mark.parametrize("make", [v1, upto])
async def test_removed_payment_is_taken_back_and_entered_again_when_mined_again(sqlite_server, chain, monitor, make):
    server, sent = sqlite_server, make()
    [(_, header)] = await bought(server, sent)
    tx_hash = decoded(header)["transaction"]
    raw = await chain.request("eth_getRawTransactionByHash", tx_hash)
    await rounds(monitor, 3)
    assert await revenue(server) == PRICE
    paid_id = f"x402:{read(sent).payer}:{read(sent).nonce}"
    for turn in ("", ":1"):
        await chain.request("anvil_reorg", 1, [])
        await rounds(monitor)
        assert await revenue(server) == 0
        assert (await server.ledger.find(f"reversal:{paid_id}{turn}")).amount_micros == PRICE
        assert (await reconcile(chain.client, server.ledger)).agrees
        await chain.request("eth_sendRawTransaction", raw)
        await chain.wait_mined(tx_hash)
        await rounds(monitor)
        assert await revenue(server) == PRICE
    found = await reconcile(chain.client, server.ledger)
    assert (found.agrees, found.payments, found.chain_micros) == (True, 1, PRICE)
    assert (await server.ledger.verify()).balanced


async def test_monitors_of_several_processes_take_a_payment_back_once(sqlite_server, chain):
    await bought(sqlite_server, v1())
    monitors = [
        PaymentMonitor(chain.client, sqlite_server.ledger, 8453, Attempts(sqlite_server.database)) for _ in range(3)
    ]
    await chain.request("anvil_reorg", 1, [])
    for _ in range(2):
        for monitor in monitors:
            await monitor.poll()
    assert await revenue(sqlite_server) == 0
    assert len(await sqlite_server.ledger.transfers("reversal", 0.0)) == 1


async def test_payment_is_watched_for_64_blocks(sqlite_server, chain, monitor):
    await bought(sqlite_server, v1())
    await monitor.poll()
    await chain.request("anvil_mine", hex(WATCHED_BLOCKS))
    await monitor.poll()
    assert not monitor._entries
    assert await revenue(sqlite_server) == PRICE
