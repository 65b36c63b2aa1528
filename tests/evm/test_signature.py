import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.evm import ORDER, address_of, parse_address, parse_signature, personal_digest, recover

keys = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))

KEY = bytes.fromhex("4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318")
MESSAGE = b"service:/feeds/defense-brief:00112233445566778899aabbccddeeff"
SIGNED = Account.sign_message(encode_defunct(MESSAGE), KEY)


def written(r=SIGNED.r, s=SIGNED.s, v=SIGNED.v):
    return f"0x{r:064x}{s:064x}{v:02x}"


def signer(text, message=MESSAGE):
    return recover(personal_digest(message), parse_signature(text))


@given(keys, st.binary(max_size=300))
def test_signer_is_the_one_that_wallets_name(key, message):
    account = Account.from_key(key)
    signed = account.sign_message(encode_defunct(message))
    text = signed.signature.to_0x_hex()
    assert bytes(signed.message_hash) == personal_digest(message)
    assert signer(text, message) == parse_address(account.address).raw
    assert signer(text, message) == parse_address(Account.recover_message(encode_defunct(message), signature=text)).raw


@given(keys, st.binary(max_size=60), st.binary(max_size=60))
def test_signature_of_one_message_says_nothing_of_another(key, message, other):
    account = Account.from_key(key)
    text = account.sign_message(encode_defunct(message)).signature.to_0x_hex()
    named = recovered_or_none(personal_digest(other), text)
    assert (named == parse_address(account.address).raw) == (message == other)


def recovered_or_none(digest, text):
    try:
        return recover(digest, parse_signature(text))
    except ValueError:
        return None


@pytest.mark.parametrize("v", [SIGNED.v, SIGNED.v - 27])
@pytest.mark.parametrize("spelled", [str, str.upper, lambda text: text[2:], lambda text: text[2:].upper()])
def test_every_common_spelling_is_the_same_signature(v, spelled):
    assert parse_signature(spelled(written(v=v))) == parse_signature(written())
    assert signer(spelled(written(v=v))) == parse_address(Account.from_key(KEY).address).raw


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "65 bytes"),
        ("0x", "65 bytes"),
        (written()[:-1], "65 bytes"),
        (written()[:-2], "65 bytes"),
        (written() + "00", "65 bytes"),
        (written() + "\n", "65 bytes"),
        (" " + written(), "65 bytes"),
        ("0x" + written(), "65 bytes"),
        (written()[:-2] + "1 ", "65 bytes"),
        (written()[:-3] + "_1b", "65 bytes"),
        (written()[:-2] + "zz", "65 bytes"),
        (written()[:-2] + "٣٣", "65 bytes"),
        (written(v=2), "last byte"),
        (written(v=3), "last byte"),
        (written(v=26), "last byte"),
        (written(v=29), "last byte"),
        (written(v=35), "last byte"),
        (written(v=255), "last byte"),
        (written(r=0), "r and s"),
        (written(s=0), "r and s"),
        (written(r=0, s=0), "r and s"),
        (written(r=ORDER), "r and s"),
        (written(s=ORDER), "r and s"),
        (written(r=2**256 - 1), "r and s"),
        (written(s=2**256 - 1), "r and s"),
        (written(s=ORDER - SIGNED.s, v=55 - SIGNED.v), "lower half"),
        (written(s=ORDER - SIGNED.s), "lower half"),
        (written(s=ORDER // 2 + 1), "lower half"),
        (written(s=ORDER - 1), "lower half"),
    ],
)
def test_malformed_and_malleated_signatures_are_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_signature(text)


def test_twin_that_is_refused_would_have_named_the_signer():
    twin = written(s=ORDER - SIGNED.s, v=55 - SIGNED.v)
    assert Account.recover_message(encode_defunct(MESSAGE), signature=twin) == Account.from_key(KEY).address


def test_highest_s_of_the_lower_half_is_taken():
    assert parse_signature(written(s=ORDER // 2)).compact[32:64] == (ORDER // 2).to_bytes(32, "big")


def test_signature_that_no_key_can_have_made_names_nobody():
    # No point of the curve has x = 5.
    with pytest.raises(ValueError, match="signature is invalid"):
        recover(personal_digest(MESSAGE), parse_signature(written(r=5)))


@given(st.integers(0, 519), st.sampled_from([SIGNED.signature]))
def test_signature_with_one_bit_wrong_never_names_the_signer(bit, signature):
    wrong = (int.from_bytes(signature, "big") ^ (1 << bit)).to_bytes(65, "big").hex()
    assert recovered_or_none(personal_digest(MESSAGE), wrong) != parse_address(Account.from_key(KEY).address).raw


@given(st.text(max_size=140))
def test_no_text_breaks_it(text):
    with pytest.raises(ValueError, match="signature"):
        parse_signature(text)


@given(keys)
def test_address_of_a_key_is_the_one_that_wallets_show(key):
    from coincurve import PrivateKey

    assert address_of(PrivateKey(key).public_key) == parse_address(Account.from_key(key).address).raw
