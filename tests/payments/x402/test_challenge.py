import json

import pytest

from tests.payments.x402.signed_payments import PRICE, REQUIREMENT, RESOURCE, SELLER, decoded, read, upto, v1, v2
from tollhouse.payments.chain.contracts import USDC_ON_BASE
from tollhouse.payments.x402.headers import PAYMENT_NOT_CONFIGURED, challenge, payment_invalid
from tollhouse.payments.x402.types import InvalidReason, Requirement, verification_failure


def test_version_1_stands_in_the_body_exactly_as_its_clients_read_it():
    asked = challenge(RESOURCE, [REQUIREMENT], "payment required")
    assert asked.members == {
        "x402Version": 1,
        "error": "payment required",
        "accepts": [
            {
                "scheme": "exact",
                "network": "base",
                "maxAmountRequired": str(PRICE),
                "resource": RESOURCE.url,
                "description": RESOURCE.description,
                "mimeType": "application/json",
                "payTo": SELLER.address,
                "maxTimeoutSeconds": 60,
                "asset": USDC_ON_BASE,
                "extra": {"name": "USD Coin", "version": "2"},
            }
        ],
    }
    assert "outputSchema" not in json.dumps(asked.members)


def test_version_2_stands_in_its_header():
    asked = challenge(RESOURCE, [REQUIREMENT], "payment required")
    told = decoded(asked.headers["PAYMENT-REQUIRED"])
    extensions = told.pop("extensions")
    assert told == {
        "x402Version": 2,
        "error": "payment required",
        "resource": {"url": RESOURCE.url, "description": RESOURCE.description, "mimeType": "application/json"},
        "accepts": [
            {
                "scheme": "exact",
                "network": "eip155:8453",
                "amount": "1000",
                "asset": USDC_ON_BASE,
                "payTo": SELLER.address,
                "maxTimeoutSeconds": 60,
                "extra": {"name": "USD Coin", "version": "2"},
            }
        ],
    }
    assert extensions["payment-identifier"]["info"] == {"required": False}


def test_header_is_one_line_of_ascii_that_fits():
    wordy = challenge(RESOURCE, [REQUIREMENT] * 3, "Zahlung nötig ✓")
    header = wordy.headers["PAYMENT-REQUIRED"]
    assert header.isascii()
    assert header.isprintable()
    assert len(header) < 8_192
    assert decoded(header)["error"] == "Zahlung nötig ✓"


def test_server_that_takes_no_payment_asks_for_nothing():
    asked = challenge(RESOURCE, [], PAYMENT_NOT_CONFIGURED)
    assert asked.members == {"x402Version": 1, "error": PAYMENT_NOT_CONFIGURED, "accepts": []}
    told = decoded(asked.headers["PAYMENT-REQUIRED"])
    assert told["accepts"] == []
    assert told["extensions"] == {}


def test_chain_that_version_1_has_no_word_for_is_offered_in_version_2_only():
    elsewhere = Requirement(137, PRICE, USDC_ON_BASE, SELLER.address, 60)
    asked = challenge(RESOURCE, [elsewhere], "payment required")
    assert asked.members["accepts"] == []
    assert decoded(asked.headers["PAYMENT-REQUIRED"])["accepts"][0]["network"] == "eip155:137"


def test_refused_payment_is_a_402_that_says_why_and_asks_again():
    problem = payment_invalid(
        verification_failure(InvalidReason.NONCE_USED, read(v2())), challenge(RESOURCE, [REQUIREMENT], "used")
    )
    assert (problem.status, problem.code) == (402, "payment-invalid")
    assert problem.facts["reason"] == "invalid_exact_evm_nonce_already_used"
    assert problem.facts["x402Version"] == 1
    assert problem.facts["accepts"][0]["maxAmountRequired"] == "1000"
    assert "PAYMENT-REQUIRED" in problem.headers


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (v1, "invalid_exact_evm_payload_authorization_value"),
        (v2, "invalid_exact_evm_payload_authorization_value_mismatch"),
        (upto, "permit2_amount_mismatch"),
    ],
)
def test_each_version_and_scheme_has_its_own_word_for_a_wrong_amount(make, reason):
    refused = verification_failure(InvalidReason.VALUE_MISMATCH, read(make()))
    assert refused.reason == reason
    assert verification_failure(reason, read(make())) == refused
