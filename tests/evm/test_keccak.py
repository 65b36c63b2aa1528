import pytest
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.evm import keccak256


@pytest.mark.parametrize(
    ("message", "digest"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
    ],
)
def test_known_messages_have_their_known_hash(message, digest):
    assert keccak256(message).hex() == digest


@given(st.binary(max_size=600))
def test_hash_is_what_ethereum_uses(message):
    assert keccak256(message) == keccak(message)
