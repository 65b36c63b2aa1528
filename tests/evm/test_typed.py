import msgspec
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.evm import (
    Domain,
    TransferWithAuthorization,
    domain_separator,
    parse_address,
    parse_signature,
    recover,
    transfer_digest,
)

USDC_ON_BASE = Domain("USD Coin", "2", 8453, parse_address("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913").raw)
TRANSFER = TransferWithAuthorization(bytes(range(20)), bytes(range(20, 40)), 1_000, 0, 1_900_000_000, bytes(range(32)))

FIELDS = {
    "from": "address",
    "to": "address",
    "value": "uint256",
    "validAfter": "uint256",
    "validBefore": "uint256",
    "nonce": "bytes32",
}

addresses = st.binary(min_size=20, max_size=20)
numbers = st.integers(0, 2**256 - 1)
domains = st.builds(Domain, st.text(max_size=40), st.text(max_size=8), numbers, addresses)
transfers = st.builds(
    TransferWithAuthorization, addresses, addresses, numbers, numbers, numbers, st.binary(min_size=32, max_size=32)
)


def test_separator_of_usdc_on_base_is_the_one_on_the_chain():
    expected = "02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"
    assert domain_separator(USDC_ON_BASE).hex() == expected


@given(domains, transfers, st.integers(1, 2**200).map(lambda number: number.to_bytes(32, "big")))
def test_digest_is_what_wallets_sign(domain, transfer, key):
    account = Account.from_key(key)
    signed = account.sign_message(as_a_wallet_is_asked(domain, transfer))
    digest = transfer_digest(domain, transfer)
    assert bytes(signed.message_hash) == digest
    signature = parse_signature(signed.signature.to_0x_hex())
    assert recover(digest, signature) == parse_address(account.address).raw


def as_a_wallet_is_asked(domain, transfer):
    return encode_typed_data(
        domain_data={
            "name": domain.name,
            "version": domain.version,
            "chainId": domain.chain_id,
            "verifyingContract": to_checksum_address(domain.verifying_contract),
        },
        message_types={"TransferWithAuthorization": [{"name": name, "type": type_} for name, type_ in FIELDS.items()]},
        message_data={
            "from": to_checksum_address(transfer.sender),
            "to": to_checksum_address(transfer.recipient),
            "value": transfer.value,
            "validAfter": transfer.valid_after,
            "validBefore": transfer.valid_before,
            "nonce": transfer.nonce,
        },
    )


@pytest.mark.parametrize(
    "change",
    [
        {"sender": bytes(20)},
        {"recipient": bytes(20)},
        {"value": 1_001},
        {"valid_after": 1},
        {"valid_before": 1_900_000_001},
        {"nonce": bytes(32)},
    ],
)
def test_every_field_is_signed(change):
    changed = msgspec.structs.replace(TRANSFER, **change)
    assert transfer_digest(USDC_ON_BASE, changed) != transfer_digest(USDC_ON_BASE, TRANSFER)


@pytest.mark.parametrize(
    "change", [{"name": "USDC"}, {"version": "1"}, {"chain_id": 84532}, {"verifying_contract": bytes(20)}]
)
def test_signature_is_good_for_one_token_on_one_chain(change):
    elsewhere = msgspec.structs.replace(USDC_ON_BASE, **change)
    assert transfer_digest(elsewhere, TRANSFER) != transfer_digest(USDC_ON_BASE, TRANSFER)


@pytest.mark.parametrize(
    "change",
    [
        {"sender": bytes(19)},
        {"recipient": bytes(21)},
        {"value": -1},
        {"value": 2**256},
        {"valid_after": -1},
        {"valid_before": 2**256},
        {"nonce": bytes(31)},
        {"nonce": bytes(33)},
    ],
)
def test_transfer_that_does_not_fit_is_refused(change):
    with pytest.raises(ValueError, match=r"bytes, not|must be between"):
        msgspec.structs.replace(TRANSFER, **change)


@pytest.mark.parametrize("change", [{"chain_id": -1}, {"chain_id": 2**256}, {"verifying_contract": b""}])
def test_domain_that_does_not_fit_is_refused(change):
    with pytest.raises(ValueError, match=r"bytes, not|must be between"):
        msgspec.structs.replace(USDC_ON_BASE, **change)
