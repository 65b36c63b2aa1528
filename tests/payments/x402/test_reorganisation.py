"""A payment that a reorganisation removes is taken back in the ledger, and entered again when it is mined again."""

import pytest

from tests.payments.x402.buying import bought
from tests.payments.x402.paying import PRICE, decoded, read, v1
from tollhouse.payments.reorganisation import WATCHED_BLOCKS
from tollhouse.payments.x402.reconciliation import PaymentMonitor, reconcile
from tollhouse.payments.x402.store import Attempts


@pytest.fixture
def monitor(sqlite_room, chain):
    return PaymentMonitor(chain.client, sqlite_room.ledger, 8453, Attempts(sqlite_room.database))


async def revenue(room) -> int:
    return (await room.ledger.account("revenue")).balance_micros


async def rounds(monitor, number: int = 2) -> None:
    for _ in range(number):
        await monitor.poll()


async def test_removed_payment_is_taken_back_and_entered_again_when_mined_again(sqlite_room, chain, monitor):
    room, sent = sqlite_room, v1()
    [(_, header)] = await bought(room, sent)
    tx_hash = decoded(header)["transaction"]
    raw = await chain.request("eth_getRawTransactionByHash", tx_hash)
    await rounds(monitor, 3)
    assert await revenue(room) == PRICE
    paid_id = f"x402:{read(sent).payer}:{read(sent).nonce}"
    for turn in ("", ":1"):
        await chain.request("anvil_reorg", 1, [])
        await rounds(monitor)
        assert await revenue(room) == 0
        assert (await room.ledger.find(f"reversal:{paid_id}{turn}")).amount_micros == PRICE
        assert (await reconcile(chain.client, room.ledger)).agrees
        await chain.request("eth_sendRawTransaction", raw)
        await chain.wait_mined(tx_hash)
        await rounds(monitor)
        assert await revenue(room) == PRICE
    found = await reconcile(chain.client, room.ledger)
    assert (found.agrees, found.payments, found.chain_micros) == (True, 1, PRICE)
    assert (await room.ledger.verify()).balanced


async def test_monitors_of_several_processes_take_a_payment_back_once(sqlite_room, chain):
    await bought(sqlite_room, v1())
    monitors = [
        PaymentMonitor(chain.client, sqlite_room.ledger, 8453, Attempts(sqlite_room.database)) for _ in range(3)
    ]
    await chain.request("anvil_reorg", 1, [])
    for _ in range(2):
        for monitor in monitors:
            await monitor.poll()
    assert await revenue(sqlite_room) == 0
    assert len(await sqlite_room.ledger.transfers("reversal", 0.0)) == 1


async def test_payment_is_watched_for_64_blocks(sqlite_room, chain, monitor):
    await bought(sqlite_room, v1())
    await monitor.poll()
    await chain.request("anvil_mine", hex(WATCHED_BLOCKS))
    await monitor.poll()
    assert not monitor._entries
    assert await revenue(sqlite_room) == PRICE
