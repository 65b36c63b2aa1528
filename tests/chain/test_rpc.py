import asyncio
import json
import logging
import socket
from contextlib import asynccontextmanager

import pytest
import structlog
from eth_account import Account as Signer

from tests.fakes.node import provider
from tests.fakes.website import Reply, website
from tests.waiting import stop, until
from tollhouse.payments.chain.client import ChainClient, Limits
from tollhouse.payments.chain.contracts import call_data, token_balance
from tollhouse.payments.chain.local_chain import ACCOUNTS
from tollhouse.payments.chain.replies import ChainRefused, ChainUnavailable

ALICE, BOB = ACCOUNTS[:2]
UNKNOWN = "0x" + "ab" * 32
QUICK = Limits(
    attempt_seconds=1.0, deadline_seconds=2.5, retry_pause_seconds=0.01, body_bytes=65_536, max_failures=1_000
)


def result(value, number=None):
    """Answers every call with the same result, or as the answer to call `number`."""

    def answer(asked) -> Reply:
        call = json.loads(asked.body)
        return Reply(body=json.dumps({"jsonrpc": "2.0", "id": number or call["id"], "result": value}).encode())

    return answer


def failing(code, message="no", data=None):
    def answer(asked) -> Reply:
        error = {"code": code, "message": message, "data": data}
        return Reply(body=json.dumps({"jsonrpc": "2.0", "id": json.loads(asked.body)["id"], "error": error}).encode())

    return answer


@asynccontextmanager
async def client_of(url, limits=QUICK):
    client = ChainClient(url, limits)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def asking(answer, limits=QUICK):
    """A client of a provider that answers so, and what the provider was asked."""
    async with website(answer) as site, client_of(f"{site.url}/v2/secret-token", limits) as client:
        yield client, site.asked


async def test_every_question_is_answered_by_a_real_node(local_chain):
    client = local_chain.client
    await local_chain.fund_usdc(ALICE.address, 2_000_000)
    tx_hash = await local_chain.transfer_usdc(ALICE, BOB.address, 500_000)
    receipt = await local_chain.wait_mined(tx_hash)
    block = await client.block(receipt.block_number)
    assert (block.hash, await client.block(block.hash)) == (receipt.block_hash, block)
    assert await client.block() == block
    assert await client.block(10**9) is None
    assert await client.block(UNKNOWN) is None
    assert (await client.transaction(tx_hash)).sender == ALICE.address.lower()
    assert await client.transaction(UNKNOWN) is None
    assert await client.receipts([UNKNOWN, tx_hash]) == [None, receipt]
    assert await client.blocks([block.number, 10**9]) == [block, None]
    logs = await client.logs(local_chain.usdc_address, [receipt.logs[0].topics[0]], block.number, block.number)
    assert logs == list(receipt.logs)
    assert await client.transaction_count(ALICE.address) == 1
    assert await client.transaction_count(BOB.address) == 0
    assert len(await client.code(local_chain.usdc_address)) > 1_000
    assert await client.code(ALICE.address) == b""
    transfer = "0x" + call_data("transfer(address,uint256)", BOB.address, 1).hex()
    asked = {"from": ALICE.address, "to": local_chain.usdc_address, "data": transfer}
    assert 21_000 < await client.estimate_gas(asked) < 100_000


async def test_signed_transaction_is_sent_once_and_refused_the_second_time(local_chain):
    fields = {"to": BOB.address, "value": 1, "gas": 21_000, "nonce": 0, "chainId": 8453, "maxFeePerGas": 10**10,
              "maxPriorityFeePerGas": 1}  # fmt: skip
    signed = Signer.sign_transaction(fields, ALICE.private_key)
    tx_hash = await local_chain.client.send_raw_transaction(signed.raw_transaction)
    assert tx_hash == "0x" + signed.hash.hex().removeprefix("0x")
    assert (await local_chain.wait_mined(tx_hash)).is_success
    with pytest.raises(ChainRefused, match="nonce"):
        await local_chain.client.send_raw_transaction(signed.raw_transaction)


async def test_reverting_call_is_refused_with_what_it_returned(local_chain):
    with pytest.raises(ChainRefused) as refused:
        await local_chain.client.call(
            local_chain.usdc_address, call_data("transfer(address,uint256)", BOB.address, 1), sender=ALICE.address
        )
    assert b"more than the balance" in refused.value.data


async def test_balance_of_what_is_no_token_is_unavailable(local_chain):
    with pytest.raises(ChainUnavailable):
        await token_balance(local_chain.client, BOB.address, ALICE.address)


BROKEN = {
    "status 500": lambda _: Reply(500, b"oops"),
    "status 429": lambda _: Reply(429, b"{}"),
    "status 401": lambda _: Reply(401, b"{}"),
    "redirect": lambda _: Reply(302, headers={"Location": "http://127.0.0.1:9/"}),
    "no JSON": lambda _: Reply(body=b"<html>Welcome</html>"),
    "empty": lambda _: Reply(),
    "no UTF-8": lambda _: Reply(body=b'{"id":1,"result":"\xff"}'),
    "deep": lambda _: Reply(body=b'{"id":1,"result":' + b"[" * 60_000),
    "a list": lambda _: Reply(body=b"[]"),
    "another's answer": result("0x1", number=10**6),
    "no result": lambda asked: Reply(body=json.dumps({"id": json.loads(asked.body)["id"]}).encode()),
    "a null": result(None),
    "a number": result(7),
    "no hex": result("0xzz"),
    "a newline": result("0x1\n"),
    "too long a number": result("0x" + "1" * 65),
    "busy": failing(-32005),
    "no such method": failing(-32601),
    "refused": failing(-32000),
    "odd error": lambda asked: Reply(body=json.dumps({"id": json.loads(asked.body)["id"], "error": "no"}).encode()),
    "huge": lambda _: Reply(body=b" " * 70_000),
    "huge in pieces": lambda _: Reply(chunks=[b" " * 10_000] * 10),
    "packed": lambda _: Reply(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
    "slow drip": lambda _: Reply(chunks=[b" "] * 1_000, pause_seconds=0.05),
    "cut off": lambda _: Reply(body=b'{"id"', headers={"Content-Length": "50"}),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_broken_provider_is_unavailable_and_never_named(answer, caplog):
    caplog.set_level(logging.DEBUG)
    async with asking(answer) as (client, _):
        with pytest.raises(ChainUnavailable) as failed:
            await client.block_number()
    problem = failed.value
    assert (problem.code, problem.status, problem.facts["upstream"]) == ("upstream-unavailable", 502, "chain")
    assert "secret-token" not in f"{problem} {problem.failure} {problem.__cause__} {problem.__context__}"


async def test_address_of_the_provider_is_in_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    async with asking(lambda _: Reply(500)) as (client, _):
        with structlog.testing.capture_logs() as told, pytest.raises(ChainUnavailable):
            await client.block_number()
    assert [one["failure"] for one in told] == ["status 500"] * 3
    assert "secret-token" not in f"{told}{caplog.text}"


async def test_node_that_is_not_there_is_unavailable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with client_of(f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            with pytest.raises(ChainUnavailable):
                await client.chain_id()


@pytest.mark.parametrize("url", ["http://", "ftp://127.0.0.1", "http://127.0.0.1:99999", "http://[", "nonsense"])
async def test_malformed_address_is_unavailable(url):
    async with client_of(url) as client:
        with pytest.raises(ChainUnavailable):
            await client.chain_id()


async def test_question_is_repeated_until_it_is_answered():
    replies = iter([Reply(500), Reply(body=b"nonsense")])
    async with asking(lambda asked: next(replies, None) or result("0x2105")(asked)) as (client, asked):
        assert await client.chain_id() == 8453
        assert len(asked) == 3


async def test_command_is_said_once_even_when_nobody_answers():
    async with asking(lambda _: Reply(500)) as (client, asked):
        with pytest.raises(ChainUnavailable):
            await client.send_raw_transaction(b"\x02")
        assert len(asked) == 1


async def test_all_attempts_together_end_by_the_deadline():
    limits = Limits(attempt_seconds=5, deadline_seconds=0.3)
    async with asking(BROKEN["slow drip"], limits) as (client, asked):
        async with asyncio.timeout(30):
            with pytest.raises(ChainUnavailable):
                await client.block_number()
        assert len(asked) == 1


async def test_refusal_told_with_status_400_is_a_refusal():
    body = failing(-32000, "nonce too low")
    async with asking(lambda asked: Reply(400, body(asked).body)) as (client, _):
        with pytest.raises(ChainRefused, match="nonce too low"):
            await client.send_raw_transaction(b"\x02")


async def test_circuit_opens_after_failures_and_one_probe_closes_it():
    is_well = False
    limits = Limits(attempt_seconds=1, max_attempts=1, max_failures=3, open_seconds=1.0)

    def answer(asked) -> Reply:
        return result("0x1")(asked) if is_well else Reply(503)

    async with asking(answer, limits) as (client, asked):
        for _ in range(6):
            with pytest.raises(ChainUnavailable):
                await client.chain_id()
        assert len(asked) == 3
        await asyncio.sleep(1.1)
        with pytest.raises(ChainUnavailable):
            await client.chain_id()
        assert len(asked) == 4
        is_well = True
        await asyncio.sleep(1.1)
        at_once = await asyncio.gather(*(client.chain_id() for _ in range(5)), return_exceptions=True)
        assert [one for one in at_once if one == 1] == [1]
        assert len(asked) == 5
        assert await client.chain_id() == 1


async def test_question_gives_up_when_the_circuit_opens_and_says_so_once():
    limits = Limits(attempt_seconds=1, max_attempts=10, max_failures=2, open_seconds=60, retry_pause_seconds=0.01)
    async with asking(lambda _: Reply(503), limits) as (client, asked):
        with structlog.testing.capture_logs() as told:
            for _ in range(5):
                with pytest.raises(ChainUnavailable):
                    await client.chain_id()
        assert len(asked) == len(told) == 2


async def test_refusal_does_not_open_the_circuit():
    limits = Limits(max_attempts=1, max_failures=2, open_seconds=60)
    async with asking(failing(3, "execution reverted", "0x1234"), limits) as (client, asked):
        for _ in range(4):
            with pytest.raises(ChainRefused) as refused:
                await client.call(BOB.address, b"")
        assert refused.value.data == b"\x12\x34"
        assert len(asked) == 4


async def test_cancelled_probe_leaves_the_next_one_to_another_call():
    replies = iter([Reply(503), Reply(chunks=[b" "] * 100, pause_seconds=0.1)])
    limits = Limits(max_attempts=1, max_failures=1, open_seconds=0.05)
    async with asking(lambda asked: next(replies, None) or result("0x5")(asked), limits) as (client, asked):
        with pytest.raises(ChainUnavailable):
            await client.chain_id()
        await asyncio.sleep(0.1)
        probe = asyncio.create_task(client.chain_id())
        await until(lambda: len(asked) == 2)
        await stop(probe)
        assert probe.cancelled()
        assert await client.chain_id() == 5


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answers: answers[:-1],
        lambda answers: [*answers, answers[0]],
        lambda answers: [answers[0]] * len(answers),
        lambda answers: answers[0],
        lambda answers: [{**answers[0], "error": {"code": 1, "message": "no"}}, *answers[1:]],
    ],
    ids=["one missing", "one too many", "one for all", "no list", "one refused"],
)
async def test_batch_that_is_not_answered_whole_is_unavailable(spoil):
    def answer(asked) -> Reply:
        whole = [{"id": call["id"], "result": None} for call in json.loads(asked.body)]
        return Reply(body=json.dumps(spoil(whole)).encode())

    async with asking(answer) as (client, _):
        with pytest.raises(ChainUnavailable):
            await client.receipts([UNKNOWN, "0x" + "cd" * 32])


async def test_batch_in_another_order_is_put_right(local_chain):
    def answer(asked) -> Reply:
        calls = json.loads(asked.body)
        blocks = [{"number": call["params"][0], "hash": UNKNOWN, "parentHash": UNKNOWN, "timestamp": "0x1"}
                  for call in calls]  # fmt: skip
        answers = [{"id": call["id"], "result": block} for call, block in zip(calls, blocks, strict=True)]
        return Reply(body=json.dumps(answers[::-1]).encode())

    async with asking(answer) as (client, _):
        assert [block.number for block in await client.blocks([5, 6, 7])] == [5, 6, 7]


async def test_many_questions_go_in_batches_of_fifty(local_chain):
    async with provider(local_chain.url) as told, client_of(told.url, Limits()) as client:
        assert await client.receipts([f"0x{number:064x}" for number in range(120)]) == [None] * 120
        assert len(told.methods) == 120


LIES = {
    "another transaction": lambda receipt: {**receipt, "transactionHash": UNKNOWN},
    "a log of another block": lambda receipt: {**receipt, "blockHash": UNKNOWN},
    "the same log twice": lambda receipt: {**receipt, "logs": receipt["logs"] * 2},
    "reverted with logs": lambda receipt: {**receipt, "status": "0x0"},
    "unknown status": lambda receipt: {**receipt, "status": "0x7"},
    "no status": lambda receipt: {key: value for key, value in receipt.items() if key != "status"},
    "half an address": lambda receipt: {**receipt, "logs": [{**receipt["logs"][0], "address": "0x12"}]},
    "five topics": lambda receipt: {**receipt, "logs": [{**receipt["logs"][0], "topics": [UNKNOWN] * 5}]},
    "half a byte": lambda receipt: {**receipt, "logs": [{**receipt["logs"][0], "data": "0x123"}]},
    "a text": lambda _receipt: "0x",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_receipt_that_contradicts_itself_is_unavailable(local_chain, lie):
    await local_chain.fund_usdc(ALICE.address, 5)
    tx_hash = await local_chain.transfer_usdc(ALICE, BOB.address, 5)
    await local_chain.wait_mined(tx_hash)
    async with provider(local_chain.url) as told, client_of(told.url) as client:
        assert (await client.receipt(tx_hash)).is_success
        told.twists["eth_getTransactionReceipt"] = lambda _call, receipt: lie(receipt)
        with pytest.raises(ChainUnavailable):
            await client.receipt(tx_hash)


async def test_block_or_transaction_that_was_not_asked_for_is_unavailable(local_chain):
    await local_chain.request("anvil_mine", hex(3))
    async with provider(local_chain.url) as told, client_of(told.url) as client:
        for method in ("eth_getBlockByNumber", "eth_getBlockByHash", "eth_getTransactionByHash"):
            told.twists[method] = lambda _call, _block: {
                "number": "0x1", "hash": "0x" + "ef" * 32, "parentHash": UNKNOWN, "timestamp": "0x1",
                "from": ALICE.address, "nonce": "0x0",
            }  # fmt: skip
        for question in (client.block(2), client.block(UNKNOWN), client.transaction(UNKNOWN)):
            with pytest.raises(ChainUnavailable):
                await question
