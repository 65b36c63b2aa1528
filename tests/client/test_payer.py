"""Our own payer signs what the server's verification accepts, and never more than it was told to."""

import json
import subprocess
import sys
from base64 import b64encode

import pytest

from tests.payments.x402.signed_payments import MAXIMUM, PAYER, REQUIREMENT, RESOURCE, UPTO_REQUIREMENT
from tollhouse.client import Payer
from tollhouse.payments.x402.headers import challenge, read_payment
from tollhouse.payments.x402.verification import match_requirement, recover_eoa_signature

REQUIRED = challenge(RESOURCE, [REQUIREMENT], "pay").headers["PAYMENT-REQUIRED"]


def test_signed_payment_fulfils_the_requirement():
    payment = read_payment("", Payer(PAYER.private_key).headers(REQUIRED, 1_000)["Payment-Signature"])
    assert payment.payer == PAYER.address.lower()
    assert match_requirement([REQUIREMENT], payment) == REQUIREMENT
    assert recover_eoa_signature(payment, REQUIREMENT) is not None


def test_signed_maximum_fulfils_the_requirement():
    required = challenge(RESOURCE, [UPTO_REQUIREMENT], "pay").headers["PAYMENT-REQUIRED"]
    payment = read_payment("", Payer(PAYER.private_key).headers(required, MAXIMUM)["Payment-Signature"])
    assert match_requirement([UPTO_REQUIREMENT], payment) == UPTO_REQUIREMENT
    assert recover_eoa_signature(payment, UPTO_REQUIREMENT) is not None
    with pytest.raises(ValueError, match="more than 4999"):
        Payer(PAYER.private_key).headers(required, MAXIMUM - 1)


def test_each_payment_has_a_nonce_of_its_own():
    payer = Payer(PAYER.private_key)
    assert payer.headers(REQUIRED, 1_000) != payer.headers(REQUIRED, 1_000)


def test_payer_pays_no_more_than_it_was_told_to():
    with pytest.raises(ValueError, match="more than 999"):
        Payer(PAYER.private_key).headers(REQUIRED, 999)


def test_server_that_takes_no_payment_is_not_paid():
    empty = b64encode(json.dumps({"x402Version": 2, "accepts": []}).encode()).decode()
    with pytest.raises(ValueError, match="does not accept payments"):
        Payer(PAYER.private_key).headers(empty, 1_000)


def test_key_is_not_shown():
    assert PAYER.private_key[2:] not in repr(Payer(PAYER.private_key))


def test_client_imports_nothing_of_the_server():
    program = (
        "import sys, tollhouse.client; print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'granian', 'sqlalchemy', 'tantivy', 'numpy', 'structlog', 'cryptography', 'aiosqlite', 'uvloop'}))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout.strip() == "[]"
