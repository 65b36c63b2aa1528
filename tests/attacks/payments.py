"""Attacks on payments per request: forged, mistyped, replayed, raced and borrowed ones."""

import json
import secrets
from base64 import b64decode, b64encode
from typing import Any

from eth_abi import encode
from eth_account import Account as Signer
from eth_utils import keccak

from tests.attacks.attack import attack
from tests.attacks.forgeries import HEADERS, SIGNATURES, SIGNED_CHANGES, WRITTEN_CHANGES, high_s
from tests.attacks.target import PAGE, PAGE_MICROS, TREASURY, Answer, Json, Target, far, first, members, sign
from tests.payments.x402.signed_payments import REQUIREMENT, SELLER, authorization, encoded, named, payload
from tollhouse.payments.chain.local_chain import Account

OTHER_PAGES = (
    "/mattress/api/products?limit=2",
    "/mattress/api/products?limit=1&offset=1",
    "/mattress/api/search?q=latex",
    "/mattress/api/retailers",
    "/mattress/api/suggest?q=lat",
)
REFUSED = {400, 402, 413, 414, 429, 431}


async def _is_refused(target: Target, payer: Account, headers: list[tuple[str, dict[str, str]]]) -> None:
    """None of them is served, and the payer keeps every token."""
    held, earned = await target.held(payer), await target.earned()
    answers = await target.at_once(
        target.send(headers=header, process=number) for number, (_, header) in enumerate(headers)
    )
    for (name, _), answer in zip(headers, answers, strict=True):
        assert answer.status in REFUSED | {0}, (name, answer)
        assert b'"products":' not in answer.body, name
    assert (await target.held(payer), await target.earned()) == (held, earned)


@attack("payments", 11)
async def signed_authorization_for_something_else_is_refused(target: Target) -> None:
    payer = await target.payer()
    sent = []
    for name, changes in SIGNED_CHANGES.items():
        read = {
            key: str(int(far()) - 600 + int(value)) if value.startswith("+") else value
            for key, value in changes.items()
        }
        sent.append((name, first(payer, **read)))
    await _is_refused(target, payer, sent)


@attack("payments", 60)
async def member_written_after_signing_is_refused(target: Target) -> None:
    payer = await target.payer()
    sent = []
    for name, changes in WRITTEN_CHANGES.items():
        whole = members(payer)
        whole["payload"]["authorization"].update(changes)
        sent.append((name, {"X-Payment": encoded(whole)}))
        if len(encoded(whole)) < 6_000:
            accepted = {"x402Version": 2, "accepted": REQUIREMENT.v2(), "payload": whole["payload"]}
            sent.append((f"{name}, version 2", {"Payment-Signature": encoded(accepted)}))
    await _is_refused(target, payer, sent)


@attack("payments", 20)
async def malformed_signature_is_refused(target: Target) -> None:
    payer = await target.payer()
    whole = members(payer)
    signed = whole["payload"]["signature"]
    sent = [
        (name, {"X-Payment": encoded({**whole, "payload": {**whole["payload"], "signature": change(signed)}})})
        for name, change in SIGNATURES.items()
    ]
    await _is_refused(target, payer, sent)


@attack("payments", 65)
async def flipped_bit_in_the_signature_is_refused(target: Target) -> None:
    payer = await target.payer()
    whole = members(payer)
    raw = bytes.fromhex(whole["payload"]["signature"][2:])
    sent = []
    for place in range(65):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << place % 8 if place < 64 else 0x40
        changed = {**whole["payload"], "signature": "0x" + flipped.hex()}
        sent.append((f"byte {place}", {"X-Payment": encoded({**whole, "payload": changed})}))
    await _is_refused(target, payer, sent)


@attack("payments", 30)
async def malformed_header_is_refused(target: Target) -> None:
    payer = await target.payer()
    await _is_refused(target, payer, [(name, {"X-Payment": make(members(payer))}) for name, make in HEADERS.items()])


@attack("payments", 12)
async def signature_for_another_domain_is_refused(target: Target) -> None:
    payer, other = await target.payer(), await target.payer()
    domains: list[Json] = [{"chainId": 1}, {"chainId": 84532}, {"chainId": 0}, {"name": "USDC"}, {"version": "1"},
                           {"verifyingContract": SELLER.address}, {"name": ""}, {"version": ""}]  # fmt: skip
    sent = []
    for domain in domains:
        told = authorization(**{"from": payer.address, "validBefore": far()})
        signed = payload(told, sign(told, payer, **domain))
        sent.append((str(domain), {"X-Payment": encoded({**members(payer), "payload": signed})}))
    for number in range(4):
        told = authorization(**{"from": payer.address, "validBefore": far()})
        signed = payload(told, sign(told, other))
        sent.append((f"another's key {number}", {"X-Payment": encoded({**members(payer), "payload": signed})}))
    await _is_refused(target, payer, sent)


@attack("payments", 16)
async def changed_requirement_of_version_two_is_refused(target: Target) -> None:
    payer = await target.payer()
    changes: list[Json] = [{"amount": "1"}, {"amount": 1000}, {"payTo": TREASURY.address}, {"asset": SELLER.address},
                           {"network": "eip155:1"}, {"network": "base"}, {"scheme": "upto"}, {"amount": "0"},
                           {"payTo": ""}, {"asset": None}, {"network": "eip155:08453"}, {"scheme": "EXACT"},
                           {"amount": "1000 "}, {"amount": "01000"}, {"network": "solana:1"},
                           {"payTo": [SELLER.address]}]  # fmt: skip
    sent = []
    for change in changes:
        whole = {"x402Version": 2, "accepted": REQUIREMENT.v2() | change, "payload": members(payer)["payload"]}
        sent.append((str(change), {"Payment-Signature": encoded(whole)}))
    await _is_refused(target, payer, sent)


async def _buy(target: Target, headers: dict[str, str], **options: Any) -> Answer:
    answer = await target.send(headers=headers, **options)
    assert answer.status == 200, answer
    assert json.loads(b64decode(answer.headers["x-payment-response"]))["success"] is True
    return answer


@attack("payments", 60)
async def used_payment_buys_nothing_more(target: Target) -> None:
    payer = await target.payer()
    whole = members(payer)
    header = {"X-Payment": encoded(whole)}
    earned = await target.earned()
    await _buy(target, header)
    await target.refuses(402, headers=header)
    signed = whole["payload"]["signature"]
    low_v = signed[:-2] + {"1b": "00", "1c": "01"}[signed[-2:]]
    twins = [
        header,
        {"X-Payment": encoded({**whole, "payload": {**whole["payload"], "signature": low_v}})},
        {"X-Payment": encoded({**whole, "payload": {**whole["payload"], "signature": high_s(signed)}})},
        {"X-Payment": encoded({**whole, "payload": {**whole["payload"], "signature": "0x" + signed[2:].upper()}})},
        {"X-Payment": b64encode(json.dumps(whole, indent=1).encode()).decode()},
        {"X-Payment": encoded({**whole, "more": 1})},
        {"Payment-Signature": encoded({"x402Version": 2, "accepted": REQUIREMENT.v2(), "payload": whole["payload"]})},
        {"x-PAYMENT": encoded(whole), "X-HTTP-Method-Override": "POST"},
    ]
    upper = json.loads(json.dumps(whole))
    upper["payload"]["authorization"]["nonce"] = "0x" + whole["payload"]["authorization"]["nonce"][2:].upper()
    upper["payload"]["authorization"]["from"] = payer.address.lower()
    twins.append({"X-Payment": encoded(upper)})
    attempts = [
        target.send(path, twin, method=method, process=process)
        for twin in twins
        for process in range(2)
        for path, method in [(PAGE, "GET"), (PAGE, "HEAD"), *((other, "GET") for other in OTHER_PAGES[:2])]
    ]
    for answer in await target.at_once(attempts):
        assert answer.status in REFUSED, answer
    assert await target.earned() == earned + PAGE_MICROS


@attack("payments", 20)
async def raced_payment_is_settled_once(target: Target) -> None:
    header = first(await target.payer())
    earned, booked = await target.earned(), len(await target.payments_booked())
    answers = await target.at_once(target.send(headers=header, process=number) for number in range(20))
    assert {answer.status for answer in answers} <= {200, 402}
    bodies = {answer.body for answer in answers if answer.status == 200}
    assert len(bodies) == 1
    assert await target.earned() == earned + PAGE_MICROS
    assert len(await target.payments_booked()) == booked + 1


@attack("payments", 20)
async def one_authorization_raced_over_many_requests_buys_one(target: Target) -> None:
    header = first(await target.payer())
    earned = await target.earned()
    paths = [PAGE, *OTHER_PAGES, *(f"/mattress/api/products?limit={limit}" for limit in range(10, 24))]
    answers = await target.at_once(target.send(path, header, process=number) for number, path in enumerate(paths))
    assert sorted(answer.status for answer in answers) == [200, *[402] * 19]
    assert await target.earned() == earned + PAGE_MICROS


@attack("payments", 10)
async def authorizations_with_one_nonce_buy_one(target: Target) -> None:
    payer, nonce = await target.payer(), "0x" + secrets.token_hex(32)
    earned = await target.earned()
    many = [first(payer, nonce=nonce, validAfter=str(number)) for number in range(10)]
    answers = await target.at_once(target.send(headers=header, process=n) for n, header in enumerate(many))
    assert sum(answer.status == 200 for answer in answers) == 1
    assert {answer.status for answer in answers} <= {200, 402}
    assert await target.earned() == earned + PAGE_MICROS


@attack("payments", 12)
async def payer_with_tokens_for_one_call_gets_one(target: Target) -> None:
    payer = await target.payer(PAGE_MICROS)
    earned = await target.earned()
    answers = await target.at_once(target.send(headers=first(payer), process=number) for number in range(12))
    assert sum(answer.status == 200 for answer in answers) <= 1
    assert {answer.status for answer in answers} <= {200, 402, 429, 503}
    paid = sum(answer.status == 200 for answer in answers) * PAGE_MICROS
    assert await target.earned() == earned + paid
    assert await target.held(payer) == PAGE_MICROS - paid


@attack("payments", 8)
async def payer_without_tokens_gets_nothing(target: Target) -> None:
    payer = await target.payer(0)
    await _is_refused(target, payer, [(f"{number}", first(payer)) for number in range(8)])


@attack("payments", 4)
async def cancelled_authorization_is_refused(target: Target) -> None:
    payer = await target.payer()
    whole = members(payer)
    told = whole["payload"]["authorization"]
    await _cancel(target, payer, told["nonce"])
    await _is_refused(target, payer, [(f"{n}", {"X-Payment": encoded(whole)}) for n in range(4)])


@attack("payments", 4)
async def payment_for_a_request_that_fails_is_not_taken(target: Target) -> None:
    payer = await target.payer()
    header, earned = first(payer), await target.earned()
    for path in ("/mattress/api/products?limit=0", "/mattress/api/products?colour=red", "/mattress/api/products/none"):
        answer = await target.send(path, header)
        assert answer.status in {400, 404}, answer
    assert await target.earned() == earned
    await _buy(target, header)


@attack("payments", 6)
async def payment_beside_a_credential_is_not_taken_twice(target: Target) -> None:
    """A caller who shows a key and a payment is charged in one way at most."""
    payer = await target.payer()
    earned = await target.earned()
    answer = await target.send(headers={**first(payer), "Authorization": f"Bearer {target.operator_key}"})
    assert answer.status == 200, answer
    assert await target.earned() == earned
    for credential in ("Bearer th_live_wrong", "Bearer ", "Basic YTpi", "bearer"):
        answer = await target.send(headers={**first(payer), "Authorization": credential})
        assert answer.status == 401, answer
    both = {**first(payer), "Payment-Signature": encoded({"x402Version": 2})}
    assert (await target.send(headers=both)).status == 400
    assert await target.earned() == earned


@attack("payments", 4)
async def payment_identifier_of_another_call_is_refused(target: Target) -> None:
    payer, extensions = await target.payer(), named("attack_" + "0123456789abcdef")

    def paid(payer: Account = payer) -> dict[str, str]:
        whole = {
            "x402Version": 2,
            "accepted": REQUIREMENT.v2(),
            "payload": members(payer)["payload"],
            "extensions": extensions,
        }
        return {"Payment-Signature": encoded(whole)}

    header, earned = paid(), await target.earned()
    bought = await target.send(headers=header)
    assert bought.status == 200, bought
    again = await target.send(headers=header, process=1)
    assert (again.status, again.body) == (200, bought.body), again
    assert (await target.send(headers=paid())).status == 409
    assert (await target.send(OTHER_PAGES[0], header)).status == 409
    assert await target.earned() == earned + PAGE_MICROS
    stranger = await target.payer()
    assert (await target.send(headers=paid(stranger))).status == 200


async def _cancel(target: Target, payer: Account, nonce: str) -> None:
    kinds = {"CancelAuthorization": [{"name": "authorizer", "type": "address"}, {"name": "nonce", "type": "bytes32"}]}
    domain = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": target.chain.usdc_address}
    raw = bytes.fromhex(nonce[2:])
    made = Signer.sign_typed_data(payer.private_key, domain, kinds, {"authorizer": payer.address, "nonce": raw})
    data = keccak(text="cancelAuthorization(address,bytes32,bytes)")[:4]
    data += encode(["address", "bytes32", "bytes"], [payer.address, raw, made.signature])
    assert (
        await target.chain.wait_mined(await target.chain.send(TREASURY, target.chain.usdc_address, data))
    ).is_success
