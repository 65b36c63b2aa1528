"""A call is repeated as it was sent, waits as the server says, and never pays twice or beyond the limit."""

import json
import threading
from base64 import b64encode

import pytest
from msgspec.structs import replace

from tests.payments.x402.signed_payments import PAYER, REQUIREMENT, RESOURCE, UPTO_REQUIREMENT
from tollhouse import clock
from tollhouse.client import (
    LimitedPayer,
    Payer,
    PaymentError,
    ProblemError,
    RateLimitError,
    Retries,
    ServerError,
    SpendingLimit,
    SpendingLimitError,
    UnansweredError,
)
from tollhouse.client.exchange import Call, Lost, Reply, exchange
from tollhouse.client.offer import read_challenge
from tollhouse.client.service import Service, next_query
from tollhouse.payments.x402.headers import challenge

REQUIRED = challenge(RESOURCE, [REQUIREMENT], "pay").headers["PAYMENT-REQUIRED"]
OFFER = read_challenge(REQUIRED).offers[0][0]
PRICE = OFFER.micros
ASK = Reply(402, {"payment-required": REQUIRED}, b'{"code": "payment-required"}')
LOST, REFUSED = Lost("reset", was_sent=True), Lost("refused", was_sent=False)
DONE = Reply(200, {}, b'{"n": 1}')
GET, POST = Call("GET", "http://x/a"), Call("POST", "http://x/a", content=b"{}")
SIGNED = Call("POST", "http://x/a", is_signed=True)


def payer(total=10 * PRICE):
    limit = SpendingLimit(per_call_micros=PRICE, total_micros=total, tokens={OFFER.network: OFFER.asset})
    return LimitedPayer(Payer(PAYER.private_key), limit)


def settled(success=True, **members: str):
    told = {"success": success, "transaction": "0xab", **members}
    header = b64encode(json.dumps(told).encode()).decode()
    return Reply(200, {"payment-response": header}, b"{}")


def problem(status, code="x", retry_after=""):
    headers = {"retry-after": retry_after} if retry_after else {}
    return Reply(status, headers, json.dumps({"code": code}).encode())


def play(call, replies, payer=None):
    """The requests sent, the seconds waited, and the answer or the error, for these replies in turn."""
    steps, sent, waited, result, replies = exchange(call, Retries(attempts=3), payer), [], [], None, iter(replies)
    try:
        while True:
            step = steps.send(result)
            if isinstance(step, Call):
                sent.append(step)
                result = next(replies)
            else:
                waited.append(step)
                result = None
    except StopIteration as end:
        return sent, waited, end.value
    except (ProblemError, UnansweredError, SpendingLimitError) as error:
        return sent, waited, error


@pytest.mark.parametrize("call", [GET, SIGNED])
def test_lost_request_is_sent_again_as_it_was(call):
    sent, waited, answer = play(call, [LOST, REFUSED, DONE])
    assert (sent, answer.json) == ([call] * 3, {"n": 1})
    assert 0 < waited[0] < waited[1] < 1


def test_request_that_may_have_done_something_is_not_sent_again():
    sent, _, error = play(POST, [LOST])
    assert (sent, type(error), error.call) == ([POST], UnansweredError, POST)
    assert len(play(POST, [REFUSED, DONE])[0]) == 2
    assert len(play(POST, [problem(502)])[0]) == 1


def test_server_says_how_long_to_wait():
    for status in (429, 503):
        assert play(POST, [problem(status, retry_after="7"), DONE])[1] == [7.0]
    assert play(GET, [problem(409, retry_after="9"), DONE])[1] == [9.0]
    sent, _, error = play(GET, [problem(429, "quota-exceeded", retry_after="61")])
    assert (len(sent), type(error), error.retry_after_seconds, error.code) == (1, RateLimitError, 61, "quota-exceeded")
    sent, waited, error = play(GET, [problem(502)] * 3)
    assert (len(sent), len(waited), type(error)) == (3, 2, ServerError)
    assert len(play(GET, [problem(500)])[0]) == 1


def test_payment_is_made_once_and_sent_with_every_repetition():
    wallet = payer()
    sent, _, answer = play(POST, [ASK, LOST, problem(503, retry_after="1"), settled()], wallet)
    assert [call.payment for call in sent[1:]] == [sent[1].payment] * 3
    assert sent[1].headers["Payment-Signature"] == sent[3].headers["Payment-Signature"]
    assert (answer.paid_micros, answer.transaction, wallet.spent_micros) == (PRICE, "0xab", PRICE)


def test_refused_payment_is_not_replaced_by_another():
    wallet = payer()
    sent, _, error = play(GET, [ASK, ASK], wallet)
    assert (len(sent), type(error), wallet.spent_micros) == (2, PaymentError, 0)


def test_amount_of_a_payment_that_was_not_taken_is_free_once_its_signature_has_expired(monkeypatch):
    wallet = payer(total=PRICE)
    assert isinstance(play(GET, [ASK, problem(404)], wallet)[2], ProblemError)
    assert isinstance(play(GET, [ASK], wallet)[2], SpendingLimitError)
    later = clock.seconds() + OFFER.max_timeout_seconds + 1
    monkeypatch.setattr(clock, "seconds", lambda: later)
    assert play(GET, [ASK, settled()], wallet)[2].paid_micros == PRICE


@pytest.mark.parametrize(("amount", "taken"), [("1", 1), ("0", 0), (str(PRICE + 1), PRICE), ("-1", PRICE)])
def test_of_a_maximum_only_what_was_taken_is_spent_and_the_rest_is_free_later(monkeypatch, amount, taken):
    required = challenge(RESOURCE, [replace(UPTO_REQUIREMENT, amount_micros=PRICE)], "pay").headers["PAYMENT-REQUIRED"]
    ask, wallet = Reply(402, {"payment-required": required}, b"{}"), payer(total=PRICE + taken)
    answer = play(GET, [ask, settled(amount=amount)], wallet)[2]
    assert (answer.paid_micros, wallet.spent_micros) == (taken, taken)
    if taken < PRICE:
        assert taken == 0 or isinstance(play(GET, [ask], wallet)[2], SpendingLimitError)
        later = clock.seconds() + UPTO_REQUIREMENT.max_timeout_seconds + 1
        monkeypatch.setattr(clock, "seconds", lambda: later)
        assert play(GET, [ask, settled(amount=amount)], wallet)[2].paid_micros == taken


@pytest.mark.parametrize("replies", [[LOST] * 3, [problem(502)] * 3, [LOST, problem(402)]])
def test_payment_whose_fate_is_unknown_counts_as_spent(replies):
    wallet = payer(total=PRICE)
    assert isinstance(play(GET, [ASK, *replies], wallet)[2], Exception)
    assert wallet.spent_micros == PRICE


def test_answer_that_took_no_payment_costs_nothing():
    for reply in (DONE, settled(success=False)):
        wallet = payer()
        assert (play(GET, [ASK, reply], wallet)[2].paid_micros, wallet.spent_micros) == (0, 0)


def test_threads_share_one_limit():
    wallet, paid = payer(total=5 * PRICE), []
    threads = [threading.Thread(target=lambda: paid.append(play(GET, [ASK, settled()], wallet)[2])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(not isinstance(one, SpendingLimitError) for one in paid) == 5
    assert wallet.spent_micros == 5 * PRICE


@pytest.mark.parametrize(
    "change",
    [
        {"scheme": "upto"},
        {"network": "solana:x"},
        {"amount": "-5"},
        {"payTo": "0x12"},
        {"extra": {}},
        {"extra": {"name": "a", "version": "1", "assetTransferMethod": "permit2"}},
    ],
)
def test_offer_that_this_client_cannot_pay_is_passed_over(change):
    accepts = [{**read_challenge(REQUIRED).offers[0][1], **change}]
    header = b64encode(json.dumps({"x402Version": 2, "accepts": accepts}).encode()).decode()
    assert isinstance(play(GET, [Reply(402, {"payment-required": header}, b"{}")], payer())[2], PaymentError)


@pytest.mark.parametrize("header", ["%%", "bnVsbA==", b64encode(b'{"x402Version": 2}').decode()])
def test_malformed_challenge_is_an_error_of_the_client(header):
    assert isinstance(play(GET, [Reply(402, {"payment-required": header}, b"{}")], payer())[2], ProblemError)


def test_signed_call_whose_answer_was_lost_for_good_says_so():
    used = problem(401, "nonce-reused")
    assert isinstance(play(SIGNED, [LOST, used, used])[2], UnansweredError)
    assert play(SIGNED, [LOST, used, DONE])[2].status == 200
    assert len(play(SIGNED, [used])[0]) == 1


def test_pages_follow_a_cursor_or_an_offset():
    assert next_query({"limit": 2}, {"next_cursor": "c"}) == {"limit": 2, "cursor": "c"}
    assert next_query({"cursor": "c"}, {"next_cursor": None}) is None
    assert next_query({"q": "x"}, {"offset": 4, "count": 2, "total": 7}) == {"q": "x", "offset": 6}
    assert next_query({}, {"offset": 4, "count": 3, "total": 7}) is None
    assert next_query({}, {"offset": 4, "count": 0, "total": 7}) is None
    with pytest.raises(ValueError, match="not a page"):
        next_query({}, {"status": "ok"})


def test_query_is_encoded_as_the_server_reads_it():
    query = {"brand": ["A&B", "C"], "in_stock": True, "q": None}
    call = Service("http://x", "mattress").prepare("GET", "/api/products/a b", query)
    assert call.url == "http://x/mattress/api/products/a%20b?brand=A%26B&brand=C&in_stock=true"


@pytest.mark.parametrize("path", ["api", "/a?b=1", "/a#b", ""])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="path"):
        Service("http://x").prepare("GET", path)


@pytest.mark.parametrize("url", ["feeds.example", "ftp://x", "http://"])
def test_what_is_no_server_is_refused(url):
    with pytest.raises(ValueError, match="http"):
        Service(url)
