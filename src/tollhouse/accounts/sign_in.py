"""The x402 extension `sign-in-with-x`: a wallet signs an EIP-4361 message for one request, and pays from its credit.

A message opens one path of one host, for five minutes and once. Only signatures by a key are accepted (EIP-191).
"""

import binascii
import re
import secrets
from base64 import b64decode
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.evm import parse_address, parse_signature, personal_digest, recover

SIGN_IN = "sign-in-with-x"
VALID_SECONDS = 300
LONGEST_HEADER = 8_192
MOST_RESOURCES = 20

# A member with a line break could stand for several lines of the signed text.
_Line = Annotated[str, Meta(pattern=r"^[ -~]+\Z", max_length=2_000)]
_Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)\Z")]

_SIGNED_MEMBERS = ("domain", "address", "uri", "version", "chainId", "type", "nonce", "issuedAt", "signature")
_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {name: {"type": "string"} for name in (*_SIGNED_MEMBERS, "statement", "expirationTime")},
    "required": list(_SIGNED_MEMBERS),
}
_RESERVED = "/%:@!$&'()*+,;=~-._"


class SignIn(Struct, frozen=True, rename="camel"):
    """The decoded header: the members of an EIP-4361 message, and its signature. Times are RFC 3339."""

    domain: _Line
    address: _Line
    uri: _Line
    version: _Line
    chain_id: Annotated[str, Meta(pattern=r"^eip155:[1-9]\d{0,18}\Z")]
    nonce: Annotated[str, Meta(pattern=r"^[A-Za-z0-9]{16,64}\Z")]
    issued_at: _Time
    signature: _Line
    type: str = "eip191"
    statement: _Line | None = None
    expiration_time: _Time | None = None
    not_before: _Time | None = None
    request_id: _Line | None = None
    resources: Annotated[list[_Line], Meta(max_length=MOST_RESOURCES)] | None = None

    def text(self) -> str:
        """The message as the wallet signed it (EIP-4361)."""
        lines = [f"{self.domain} wants you to sign in with your Ethereum account:", self.address, ""]
        lines += ["" if self.statement is None else f"{self.statement}\n"]
        lines += [f"URI: {self.uri}", f"Version: {self.version}", f"Chain ID: {self.chain_id.partition(':')[2]}"]
        lines += [f"Nonce: {self.nonce}", f"Issued At: {self.issued_at}"]
        for name, value in (
            ("Expiration Time", self.expiration_time),
            ("Not Before", self.not_before),
            ("Request ID", self.request_id),
        ):
            lines += [] if value is None else [f"{name}: {value}"]
        if self.resources is not None:
            lines += ["Resources:", *(f"- {one}" for one in self.resources)]
        return "\n".join(lines)


class Target(Struct, frozen=True):
    """What a message must be for: the address of the server's root, the path as it was sent, and the query.

    `root` has no slash at the end; `path` is percent-encoded.
    """

    root: str
    path: str
    query: str
    chain_id: int

    @property
    def domain(self) -> str:
        """The host, with the port where it is not that of the scheme."""
        return urlsplit(self.root).netloc

    @property
    def uri(self) -> str:
        """The address of the request without its query."""
        return f"{self.root}{quote(self.path, safe=_RESERVED)}"


def offer(target: Target) -> bytes:
    """The extension of a challenge, as JSON: the message to sign, with a nonce of its own."""
    now = int(clock.seconds())
    info = {
        "domain": target.domain,
        "uri": target.uri,
        "version": "1",
        "nonce": secrets.token_hex(16),
        "issuedAt": clock.iso(clock.at(now)),
        "expirationTime": clock.iso(clock.at(now + VALID_SECONDS)),
        "statement": "Pay for this request from the credit of this wallet.",
    }
    chains = [{"chainId": f"eip155:{target.chain_id}", "type": "eip191"}]
    return msgspec.json.encode({"info": info, "supportedChains": chains, "schema": _SCHEMA})


def verify(header: str, target: Target) -> tuple[bytes, str]:
    """The 20 bytes of the address that signed for this request, and the message's nonce.

    Raises Problem `invalid-signature`. Says nothing about whether the nonce was used or the wallet is registered.
    """
    sent = _decoded(header)
    _check(sent, target, clock.seconds())
    try:
        address, signature = parse_address(sent.address).raw, parse_signature(sent.signature)
        signer = recover(personal_digest(sent.text().encode()), signature)
    except ValueError as error:
        raise _invalid(f"{error}") from None
    if signer != address:
        raise _invalid("`address` did not sign this message")
    return address, sent.nonce


def _decoded(header: str) -> SignIn:
    if len(header) > LONGEST_HEADER:
        raise _invalid(f"it has more than {LONGEST_HEADER} characters")
    try:
        return msgspec.json.decode(b64decode(header.encode("ascii"), validate=True), type=SignIn)
    except msgspec.ValidationError as error:
        # The message names members and types, never values.
        raise _invalid(f"{error}") from None
    except (UnicodeError, binascii.Error, msgspec.DecodeError, RecursionError):
        raise _invalid("it must be JSON in standard base64") from None


def _check(sent: SignIn, target: Target, now: float) -> None:
    """Raises Problem `invalid-signature` for a message of another request, chain or time."""
    if sent.domain != target.domain:
        raise _invalid(f"`domain` must be {target.domain}")
    if sent.uri not in {target.uri, f"{target.uri}?{target.query}"}:
        raise _invalid(f"`uri` must be {target.uri}")
    if (sent.version, sent.chain_id, sent.type) != ("1", f"eip155:{target.chain_id}", "eip191"):
        raise _invalid(f"`version` must be 1, `chainId` eip155:{target.chain_id} and `type` eip191")
    issued = _seconds("issuedAt", sent.issued_at)
    if not 0 <= now - issued <= VALID_SECONDS:
        raise _invalid(f"`issuedAt` must lie within the past {VALID_SECONDS} seconds")
    if sent.expiration_time is not None and _seconds("expirationTime", sent.expiration_time) <= now:
        raise _invalid("`expirationTime` is over")
    if sent.not_before is not None and _seconds("notBefore", sent.not_before) > now:
        raise _invalid("`notBefore` lies ahead")


def _seconds(name: str, text: str) -> float:
    try:
        return datetime.fromisoformat(re.sub(r"Z\Z", "+00:00", text)).timestamp()
    except (ValueError, OverflowError):
        raise _invalid(f"`{name}` is not a time") from None


def _invalid(reason: str) -> Problem:
    return Problem(
        "invalid-signature",
        f"The header `{SIGN_IN}` is invalid: {reason}. Get a new challenge from a 402 and sign that.",
        headers={"WWW-Authenticate": 'SIWX error="invalid_signature"'},
    )
