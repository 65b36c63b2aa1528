"""Attacks on deposits: claimed by others, claimed twice, claimed at once, and made of nothing."""

import secrets

from tests.attacks.attack import attack
from tests.attacks.target import PAGE_MICROS, TREASURY, Target, first
from tollhouse.payments.chain.contracts import call_data
from tollhouse.payments.chain.local_chain import MINTER, load_contracts

DOLLAR = 1_000_000


@attack("deposits", 10)
async def deposit_is_credited_only_to_the_wallet_that_sent_it(target: Target) -> None:
    owner, thief = await target.payer(5 * DOLLAR), await target.wallet(0)
    assert (await target.post("/api/agent/register", {"wallet_address": owner.address})).status == 200
    tx_hash = await target.chain.transfer_usdc(owner.address, TREASURY.address, 5 * DOLLAR)
    await target.chain.wait_mined(tx_hash)
    for process in range(4):
        answer = await target.deposit(thief.address, tx_hash, process=process)
        assert (answer.status, answer.json["reason"]) == (400, "wrong-sender"), answer
    assert (await target.deposit(owner.address, tx_hash)).json["credited_usd"] == "5.00"
    for process in range(4):
        assert (await target.deposit(thief.address, tx_hash, process=process)).status == 409
    assert await target.credit(thief) == 0


@attack("deposits", 20)
async def deposit_raced_from_many_connections_is_credited_once(target: Target) -> None:
    owner = await target.payer(5 * DOLLAR)
    assert (await target.post("/api/agent/register", {"wallet_address": owner.address})).status == 200
    tx_hash = await target.chain.transfer_usdc(owner.address, TREASURY.address, 3 * DOLLAR)
    await target.chain.wait_mined(tx_hash)
    spelled = [tx_hash, "0x" + tx_hash[2:].upper()]
    answers = await target.at_once(
        target.deposit([owner.address, owner.address.lower()][number % 2], spelled[number // 2 % 2], process=number)
        for number in range(20)
    )
    assert {answer.status for answer in answers} == {200}
    assert sum(not answer.json["already_credited"] for answer in answers) == 1
    assert {answer.json["balance_usd"] for answer in answers} == {"3.00"}


@attack("deposits", 6)
async def transfer_that_is_no_deposit_is_not_credited(target: Target) -> None:
    owner, chain = await target.payer(5 * DOLLAR), target.chain
    assert (await target.post("/api/agent/register", {"wallet_address": owner.address})).status == 200
    token = "0x" + secrets.token_hex(20)
    await chain.request("anvil_setCode", token, load_contracts()["TestDollar"].runtime)
    await chain.request("anvil_setStorageAt", token, "0x0", "0x" + MINTER.address[2:].lower().zfill(64))
    await chain.wait_mined(await chain.send(MINTER, token, call_data("mint(address,uint256)", owner.address, DOLLAR)))
    of_other_token = call_data("transfer(address,uint256)", TREASURY.address, DOLLAR)
    too_much = call_data("transfer(address,uint256)", TREASURY.address, 500 * DOLLAR)
    sent = {
        "wrong-token": await chain.send(owner.address, token, of_other_token),
        "wrong-recipient": await chain.transfer_usdc(owner.address, MINTER.address, DOLLAR),
        "below-minimum": await chain.transfer_usdc(owner.address, TREASURY.address, DOLLAR - 1),
        "reverted": await chain.send(owner.address, chain.usdc_address, too_much, gas=200_000),
    }
    for reason, tx_hash in sent.items():
        await chain.wait_mined(tx_hash)
        answer = await target.deposit(owner.address, tx_hash)
        assert (answer.status, answer.json["reason"]) == (400, reason), (reason, answer.body)
    balance = await target.send(f"/api/agent/balance?wallet_address={owner.address}")
    assert balance.json["balance_usd"] == "0.00"


@attack("deposits", 3)
async def payment_for_a_request_is_no_deposit(target: Target) -> None:
    payer = await target.payer(2 * DOLLAR)
    assert (await target.post("/api/agent/register", {"wallet_address": payer.address})).status == 200
    assert (await target.send(headers=first(payer))).status == 200
    paid = [transfer for transfer in await target.payments_booked() if payer.address.lower() in transfer.id]
    assert [transfer.amount_micros for transfer in paid] == [PAGE_MICROS]
    assert paid[0].memo is not None
    answer = await target.deposit(payer.address, paid[0].memo["tx_hash"])
    assert (answer.status, answer.json["reason"]) == (400, "wrong-recipient"), answer


@attack("deposits", 30)
async def malformed_claim_of_a_deposit_is_refused(target: Target) -> None:
    wallet = await target.wallet(0)
    good = "0x" + secrets.token_hex(32)
    hashes = ["", "0x", good[:-1], good + "0", good[2:], "0x" + "zz" * 32, 7, None, [good], {"hash": good}, True,
              good + "\n",
              good + "\x00", "0X" + good[2:], " " + good, "0x" + "\uff11" * 64, "0x" + "ab" * 5_000]  # fmt: skip
    for tx_hash in hashes:
        assert (await target.deposit(wallet.address, tx_hash)).status == 400, tx_hash
    for address in ("", "0x", "me", None, 7, wallet.address[:-1], wallet.address[:2] + wallet.address[2:].swapcase()):
        answer = await target.post("/api/agent/deposit", {"wallet_address": address, "tx_hash": good})
        assert answer.status == 400, (address, answer)
    for changed in ({"amount": "9"}, {"credited_usd": "9"}, {"agent_id": "agent_1"}, {"wallet": wallet.address}):
        claimed = {"wallet_address": wallet.address, "tx_hash": good} | changed
        assert (await target.post("/api/agent/deposit", claimed)).status == 400
    assert (await target.deposit(wallet.address, good)).code == "deposit-pending"
    assert (await target.deposit("0x" + "12" * 20, good)).status == 404
    assert await target.credit(wallet) == 0
