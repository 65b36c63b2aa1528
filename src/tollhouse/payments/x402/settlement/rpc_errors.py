"""What a node means when it will not take a transaction: nodes agree on the words, not on the codes."""

from typing import Literal

from tollhouse.payments.chain.errors import ChainRefused

Meaning = Literal["known", "taken", "used", "cheap", "other"]

_SAID: dict[str, Meaning] = {
    "already known": "known",
    "already imported": "known",
    "known transaction": "known",
    "replacement": "taken",
    "nonce too low": "used",
    "underpriced": "cheap",
    "less than block base fee": "cheap",
    "fee too low": "cheap",
}


def meaning(refusal: ChainRefused) -> Meaning:
    """`known`: it has this one; `taken`: another waits under the nonce; `used`: the nonce is; `cheap`: offer more."""
    said = refusal.message.lower()
    return next((meant for words, meant in _SAID.items() if words in said), "other")
