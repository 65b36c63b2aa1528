import time

import pytest

from tests.payments.x402.signed_payments import (
    ORDER,
    OTHER,
    PAYER,
    PRICE,
    REQUIREMENT,
    SELLER,
    authorization,
    read,
    signature,
    v1,
    v2,
)
from tollhouse.payments.chain.contracts import USDC_ON_BASE
from tollhouse.payments.x402.headers import decode_payment
from tollhouse.payments.x402.types import InvalidReason, Requirement, VerificationFailure
from tollhouse.payments.x402.verification import (
    MIN_VALID_SECONDS,
    check_validity,
    match_requirement,
    recover_eoa_signature,
)


def reason(sent: dict, requirement: Requirement = REQUIREMENT, now: float | None = None) -> str | None:
    payment = read(sent)
    chosen = match_requirement([requirement], payment)
    refused = chosen if isinstance(chosen, VerificationFailure) else check_validity(payment, now or time.time())
    if refused is None and recover_eoa_signature(payment, requirement) is None:
        return InvalidReason.INVALID_SIGNATURE
    return None if refused is None else refused.reason


def with_signature(told: dict, made: str) -> dict:
    return v1(told, made)


def parts(told: dict) -> tuple[str, int, str]:
    made = signature(told)[2:]
    return made[:64], int(made[64:128], 16), made[128:]


@pytest.mark.parametrize("sent", [v1, v2])
def test_sound_payment_is_accepted(sent):
    assert reason(sent()) is None


@pytest.mark.parametrize("amount", [PRICE - 1, PRICE + 1, 0, 2**256 - 1])
def test_amount_must_be_exact(amount):
    told = authorization(value=str(amount))
    assert reason(v1(told)) == "invalid_exact_evm_payload_authorization_value"
    assert reason(v2(told)) == "invalid_exact_evm_payload_authorization_value_mismatch"


def test_recipient_must_be_the_seller():
    assert reason(v1(authorization(to=OTHER.address))) == "invalid_exact_evm_payload_recipient_mismatch"
    assert reason(v1(authorization(to=SELLER.address.lower()))) is None


@pytest.mark.parametrize("network", ["base-sepolia", "eip155:8453", "Base", "ethereum", "base "])
def test_version_1_network_must_be_the_one_asked_for(network):
    assert reason(v1(network=network)) == "invalid_network"


@pytest.mark.parametrize("scheme", ["EXACT", "Upto", "batch-settlement"])
def test_scheme_must_be_one_that_is_offered(scheme):
    assert reason(v1(scheme=scheme)) == "unsupported_scheme"
    assert reason(v2(accepted=REQUIREMENT.v2() | {"scheme": scheme})) == "unsupported_scheme"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"network": "eip155:84532"}, "invalid_network"),
        ({"amount": "1"}, "invalid_payment_requirements"),
        ({"amount": 1000}, "invalid_payment_requirements"),
        ({"asset": OTHER.address}, "invalid_payment_requirements"),
        ({"asset": USDC_ON_BASE.lower()}, "invalid_payment_requirements"),
        ({"payTo": OTHER.address}, "invalid_payment_requirements"),
        ({"maxTimeoutSeconds": 61}, "invalid_payment_requirements"),
        ({"extra": {"name": "USDC", "version": "2"}}, "invalid_payment_requirements"),
        ({"extra": {"name": "USD Coin", "version": "1"}}, "invalid_payment_requirements"),
        ({"extra": {}}, "invalid_payment_requirements"),
        ({"more": None}, "invalid_payment_requirements"),
    ],
)
def test_tampered_requirement_is_refused(changes, why):
    assert reason(v2(accepted=REQUIREMENT.v2() | changes)) == why


def test_requirement_may_come_back_in_another_order_of_members():
    assert reason(v2(accepted=dict(reversed(REQUIREMENT.v2().items())))) is None


def test_one_of_several_requirements_is_chosen():
    dearer = Requirement(8453, 2 * PRICE, USDC_ON_BASE, SELLER.address, 60)
    assert match_requirement([dearer, REQUIREMENT], read(v2())) == REQUIREMENT
    assert match_requirement([dearer, REQUIREMENT], read(v1())) == REQUIREMENT
    told = authorization(value=str(2 * PRICE))
    assert match_requirement([REQUIREMENT, dearer], read(v1(told))) == dearer


def test_time_window_has_room_to_settle():
    now = 1_800_000_000

    def at(after: int, before: int) -> str | None:
        return reason(v1(authorization(validAfter=str(after), validBefore=str(before))), now=now)

    assert at(now, now + MIN_VALID_SECONDS) is None
    assert at(now, now + MIN_VALID_SECONDS - 1) == "invalid_exact_evm_payload_authorization_valid_before"
    assert at(0, now - 1) == "invalid_exact_evm_payload_authorization_valid_before"
    assert at(now + 1, now + 60) == "invalid_exact_evm_payload_authorization_valid_after"


@pytest.mark.parametrize(
    "domain",
    [{"name": "USDC"}, {"version": "1"}, {"chainId": 84532}, {"chainId": 1}, {"verifyingContract": OTHER.address}],
)
def test_signature_for_another_token_or_chain_is_refused(domain):
    told = authorization()
    assert reason(v1(told, signature(told, **domain))) == "invalid_exact_evm_payload_signature"


@pytest.mark.parametrize(
    "changes",
    [{"value": str(PRICE + 1)}, {"nonce": "0x" + "12" * 32}, {"validAfter": "1"}, {"validBefore": "1900000000"},
     {"to": OTHER.address}],
)  # fmt: skip
def test_signature_covers_every_member(changes):
    signed_for = authorization() | changes
    told = authorization(nonce=signed_for["nonce"]) if "nonce" not in changes else authorization()
    assert reason(v1(told, signature(signed_for))) == "invalid_exact_evm_payload_signature"


def test_payment_from_somebody_else_is_refused():
    told = authorization(**{"from": OTHER.address})
    assert reason(v1(told, signature(told, key=PAYER.private_key))) == "invalid_exact_evm_payload_signature"


def test_twin_of_a_signature_is_refused():
    told = authorization()
    r, s, v = parts(told)
    twin = f"0x{r}{ORDER - s:064x}{'1b' if v == '1c' else '1c'}"
    assert reason(with_signature(told, twin)) == "invalid_exact_evm_payload_signature"


@pytest.mark.parametrize("spoil", [
    lambda made: made[:-2],  # 64 bytes
    lambda made: made + "00",  # 66 bytes
    lambda made: made[:-2] + "02",
    lambda made: made[:-2] + "1d",
    lambda made: "0x" + "00" * (len(made) // 2 - 1),
    lambda made: "0x" + "ff" * (len(made) // 2 - 1),
    lambda made: "0x" + made[66:130] + made[2:66] + made[130:],
    lambda made: made[:10] + f"{(int(made[10], 16) + 1) % 16:x}" + made[11:],
])  # fmt: skip
def test_malformed_signatures_are_refused(spoil):
    told = authorization()
    assert reason(with_signature(told, spoil(signature(told)))) == "invalid_exact_evm_payload_signature"


def test_recovery_id_is_read_in_both_its_forms():
    told = authorization()
    r, s, v = parts(told)
    assert reason(with_signature(told, f"0x{r}{s:064x}{int(v, 16) - 27:02x}")) is None


def test_payment_reads_the_same_from_what_is_kept_of_it():
    for payment in (read(v1()), read(v2())):
        assert decode_payment(payment.raw, payment.version) == payment
