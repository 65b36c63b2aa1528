"""Transactions byte for byte as eth-account makes them, and a key that shows itself nowhere."""

import pytest
import rlp as reference
from eth_account import Account as Signer
from hypothesis import given
from hypothesis import strategies as some

from tollhouse.evm import rlp
from tollhouse.payments.chain.local_chain import ACCOUNTS
from tollhouse.payments.chain.replies import FeeHistory
from tollhouse.payments.x402.settlement.transactions import (
    MAX_TIP,
    MIN_TIP,
    Fees,
    TransactionRequest,
    Wallet,
    bump_fees,
    fee_quote,
    replacement_fees,
)

ACCOUNT = ACCOUNTS[4]
NUMBERS = some.integers(0, 2**96)
ITEMS = some.recursive(some.binary(max_size=80), lambda parts: some.lists(parts, max_size=6), max_leaves=30)


@given(ITEMS)
def test_bytes_and_lists_are_written_as_the_reference_does(item):
    assert rlp(item) == reference.encode(item)


@given(NUMBERS)
def test_numbers_are_written_as_the_reference_does(number):
    assert rlp(number) == reference.encode(number)


@given(NUMBERS, some.integers(0, 2**64 - 1), some.binary(max_size=300), some.integers(1, 2**32))
def test_transaction_is_signed_as_eth_account_does(wei, nonce, call, chain_id):
    told = {"type": 2, "chainId": chain_id, "nonce": nonce, "maxFeePerGas": wei, "maxPriorityFeePerGas": wei // 2,
            "gas": 150_000, "to": ACCOUNTS[1].address, "value": 0, "data": call, "accessList": []}  # fmt: skip
    expected = Signer.sign_transaction(told, ACCOUNT.private_key)
    request = TransactionRequest(ACCOUNTS[1].address, call, 150_000)
    made = Wallet(ACCOUNT.private_key).sign(chain_id, nonce, Fees(wei, wei // 2), request)
    assert (made.raw, made.hash) == (bytes(expected.raw_transaction), expected.hash.to_0x_hex())


def test_wallet_has_the_address_of_its_key():
    assert Wallet(ACCOUNT.private_key).address == ACCOUNT.address
    assert Wallet(ACCOUNT.private_key.removeprefix("0x")).address == ACCOUNT.address


def test_wallet_shows_its_address_and_not_its_key():
    shown = f"{Wallet(ACCOUNT.private_key)!r} {Wallet(ACCOUNT.private_key)}"
    assert ACCOUNT.address in shown
    assert ACCOUNT.private_key[2:10] not in shown


@pytest.mark.parametrize("text", ["", "0x12", "secret-words", "0x" + "00" * 32, "ff" * 32, "é" * 64])
def test_what_is_no_key_is_refused_without_repeating_it(text):
    with pytest.raises(ValueError, match="private key") as caught:
        Wallet(text)
    assert text == "" or text not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_quote_leaves_room_for_six_full_blocks():
    quote = fee_quote(FeeHistory((10**9, 10**9), ((2 * 10**6,), (3 * 10**6,), (10**9,))))
    assert quote == Fees(2 * 10**9 + 3 * 10**6, 3 * 10**6)
    assert quote.max_fee >= 10**9 * 1.125**5


@pytest.mark.parametrize(("base_fee", "most"), [(10**7, MAX_TIP), (30 * 10**9, 30 * 10**9)])
def test_tip_stays_within_its_bound_whatever_others_offer_or_a_node_says(base_fee, most):
    absurd = ((10**15,), (10**16,), (10**17,))
    assert fee_quote(FeeHistory((base_fee,), absurd)) == Fees(2 * base_fee + most, most)


def test_quote_on_a_chain_without_tips_offers_the_least():
    assert fee_quote(FeeHistory((7,), ())) == Fees(14 + MIN_TIP, MIN_TIP)


@given(some.integers(0, 10**12), some.integers(0, 10**12))
def test_rise_is_at_least_a_tenth(max_fee, tip):
    more = bump_fees(Fees(max_fee, tip))
    assert more.max_fee * 10 >= max_fee * 11
    assert more.tip * 10 >= tip * 11
    assert more.tip > tip


def test_replacement_follows_the_market_and_stops_where_it_is_absurd():
    quote, highest = Fees(1_000, 100), 100_000
    assert replacement_fees(Fees(100, 10), quote, highest) == quote
    assert replacement_fees(Fees(10_000, 100), quote, highest) == Fees(11_251, 113)
    assert replacement_fees(Fees(20_000, 100), quote, highest) is None
    assert replacement_fees(Fees(10_000, 100), quote, 11_250) is None
