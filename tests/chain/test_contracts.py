import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from eth_abi import decode, encode
from eth_account import Account as Signer
from eth_utils import keccak

from tests.servers.chain import deploy
from tollhouse.payments.chain.contracts import call_data, token_balance, token_transfer
from tollhouse.payments.chain.local_chain import ACCOUNTS, FILE, MULTICALL3, LocalChain
from tollhouse.payments.chain.replies import ChainRefused

ROOT = Path(__file__).parents[2]
ALICE, BOB, RELAYER = ACCOUNTS[:3]
BASE_DOMAIN = "02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
GAS = 300_000

TERMS = "address,address,uint256,uint256,uint256,bytes32"
FIELDS = [("from", "address"), ("to", "address"), ("value", "uint256"), ("validAfter", "uint256"),
          ("validBefore", "uint256"), ("nonce", "bytes32")]  # fmt: skip


def order(**changes: object) -> dict:
    whole = {"from": ALICE.address, "to": BOB.address, "value": 400_000, "validAfter": 0,
             "validBefore": int(time.time()) + 600, "nonce": os.urandom(32)}  # fmt: skip
    return whole | changes


def signed(message: dict, *, key: str = ALICE.private_key, kind: str = "TransferWithAuthorization", fields=FIELDS):
    types = {kind: [{"name": name, "type": type_} for name, type_ in fields]}
    domain = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": LocalChain.usdc_address}
    return Signer.sign_typed_data(key, domain, types, message).signature


def as_bytes(function: str, message: dict, signature: bytes) -> bytes:
    call = f"{function}({TERMS},bytes)"
    return keccak(text=call)[:4] + encode([*TERMS.split(","), "bytes"], [*message.values(), signature])


def as_vrs(function: str, message: dict, signature: bytes) -> bytes:
    call = f"{function}({TERMS},uint8,bytes32,bytes32)"
    parts = [signature[64], signature[:32], signature[32:64]]
    types = [*TERMS.split(","), "uint8", "bytes32", "bytes32"]
    return keccak(text=call)[:4] + encode(types, [*message.values(), *parts])


async def relayed(chain: LocalChain, data: bytes, sender=RELAYER):
    return await chain.wait_mined(await chain.send(sender, chain.usdc_address, data, gas=GAS))


async def reason(chain: LocalChain, data: bytes, sender=RELAYER) -> str:
    """What the token says when it reverts; the chain's time is brought up to now first."""
    await chain.request("anvil_mine")
    with pytest.raises(ChainRefused) as refused:
        await chain.client.call(chain.usdc_address, data, sender=sender.address)
    assert not (await relayed(chain, data, sender)).is_success
    return decode(["string"], refused.value.data[4:])[0]


@pytest.fixture
async def funded(local_chain):
    await local_chain.fund_usdc(ALICE.address, 1_000_000)
    return local_chain


async def held(chain: LocalChain) -> list[int]:
    return [await token_balance(chain.client, chain.usdc_address, who.address) for who in (ALICE, BOB)]


def test_artefact_is_what_the_sources_compile_to():
    compiler = Path(sys.prefix) / "npm"
    assert (compiler / "node_modules" / "solc").is_dir(), "the compiler is missing: run `make .venv/npm.stamp`"
    made = subprocess.run(
        ["node", ROOT / "contracts" / "compile.mjs", compiler], capture_output=True, text=True, check=True
    )
    assert made.stdout == FILE.read_text("utf-8"), "run `make contracts`"


async def test_domain_is_that_of_usdc_on_base(local_chain):
    found = await local_chain.client.call(local_chain.usdc_address, call_data("DOMAIN_SEPARATOR()"))
    assert found.hex() == BASE_DOMAIN
    described = {}
    for name in ("name", "symbol", "version"):
        answer = await local_chain.client.call(local_chain.usdc_address, call_data(f"{name}()"))
        described[name] = decode(["string"], answer)[0]
    assert described == {"name": "USD Coin", "symbol": "USDC", "version": "2"}
    assert int.from_bytes(await local_chain.client.call(local_chain.usdc_address, call_data("decimals()"))) == 6


@pytest.mark.parametrize("form", [as_bytes, as_vrs])
async def test_authorized_transfer_moves_tokens_once(funded, form):
    message = order()
    data = form("transferWithAuthorization", message, signed(message))
    receipt = await relayed(funded, data)
    assert receipt.is_success
    assert await held(funded) == [600_000, 400_000]
    used = keccak(text="AuthorizationUsed(address,bytes32)").hex()
    assert receipt.logs[0].topics == ("0x" + used, "0x" + ALICE.address[2:].lower().zfill(64),
                                      "0x" + message["nonce"].hex())  # fmt: skip
    assert token_transfer(receipt.logs[1]).amount_micros == 400_000
    assert "used or canceled" in await reason(funded, data)
    assert await held(funded) == [600_000, 400_000]


async def test_state_of_an_authorization_is_told(funded):
    message = order()
    question = keccak(text="authorizationState(address,bytes32)")[:4] + encode(
        ["address", "bytes32"], [ALICE.address, message["nonce"]]
    )
    assert not any(await funded.client.call(funded.usdc_address, question))
    await relayed(funded, as_bytes("transferWithAuthorization", message, signed(message)))
    assert any(await funded.client.call(funded.usdc_address, question))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"validBefore": 1_000_000_000}, "expired"),
        ({"validAfter": 4_000_000_000, "validBefore": 5_000_000_000}, "not yet valid"),
        ({"value": 1_000_001}, "more than the balance"),
        ({"to": "0x" + "00" * 20}, "zero address"),
    ],
)
async def test_authorization_outside_its_terms_moves_nothing(funded, changes, said):
    message = order(**changes)
    assert said in await reason(funded, as_bytes("transferWithAuthorization", message, signed(message)))
    assert await held(funded) == [1_000_000, 0]


def high_s(signature: bytes) -> bytes:
    mirrored = (ORDER - int.from_bytes(signature[32:64])).to_bytes(32)
    return signature[:32] + mirrored + bytes([55 - signature[64]])


@pytest.mark.parametrize(
    "spoil",
    [high_s, lambda s: s[:64], lambda s: s + b"\0", lambda s: s[:64] + b"\0", lambda _: bytes(65), lambda _: b""],
    ids=["high s", "short", "long", "v of 0", "zeros", "empty"],
)
async def test_malformed_signature_is_refused(funded, spoil):
    message = order()
    data = as_bytes("transferWithAuthorization", message, spoil(signed(message)))
    assert "invalid signature" in await reason(funded, data)


async def test_signature_of_another_key_or_for_another_amount_is_refused(funded):
    message = order()
    of_bob = as_vrs("transferWithAuthorization", message, signed(message, key=BOB.private_key))
    of_less = as_vrs("transferWithAuthorization", message, signed(message | {"value": 1}))
    assert "invalid signature" in await reason(funded, of_bob)
    assert "invalid signature" in await reason(funded, of_less)


@pytest.mark.parametrize("form", [as_bytes, as_vrs])
async def test_only_the_payee_receives(funded, form):
    message = order()
    signature = signed(message, kind="ReceiveWithAuthorization")
    data = form("receiveWithAuthorization", message, signature)
    assert "only the payee" in await reason(funded, data, RELAYER)
    assert "invalid signature" in await reason(funded, form("transferWithAuthorization", message, signature))
    assert (await relayed(funded, data, BOB)).is_success
    assert await held(funded) == [600_000, 400_000]


@pytest.mark.parametrize("has_bytes", [True, False])
async def test_cancelled_authorization_never_moves_anything(funded, has_bytes):
    message = order()
    fields = [("authorizer", "address"), ("nonce", "bytes32")]
    what = {"authorizer": ALICE.address, "nonce": message["nonce"]}
    cancel = signed(what, kind="CancelAuthorization", fields=fields)
    types, parts = ("bytes",), (cancel,)
    if not has_bytes:
        types, parts = ("uint8", "bytes32", "bytes32"), (cancel[64], cancel[:32], cancel[32:64])
    call = keccak(text=f"cancelAuthorization(address,bytes32,{','.join(types)})")[:4]
    await relayed(funded, call + encode(["address", "bytes32", *types], [*what.values(), *parts]))
    data = as_bytes("transferWithAuthorization", message, signed(message))
    assert "used or canceled" in await reason(funded, data)


async def test_contract_wallet_pays_with_its_owners_signature(local_chain):
    wallet = await deploy(local_chain, "ContractWallet", ALICE.address)
    await local_chain.fund_usdc(wallet, 1_000_000)
    message = order(**{"from": wallet})
    of_bob = as_bytes("transferWithAuthorization", message, signed(message, key=BOB.private_key))
    assert "invalid signature" in await reason(local_chain, of_bob)
    assert (await relayed(local_chain, as_bytes("transferWithAuthorization", message, signed(message)))).is_success
    assert await token_balance(local_chain.client, local_chain.usdc_address, wallet) == 600_000


async def test_contract_that_knows_no_signatures_pays_nothing(local_chain):
    liar = await deploy(local_chain, "LyingToken")
    await local_chain.fund_usdc(liar, 1_000_000)
    message = order(**{"from": liar})
    assert "invalid signature" in await reason(
        local_chain, as_bytes("transferWithAuthorization", message, signed(message))
    )


async def test_only_the_minter_mints(funded):
    assert "only the minter" in await reason(funded, call_data("mint(address,uint256)", BOB.address, 1), BOB)


async def test_allowance_bounds_what_another_takes(funded):
    await relayed(funded, call_data("approve(address,uint256)", BOB.address, 300_000), ALICE)
    take = "transferFrom(address,address,uint256)"
    assert "allowance" in await reason(funded, call_data(take, ALICE.address, BOB.address, 300_001), BOB)
    assert (await relayed(funded, call_data(take, ALICE.address, BOB.address, 300_000), BOB)).is_success
    assert await held(funded) == [700_000, 300_000]
    assert "allowance" in await reason(funded, call_data(take, ALICE.address, BOB.address, 1), BOB)


def batch(calls: list) -> bytes:
    return keccak(text="aggregate3((address,bool,bytes)[])")[:4] + encode(["(address,bool,bytes)[]"], [calls])


async def test_batch_settles_many_and_tells_which_failed(funded):
    messages = [order(value=100_000), order(value=9_000_000), order(value=200_000)]
    calls = [(funded.usdc_address, True, as_bytes("transferWithAuthorization", m, signed(m))) for m in messages]
    told = await funded.client.call(MULTICALL3, batch(calls))
    assert [success for success, _ in decode(["(bool,bytes)[]"], told)[0]] == [True, False, True]
    assert (await funded.wait_mined(await funded.send(RELAYER, MULTICALL3, batch(calls)))).is_success
    assert await held(funded) == [700_000, 300_000]


async def test_batch_that_allows_no_failure_moves_nothing(funded):
    messages = [order(value=100_000), order(value=9_000_000)]
    calls = [(funded.usdc_address, False, as_bytes("transferWithAuthorization", m, signed(m))) for m in messages]
    await funded.wait_mined(await funded.send(RELAYER, MULTICALL3, batch(calls), gas=1_000_000))
    assert await held(funded) == [1_000_000, 0]


async def test_lying_token_logs_what_never_happened(local_chain):
    liar = await deploy(local_chain, "LyingToken")
    lie = call_data("pretend(address,address,uint256)", ALICE.address, BOB.address, 5_000_000)
    receipt = await local_chain.wait_mined(await local_chain.send(ALICE, liar, lie))
    assert token_transfer(receipt.logs[0]).token == liar
    assert token_transfer(receipt.logs[0]).amount_micros == 5_000_000
    assert await held(local_chain) == [0, 0]
