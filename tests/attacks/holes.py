"""Attacks that once succeeded: each row keeps a hole closed."""

import secrets

from tests.attacks.attack import attack
from tests.attacks.target import (
    DOLLAR,
    FEED,
    FEED_PATH,
    PAGE,
    PAGE_MICROS,
    TREASURY,
    Target,
    first,
    members,
    new_address,
)
from tests.payments.x402.signed_payments import REQUIREMENT, encoded, named, read
from tollhouse.client import Agent
from tollhouse.payments.x402.types import Requirement
from tollhouse.payments.x402.verification import plan_settlement


@attack("holes", 12, closes="one payment buys two answers", is_joint=True)
async def payment_shown_to_two_deployments_buys_one_answer(target: Target, other: Target) -> None:
    """Both are paid into one account, and neither knows the other's database."""
    earned = await target.earned()
    booked = len(await target.payments_booked()) + len(await other.payments_booked())
    for _ in range(6):
        header = first(await target.payer())
        answers = await target.at_once([target.send(headers=header), other.send(headers=header)])
        assert sum(answer.status == 200 for answer in answers) <= 1, answers
        assert {answer.status for answer in answers} <= {200, 402, 503}, answers
    assert await target.earned() <= earned + 6 * PAGE_MICROS
    assert len(await target.payments_booked()) + len(await other.payments_booked()) <= booked + 6


@attack("holes", 8, closes="one payment buys two answers")
async def authorization_that_a_stranger_carried_out_buys_nothing(target: Target) -> None:
    payer, chain = await target.payer(), target.chain
    booked = len(await target.payments_booked())
    for _ in range(2):
        whole = members(payer)
        told = whole["payload"]["authorization"]
        requirement = Requirement(8453, PAGE_MICROS, chain.usdc_address, told["to"], 60)
        plan = plan_settlement(read(whole), requirement, ())
        mined = await chain.wait_mined(await chain.send(TREASURY, plan.transfer.to, plan.transfer.data, gas=300_000))
        assert mined.is_success
        for process in range(4):
            answer = await target.send(headers={"X-Payment": encoded(whole)}, process=process)
            assert answer.status == 402, answer
    target.given += 2 * PAGE_MICROS
    assert len(await target.payments_booked()) == booked


@attack("holes", 21, closes="the same payment sent 20 times at once is answered 20 times")
async def one_of_many_copies_at_once_is_answered(target: Target) -> None:
    header, earned = first(await target.payer()), await target.earned()
    answers = await target.at_once(target.send(headers=header, process=number) for number in range(20))
    assert sorted(answer.status for answer in answers) == [200, *[402] * 19]
    assert await target.earned() == earned + PAGE_MICROS
    assert (await target.send(headers=header)).status == 402


@attack("holes", 6, closes="a watcher of the chain takes a payer's stored answer")
async def stored_answer_is_given_only_for_the_original_header(target: Target) -> None:
    """What a transaction shows is enough to write the payment anew, but not to know the header that was sent."""
    payer, extensions = await target.payer(), named("hole_" + secrets.token_hex(8))
    whole = {
        "x402Version": 2,
        "accepted": REQUIREMENT.v2(),
        "payload": members(payer)["payload"],
        "extensions": extensions,
    }
    bought = await target.send(headers={"Payment-Signature": encoded(whole)})
    assert bought.status == 200, bought
    seen = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": whole["payload"]}
    unnamed = {name: value for name, value in whole.items() if name != "extensions"}
    for process in range(2):
        for header in ({"X-Payment": encoded(seen)}, {"Payment-Signature": encoded(unnamed)}):
            answer = await target.send(headers=header, process=process)
            assert answer.status in {402, 409}, answer
    again = await target.send(headers={"Payment-Signature": encoded(whole)}, process=1)
    assert (again.status, again.body) == (200, bought.body)


@attack("holes", 40, closes="an unfunded wallet fills the ledger")
async def wallet_without_money_leaves_no_rows(target: Target) -> None:
    wallet = await target.wallet(0)
    rows = len(await target.context.ledger.transfers("call", 0.0))
    answers = await target.at_once(target.send(FEED, wallet.headers(FEED_PATH), process=number) for number in range(40))
    assert {answer.status for answer in answers} <= {402, 429}, answers
    assert len(await target.context.ledger.transfers("call", 0.0)) == rows


@attack("holes", 3, closes="an unfunded wallet fills the ledger")
async def call_refused_for_its_balance_keeps_its_nonce(target: Target) -> None:
    account = await target.payer(DOLLAR)
    assert (await target.post("/api/agent/register", {"wallet_address": account.address})).status == 200
    wallet = Agent(account.private_key)
    headers = wallet.headers(FEED_PATH)
    assert (await target.send(FEED, headers)).status == 402
    tx_hash = await target.chain.transfer_usdc(account.address, TREASURY.address, DOLLAR)
    await target.chain.wait_mined(tx_hash)
    assert (await target.deposit(account.address, tx_hash)).status == 200
    assert (await target.send(FEED, headers, process=1)).status == 200


@attack("holes", 300, closes="work before counting")
async def failures_from_one_address_meet_429(target: Target) -> None:
    """Forged payments, wrong keys and wrong signatures are counted before the node or the ledger is asked."""
    payer = await target.payer(0)
    wallet = Agent(secrets.token_bytes(32))
    for make in (lambda: (PAGE, first(payer)), lambda: (FEED, wallet.headers(FEED_PATH))):
        address = new_address()
        attempts = [make() for _ in range(150)]
        answers = await target.at_once(target.send(path, headers, address=address) for path, headers in attempts)
        assert any(answer.status == 429 for answer in answers), {answer.status for answer in answers}
        assert all(answer.status in {401, 402, 429} for answer in answers)
        refused = next(answer for answer in answers if answer.status == 429)
        assert int(refused.headers["retry-after"]) > 0


OPERATORS = ("/metrics", "/operator/api/ledger", "/operator/api/session")
TOKENS = ("", "a", "admin", "' OR 1=1", "0" * 20, "x" * 64)


@attack("holes", 24, closes="operator pages open by default")
async def operator_is_nobody_without_the_token(target: Target) -> None:
    """This machine's address opens nothing, with whatever a browser or a proxy adds."""
    for path in OPERATORS[:2]:
        for token in TOKENS:
            for address in ("127.0.0.1", "::1"):
                answer = await target.send(path, {"Authorization": f"Bearer {token}"}, address=address)
                assert answer.status in {400, 401, 403, 404, 429}, (path, token, answer)
    for method in ("POST", "DELETE", "PUT"):
        for path in OPERATORS:
            answer = await target.send(path, {"Origin": "http://evil.example"}, method=method, address="127.0.0.1")
            assert answer.status in {400, 401, 403, 404, 405, 411, 415, 429}, (path, answer)


@attack("holes", 12, closes="missing, duplicate or invalid Host")
async def request_without_exactly_one_valid_host_is_refused(target: Target) -> None:
    for path in (b"/health", b"/mattress/api/products"):
        hosts = [b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\nHost: a\r\n", b"Host: \r\n", b"Host: a b\r\n",
                 b"Host: a/b\r\n", b"Host: a@b\r\n", b"Host: a:b:c\r\n", b"Host: a:99999999\r\n",
                 b"Host: [::1\r\n"]  # fmt: skip
        for host in hosts:
            answer = await target.send_bytes(b"GET %b HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (path, host))
            assert answer.status in {0, 400}, (host, answer)


@attack("holes", 11, closes="ten rotations at once")
async def rotations_at_once_leave_one_working_key(target: Target) -> None:
    key = await target.new_key(f"{secrets.token_hex(4)}@example.org")
    answers = await target.at_once(
        target.send("/api/keys/rotate", {"Authorization": f"Bearer {key}"}, method="POST", process=number)
        for number in range(10)
    )
    issued = [answer.json["api_key"] for answer in answers if answer.status == 200]
    assert len(issued) == 1, [answer.status for answer in answers]
    verified = await target.send("/api/keys/verify", {"Authorization": f"Bearer {issued[0]}"}, process=1)
    assert verified.status == 200


@attack("holes", 4, closes="anyone registers another's wallet")
async def email_of_a_wallet_is_registered_by_its_owner_alone(target: Target) -> None:
    victim, thief = await target.payer(0), Agent(secrets.token_bytes(32))
    body = {"wallet_address": victim.address, "email": "thief@example.org"}
    assert (await target.post("/api/agent/register", body)).status == 401
    path = "/api/agent/register?email=thief@example.org"
    for headers in (thief.headers(path), {**thief.headers(path), "X-Agent-Address": victim.address}):
        assert (await target.post("/api/agent/register", body, headers)).status == 401
    assert (await target.send(f"/api/agent/balance?wallet_address={victim.address}")).status == 404


@attack("holes", 25, closes="20 key creations lock any e-mail address out")
async def keys_for_anothers_email_address_lock_nobody_out(target: Target) -> None:
    email = f"{secrets.token_hex(4)}@example.org"
    made = await target.at_once(
        target.post("/api/keys/create", {"email": email}, process=number) for number in range(25)
    )
    assert {answer.status for answer in made} <= {200, 429}
    assert (await target.post("/api/keys/create", {"email": email})).status == 200
