import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.accounts.wallets import AgentHeaders, nonce_of, signed_by
from tollhouse.errors import Problem
from tollhouse.evm import ORDER, parse_address

ACCOUNT = Account.from_key("0x" + "11" * 32)
OTHER = Account.from_key("0x" + "22" * 32)
ADDRESS = parse_address(ACCOUNT.address).raw
NONCE = "00112233445566778899aabbccddeeff"
PATH = "/feeds/defense-brief"


def headers(message=f"service:{PATH}:{NONCE}", account=ACCOUNT, nonce=NONCE):
    signature = account.sign_message(encode_defunct(text=message)).signature
    return AgentHeaders(account.address, nonce, signature.to_0x_hex())


def refused(sent, path=PATH, query="", prefix="service"):
    with pytest.raises(Problem) as raised:
        signed_by(prefix, path, query, sent)
    assert (raised.value.status, raised.value.code) == (401, "invalid-signature")
    assert raised.value.headers == {"WWW-Authenticate": 'Agent error="invalid_signature"'}
    return raised.value.detail


def test_signature_over_prefix_path_and_nonce_names_the_wallet():
    assert signed_by("service", PATH, "", headers()) == ADDRESS


def test_signature_over_the_path_is_good_for_any_query():
    assert signed_by("service", PATH, "limit=5", headers()) == ADDRESS


def test_signature_over_path_and_query_is_good_for_that_query_alone():
    sent = headers(f"service:{PATH}?limit=5&country=C%C3%B4te:{NONCE}")
    assert signed_by("service", PATH, "limit=5&country=C%C3%B4te", sent) == ADDRESS
    for query in ("", "limit=6&country=C%C3%B4te", "limit=5&country=Côte", "country=C%C3%B4te&limit=5"):
        assert "did not sign" in refused(sent, query=query)


@pytest.mark.parametrize("spell", [str.lower, str.upper, lambda address: "0x" + address[2:].upper()])
def test_address_may_be_in_one_case(spell):
    sent = headers()
    assert signed_by("service", PATH, "", AgentHeaders(spell(sent.address), sent.nonce, sent.signature)) == ADDRESS


@pytest.mark.parametrize("nonce", [NONCE, NONCE.upper(), f"0x{NONCE}", f"0X{NONCE.upper()}", "aB" * 8, "Ff" * 64])
def test_message_has_the_nonce_as_it_is_sent(nonce):
    assert signed_by("service", PATH, "", headers(f"service:{PATH}:{nonce}", nonce=nonce)) == ADDRESS
    respelled = nonce[:2] + (nonce[2:].swapcase() if nonce[2:].swapcase() != nonce[2:] else "11" * 8)
    assert "did not sign" in refused(headers(f"service:{PATH}:{nonce}", nonce=respelled))


def test_nonce_is_the_same_in_every_spelling():
    spellings = [NONCE, NONCE.upper(), f"0x{NONCE}", f"0X{NONCE}", f"0x{NONCE.upper()}"]
    assert {nonce_of(spelling) for spelling in spellings} == {bytes.fromhex(NONCE)}
    assert nonce_of("00" * 8) != nonce_of("00" * 9)


@pytest.mark.parametrize(
    "nonce",
    [
        "",
        "0x",
        "00" * 7,
        "00" * 8 + "0",
        "00" * 65,
        "0x0x" + NONCE,
        f" {NONCE}",
        f"{NONCE}\n",
        f"{NONCE}, {NONCE}",
        NONCE[:-1] + "g",
        NONCE[:-2] + "_1",
        "00 " * 8,
        "٣٣" * 8,
        "ÿ" * 16,
        "-" + NONCE,
    ],
)
def test_malformed_nonce_is_refused(nonce):
    assert "X-Agent-Nonce" in refused(headers(f"service:{PATH}:{nonce}", nonce=nonce))


@pytest.mark.parametrize(
    "message",
    [
        f"service:/feeds/events:{NONCE}",
        f"service:{PATH}/:{NONCE}",
        f"other:{PATH}:{NONCE}",
        f"{PATH}:{NONCE}",
        f"service:{PATH}",
        f"service:{PATH}:{NONCE[:-2]}",
        f"service:/defense{PATH}:{NONCE}",
        f"service:{PATH}?:{NONCE}",
        f"SERVICE:{PATH}:{NONCE}",
        f"service:{PATH}:{NONCE}\n",
        "",
    ],
)
def test_signature_over_anything_else_is_refused(message):
    assert "did not sign" in refused(headers(message))


def test_somebody_elses_signature_is_refused():
    theirs = headers(account=OTHER)
    assert "did not sign" in refused(AgentHeaders(ACCOUNT.address, NONCE, theirs.signature))


def test_transaction_hash_or_typed_data_signed_by_the_wallet_is_no_call():
    # The same 32 bytes without the prefix that marks a personal message.
    from eth_utils import keccak

    raw = ACCOUNT.unsafe_sign_hash(keccak(text=f"service:{PATH}:{NONCE}"))
    assert "did not sign" in refused(AgentHeaders(ACCOUNT.address, NONCE, raw.signature.to_0x_hex()))


@pytest.mark.parametrize("address", ["", "0x", ACCOUNT.address[:-1], ACCOUNT.address.swapcase(), ACCOUNT.address[2:]])
def test_malformed_address_is_refused(address):
    assert "malformed" in refused(AgentHeaders(address, NONCE, headers().signature))


def malleated():
    signature = headers().signature
    s, v = int(signature[66:130], 16), int(signature[130:], 16)
    high = f"{ORDER - s:064x}"
    return [
        "",
        "0x",
        signature[:-2],
        signature + "00",
        f"{signature}, {signature}",
        f"{signature}\n",
        signature[:66] + high + f"{55 - v:02x}",
        signature[:66] + high + f"{v:02x}",
        signature[:-2] + "02",
        signature[:-2] + f"{v + 8:02x}",
        signature[:2] + "0" * 64 + signature[66:],
        signature[:66] + "0" * 64 + signature[130:],
    ]


@pytest.mark.parametrize("signature", malleated())
def test_malformed_or_malleated_signature_is_refused(signature):
    assert "malformed" in refused(AgentHeaders(ACCOUNT.address, NONCE, signature))


def test_signature_that_no_key_can_have_made_is_refused():
    assert "did not sign" in refused(AgentHeaders(ACCOUNT.address, NONCE, f"0x{5:064x}{1:064x}1b"))


@given(st.text(max_size=150), st.text(max_size=150), st.text(max_size=150))
def test_no_header_breaks_it(address, nonce, signature):
    refused(AgentHeaders(address, nonce, signature))
    good = headers()
    refused(AgentHeaders(address, good.nonce, good.signature))
    refused(AgentHeaders(good.address, nonce, good.signature))
    refused(AgentHeaders(good.address, good.nonce, signature))
