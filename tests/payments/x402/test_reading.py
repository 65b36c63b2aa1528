import json
from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.payments.x402.signed_payments import (
    PAYER,
    REQUIREMENT,
    SELLER,
    authorization,
    encoded,
    named,
    payload,
    read,
    v1,
    v2,
)
from tollhouse.errors import Problem
from tollhouse.payments.x402.headers import MAX_HEADER, read_payment
from tollhouse.payments.x402.types import Payment

HUGE = "9" * 5_000
SIGNED = "0x" + "11" * 65


def refusal(x_payment: str = "", payment_signature: str = "") -> Problem:
    with pytest.raises(Problem) as refused:
        read_payment(x_payment, payment_signature)
    assert (refused.value.status, refused.value.code) == (400, "invalid-parameter")
    assert refused.value.facts["parameter"] == ("X-PAYMENT" if x_payment else "PAYMENT-SIGNATURE")
    return refused.value


def outcome(x_payment: str, payment_signature: str) -> Payment | Problem | None:
    try:
        return read_payment(x_payment, payment_signature)
    except Problem as problem:
        return problem


def told(**changes: object) -> dict:
    return v1(authorization(**changes), SIGNED)


def b64(raw: bytes) -> str:
    return b64encode(raw).decode()


def test_call_without_a_payment_has_none():
    assert read_payment("", "") is None


def test_version_1_is_read():
    sent = authorization(nonce="0x" + "AB" * 32)
    found = read(v1(sent))
    assert (found.version, found.scheme, found.network, found.accepted) == (1, "exact", "base", None)
    assert found.payer == PAYER.address.lower()
    assert found.nonce == "0x" + "ab" * 32
    assert found.authorization.recipient.hex() == SELLER.address[2:].lower()
    assert found.authorization.value == 1_000
    assert len(found.signature) == 65


def test_version_2_is_read_with_what_it_accepts_and_its_name():
    found = read(v2(extensions=named("pay_7d5d747be160e280")))
    assert (found.version, found.scheme, found.network) == (2, "exact", "eip155:8453")
    assert found.accepted == REQUIREMENT.v2()
    assert found.payment_id == "pay_7d5d747be160e280"
    assert read(v2()).payment_id is None


def test_extensions_that_are_only_echoed_name_nothing():
    offered = {"payment-identifier": {"info": {"required": False}, "schema": {"type": "object"}}, "bazaar": {"a": [1]}}
    assert read(v2(extensions=offered)).payment_id is None


def test_addresses_and_hex_are_read_in_any_case():
    sent = authorization()
    lower = sent | {"from": sent["from"].lower(), "to": sent["to"].lower()}
    upper = sent | {"nonce": "0X" + sent["nonce"][2:].upper()}
    assert read(v1(lower, SIGNED)).authorization == read(v1(sent, SIGNED)).authorization
    assert read(v1(upper, SIGNED)).authorization == read(v1(sent, SIGNED)).authorization


@pytest.mark.parametrize(
    "header",
    [
        "not base64!",
        "%%%",
        "=",
        "YQ",  # no padding
        "YQ==\n",
        " " + b64(b"{}"),
        f"{encoded(v1())}, {encoded(v1())}",  # the header twice
        "é" * 8,
        urlsafe_b64encode(b'{"x402Version":1,"a":"\xfb\xff\xfe"}').decode(),
        b64(b"null"),
        b64(b"[]"),
        b64(b'"text"'),
        b64(b"{"),
        b64(b"\xff\xfe"),
        b64(b"{}"),
        b64(b'{"x402Version":"1"}'),
        b64(b'{"x402Version":1.5}'),
        b64(b'{"x402Version":true}'),
        b64(b'{"x402Version":' + HUGE.encode() + b"}"),
        b64(b'{"x402Version":1}'),
        b64(b"[" * 5_000),
        b64(b'{"x402Version":1,"a":' + b"[" * 5_000 + b"}"),
        encoded(v1() | {"more": [[[[1]]] for _ in range(400)]}),
    ],
)
def test_header_that_is_no_payment_is_malformed(header):
    refusal(header)


@pytest.mark.parametrize("version", [0, 2, 99, -1, 10**18])
def test_version_nobody_speaks_is_refused(version):
    problem = refusal(encoded(v1(x402Version=version)))
    assert problem.facts["reason"] == "invalid_x402_version"


def test_each_header_carries_its_own_version():
    assert refusal("", encoded(v1())).facts["reason"] == "invalid_x402_version"
    assert refusal(encoded(v2())).facts["reason"] == "invalid_x402_version"


def test_two_payments_are_one_too_many():
    refusal(encoded(v1()), encoded(v2()))


@pytest.mark.parametrize("name", ["value", "validAfter", "validBefore"])
@pytest.mark.parametrize(
    "number",
    ["", " 1000", "1000 ", "1000\n", "+1000", "-1000", "1e3", "1_000", "1000.0", "0x3e8", "01000",
     "\u0661\u0660\u0660\u0660", "\uff11\uff10\uff10\uff10",
     "NaN", HUGE, "9" * 78, 1000, 1000.0, None, True, ["1000"]],
)  # fmt: skip
def test_numbers_are_plain_decimal_strings_that_the_chain_can_hold(name, number):
    problem = refusal(encoded(told(**{name: number})))
    assert HUGE[:100] not in problem.detail
    assert "digits" not in problem.detail


def test_largest_number_of_the_chain_is_read():
    assert read(told(validBefore=str(2**256 - 1))).authorization.valid_before == 2**256 - 1


@pytest.mark.parametrize("place", ["accepted", "extensions", "payload", "scheme", "more"])
def test_number_of_5000_digits_anywhere_leaks_nothing(place):
    raw = json.dumps(v2() | {place: "HERE"}).replace('"HERE"', '{"a": ' + HUGE + "}")
    found = outcome("", b64(raw.encode()))
    if isinstance(found, Problem):
        assert found.status == 400
        assert "limit" not in found.detail
        assert "999" not in found.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "0x" + "ab" * 31},
        {"nonce": "0x" + "ab" * 33},
        {"nonce": "ab" * 32},
        {"nonce": "0x" + "zz" * 32},
        {"nonce": "0x" + "ab" * 32 + "\n"},
        {"nonce": 7},
        {"from": PAYER.address[:-1]},
        {"from": PAYER.address[2:]},
        {"from": PAYER.address.replace("f39F", "F39F")},  # its checksum fails
        {"to": "0x" + "gg" * 20},
        {"to": None},
        {"to": "toll.example"},
    ],
)
def test_malformed_nonces_and_addresses_are_refused(changes):
    refusal(encoded(told(**changes)))


@pytest.mark.parametrize("signed", ["", "0x", "0x1", "0xzz", "1" * 130, 5, None, {"r": 1}])
def test_malformed_signatures_are_refused(signed):
    refusal(encoded(v1(payload={"signature": signed, "authorization": authorization()})))


@pytest.mark.parametrize("name", ["scheme", "network", "payload"])
def test_every_member_of_version_1_is_needed(name):
    sent = v1()
    del sent[name]
    refusal(encoded(sent))
    refusal(encoded(sent | {name: 7}))


@pytest.mark.parametrize(
    "changes",
    [
        {"accepted": None},
        {"accepted": []},
        {"accepted": {}},
        {"accepted": {"scheme": "exact"}},
        {"accepted": {"scheme": 1, "network": "eip155:8453"}},
        {"payload": {}},
        {"payload": payload(authorization()) | {"authorization": None}},
        {"extensions": []},
        {"extensions": {"payment-identifier": "pay_7d5d747be160e280"}},
        {"extensions": {"payment-identifier": {"info": []}}},
        {"extensions": named("too-short")},
        {"extensions": named("x" * 129)},
        {"extensions": named("pay 7d5d747be160e280")},
        {"extensions": named("pay_7d5d747be160e280\n")},
    ],
)
def test_malformed_version_2_is_refused(changes):
    refusal("", encoded(v2(**changes)))


def test_header_longer_than_the_limit_is_not_even_decoded():
    refusal("A" * (MAX_HEADER + 4))
    fits = v1(note="x" * 4_000)
    assert len(encoded(fits)) < MAX_HEADER
    assert read(fits).version == 1


@settings(deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_at_all_crash_the_reader(raw, is_encoded):
    header = b64(raw) if is_encoded else raw.decode("latin-1")
    for headers in ((header, ""), ("", header)):
        found = outcome(*headers)
        assert found.status == 400 if header else found is None


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) |
                    st.dictionaries(st.sampled_from(["payload", "authorization", "signature", "from", "value"]) |
                                    st.text(), inner)))  # fmt: skip
def test_no_json_at_all_crashes_the_reader(told):
    for sent in (v1(payload=told), v1(authorization(value=told), SIGNED)):
        refusal(b64(json.dumps(sent).encode()))
    assert outcome("", b64(json.dumps(v2(accepted=told, extensions=told)).encode())).status == 400
