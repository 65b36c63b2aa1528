"""Our encryption is the one of RFC 8439: its test vector, and another implementation."""

import pytest
from Crypto.Cipher import ChaCha20_Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from tollhouse.storage.chacha20_poly1305 import TamperedError, decrypt, encrypt


def test_vector_of_the_standard():
    """RFC 8439, section 2.8.2."""
    plain = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
        b"sunscreen would be it."
    )
    sealed = encrypt(
        bytes(range(0x80, 0xA0)), bytes.fromhex("070000004041424344454647"), plain,
        bytes.fromhex("50515253c0c1c2c3c4c5c6c7"),
    )  # fmt: skip
    assert sealed[:16].hex() == "d31a8d34648e60db7b86afbc53ef7ec2"
    assert sealed[-16:].hex() == "1ae10b594f09e26a7e902ecbd0600691"


@settings(max_examples=40)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=12, max_size=12), st.binary(max_size=200),
       st.binary(max_size=40))  # fmt: skip
def test_texts_of_any_length_are_encrypted_as_elsewhere(key, nonce, plain, associated):
    other = ChaCha20_Poly1305.new(key=key, nonce=nonce)
    other.update(associated)
    text, tag = other.encrypt_and_digest(plain)
    sealed = encrypt(key, nonce, plain, associated)
    assert sealed == text + tag
    assert decrypt(key, nonce, sealed, associated) == plain


@pytest.mark.parametrize("place", range(0, 37, 3))
def test_changed_text_is_refused(place):
    key, nonce = bytes(32), bytes(12)
    sealed = bytearray(encrypt(key, nonce, b"a secret of 21 bytes.", b"row"))
    sealed[place] ^= 1
    with pytest.raises(TamperedError):
        decrypt(key, nonce, bytes(sealed), b"row")
    with pytest.raises(TamperedError):
        decrypt(key, nonce, encrypt(key, nonce, b"a secret", b"row"), b"another row")
