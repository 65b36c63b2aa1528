"""Somebody else's x402 facilitator: it settles on a real node, and answers as well or as badly as a test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.node import _from_node
from tests.fakes.website import Asked, Reply, website
from tollhouse.evm import keccak256

Json = dict[str, Any]

MODES = (
    "clean",
    "slow",
    "declared safe",
    "accepts then times out",
    "fails after settling",
    "double 402",
    "no reconciliation",
)
"""Honest in time; honest and late; says that it did nothing, and did nothing; settles and never answers; settles and
answers 500; settles and asks for payment; settles, says that it is pending, and never tells more."""

FOR_EVER_SECONDS = 60.0
_TRANSFER = keccak256(
    b"transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
)[:4]  # fmt: skip

_SETTLE = keccak256(
    b"settle(((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)"
)[:4]  # fmt: skip


@dataclass
class Facilitator:
    """`mode` is one of MODES, or `answer` gives each reply to `/settle` after it was carried out or not.

    `settles_after` seconds it sends the transaction; until then it knows of it and the chain does not.
    """

    node_url: str
    account: str
    token: str = "secret-token"
    mode: str = "clean"
    slow_seconds: float = 0.5
    settles: bool = True
    settles_after: float = 0.0
    answer: Callable[[Asked], Reply] | None = None
    verify_answer: Callable[[Asked], Reply] | None = None
    extensions: list[str] = field(default_factory=list)
    networks: dict[int, str] = field(default_factory=lambda: {1: "base", 2: "eip155:8453"})
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    settled: dict[str, str] = field(default_factory=dict)

    def times_asked(self, path: str) -> int:
        return sum(one.path.endswith(path) for one in self.asked)

    def bodies(self, path: str) -> list[Json]:
        return [json.loads(one.body) for one in self.asked if one.path.endswith(path)]

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return told({"error": "unauthorized"}, 401)
        kind = asked.path.rpartition("/")[2]
        if kind == "supported":
            kinds = [{"x402Version": v, "scheme": "exact", "network": n} for v, n in self.networks.items()]
            extra = {"facilitatorAddress": self.account.lower()}
            kinds += [{"x402Version": 2, "scheme": "upto", "network": self.networks[2], "extra": extra}]
            return told({"kinds": kinds, "extensions": self.extensions, "signers": {"eip155:*": [self.account]}})
        return self._verify(asked) if kind == "verify" else self._settle(asked)

    def _verify(self, asked: Asked) -> Reply:
        if self.verify_answer is not None:
            return self.verify_answer(asked)
        paid = _authorization(json.loads(asked.body))
        if paid["nonce"] in self.settled:
            return told({"isValid": False, "invalidReason": "invalid_exact_evm_nonce_already_used"})
        return told({"isValid": True, "payer": paid["from"]})

    def _settle(self, asked: Asked) -> Reply:
        body = json.loads(asked.body)
        if self.settles and self.mode != "declared safe":
            if self.settles_after:
                asyncio.get_running_loop().call_later(self.settles_after, self._carry_out, body)
            else:
                self._carry_out(body)
        if self.answer is not None:
            return self.answer(asked)
        return self._as_mode_says(body)

    def _as_mode_says(self, body: Json) -> Reply:
        paid, network = _authorization(body), body["paymentRequirements"]["network"]
        whole = {"success": True, "transaction": self.settled.get(paid["nonce"], ""), "network": network,
                 "payer": paid["from"]}  # fmt: skip
        failed = {"success": False, "transaction": "", "network": network, "payer": paid["from"]}
        late = json.dumps(whole).encode()
        return {
            "clean": lambda: told(whole),
            "slow": lambda: Reply(chunks=[late], pause_seconds=self.slow_seconds),
            "declared safe": lambda: told(failed | {"errorReason": "insufficient_funds"}),
            "accepts then times out": lambda: Reply(chunks=[b" "], pause_seconds=FOR_EVER_SECONDS),
            "fails after settling": lambda: told({"error": "internal"}, 500),
            "double 402": lambda: told({"x402Version": 1, "error": "payment required", "accepts": []}, 402),
            "no reconciliation": lambda: told(failed | {"errorReason": "settlement_pending"}),
        }[self.mode]()

    def _carry_out(self, body: Json) -> None:
        paid, signature = _authorization(body), bytes.fromhex(body["paymentPayload"]["payload"]["signature"][2:])
        if paid["nonce"] in self.settled:
            return
        required = body["paymentRequirements"]
        if "spender" in paid:
            to, data = paid["spender"], _SETTLE + _settle(paid, int(required["amount"]), signature)
        else:
            to, data = required["asset"], _TRANSFER + _call(paid, signature)
        sent = {"from": self.account, "to": to, "gas": hex(300_000), "data": "0x" + data.hex()}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [sent]}
        self.settled[paid["nonce"]] = _from_node(self.node_url, json.dumps(asked).encode())["result"]


@asynccontextmanager
async def facilitator(node_url: str, account: str, **how: Any) -> AsyncIterator[Facilitator]:
    """Serves at `url`, with a path before the standard's."""
    made = Facilitator(node_url, account, **how)
    async with website(made.reply) as site:
        made.url = f"{site.url}/x402/"
        yield made


def told(members: Json, status: int = 200) -> Reply:
    return Reply(status, json.dumps(members).encode(), {"Content-Type": "application/json"})


def _authorization(body: Json) -> Json:
    payload: Json = body["paymentPayload"]["payload"]
    if "permit2Authorization" not in payload:
        found: Json = payload["authorization"]
        return found
    permit: Json = payload["permit2Authorization"]
    return permit | {"nonce": f"0x{int(permit['nonce']):064x}"}


def _call(paid: Json, signature: bytes) -> bytes:
    words = [
        int(paid["from"], 16),
        int(paid["to"], 16),
        *(int(paid[name]) for name in _NUMBERS),
        int(paid["nonce"], 16),
    ]
    return _encoded(words, signature)


def _settle(paid: Json, amount: int, signature: bytes) -> bytes:
    permitted, witness = paid["permitted"], paid["witness"]
    words = [int(permitted["token"], 16), int(permitted["amount"]), int(paid["nonce"], 16), int(paid["deadline"]),
             amount, int(paid["from"], 16), int(witness["to"], 16), int(witness["facilitator"], 16),
             int(witness["validAfter"])]  # fmt: skip
    return _encoded(words, signature)


def _encoded(words: list[int], signature: bytes) -> bytes:
    whole = [*words, 32 * (len(words) + 1), len(signature)]
    return b"".join(word.to_bytes(32) for word in whole) + signature + bytes(-len(signature) % 32)


_NUMBERS = ("value", "validAfter", "validBefore")
