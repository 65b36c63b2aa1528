import asyncio
import json
import os

import pytest
from eth_abi import encode
from eth_account import Account as Signer
from eth_utils import keccak

from tests.fakes.node import provider
from tests.fakes.website import Reply
from tests.payments.deposits.crediting_client import ALICE, CONFIRMATIONS, GO, TERMS, TREASURY, credit_when_told
from tests.payments.x402.signed_payments import permit, permit_signature, read, upto
from tests.servers.chain import deploy
from tests.servers.processes import ForkedProcess
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.payments.chain.client import ChainClient, Limits
from tollhouse.payments.chain.contracts import call_data, settle_call
from tollhouse.payments.chain.local_chain import ACCOUNTS, MULTICALL3, Account, LocalChain
from tollhouse.payments.deposit_evidence import DepositTerms
from tollhouse.payments.deposits import Deposits, open_deposits

pytestmark = pytest.mark.both_databases

BOB = ACCOUNTS[2]
QUICK = Limits(attempt_seconds=1.0, deadline_seconds=2.5, retry_pause_seconds=0.01, max_failures=1_000)
AT_ONCE = 10


async def sent(chain: LocalChain, micros=2_500_000, sender=ALICE, to=TREASURY.address) -> str:
    """A confirmed transfer."""
    tx_hash = await chain.transfer_usdc(sender, to, micros)
    return await confirmed(chain, tx_hash)


async def confirmed(chain: LocalChain, tx_hash: str) -> str:
    await chain.wait_mined(tx_hash)
    await chain.request("anvil_mine", hex(CONFIRMATIONS - 1))
    return tx_hash


async def credit(chain: LocalChain, ledger, tx_hash: str, wallet=ALICE, terms=TERMS):
    return await Deposits(chain.client, ledger, terms).credit(f"of-{wallet.address}", wallet.address, tx_hash)


async def refused(chain, ledger, tx_hash, wallet=ALICE, code="deposit-invalid", terms=TERMS) -> Problem:
    with pytest.raises(Problem) as raised:
        await credit(chain, ledger, tx_hash, wallet, terms)
    assert raised.value.code == code
    return raised.value


async def reason(chain, ledger, tx_hash, wallet=ALICE, terms=TERMS) -> str:
    problem = await refused(chain, ledger, tx_hash, wallet, terms=terms)
    assert problem.status == 400
    return problem.facts["reason"]


async def balance(ledger, wallet=ALICE) -> int:
    return (await ledger.account(f"agent:of-{wallet.address}")).balance_micros


def batch(calls) -> bytes:
    """One transaction of many calls, none of which may fail."""
    parts = [(target, False, data) for target, data in calls]
    return keccak(text="aggregate3((address,bool,bytes)[])")[:4] + encode(["(address,bool,bytes)[]"], [parts])


def takes(sender, to: str, micros: int):
    return LocalChain.usdc_address, call_data("transferFrom(address,address,uint256)", sender.address, to, micros)


async def allow(chain: LocalChain, *accounts: Account) -> None:
    for account in accounts:
        approval = call_data("approve(address,uint256)", MULTICALL3, 10**12)
        await chain.wait_mined(await chain.send(account, chain.usdc_address, approval))


async def test_deposit_is_credited_to_the_unit(chain, ledger):
    tx_hash = await sent(chain, 2_500_001)
    block = (await chain.client.receipt(tx_hash)).block_number
    credited = await credit(chain, ledger, tx_hash)
    assert (credited.credited_micros, credited.balance_micros) == (2_500_001, 2_500_001)
    assert (credited.tx_hash, credited.block_number, credited.already_credited) == (tx_hash, block, False)
    assert await balance(ledger) == 2_500_001
    assert (await ledger.account("treasury")).balance_micros == -2_500_001
    [transfer] = await ledger.transfers("deposit", 0)
    receipt = await chain.client.receipt(tx_hash)
    assert transfer.id == f"deposit:{tx_hash}:0:0"
    assert transfer.memo == {
        "tx_hash": tx_hash,
        "log_index": 0,
        "block_number": block,
        "block_hash": receipt.block_hash,
        "wallet": ALICE.address.lower(),
    }


async def test_same_deposit_again_gets_the_same_answer(chain, ledger):
    tx_hash = await sent(chain)
    first = await credit(chain, ledger, tx_hash)
    again = await credit(chain, ledger, "0x" + tx_hash[2:].upper())
    assert again.already_credited
    assert (again.credited_micros, again.tx_hash, again.block_number) == (2_500_000, tx_hash, first.block_number)
    assert again.balance_micros == 2_500_000


async def test_same_deposit_ten_times_at_once_is_credited_once(chain, ledger):
    tx_hash = await sent(chain)
    answers = await asyncio.gather(*(credit(chain, ledger, tx_hash) for _ in range(AT_ONCE)))
    assert sorted(answer.already_credited for answer in answers) == [False] + [True] * (AT_ONCE - 1)
    assert {answer.credited_micros for answer in answers} == {2_500_000}
    assert await balance(ledger) == 2_500_000


async def test_same_deposit_in_three_processes_is_credited_once(chain, ledger, database_url, tmp_path):
    tx_hash = await sent(chain)
    logs = [tmp_path / f"log-{number}" for number in range(3)]
    arguments = (database_url, str(tmp_path), chain.url, tx_hash)
    processes = [
        ForkedProcess(credit_when_told, *arguments, log.name, cwd=tmp_path, stdout=log, stderr=log) for log in logs
    ]
    await until(lambda: len([*tmp_path.glob("*.ready")]) == len(processes), 60)
    (tmp_path / GO).touch()
    for process in processes:
        assert await asyncio.to_thread(process.wait, 60) == 0, [log.read_text() for log in logs]
    told = [tuple(json.loads((tmp_path / f"{log.name}.json").read_text())) for log in logs]
    assert sorted(told) == [(False, 2_500_000), (True, 2_500_000), (True, 2_500_000)]
    assert await balance(ledger) == 2_500_000


async def test_several_transfers_in_one_transaction_are_summed(chain, ledger):
    await allow(chain, ALICE)
    calls = [takes(ALICE, TREASURY.address, micros) for micros in (400_000, 300_000, 300_000)]
    tx_hash = await confirmed(chain, await chain.send(BOB, MULTICALL3, batch(calls)))
    assert (await credit(chain, ledger, tx_hash)).credited_micros == 1_000_000
    assert (await credit(chain, ledger, tx_hash)).already_credited
    assert sorted(t.amount_micros for t in await ledger.transfers("deposit", 0)) == [300_000, 300_000, 400_000]


async def test_each_wallet_is_credited_for_its_own_logs(chain, ledger):
    await allow(chain, ALICE, BOB)
    calls = [takes(ALICE, TREASURY.address, 1_500_000), takes(BOB, TREASURY.address, 7_000_000),
             takes(ALICE, BOB.address, 9_000_000)]  # fmt: skip
    tx_hash = await confirmed(chain, await chain.send(ALICE, MULTICALL3, batch(calls)))
    assert (await credit(chain, ledger, tx_hash, BOB)).credited_micros == 7_000_000
    of_alice = await credit(chain, ledger, tx_hash, ALICE)
    assert (of_alice.credited_micros, of_alice.already_credited) == (1_500_000, False)
    assert (await balance(ledger, ALICE), await balance(ledger, BOB)) == (1_500_000, 7_000_000)


async def test_minimum_counts_the_wallets_own_transfers_only(chain, sqlite_ledger):
    await allow(chain, ALICE, BOB)
    calls = [takes(ALICE, TREASURY.address, 999_999), takes(BOB, TREASURY.address, 7_000_000)]
    tx_hash = await confirmed(chain, await chain.send(ALICE, MULTICALL3, batch(calls)))
    assert await reason(chain, sqlite_ledger, tx_hash, ALICE) == "below-minimum"
    assert await reason(chain, sqlite_ledger, tx_hash, ACCOUNTS[3]) == "wrong-sender"


@pytest.mark.parametrize(("micros", "is_enough"), [(999_999, False), (1_000_000, True)])
async def test_minimum_is_one_dollar(chain, sqlite_ledger, micros, is_enough):
    tx_hash = await sent(chain, micros)
    if is_enough:
        assert (await credit(chain, sqlite_ledger, tx_hash)).credited_micros == micros
    else:
        problem = await refused(chain, sqlite_ledger, tx_hash)
        assert (problem.facts["reason"], problem.facts["minimum_usd"]) == ("below-minimum", "1.00")
        assert await balance(sqlite_ledger) == 0


async def test_transfer_to_another_is_no_deposit(chain, sqlite_ledger):
    assert await reason(chain, sqlite_ledger, await sent(chain, to=BOB.address)) == "wrong-recipient"


async def test_foreign_deposit_is_wrong_before_it_is_credited_and_a_conflict_after(chain, ledger):
    tx_hash = await sent(chain, sender=BOB)
    assert await reason(chain, ledger, tx_hash, ALICE) == "wrong-sender"
    await credit(chain, ledger, tx_hash, BOB)
    assert (await refused(chain, ledger, tx_hash, ALICE, "deposit-conflict")).status == 409
    assert (await balance(ledger, ALICE), await balance(ledger, BOB)) == (0, 2_500_000)


async def test_reverted_transaction_is_no_deposit(chain, sqlite_ledger):
    too_much = call_data("transfer(address,uint256)", TREASURY.address, 10**15)
    tx_hash = await confirmed(chain, await chain.send(ALICE, chain.usdc_address, too_much, gas=200_000))
    assert await reason(chain, sqlite_ledger, tx_hash) == "reverted"


async def test_token_that_lies_deposits_nothing(chain, sqlite_ledger):
    liar = await deploy(chain, "LyingToken")
    lie = call_data("pretend(address,address,uint256)", ALICE.address, TREASURY.address, 50_000_000)
    tx_hash = await confirmed(chain, await chain.send(ALICE, liar, lie))
    assert await reason(chain, sqlite_ledger, tx_hash) == "wrong-token"


async def test_lie_beside_a_real_transfer_elsewhere_is_the_wrong_token(chain, sqlite_ledger):
    liar = await deploy(chain, "LyingToken")
    await allow(chain, ALICE)
    lie = call_data("pretend(address,address,uint256)", ALICE.address, TREASURY.address, 50_000_000)
    calls = [(liar, lie), takes(ALICE, BOB.address, 2_000_000)]
    tx_hash = await confirmed(chain, await chain.send(ALICE, MULTICALL3, batch(calls)))
    assert await reason(chain, sqlite_ledger, tx_hash) == "wrong-token"


async def test_lie_beside_a_deposit_adds_nothing(chain, sqlite_ledger):
    liar = await deploy(chain, "LyingToken")
    await allow(chain, ALICE)
    lie = call_data("pretend(address,address,uint256)", ALICE.address, TREASURY.address, 50_000_000)
    calls = [(liar, lie), takes(ALICE, TREASURY.address, 2_000_000), (liar, lie)]
    tx_hash = await confirmed(chain, await chain.send(ALICE, MULTICALL3, batch(calls)))
    assert (await credit(chain, sqlite_ledger, tx_hash)).credited_micros == 2_000_000


async def test_plain_payment_of_the_chains_coin_is_the_wrong_token(chain, sqlite_ledger):
    payment = {"from": ALICE.address, "to": TREASURY.address, "value": hex(10**18)}
    tx_hash = await confirmed(chain, await chain.request("eth_sendTransaction", payment))
    assert await reason(chain, sqlite_ledger, tx_hash) == "wrong-token"


async def test_transfer_of_nothing_is_no_deposit_whoever_makes_it(chain, sqlite_ledger):
    nothing = call_data("transferFrom(address,address,uint256)", ALICE.address, TREASURY.address, 0)
    tx_hash = await confirmed(chain, await chain.send(BOB, chain.usdc_address, nothing))
    await refused(chain, sqlite_ledger, tx_hash, ALICE)
    assert await sqlite_ledger.transfers("deposit", 0) == []


async def test_transfer_of_nothing_beside_a_deposit_adds_nothing(chain, sqlite_ledger):
    await allow(chain, ALICE)
    calls = [takes(ALICE, TREASURY.address, micros) for micros in (0, 2_000_000, 0)]
    tx_hash = await confirmed(chain, await chain.send(ALICE, MULTICALL3, batch(calls)))
    assert (await credit(chain, sqlite_ledger, tx_hash)).credited_micros == 2_000_000
    assert [transfer.id for transfer in await sqlite_ledger.transfers("deposit", 0)] == [f"deposit:{tx_hash}:1:0"]


async def test_treasury_cannot_credit_itself(chain, sqlite_ledger):
    await chain.fund_usdc(TREASURY.address, 5_000_000)
    tx_hash = await sent(chain, 5_000_000, TREASURY, TREASURY.address)
    await refused(chain, sqlite_ledger, tx_hash, TREASURY)
    assert await sqlite_ledger.transfers("deposit", 0) == []


async def test_deposit_waits_for_its_confirmations(chain, sqlite_ledger):
    tx_hash = await chain.transfer_usdc(ALICE, TREASURY.address, 2_000_000)
    await chain.wait_mined(tx_hash)
    for confirmations in range(1, CONFIRMATIONS):
        problem = await refused(chain, sqlite_ledger, tx_hash, code="deposit-pending")
        assert problem.status == 409
        assert problem.facts["confirmations"] == confirmations
        assert int(problem.headers["Retry-After"]) == problem.facts["retry_after_seconds"] >= 1
        await chain.request("anvil_mine")
    assert not (await credit(chain, sqlite_ledger, tx_hash)).already_credited


async def test_unconfirmed_transaction_is_pending_even_if_it_is_no_deposit(chain, sqlite_ledger):
    tx_hash = await chain.transfer_usdc(ALICE, BOB.address, 1)
    await chain.wait_mined(tx_hash)
    await refused(chain, sqlite_ledger, tx_hash, code="deposit-pending")


async def test_waiting_and_dropped_transactions_are_pending(chain, sqlite_ledger):
    await chain.mine_every(0)
    tx_hash = await chain.transfer_usdc(ALICE, TREASURY.address, 2_000_000)
    problem = await refused(chain, sqlite_ledger, tx_hash, code="deposit-pending")
    assert problem.facts["confirmations"] == 0
    await chain.request("anvil_dropTransaction", tx_hash)
    await refused(chain, sqlite_ledger, tx_hash, code="deposit-pending")
    await refused(chain, sqlite_ledger, "0x" + "ab" * 32, code="deposit-pending")


@pytest.mark.parametrize(
    "tx_hash", ["", "0x", "ab" * 32, "0x" + "ab" * 31, "0x" + "ab" * 33, "0x" + "zz" * 32, "0x" + "ab" * 32 + "\n"]
)
async def test_malformed_hash_is_an_invalid_body(chain, sqlite_ledger, tx_hash):
    problem = await refused(chain, sqlite_ledger, tx_hash, code="invalid-body")
    assert (problem.status, problem.facts["parameter"]) == (400, "tx_hash")


async def authorized(chain, micros: int) -> str:
    """A transfer by the wallet's authorization, which another brings to the chain."""
    fields = [("from", "address"), ("to", "address"), ("value", "uint256"), ("validAfter", "uint256"),
              ("validBefore", "uint256"), ("nonce", "bytes32")]  # fmt: skip
    message = {"from": ALICE.address, "to": TREASURY.address, "value": micros, "validAfter": 0,
               "validBefore": 2**40, "nonce": os.urandom(32)}  # fmt: skip
    domain = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": chain.usdc_address}
    types = {"TransferWithAuthorization": [{"name": name, "type": kind} for name, kind in fields]}
    signature = Signer.sign_typed_data(ALICE.private_key, domain, types, message).signature
    kinds = [kind for _, kind in fields] + ["bytes"]
    call = keccak(text=f"transferWithAuthorization({','.join(kinds)})")[:4]
    data = call + encode(kinds, [*message.values(), signature])
    return await confirmed(chain, await chain.send(BOB, chain.usdc_address, data))


async def test_authorized_transfer_is_a_deposit(chain, sqlite_ledger):
    assert (await credit(chain, sqlite_ledger, await authorized(chain, 3_000_000))).credited_micros == 3_000_000


async def test_authorized_transfer_is_no_deposit_where_it_may_have_paid_for_a_call(chain, sqlite_ledger):
    terms = DepositTerms(8453, chain.usdc_address, TREASURY.address, CONFIRMATIONS, takes_authorized=False)
    assert await reason(chain, sqlite_ledger, await authorized(chain, 3_000_000), terms=terms) == "wrong-recipient"
    assert await reason(chain, sqlite_ledger, await permitted(chain, 3_000_000), terms=terms) == "wrong-recipient"
    assert (await credit(chain, sqlite_ledger, await sent(chain), terms=terms)).credited_micros == 2_500_000


async def permitted(chain, amount: int) -> str:
    """A transfer from ALICE to the treasury as a payment of scheme `upto` is settled."""
    await chain.approve_permit2(ALICE)
    parties = {"to": TREASURY.address, "facilitator": BOB.address}
    told = permit({"amount": str(amount + 1)}, parties, **{"from": ALICE.address})
    payment = read(upto(told, permit_signature(told, ALICE.private_key)))
    call = settle_call(payment.authorization, amount, payment.signature)
    return await confirmed(chain, await chain.send(BOB, call.to, call.data))


async def test_node_of_another_chain_credits_nothing(chain, sqlite_ledger):
    tx_hash = await sent(chain)
    terms = DepositTerms(84532, chain.usdc_address, TREASURY.address, CONFIRMATIONS)
    problem = await refused(chain, sqlite_ledger, tx_hash, code="upstream-unavailable", terms=terms)
    assert problem.status == 502


WRONG_HASH = "0x" + "ee" * 32


@pytest.mark.parametrize(
    ("method", "twist"),
    [
        ("eth_getBlockByNumber", lambda _call, block: {**block, "hash": WRONG_HASH}),
        ("eth_getBlockByNumber", lambda _call, _block: None),
        ("eth_getTransactionReceipt", lambda _call, receipt: {
            **receipt, "blockHash": WRONG_HASH, "logs": [{**log, "blockHash": WRONG_HASH} for log in receipt["logs"]],
        }),
        ("eth_blockNumber", lambda _call, _number: "0x1"),
    ],
    ids=["another hash at the height", "no block at the height", "a receipt of another block", "a head that lags"],
)  # fmt: skip
async def test_provider_that_contradicts_itself_credits_nothing(chain, sqlite_ledger, method, twist):
    tx_hash = await sent(chain)
    async with provider(chain.url) as told:
        client = ChainClient(told.url, QUICK)
        told.twists[method] = twist
        with pytest.raises(Problem) as raised:
            await Deposits(client, sqlite_ledger, TERMS).credit("agent", ALICE.address, tx_hash)
        assert raised.value.code == "deposit-pending"
        assert await sqlite_ledger.transfers("deposit", 0) == []
        told.twists.clear()
        credited = await Deposits(client, sqlite_ledger, TERMS).credit("agent", ALICE.address, tx_hash)
        assert credited.credited_micros == 2_500_000
        await client.close()


@pytest.mark.parametrize(
    "broken",
    [
        lambda: Reply(503),
        lambda: Reply(body=b"<html>"),
        lambda: Reply(body=b" " * 10_000_000),
        lambda: Reply(chunks=[b" "] * 1_000, pause_seconds=0.1),
    ],
    ids=["5xx", "garbage", "a huge body", "a slow drip"],
)
async def test_broken_provider_is_502_and_credits_nothing(chain, sqlite_ledger, broken):
    tx_hash = await sent(chain)
    async with provider(chain.url) as told:
        client = ChainClient(told.url, QUICK)
        told.break_with = broken
        with pytest.raises(Problem) as raised:
            await Deposits(client, sqlite_ledger, TERMS).credit("agent", ALICE.address, tx_hash)
        assert (raised.value.status, raised.value.facts["upstream"]) == (502, "chain")
        assert await sqlite_ledger.transfers("deposit", 0) == []
        await client.close()


async def test_settings_say_where_deposits_go(chain, sqlite_ledger):
    settings = Settings(evm_rpc_url=chain.url, treasury_address=TREASURY.address, deposit_confirmations=1)
    tx_hash = await chain.transfer_usdc(ALICE, TREASURY.address, 1_000_000)
    await chain.wait_mined(tx_hash)
    async with open_deposits(settings, sqlite_ledger) as deposits:
        assert (await deposits.credit("agent", ALICE.address, tx_hash)).credited_micros == 1_000_000
    async with open_deposits(Settings(evm_rpc_url=chain.url), sqlite_ledger) as deposits:
        assert deposits is None
