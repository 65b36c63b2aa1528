"""Admission: authenticate, check limits, handle, then settle or release. The only module that knows the sequence."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tollhouse import clock, tracing
from tollhouse.accounts import sign_in
from tollhouse.accounts.wallets import AgentHeaders, nonce_of
from tollhouse.admission import payment
from tollhouse.admission.call_headers import (
    allowance_of,
    invalid_key,
    over_limit,
    presented_key,
    signed_call,
    usage_headers,
)
from tollhouse.admission.context import AppContext
from tollhouse.admission.payment import fingerprint, from_stored, to_stored
from tollhouse.admission.streams import MeteredStream, costs_nothing, may_be_repeated
from tollhouse.admission.visits import VISIT_HEADER, over_budget
from tollhouse.errors import Problem, missing_credentials
from tollhouse.evm import checksummed
from tollhouse.http.endpoint import Response
from tollhouse.http.request import address_reader
from tollhouse.http.response import Headers, is_passed_stream
from tollhouse.http.router import Admitted, Call
from tollhouse.http.terms import AddressCaller, Caller, KeyCaller, Terms, VisitorCaller, WalletCaller
from tollhouse.metering.address_budget import release, reserve_for_address
from tollhouse.metering.attempts import Attempts
from tollhouse.metering.meter import Reservation, Verdict, Windows
from tollhouse.money import usd
from tollhouse.payments import credit
from tollhouse.payments.credit import Claim
from tollhouse.payments.ledger.ledger import GRACE_SECONDS
from tollhouse.payments.ledger.types import StoredResponse
from tollhouse.payments.x402.claims import PaidResponse
from tollhouse.payments.x402.headers import Headers as PaymentHeaders
from tollhouse.payments.x402.payments import X402
from tollhouse.payments.x402.types import VerificationFailure

T = TypeVar("T")

# A call that ends in one of these statuses or in 5xx does not count.
_UNCOUNTED = frozenset({401, 402, 403, 429})
_ONE_A_MINUTE = Windows(None, 1)


class Admission:
    """Decides who may call an endpoint, and counts or charges the call."""

    def __init__(self, context: AppContext) -> None:
        settings = context.settings
        self._context = context
        self._meter = context.meter
        self._attempts = Attempts(context.meter, settings.failed_attempts_per_minute)
        self._windows_of = context.plans.windows_of
        self._address = address_reader(settings.trusted_networks())

    async def admit(self, call: Call) -> Admitted:
        """Handle a call that the endpoint's terms permit.

        Raises Problem for one they do not, and what the handler raises, with the usage headers on it.
        """
        terms, request = call.endpoint.terms, call.request
        address = call.address = self._address(request.peer, request.header(b"x-forwarded-for"))
        if terms.opens_to == "operator":
            self._context.operator.check(request, terms.operator_setting)
        if terms.opens_to == "anyone" and terms.is_metered:
            return await self._on_allowance(call, address)
        if terms.opens_to == "payer":
            return await self._from_payer(call, address)
        if terms.opens_to != "key":
            answer = await call.handle(AddressCaller(address), address)
            return Admitted(answer, delivered=answer.delivered, undelivered=answer.undelivered)
        signed = signed_call(call)
        if signed is not None:
            return await self._on_credit(call, signed, address)
        if b"authorization" not in request.headers and _is_visit(call):
            return await self._on_visit(call, address)
        return await self._on_plan(call, await self._holder(call, address), address)

    async def _on_plan(self, call: Call, caller: KeyCaller, address: str) -> Admitted:
        """A call with a key counts against its plan."""
        terms = call.endpoint.terms
        call.caller = caller
        self._check_plan(terms, caller)
        if not terms.is_metered:
            verdict = await self._meter.peek(caller.subject, self._windows_of(caller))
            return Admitted(await call.handle(caller, address), self._usage(caller, verdict))
        reservation = await self._reserve(call, caller)
        call.paying = "plan"
        answer = await self._counted(reservation, caller, lambda: call.handle(caller, address))
        call.payment = "plan"
        return Admitted(answer, self._usage(caller, reservation.verdict))

    async def _on_allowance(self, call: Call, address: str) -> Admitted:
        """A call that needs no key. Wallet credit, or the key of a paid plan, takes the place of the allowance."""
        signed = signed_call(call)
        if signed is not None:
            return await self._on_credit(call, signed, address)
        if b"authorization" in call.request.headers:
            caller = await self._holder(call, address)
            if not self._is_on_free_plan(caller):
                return await self._on_plan(call, caller, address)
            # A free plan adds nothing to the allowance: keys cost nothing, so each caller could have many.
            call.caller = caller
            reservation = await self._reserve(call, caller)
            return await self._counted(reservation, caller, lambda: self._from_address(call, address))
        if _is_visit(call):
            return await self._on_visit(call, address)
        return await self._from_address(call, address)

    async def _on_visit(self, call: Call, address: str) -> Admitted:
        """A page reads without a key: counted against the visitor's budget, never paid for, never on an allowance."""
        visits = self._context.visits
        visits.check(call.request, address)
        visitor = call.caller = VisitorCaller(address)
        reservation = await reserve_for_address(self._meter, "visit", address, visits.windows)
        usage = self._usage(visitor, reservation.verdict)
        if reservation.verdict.refused_by is not None:
            problem = over_budget(reservation)
            problem.usage = usage
            raise problem
        return Admitted(await self._counted(reservation, visitor, lambda: call.handle(visitor, address)), usage)

    async def _from_address(self, call: Call, address: str) -> Admitted:
        """A call counts against the address's allowance; beyond it, it is paid for."""
        visitor = AddressCaller(address)
        name, windows = allowance_of(call.endpoint.terms, self._context.settings)
        reservation = await reserve_for_address(self._meter, name, address, windows, self._requests(call, visitor))
        usage = self._usage(visitor, reservation.verdict)
        if reservation.verdict.refused_by is None:
            call.paying = "allowance"
            answer = await self._counted(reservation, visitor, lambda: call.handle(visitor, address))
            call.payment = "allowance"
            return Admitted(answer, usage)
        try:
            return await self._per_request(call, visitor, usage)
        except Problem as problem:
            problem.usage = usage
            raise

    async def _from_payer(self, call: Call, address: str) -> Admitted:
        """A call that is paid by itself: no key opens it, and there is no allowance."""
        signed = signed_call(call)
        if signed is not None:
            return await self._on_credit(call, signed, address)
        return await self._per_request(call, AddressCaller(address), [])

    async def _per_request(self, call: Call, visitor: AddressCaller, usage: Headers) -> Admitted:
        """One payment buys one response: claimed before the handler runs, settled before the response is sent."""
        claimed = await payment.claim(self._context, call, self._attempts, visitor.address)
        x402 = self._context.per_request.x402
        assert x402 is not None, "a payment was claimed"
        call.payment = call.paying = "x402"
        call.payer = claimed.payment.payer
        if isinstance(claimed, PaidResponse):
            return await self._paid_before(x402, claimed, call, visitor, usage)
        try:
            answer = await call.handle(visitor, visitor.address)
            if costs_nothing(answer, call.request):
                await x402.release(claimed)
                return Admitted(answer, usage)
            with tracing.span("payment settlement", **{"tollhouse.payment": "x402"}):
                settled = await payment.settle(x402, claimed, answer, call)
        except BaseException:
            await x402.release(claimed)
            raise
        if isinstance(settled, VerificationFailure):
            await self._attempts.count(visitor.address, payment.party(claimed.payment))
            raise await payment.refused(self._context, x402, call, settled)
        call.charged_micros = await call.cost_micros(answer)
        delivered, undelivered = partial(x402.delivered, claimed), partial(x402.undelivered, claimed)
        return Admitted(_with_headers(answer, settled), usage, delivered, undelivered)

    async def _paid_before(
        self, x402: X402, paid: PaidResponse, call: Call, visitor: AddressCaller, usage: Headers
    ) -> Admitted:
        """The stored response of a payment; one that was passed on while it arrived is fetched again."""
        answer = from_stored(paid.response)
        if paid.response.reopens:
            answer = await self._reopened(call, visitor, partial(x402.release, paid))
            if costs_nothing(answer, call.request):
                return Admitted(answer, usage)
            if is_passed_stream(answer):
                answer.stream = MeteredStream(answer, on_piece=partial(x402.hold, paid))
        delivered, undelivered = partial(x402.delivered, paid), partial(x402.undelivered, paid)
        return Admitted(_with_headers(answer, paid.headers), usage, delivered, undelivered)

    async def _on_credit(self, call: Call, signed: AgentHeaders | str, address: str) -> Admitted:
        """A signed call is paid from the wallet's credit; where that is short, the problem says how else."""
        if call.endpoint.terms.price is None:
            raise missing_credentials("This endpoint requires an API key. Create one with POST /api/keys/create.")
        try:
            signer, nonce = self._signer(call, signed)
        except Problem:
            async with self._attempts.attempt(address):
                raise
        try:
            return await self._from_wallet(call, signer, nonce, address)
        except Problem as problem:
            raise await payment.or_pay(self._context, call, problem) if _is_unfunded(problem) else problem from None

    def _signer(self, call: Call, signed: AgentHeaders | str) -> tuple[bytes, str]:
        """The address that signed the call, and the nonce. Raises Problem `invalid-signature`, `origin-not-allowed`."""
        if isinstance(signed, AgentHeaders):
            query = call.request.query.decode("latin-1")
            return self._context.wallets.signed_by(call.path, query, signed), nonce_of(signed.nonce).hex()
        if not self._context.settings.public_url:
            # The message names the host of the request, which must not be one that leads here from elsewhere.
            self._context.hosts.check_host(call.request)
        signer, nonce = sign_in.verify(signed, payment.sign_in_target(self._context, call))
        return signer, f"siwx:{nonce}"

    async def _from_wallet(self, call: Call, signer: bytes, nonce: str, address: str) -> Admitted:
        """A verified call takes its price from the wallet's credit once, when the response is ready."""
        wallets = self._context.wallets
        print_of_call = fingerprint(call.request, await call.body())
        async with self._attempts.attempt(address, f"wallet:{signer.hex()}", is_partys_fault=_is_unfunded):
            if nonce.startswith("siwx:") and await wallets.agent_of(signer) is None:
                raise Problem(
                    "insufficient-balance",
                    f"The wallet {checksummed(signer)} is not registered and has no credit. Register it with "
                    "POST /api/agent/register and deposit USDC.",
                    balance_usd=usd(0),
                    price_usd=usd(await call.price_micros()),
                )
            caller = call.caller = await wallets.caller(signer)
            reservation = await self._reserve(call, caller)

            async def claimed() -> Claim:
                price, operation = await call.price_micros(), (call.route.service.name, call.endpoint.id)
                ledger = self._context.ledger
                return await credit.claim(ledger, caller.agent_id, nonce, price, print_of_call, *operation)

            with tracing.span("payment verification", **{"tollhouse.payment": "credit"}):
                claim = await self._counted(reservation, caller, claimed)
        call.payment = call.paying = "credit"
        if claim.stored is not None:
            usage = self._usage(caller, await self._uncount(reservation))
            if claim.stored.reopens:
                return await self._reopened_on_credit(call, caller, claim, claimed, usage)
            return Admitted(from_stored(claim.stored), usage, claim.delivered)
        call.request.watch_disconnect()
        answer = await self._counted(reservation, caller, lambda: self._charged(claim, call, caller, address))
        return Admitted(answer, self._usage(caller, reservation.verdict), claim.delivered)

    async def _charged(self, claim: Claim, call: Call, caller: WalletCaller, address: str) -> Response:
        """The response, charged unless it is a 304 or free. What fails before there is one gives the nonce back."""
        try:
            answer = await call.handle(caller, address)
            if costs_nothing(answer, call.request):
                await (claim.release() if may_be_repeated(answer.status) else claim.void())
            elif is_passed_stream(answer):
                # Stored as it is now: with the metered stream in it, it would hold itself.
                whole = partial(self._charge, claim, call, answer, to_stored(answer))
                answer.stream = MeteredStream(answer, whole=whole, broken=claim.release)
            else:
                await self._charge(claim, call, answer, to_stored(answer))
        except Problem as problem:
            await (claim.release() if may_be_repeated(problem.status) else claim.void())
            raise
        except BaseException:
            await claim.release()
            raise
        return answer

    async def _charge(self, claim: Claim, call: Call, answer: Response, stored: StoredResponse) -> None:
        """Charge what the answer costs by now: that of a stream may be known only at its end."""
        cost_micros = await call.cost_micros(answer)
        with tracing.span("payment settlement", **{"tollhouse.payment": "credit"}):
            await claim.charge(stored, cost_micros)
        call.charged_micros = cost_micros

    async def _reopened_on_credit(
        self, call: Call, caller: WalletCaller, claim: Claim, claimed: Callable[[], Awaitable[Claim]], usage: Headers
    ) -> Admitted:
        """The answer to a call that was charged but did not have all of it: one at a time, of all processes.

        A crash meanwhile, or an answer of more than a minute, lets the next one in after that minute.
        """
        turn = await self._meter.reserve(f"reopening:{claim.id}", _ONE_A_MINUTE)
        if turn.verdict.refused_by is not None:
            wait = turn.verdict.retry_after_seconds(clock.seconds())
            raise Problem(
                "rate-limited",
                f"This call is being answered again already. Retry after {wait} s.",
                retry_after_seconds=wait,
            )
        end = partial(self._uncount, turn)
        try:
            # Another process may have sent the end of the answer just now: by then it has stored that.
            await asyncio.sleep(GRACE_SECONDS + 0.5)
            claim = await claimed()
        except BaseException:
            await end()
            raise
        answer = await self._reopened(call, caller, end)
        if is_passed_stream(answer):
            answer.stream = MeteredStream(answer, whole=end, broken=end)
        else:
            await end()
        return Admitted(answer, usage, None if costs_nothing(answer, call.request) else claim.delivered)

    async def _reopened(self, call: Call, caller: Caller, release: Callable[[], Awaitable[object]]) -> Response:
        """The answer to a request that was paid for and is passed on again; `release` where there is none."""
        try:
            call.request.watch_disconnect()
            answer = await call.handle(caller, call.address)
        except BaseException:
            await release()
            raise
        if costs_nothing(answer, call.request):
            await release()
        return answer

    async def _holder(self, call: Call, address: str) -> KeyCaller:
        """The holder of the key that was sent. Raises Problem `invalid-key`, `rate-limited`."""
        key = presented_key(call, takes_payments=self._context.per_request.x402 is not None)
        known = self._context.keys.cached(key)
        if known is not None:
            return known
        try:
            async with self._attempts.attempt(address, f"key:{key}"):
                return await self._context.keys.holder(key)
        except Problem as problem:
            raise invalid_key(problem.detail) if problem.code == "invalid-key" else problem from None

    def _check_plan(self, terms: Terms, caller: KeyCaller) -> None:
        entitlement = terms.entitlement
        if entitlement and entitlement not in (plan := self._context.plans.plan_of(caller)).entitlements:
            required = f" Upgrade to {terms.minimum_tier} with POST /api/stripe/checkout." if terms.minimum_tier else ""
            raise Problem(
                "tier-required",
                f"The {plan.name} plan does not include `{entitlement}`.{required}",
                required_tier=terms.minimum_tier,
            )

    def _is_on_free_plan(self, caller: KeyCaller) -> bool:
        """Whether the key costs nothing and has no limits of its own, which the operator would have set."""
        has_own_limits = caller.per_day is not None or caller.per_minute is not None
        return not has_own_limits and self._context.plans.plan_of(caller).month_micros == 0

    def _plan_name(self, caller: Caller) -> str:
        """The plan of a key; `agent` for a wallet; `visitor` for a page; the default plan for an address."""
        if isinstance(caller, KeyCaller):
            return caller.tier
        if isinstance(caller, VisitorCaller):
            return "visitor"
        return "agent" if isinstance(caller, WalletCaller) else self._context.plans.default.name

    def _usage(self, caller: Caller, verdict: Verdict) -> Headers:
        return usage_headers(self._plan_name(caller), verdict)

    def _requests(self, call: Call, caller: Caller) -> int:
        """How many requests of the day the call counts as."""
        requests = call.endpoint.terms.requests
        return requests.get(self._plan_name(caller), 1) if requests else 1

    async def _reserve(self, call: Call, caller: KeyCaller | WalletCaller) -> Reservation:
        reservation = await self._meter.reserve(caller.subject, self._windows_of(caller), self._requests(call, caller))
        if reservation.verdict.refused_by:
            raise over_limit(self._plan_name(caller), reservation, self._usage(caller, reservation.verdict))
        return reservation

    async def _counted(self, reservation: Reservation, caller: Caller, work: Callable[[], Awaitable[T]]) -> T:
        """Run the handler of a counted call; release the reservation when the call does not count."""
        try:
            result = await work()
        except Problem as problem:
            problem.usage = self._usage(caller, reservation.verdict)
            if problem.status >= 500 or problem.status in _UNCOUNTED:
                problem.usage = self._usage(caller, await self._uncount(reservation))
            raise
        except BaseException:
            await self._uncount(reservation)
            raise
        if isinstance(result, Response):
            if result.is_free:
                await self._uncount(reservation)
            elif result.passes_through and result.stream is not None:
                result.stream = MeteredStream(result, broken=partial(self._uncount, reservation))
        return result

    async def _uncount(self, reservation: Reservation) -> Verdict:
        """Release a counted call. A meter that cannot be reached leaves it counted."""
        try:
            return await release(self._meter, reservation)
        except Problem:
            return reservation.verdict


def _is_visit(call: Call) -> bool:
    """Whether a page reads what its endpoint lets pages read; a key that is sent counts instead."""
    return VISIT_HEADER in call.request.headers and bool(call.endpoint.visit_types)


def _is_unfunded(problem: Problem) -> bool:
    return problem.code == "insufficient-balance"


def _with_headers(answer: Response, headers: PaymentHeaders) -> Response:
    """A copy of the response with headers about its payment."""
    added = tuple((name.lower().encode(), value.encode()) for name, value in headers)
    return replace(answer, headers=(*answer.headers, *added), head=())
