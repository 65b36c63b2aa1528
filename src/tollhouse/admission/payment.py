"""Payment per request (x402), and responses stored until their payer has them."""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from http import HTTPStatus

from tollhouse import tracing
from tollhouse.accounts.sign_in import SIGN_IN, Target, offer
from tollhouse.admission.context import AppContext
from tollhouse.admission.streams import MeteredStream
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Response
from tollhouse.http.paid_paths import SIWX_PATH
from tollhouse.http.request import HttpRequest
from tollhouse.http.response import is_passed_stream
from tollhouse.http.router import Call
from tollhouse.metering.attempts import Attempts
from tollhouse.money import usd
from tollhouse.payments.ledger.types import StoredResponse
from tollhouse.payments.x402.claims import Claimed, PaidResponse
from tollhouse.payments.x402.headers import PAYMENT_NOT_CONFIGURED, Challenge, challenge, payment_invalid, read_payment
from tollhouse.payments.x402.headers import Headers as PaymentHeaders
from tollhouse.payments.x402.payments import X402
from tollhouse.payments.x402.types import (
    EXACT,
    UPTO,
    InvalidReason,
    Payment,
    Requirement,
    Resource,
    VerificationFailure,
)
from tollhouse.payments.x402.verification import match_requirement, recover_eoa_signature

# A stranger can send a copy of a payer's authorization, but not one that the payer cannot cover.
_PAYERS_FAULT = frozenset({InvalidReason.INSUFFICIENT_FUNDS})

UPTO_NOT_SETTLED = "This server's facilitator does not settle payments of a maximum (x402's scheme `upto`)."


def to_stored(answer: Response) -> StoredResponse:
    """The response in the form in which it is stored."""
    return StoredResponse(
        answer.status,
        answer.media_type,
        answer.body,
        answer.headers,
        answer.etag or "",
        answer.cache_control,
        passes_through=answer.passes_through,
        reopens=is_passed_stream(answer),
    )


def from_stored(stored: StoredResponse) -> Response:
    """A stored response, ready to be sent again."""
    return Response(
        stored.body,
        stored.media_type,
        stored.etag or None,
        stored.headers,
        stored.status,
        stored.cache_control,
        passes_through=stored.passes_through,
    )


def fingerprint(request: HttpRequest, body: bytes) -> bytes:
    """A digest of method, path, query and body."""
    digest = blake2b(digest_size=16)
    for part in (request.method.encode(), request.path.encode(), request.query, body):
        digest.update(b"%d:%b" % (len(part), part))
    return digest.digest()


async def claim(context: AppContext, call: Call, attempts: Attempts, address: str) -> Claimed | PaidResponse:
    """Verify and claim the payment of this call, before the handler runs.

    Raises Problem `payment-required` where there is none, `payment-invalid`, `rate-limited`, and those of X402.
    """
    request = call.request
    payment = read_payment(request.header(b"x-payment"), request.header(b"payment-signature"))
    if context.per_request.x402 is None or payment is None:
        raise await _required(context, call)
    resource = _resource(context, call)
    accepts = await _accepts(context.per_request.x402, call)
    print_of_call = fingerprint(request, await call.body())
    request.watch_disconnect()

    def is_authentic() -> bool:
        requirement = match_requirement(accepts, payment)
        return isinstance(requirement, Requirement) and recover_eoa_signature(payment, requirement) is not None

    budget = attempts.attempt(
        address, party(payment), is_authentic=is_authentic, is_partys_fault=lambda _: reason in _PAYERS_FAULT
    )
    reason = ""
    async with budget:
        with tracing.span("payment verification", **{"tollhouse.payment": "x402"}):
            outcome = await context.per_request.x402.claim(payment, accepts, print_of_call, resource.url)
        if isinstance(outcome, VerificationFailure):
            reason = outcome.reason
            raise payment_invalid(outcome, _challenge(context, call, accepts, reason))
    return outcome


async def settle(x402: X402, claimed: Claimed, answer: Response, call: Call) -> PaymentHeaders | VerificationFailure:
    """Settle the payment for an answer, of which the first bytes are there; see X402.settle."""
    cost_micros = await call.cost_micros(answer) if claimed.requirement.scheme == UPTO else None
    if not is_passed_stream(answer):
        return await x402.settle(claimed, to_stored(answer), cost_micros)
    stream = MeteredStream(answer, on_piece=partial(x402.hold, claimed))
    try:
        await stream.begin(call.request)
        outcome = await x402.settle(claimed, to_stored(answer), cost_micros)
    except BaseException:
        await stream.discard()
        raise
    answer.stream = stream
    if isinstance(outcome, VerificationFailure):
        await stream.discard()
    return outcome


def party(payment: Payment) -> str:
    """The name under which a payer's failed attempts are counted."""
    return f"payer:{payment.payer.lower()}"


async def refused(context: AppContext, x402: X402, call: Call, outcome: VerificationFailure) -> Problem:
    """The 402 for a payment whose settlement moved no money."""
    return payment_invalid(outcome, _challenge(context, call, await _accepts(x402, call), outcome.reason))


async def _accepts(x402: X402, call: Call) -> list[Requirement]:
    """How this call can be paid for: exactly its price, or what it cost of the most that it may cost."""
    return x402.accepts(await call.price_micros(), _scheme(call))


def _scheme(call: Call) -> str:
    return UPTO if _is_measured(call) else EXACT


async def _stated_price(call: Call) -> int:
    """The price in a challenge for a call without a payment, in micro-USD.

    Directories send calls that are not valid, and are to learn that the operation is sold: where the units of a call
    cannot be counted, this is the least that a call costs. A payment of it buys nothing: the call is refused first.
    """
    try:
        return await call.price_micros()
    except Problem as problem:
        price = call.endpoint.terms.price
        if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR or price is None:
            raise
        return price.micros()


def _is_measured(call: Call) -> bool:
    """Whether the cost is known only after the answer."""
    price = call.endpoint.terms.price
    return price is not None and price.max_micros is not None


def _challenge(context: AppContext, call: Call, accepts: Sequence[Requirement], error: str) -> Challenge:
    """Ask for a payment of this call, and say how the operation is called."""
    extensions = context.offers.extensions(call.route, _root(context, call), call.tool) if accepts else {}
    if accepts and _offers_sign_in(context, call):
        extensions = {SIGN_IN: (offer(sign_in_target(context, call)),), **extensions}
    return challenge(_resource(context, call), accepts, error, extensions)


def _offers_sign_in(context: AppContext, call: Call) -> bool:
    """Whether the challenge offers to pay from credit; see `tollhouse.http.paid_paths`."""
    is_for_it = call.endpoint.paid_prefix == SIWX_PATH or call.endpoint.terms.opens_to == "anyone"
    return is_for_it and not call.tool and context.hosts.is_own(call.request)


def sign_in_target(context: AppContext, call: Call) -> Target:
    """What a wallet signs for to pay for this call from its credit."""
    request = call.request
    path, query = request.raw_path.decode("latin-1"), request.query.decode("latin-1")
    return Target(_root(context, call), path, query, context.settings.evm_chain_id)


async def or_pay(context: AppContext, call: Call, problem: Problem) -> Problem:
    """The 402 for a wallet without enough credit, with the challenge to pay for the call instead."""
    x402 = context.per_request.x402
    accepts = await _accepts(x402, call) if x402 and call.endpoint.terms.takes_payments else []
    if not accepts:
        return problem
    required = _challenge(context, call, accepts, "Payment required.")
    either = required.problem(problem.code, f"{problem.detail} Or pay for this request (x402).", **problem.facts)
    either.usage = problem.usage
    return either


async def _required(context: AppContext, call: Call) -> Problem:
    x402, price_micros = context.per_request.x402, await _stated_price(call)
    accepts = x402.accepts(price_micros, _scheme(call)) if x402 else []
    not_accepted = UPTO_NOT_SETTLED if x402 and _is_measured(call) else PAYMENT_NOT_CONFIGURED
    how_to_pay = "Pay for this request (x402)." if accepts else not_accepted
    terms = call.endpoint.terms
    reason = f"This request costs {'at most ' if _is_measured(call) else ''}{usd(price_micros)} USD."
    error, others = "Payment required.", "Another way to pay: wallet credit, with POST /api/agent/register."
    if terms.opens_to != "payer":
        others = (
            "Other ways to pay: wallet credit, with POST /api/agent/register, or the API key of a paid plan, with "
            "POST /api/keys/create."
        )
        if terms.free_requests(context.settings.free_per_ip_per_day):
            reason, error = (
                "Free allowance exceeded for this address.",
                "Free allowance exceeded: pay for this request.",
            )
    required = _challenge(context, call, accepts, error if accepts else not_accepted)
    return required.problem("payment-required", f"{reason} {how_to_pay} {others}")


def _resource(context: AppContext, call: Call) -> Resource:
    """The resource of the challenge, at its full public URL."""
    operation, request, root = call.endpoint, call.request, _root(context, call)
    query = f"?{request.query.decode('latin-1')}" if request.query else ""
    media_type = next(iter(operation.responses), "application/json")
    return Resource(f"{root}{request.path}{query}", operation.summary, media_type)


def _root(context: AppContext, call: Call) -> str:
    """The public address of the root, without a slash at the end."""
    host = call.request.header(b"host") or "localhost"
    return context.settings.public_url.rstrip("/") or f"http://{host}{context.settings.root_path}"
