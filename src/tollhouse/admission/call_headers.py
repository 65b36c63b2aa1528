"""The headers of a metered call: the credentials that it carries, and the usage that its answer states."""

from functools import lru_cache
from math import ceil

from tollhouse import clock
from tollhouse.accounts.sign_in import SIGN_IN
from tollhouse.accounts.wallets import AgentHeaders
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem, missing_credentials
from tollhouse.http.paid_paths import X402_PATH
from tollhouse.http.request import HttpRequest
from tollhouse.http.response import Headers
from tollhouse.http.router import Call
from tollhouse.http.terms import Terms
from tollhouse.metering.meter import SECONDS_PER_DAY, Reservation, Verdict, Windows

AGENT_HEADERS = (b"x-agent-address", b"x-agent-nonce", b"x-agent-signature")


def bearer(request: HttpRequest) -> str:
    """The bearer token, empty when there is none."""
    scheme, _, token = request.header(b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def presented_key(call: Call, *, takes_payments: bool) -> str:
    """The API key. Raises Problem `missing-credentials`, or `invalid-key` for a header that holds none.

    With `takes_payments` the problem says where the call can be paid for.
    """
    request, price = call.request, call.endpoint.terms.price
    if not request.header(b"authorization"):
        detail = "Send an API key as `Authorization: Bearer <key>`. Create one with POST /api/keys/create."
        if price is not None:
            detail += " A wallet registered with POST /api/agent/register signs its calls instead."
        if price is not None and takes_payments:
            paid = f"{call.route.prefix}{X402_PATH}{call.path}"
            detail += f" Without either, the call costs {price.text} at {paid} (x402)."
        raise missing_credentials(detail)
    key = bearer(request)
    if not key:
        raise invalid_key("The Authorization header must be `Bearer <key>`.")
    return key


def signed_call(call: Call) -> AgentHeaders | str | None:
    """The agent headers, or the header `sign-in-with-x`, if any was sent; beside a payment the latter says nothing.

    Raises Problem `ambiguous-credentials` or `missing-credentials`.
    """
    headers = call.request.headers
    sent = [headers[name] for name in AGENT_HEADERS if name in headers]
    message = headers.get(SIGN_IN.encode(), "")
    if message and (sent or b"authorization" in headers):
        raise Problem(
            "ambiguous-credentials", f"Send `{SIGN_IN}`, a Bearer key or the agent headers: only one of them."
        )
    if not sent:
        if not message:
            return None
        is_paid = call.endpoint.terms.takes_payments and (b"x-payment" in headers or b"payment-signature" in headers)
        return None if is_paid else message
    if b"authorization" in headers:
        raise Problem("ambiguous-credentials", "Send a Bearer key or the agent headers, not both.")
    if len(sent) < len(AGENT_HEADERS):
        raise missing_credentials("A signed call requires X-Agent-Address, X-Agent-Nonce and X-Agent-Signature.")
    return AgentHeaders(*sent)


def invalid_key(detail: str) -> Problem:
    """A 401 for a key that is not valid."""
    return Problem("invalid-key", detail, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


def usage_headers(plan: str, verdict: Verdict) -> Headers:
    """Usage headers. X-RateLimit-* describe the day where the plan limits it, else the minute."""
    day, sliding = verdict.day, verdict.sliding
    now = clock.seconds()
    level = sliding if day.limit is None else day
    remaining = [
        f'"{one.window}";r={one.remaining};t={max(0, ceil(one.resets_at - now))}'
        for one in (day, sliding)
        if one.limit is not None
    ]
    return [
        *_fixed(plan, day.limit, sliding.limit, sliding.window, sliding.seconds),
        (b"x-ratelimit-remaining", b"%d" % (level.remaining or 0)),
        (b"ratelimit", ", ".join(remaining).encode()),
    ]


@lru_cache(maxsize=256)
def _fixed(tier: str, per_day: int | None, per_sliding: int | None, sliding: str, sliding_seconds: int) -> Headers:
    """The headers that depend only on the plan."""
    windows = (("day", per_day, SECONDS_PER_DAY), (sliding, per_sliding, sliding_seconds))
    policy = ", ".join(f'"{name}";q={quota};w={seconds}' for name, quota, seconds in windows if quota is not None)
    return [
        (b"x-credits-tier", tier.encode()),
        (b"x-ratelimit-limit", str(per_sliding if per_day is None else per_day).encode()),
        (b"ratelimit-policy", policy.encode()),
    ]


def over_limit(plan: str, reservation: Reservation, usage: Headers) -> Problem:
    """A 429 for a call beyond a limit of the plan, with `Retry-After`."""
    verdict = reservation.verdict
    exceeded = f"Rate limit exceeded: {{limit}} requests per {{window}} on the {plan} plan. Retry after {{wait}} s."
    problem = verdict.refusal("quota-exceeded" if verdict.refused_by == verdict.day else "rate-limited", exceeded)
    problem.usage = usage
    return problem


def allowance_of(terms: Terms, settings: Settings) -> tuple[str, Windows]:
    """The name and size of the allowance of an address that calls count against. It has no sliding window."""
    name = f"address {terms.allowance}" if terms.allowance else "address"
    return name, Windows(terms.free_requests(settings.free_per_ip_per_day), None)
