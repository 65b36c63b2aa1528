"""The credentials that a request carries: an API key, the headers of a signed call, or a sign-in message."""

from tollhouse.accounts.sign_in import SIGN_IN
from tollhouse.accounts.wallets import AgentHeaders
from tollhouse.errors import Problem, missing_credentials
from tollhouse.http.paid_paths import X402_PATH
from tollhouse.http.request import HttpRequest
from tollhouse.http.router import Call

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
