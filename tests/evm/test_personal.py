from eth_account.messages import _hash_eip191_message, encode_defunct
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.evm import personal_digest


def test_known_message_has_its_known_digest():
    # The digest that the documentation of eth_sign shows for "Hello World".
    expected = "a1de988600a42c4b4ab089b619297c17d53cffae5d5120d82d8a92d0bb3b78f2"
    assert personal_digest(b"Hello World").hex() == expected


@given(st.binary(max_size=1_200))
def test_digest_is_what_wallets_sign(message):
    assert personal_digest(message) == _hash_eip191_message(encode_defunct(message))
