"""What a caller shows to be let in: a Bearer key, or an agent's signature."""

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.http.request import HttpRequest

AGENT_HEADERS = (b"x-agent-address", b"x-agent-nonce", b"x-agent-signature")


class Signed(Struct, frozen=True):
    """The three headers of a signed call, as sent."""

    address: str
    nonce: str
    signature: str


def bearer(request: HttpRequest) -> str:
    """The bearer token, empty when there is none."""
    scheme, _, token = request.header(b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def shown_key(request: HttpRequest) -> str:
    """The API key. Raises Problem `missing-credentials`, or `invalid-key` for a header that holds none."""
    if not request.header(b"authorization"):
        raise missing(
            "Send your API key as `Authorization: Bearer <key>`; POST /api/keys/create gives one. "
            "A registered wallet signs its calls instead where the operation has a price."
        )
    key = bearer(request)
    if not key:
        raise invalid_key("The Authorization header must be `Bearer <key>`.")
    return key


def signed_call(request: HttpRequest) -> Signed | None:
    """The agent's headers if any was sent. Raises Problem `ambiguous-credentials` or `missing-credentials`."""
    headers = request.headers
    sent = [headers[name] for name in AGENT_HEADERS if name in headers]
    if not sent:
        return None
    if b"authorization" in headers:
        raise Problem("ambiguous-credentials", "Send a Bearer key or the agent's headers, not both.")
    if len(sent) < len(AGENT_HEADERS):
        raise missing("A signed call needs all of X-Agent-Address, X-Agent-Nonce and X-Agent-Signature.")
    return Signed(*sent)


def missing(detail: str) -> Problem:
    """Nothing was shown that opens this."""
    return Problem("missing-credentials", detail, headers={"WWW-Authenticate": "Bearer"})


def invalid_key(detail: str) -> Problem:
    """What was shown is no key that opens anything."""
    return Problem("invalid-key", detail, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
