"""Our facilitator as a stranger's server uses it."""

import asyncio
from decimal import Decimal

import pytest
from msgspec.structs import replace

from tests.payments.settlement.chain_state import reverted, seller_holds, sent
from tests.payments.x402.signed_payments import (
    FACTORY,
    OTHER,
    PAYER,
    PRICE,
    REQUIREMENT,
    RESOURCE,
    SELLER,
    UPTO_REQUIREMENT,
    authorization,
    from_unmade_wallet,
    permit,
    read,
    signature,
    upto,
    v1,
    v2,
)
from tests.services.facilitator.conftest import OPERATORS_TOKEN, SETTLING, operators, stranger
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.client import ChainClient, Limits
from tollhouse.payments.chain.contracts import token_balance
from tollhouse.payments.x402.settlement import gas
from tollhouse.payments.x402.settlement.remote import RemoteFacilitator
from tollhouse.payments.x402.store import Attempts
from tollhouse.payments.x402.types import Failed, Requirement, Settled
from tollhouse.services.facilitator import endpoints
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

NONCE_USED = "invalid_exact_evm_nonce_already_used"
REQUIRED = {1: REQUIREMENT.v1(RESOURCE), 2: REQUIREMENT.v2()}


def body(payment, **changes: object):
    version = payment["x402Version"]
    return {"x402Version": version, "paymentPayload": payment, "paymentRequirements": REQUIRED[version]} | changes


def forged(told):
    """Signed by somebody who may be the payer, or not."""
    return v1(told, signature(told, OTHER.private_key))


async def asked(client, path, payment, **changes: object):
    answer = await client.post(path, json=body(payment, **changes))
    return answer.status_code, answer.json()


@pytest.mark.parametrize(("make", "network"), [(v1, "base"), (v2, "eip155:8453")])
async def test_payment_is_verified_and_then_settled(chain, client, make, network):
    payment = make()
    assert await asked(client, "/verify", payment) == (200, {"isValid": True, "payer": PAYER.address})
    assert await seller_holds(chain) == 0
    status, told = await asked(client, "/settle", payment)
    [transaction] = await sent(chain, SETTLING.address)
    amount = {} if make is v1 else {"amount": str(PRICE)}
    assert (status, told) == (
        200,
        {"success": True, "transaction": transaction["hash"], "network": network, "payer": PAYER.address, **amount},
    )
    assert await seller_holds(chain) == PRICE


UPTO = replace(UPTO_REQUIREMENT, facilitator=SETTLING.address)


def up_to_maximum():
    return upto(permit(witness={"facilitator": SETTLING.address}), accepted=UPTO.v2())


async def test_of_a_maximum_what_the_caller_says_is_settled(chain, client):
    payment, taken = up_to_maximum(), UPTO.v2() | {"amount": "1234"}
    assert (await asked(client, "/verify", payment, paymentRequirements=UPTO.v2()))[1]["isValid"] is True
    assert (await asked(client, "/verify", payment, paymentRequirements=taken))[0] == 400
    for amount, why in (("5001", "invalid_upto_evm_payload_settlement_exceeds_amount"), ("1234", None)):
        told = (await asked(client, "/settle", payment, paymentRequirements=taken | {"amount": amount}))[1]
        assert (told["success"], told.get("errorReason")) == (why is None, why)
    assert told["amount"] == "1234"
    assert await seller_holds(chain) == 1234
    again = (await asked(client, "/settle", payment, paymentRequirements=taken))[1]
    assert again["errorReason"] == "permit2_invalid_nonce"


async def test_settling_nothing_sends_nothing_and_succeeds_once(chain, client):
    payment, nothing = up_to_maximum(), UPTO.v2() | {"amount": "0"}
    results = [(await asked(client, "/settle", payment, paymentRequirements=nothing))[1] for _ in range(2)]
    assert [told["success"] for told in results] == [True, False]
    assert (results[0]["transaction"], results[0]["amount"]) == ("", "0")
    assert await sent(chain, SETTLING.address) == []


async def test_wallet_that_is_not_there_yet_pays_where_its_factory_is_named(chain, serve):
    payment = from_unmade_wallet()
    await chain.fund_usdc(read(payment).payer, PRICE)
    wallets = {"x402_contract_wallets": True, "x402_max_gas_usd": Decimal("0.01")}
    async with serve(**wallets) as gate, operators(gate) as client:
        for path in ("/verify", "/settle"):
            assert "eip6492_factory_not_allowed" in str(await asked(client, path, payment))
    async with serve(**wallets, x402_6492_factories=(FACTORY,)) as gate, operators(gate) as client:
        assert (await asked(client, "/verify", payment))[1]["isValid"] is True
        assert (await asked(client, "/settle", payment))[1]["success"] is True
    assert await seller_holds(chain) == PRICE


async def test_payment_to_anybody_of_any_amount_is_settled(chain, client):
    told = authorization(to=OTHER.address, value="77")
    required = REQUIREMENT.v2() | {"payTo": OTHER.address, "amount": "77"}
    status, result = await asked(client, "/settle", v2(told, accepted=required), paymentRequirements=required)
    assert (status, result["success"]) == (200, True)
    assert await token_balance(chain.client, chain.usdc_address, OTHER.address) == 77


@pytest.mark.parametrize(
    ("payment", "reason"),
    [
        (lambda: v1(authorization(to=OTHER.address)), "invalid_exact_evm_payload_recipient_mismatch"),
        (lambda: v1(authorization(value="999")), "invalid_exact_evm_payload_authorization_value"),
        (lambda: v2(authorization(value="1001")), "invalid_exact_evm_payload_authorization_value_mismatch"),
        (lambda: v1(authorization(validBefore="1700000000")), "invalid_exact_evm_payload_authorization_valid_before"),
        (lambda: v1(authorization(validAfter="2700000000", validBefore="2800000000")),
         "invalid_exact_evm_payload_authorization_valid_after"),
        (lambda: forged(authorization()),
         "invalid_exact_evm_payload_signature"),
        (lambda: forged(authorization(**{"from": OTHER.address})),
         "insufficient_funds"),
        (lambda: v1(network="base-sepolia"), "invalid_network"),
        (lambda: v1(scheme="upto"), "unsupported_scheme"),
    ],
)  # fmt: skip
async def test_payment_that_will_not_do_is_told_why_by_both(chain, client, payment, reason):
    made = payment()
    status, told = await asked(client, "/verify", made)
    assert (status, told["isValid"], told["invalidReason"]) == (200, False, reason)
    status, told = await asked(client, "/settle", made)
    assert (status, told["success"], told["errorReason"], told["transaction"]) == (200, False, reason, "")
    assert told["payer"] in {PAYER.address, OTHER.address}
    assert await sent(chain, SETTLING.address) == []


BROKEN = [
    ({"x402Version": 99}, "invalid_x402_version"),
    ({"x402Version": True}, "invalid_x402_version"),
    ({"x402Version": 1.0}, "invalid_x402_version"),
    ({"x402Version": {}}, "invalid_x402_version"),
    ({"x402Version": [1]}, "invalid_x402_version"),
    ({"x402Version": "1"}, "invalid_x402_version"),
    ({"x402Version": 2}, "invalid_x402_version"),
    ({"paymentPayload": None}, "invalid_payload"),
    ({"paymentPayload": {"x402Version": 1}}, "invalid_payload"),
    ({"paymentPayload": v1(authorization(value="9" * 5000), "0x" + "11" * 65)}, "invalid_payload"),
    ({"paymentPayload": v1(authorization(nonce="0x12"), "0x" + "11" * 65)}, "invalid_payload"),
    ({"paymentRequirements": None}, "invalid_payment_requirements"),
    ({"paymentRequirements": {}}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[2]}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[1] | {"maxAmountRequired": "0"}}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[1] | {"maxAmountRequired": 1000}}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[1] | {"surprise": 1}}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[1] | {"payTo": "0x12"}}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[1] | {"asset": SELLER.address}}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[1] | {"extra": {"name": "Coin"}}}, "invalid_payment_requirements"),
    ({"paymentRequirements": REQUIRED[1] | {"extra": {"assetTransferMethod": "permit2"}}}, "unsupported_scheme"),
    ({"paymentRequirements": REQUIRED[1] | {"network": "base-sepolia"}}, "invalid_network"),
    ({"paymentRequirements": REQUIRED[1] | {"scheme": "upto"}}, "unsupported_scheme"),
]


@pytest.mark.parametrize(("changes", "reason"), BROKEN)
async def test_malformed_request_is_refused_in_the_standards_form(client, changes, reason):
    status, told = await asked(client, "/verify", v1(), **changes)
    assert (status, told["isValid"], told["invalidReason"]) == (400, False, reason)
    assert len(told["invalidMessage"]) < 200
    status, told = await asked(client, "/settle", v1(), **changes)
    assert (status, told["success"], told["errorReason"], told["transaction"]) == (400, False, reason, "")


async def test_payment_that_accepted_something_else_is_refused(client):
    required = REQUIREMENT.v2() | {"maxTimeoutSeconds": 61}
    status, told = await asked(client, "/verify", v2(), paymentRequirements=required)
    assert (status, told["invalidReason"]) == (400, "invalid_payment_requirements")


@pytest.mark.parametrize(
    ("content", "content_type", "code"),
    [
        (b"{", "application/json", "invalid-body"),
        (b"[]", "application/json", "invalid-body"),
        (b'{"x402Version": 1, "extra": 1}', "application/json", "invalid-body"),
        (b"{}", "text/plain", "unsupported-media-type"),
    ],
)
async def test_what_is_no_request_at_all_is_a_problem(client, content, content_type, code):
    answer = await client.post("/settle", content=content, headers={"Content-Type": content_type})
    assert answer.json()["code"] == code


async def test_two_calls_with_one_payment_are_never_both_told_of_success(chain, client):
    payment = v2()
    results = await asyncio.gather(*(asked(client, "/settle", payment) for _ in range(20)))
    assert [told["success"] for _, told in results].count(True) == 1
    assert {told.get("errorReason") for _, told in results} <= {None, "settlement_pending", NONCE_USED}
    assert await asked(client, "/settle", payment) == (
        200,
        {"success": False, "transaction": "", "network": "eip155:8453", "errorReason": NONCE_USED,
         "errorMessage": "This authorization was used before. Sign a new one with a random nonce.",
         "payer": PAYER.address},
    )  # fmt: skip
    assert (await asked(client, "/verify", payment))[1]["invalidReason"] == NONCE_USED
    assert await seller_holds(chain) == PRICE


async def test_payment_is_not_taken_without_coin_for_gas_and_settled_later(chain, client, monkeypatch):
    monkeypatch.setattr(gas, "QUOTE_SECONDS", 0.0)
    await chain.request("anvil_setBalance", SETTLING.address, "0x1")
    payment = v1()
    for path in ("/verify", "/settle"):
        status, told = await asked(client, path, payment)
        assert (status, told["code"], told["reason"]) == (503, "payments-unavailable", "gas_reserve")
    await chain.request("anvil_setBalance", SETTLING.address, hex(10**20))
    assert (await asked(client, "/settle", payment))[1]["success"]


async def test_settlement_that_takes_too_long_is_pending_and_not_a_failure(chain, client, monkeypatch):
    monkeypatch.setattr(endpoints, "SETTLE_SECONDS", 0.5)
    await chain.mine_every(0)
    payment = v1()
    _, told = await asked(client, "/settle", payment)
    assert (told["success"], told["errorReason"]) == (False, "settlement_pending")
    assert (await asked(client, "/settle", payment))[1]["errorReason"] == "settlement_pending"
    await chain.request("anvil_mine")
    assert (await asked(client, "/settle", payment))[1]["errorReason"] == NONCE_USED
    assert await seller_holds(chain) == PRICE


async def test_hundred_payments_at_once_are_settled_without_a_revert(chain, client):
    await chain.mine_every(1)
    results = await asyncio.gather(*(asked(client, "/settle", v1()) for _ in range(100)))
    assert all(told["success"] for _, told in results)
    assert await seller_holds(chain) == 100 * PRICE
    assert await reverted(chain, SETTLING.address) == []


async def test_supported_says_what_is_settled_and_by_whom(client):
    answer = await client.get("/supported")
    assert answer.json() == {
        "kinds": [
            {"scheme": "exact", "network": "eip155:8453", "x402Version": 2},
            {
                "scheme": "upto",
                "network": "eip155:8453",
                "x402Version": 2,
                "extra": {"facilitatorAddress": SETTLING.address},
            },
            {"scheme": "exact", "network": "base", "x402Version": 1},
        ],
        "extensions": ["idempotent-settle"],
        "signers": {"eip155:*": [SETTLING.address]},
    }


async def test_node_out_of_reach_is_told_in_the_standards_form_and_sends_nothing(serve):
    node = ChainClient("http://127.0.0.1:1/", Limits(deadline_seconds=0.5))
    async with serve(node=node) as gate, operators(gate) as client:
        status, told = await asked(client, "/verify", v1())
        assert (status, told["isValid"], told["invalidReason"]) == (502, False, "unexpected_verify_error")
        status, told = await asked(client, "/settle", v1())
        assert (status, told["success"], told["errorReason"]) == (502, False, "unexpected_settle_error")
    await node.close()


async def test_server_without_a_key_settles_nothing_and_says_so(serve):
    async with serve(x402_facilitator_key="") as gate, operators(gate) as client:
        answer = await client.post("/settle", json=body(v1()))
        assert (answer.status_code, answer.json()["code"]) == (503, "not-configured")
        assert (await client.get("/supported")).json() == {"kinds": [], "extensions": [], "signers": {}}
        assert (await client.get("/health")).json()["status"] == "not-configured"


async def test_strangers_spend_none_of_the_operators_gas(chain, serve):
    async with serve() as gate:
        # A proxy on the server's own machine calls from the first address whoever asks it.
        for address in ("127.0.0.1", "::1", "203.0.113.9"):
            async with stranger(gate, address) as client:
                for path in ("/verify", "/settle"):
                    answer = await client.post(path, json=body(v1()))
                    assert (answer.status_code, answer.json()["code"]) == (401, "missing-credentials")
                assert (await client.get("/supported")).status_code == 200
    assert await seller_holds(chain) == 0


async def test_token_lets_in_whoever_sends_it_and_nobody_else(chain, serve):
    async with serve(x402_facilitator_auth="open-sesame") as gate, stranger(gate) as client:
        for sent_token in ("", "Bearer wrong", "Bearer "):
            headers = {"Authorization": sent_token} if sent_token else {}
            answer = await client.post("/settle", json=body(v1()), headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "missing-credentials")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert await seller_holds(chain) == 0
        answer = await client.post("/settle", json=body(v1()), headers={"Authorization": "Bearer open-sesame"})
        assert answer.json()["success"]
    assert await seller_holds(chain) == PRICE


async def test_address_is_limited(client, monkeypatch):
    monkeypatch.setattr(endpoints, "PER_MINUTE", 2)
    answers = [await client.post("/verify", json=body(v1())) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json()["code"] == "rate-limited"
    assert int(answers[2].headers["Retry-After"]) >= 1


async def test_our_own_client_of_a_facilitator_settles_through_it(chain, serve, data_dir):
    database = open_database(Settings(data_dir=str(data_dir)))
    await migrate(database)
    attempts = Attempts(database)
    async with serve() as gate, operators(gate) as client:
        remote = RemoteFacilitator("http://test/", OPERATORS_TOKEN, chain.client, RESOURCE.url, attempts)
        await remote._client.aclose()
        remote._client = client
        assert await remote.unsupported_versions(REQUIREMENT) == []
        for made in (v1(), v2()):
            payment = read(made)
            settled = await remote.settle(payment, REQUIREMENT)
            assert isinstance(settled, Settled)
            assert await remote.settle(payment, REQUIREMENT) == settled
        payment = read(up_to_maximum())
        settled = await remote.settle(payment, UPTO.costing(PRICE))
        assert isinstance(settled, Settled)
        assert await remote.settle(payment, UPTO.costing(PRICE)) == settled
        assert remote.upto_account == SETTLING.address
        other = Requirement(1, PRICE, REQUIREMENT.asset, SELLER.address, 60)
        assert isinstance(await remote.settle(read(v1()), other), Failed)
    await database.close()
    assert await seller_holds(chain) == 3 * PRICE


async def test_lost_reply_is_repeated_for_its_caller_and_for_nobody_else(chain, client):
    sent, mine = body(v1()), {"Idempotency-Key": "3f1b0a"}
    first = (await client.post("/settle", json=sent, headers=mine)).json()
    assert first["success"]
    assert (await client.post("/settle", json=sent, headers=mine)).json() == first
    for headers in ({"Idempotency-Key": "other"}, {}):
        again = (await client.post("/settle", json=sent, headers=headers)).json()
        assert (again["success"], again["errorReason"]) == (False, "invalid_exact_evm_nonce_already_used")
    assert await seller_holds(chain) == PRICE
