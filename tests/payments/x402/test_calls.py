"""Our encoding against eth-abi's."""

import os

import pytest
from eth_abi import encode
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from tests.payments.x402.signed_payments import OTHER, PAYER, REQUIREMENT, authorization, read, signature, v1
from tollhouse.evm import parse_signature
from tollhouse.payments.chain.contracts import (
    MULTICALL3,
    CallResult,
    ContractCall,
    WalletSignature,
    aggregate_calls,
    authorization_state,
    balance_of,
    decode_results,
    revert_text,
    transfer_with_contract_signature,
    transfer_with_eoa_signature,
    unwrap_signature,
)
from tollhouse.payments.x402.verification import plan_settlement

FIELDS = ["address", "address", "uint256", "uint256", "uint256", "bytes32"]
MAGIC = bytes.fromhex("6492" * 16)


def selector(text: str) -> bytes:
    return keccak(text=text)[:4]


def values(payment) -> list:
    paid = payment.authorization
    return [paid.sender, paid.recipient, paid.value, paid.valid_after, paid.valid_before, paid.nonce]


def test_transfer_by_key_is_encoded_as_the_token_reads_it():
    payment = read(v1())
    made = payment.signature
    expected = encode([*FIELDS, "uint8", "bytes32", "bytes32"], [*values(payment), made[64], made[:32], made[32:64]])
    name = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
    found = transfer_with_eoa_signature(payment.authorization, parse_signature(made.hex()))
    assert found == selector(name) + expected


def test_recovery_id_of_0_or_1_is_sent_as_the_token_knows_it():
    told = authorization()
    made = signature(told)
    low = made[:-2] + f"{int(made[-2:], 16) - 27:02x}"
    assert transfer_with_eoa_signature(
        read(v1(told)).authorization, parse_signature(low)
    ) == transfer_with_eoa_signature(read(v1(told)).authorization, parse_signature(made))


@given(st.binary(max_size=200))
def test_transfer_by_anybody_is_encoded_as_contracts_read_them(signed):
    payment = read(v1(signed="0x" + "11" * 65))
    name = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
    expected = selector(name) + encode([*FIELDS, "bytes"], [*values(payment), signed])
    assert transfer_with_contract_signature(payment.authorization, signed) == expected


def test_questions_about_a_holder_are_encoded_as_tokens_read_them():
    sender, nonce = bytes.fromhex(PAYER.address[2:]), os.urandom(32)
    assert balance_of(sender) == selector("balanceOf(address)") + encode(["address"], [sender])
    request = selector("authorizationState(address,bytes32)") + encode(["address", "bytes32"], [sender, nonce])
    assert authorization_state(sender, nonce) == request


@given(st.lists(st.binary(max_size=100), max_size=6))
def test_many_calls_are_encoded_as_multicall3_reads_them(data):
    expected = encode(["(address,bool,bytes)[]"], [[(MULTICALL3, True, one) for one in data]])
    found = aggregate_calls([ContractCall(MULTICALL3, one) for one in data])
    assert found == selector("aggregate3((address,bool,bytes)[])") + expected


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=100)), max_size=6))
def test_answers_of_multicall3_are_read(results):
    answer = encode(["(bool,bytes)[]"], [results])
    assert decode_results(answer, len(results)) == [CallResult(*result) for result in results]
    with pytest.raises(ValueError, match="number of results"):
        decode_results(answer, len(results) + 1)


@given(st.binary(max_size=300))
def test_no_answer_at_all_crashes_the_readers(answer):
    for count in range(3):
        try:
            assert len(decode_results(answer, count)) == count
        except ValueError:
            continue
    assert isinstance(revert_text(selector("Error(string)") + answer), str)
    assert unwrap_signature(answer + MAGIC).signature in answer + MAGIC


def test_reason_of_a_revert_is_read():
    said = selector("Error(string)") + encode(["string"], ["FiatTokenV2: invalid signature"])
    assert revert_text(said) == "FiatTokenV2: invalid signature"
    assert revert_text(b"") == ""
    assert revert_text(selector("Panic(uint256)") + bytes(32)) == ""


def wrapped(factory: str, call: bytes, inner: bytes) -> bytes:
    return encode(["address", "bytes", "bytes"], [factory, call, inner]) + MAGIC


def test_wrapped_signature_is_unwrapped():
    found = unwrap_signature(wrapped(OTHER.address, b"make it", b"signed"))
    assert (found.deployment, found.signature) == (ContractCall(OTHER.address.lower(), b"make it"), b"signed")
    assert unwrap_signature(b"\x11" * 65) == WalletSignature(b"\x11" * 65)


def test_only_allowed_factories_are_called():
    told = authorization()
    payment = read(v1(told, "0x" + wrapped(OTHER.address, b"make it", b"signed").hex()))
    barred = plan_settlement(payment, REQUIREMENT)
    assert (barred.deployment, barred.is_factory_refused) == (None, True)
    allowed = plan_settlement(payment, REQUIREMENT, [OTHER.address.lower()])
    assert (allowed.deployment, allowed.is_factory_refused) == (ContractCall(OTHER.address.lower(), b"make it"), False)
    assert allowed.transfer == barred.transfer
