"""Payments as forgers write them: each table maps what is wrong to the change that makes it so."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from tests.attacks.target import PAGE_MICROS, TREASURY, Json
from tests.payments.x402.signed_payments import ORDER, REQUIREMENT, SELLER, encoded

# What a forger writes in place of a member of the authorization, and signs.
SIGNED_CHANGES: dict[str, Json] = {
    "another recipient": {"to": TREASURY.address},
    "no recipient": {"to": "0x" + "00" * 20},
    "less by one": {"value": str(PAGE_MICROS - 1)},
    "more by one": {"value": str(PAGE_MICROS + 1)},
    "nothing": {"value": "0"},
    "a thousand times as much": {"value": str(1_000 * PAGE_MICROS)},
    "all there can be": {"value": str(2**256 - 1)},
    "expired": {"validBefore": "1"},
    "expires in the next second": {"validBefore": "+1"},
    "valid tomorrow": {"validAfter": "+86400"},
    "never valid": {"validAfter": str(2**256 - 1)},
}

# What is written in place of a member after it was signed.
WRITTEN_CHANGES: dict[str, Json] = {
    "value as a number": {"value": PAGE_MICROS},
    "value with a fraction": {"value": "1000.0"},
    "value in hex": {"value": "0x3e8"},
    "value with a space": {"value": " 1000"},
    "value with a sign": {"value": "+1000"},
    "value below zero": {"value": "-1000"},
    "value with a line end": {"value": "1000\n"},
    "value with an underscore": {"value": "1_000"},
    "value in other digits": {"value": "\u0661\u0660\u0660\u0660"},
    "value of many digits": {"value": "1" * 5_000},
    "value beyond 256 bits": {"value": str(2**256 + PAGE_MICROS)},
    "value of zeros": {"value": "0" * 77 + "1"},
    "value empty": {"value": ""},
    "value missing": {"value": None},
    "value a list": {"value": ["1000"]},
    "value true": {"value": True},
    "from another": {"from": TREASURY.address},
    "from nobody": {"from": "0x" + "00" * 20},
    "from the token": {"from": REQUIREMENT.asset},
    "from too short": {"from": "0x12"},
    "from with a wrong checksum": {"from": "0xF39fd6e51aad88F6F4ce6aB8827279cffFb92266"},
    "from a name": {"from": "vitalik.eth"},
    "to too long": {"to": SELLER.address + "00"},
    "to without 0x": {"to": SELLER.address[2:]},
    "nonce too short": {"nonce": "0x" + "ab" * 31},
    "nonce too long": {"nonce": "0x" + "ab" * 33},
    "nonce not hex": {"nonce": "0x" + "zz" * 32},
    "nonce without 0x": {"nonce": "ab" * 32},
    "nonce a number": {"nonce": 7},
    "nonce empty": {"nonce": ""},
    "validBefore a number": {"validBefore": 4_000_000_000},
    "validBefore endless": {"validBefore": "9" * 90},
    "validAfter below zero": {"validAfter": "-1"},
}


def high_s(signed: str) -> str:
    raw = bytes.fromhex(signed[2:])
    s, v = int.from_bytes(raw[32:64]), raw[64]
    return "0x" + (raw[:32] + (ORDER - s).to_bytes(32) + bytes([27 + 28 - v])).hex()


SIGNATURES: dict[str, Callable[[str], Any]] = {
    "high s": high_s,
    "high s, old v": lambda signed: high_s(signed)[:-2] + signed[-2:],
    "v of 29": lambda signed: signed[:-2] + "1d",
    "v of a chain": lambda signed: signed[:-2] + "25",
    "the other v": lambda signed: signed[:-2] + ("1c" if signed.endswith("1b") else "1b"),
    "one byte short": lambda signed: signed[:-2],
    "one byte long": lambda signed: signed + "00",
    "in 64 bytes": lambda signed: signed[:-2],
    "empty": lambda _: "",
    "only 0x": lambda _: "0x",
    "zeros": lambda _: "0x" + "00" * 65,
    "ones": lambda _: "0x" + "ff" * 65,
    "r of zero": lambda signed: "0x" + "00" * 32 + signed[66:],
    "s of zero": lambda signed: signed[:66] + "00" * 32 + signed[-2:],
    "r of the order": lambda signed: f"0x{ORDER:064x}{signed[66:]}",
    "not hex": lambda signed: signed[:-2] + "zz",
    "without 0x": lambda signed: signed[2:-2],
    "a number": lambda _: 1,
    "nothing": lambda _: None,
    "a list": lambda signed: [signed],
    "a wallet that is not there": lambda signed: signed + "6492" * 16,
    "ten thousand bytes": lambda signed: signed + "00" * 2_000,
}

# The whole header, made of the payment.
HEADERS: dict[str, Callable[[Json], str]] = {
    "not base64": lambda _: "{}",
    "base64 of nothing": lambda _: "=",
    "for URLs": lambda sent: encoded(sent).rstrip("=") + "-_",
    "too much padding": lambda sent: encoded(sent).rstrip("=") + "====",
    "with a space": lambda sent: encoded(sent)[:20] + " " + encoded(sent)[20:],
    "twice": lambda sent: encoded(sent) + encoded(sent),
    "a comma between two": lambda sent: encoded(sent) + "," + encoded(sent),
    "a list": lambda sent: encoded([sent]),
    "a number": lambda _: b64encode(b"1").decode(),
    "null": lambda _: b64encode(b"null").decode(),
    "cut off": lambda sent: b64encode(json.dumps(sent).encode()[:-9]).decode(),
    "no UTF-8": lambda sent: b64encode(json.dumps(sent).encode() + b"\xff").decode(),
    "with a mark": lambda sent: b64encode(b"\xef\xbb\xbf" + json.dumps(sent).encode()).decode(),
    "deep": lambda _: b64encode(b'{"a":' * 1_500 + b"1" + b"}" * 1_500).decode(),
    "deep lists": lambda _: b64encode(b"[" * 3_000).decode(),
    "huge": lambda sent: encoded({**sent, "filling": "x" * 12_000}),
    "version 0": lambda sent: encoded({**sent, "x402Version": 0}),
    "version 2": lambda sent: encoded({**sent, "x402Version": 2}),
    "version 3": lambda sent: encoded({**sent, "x402Version": 3}),
    "version 99": lambda sent: encoded({**sent, "x402Version": 99}),
    "version in words": lambda sent: encoded({**sent, "x402Version": "1"}),
    "version true": lambda sent: encoded({**sent, "x402Version": True}),
    "version 1.5": lambda sent: encoded({**sent, "x402Version": 1.5}),
    "no version": lambda sent: encoded({name: value for name, value in sent.items() if name != "x402Version"}),
    "another scheme": lambda sent: encoded({**sent, "scheme": "upto"}),
    "no scheme": lambda sent: encoded({**sent, "scheme": ""}),
    "another network": lambda sent: encoded({**sent, "network": "base-sepolia"}),
    "a network of version 2": lambda sent: encoded({**sent, "network": "eip155:8453"}),
    "a network of capitals": lambda sent: encoded({**sent, "network": "BASE"}),
    "no payload": lambda sent: encoded({**sent, "payload": None}),
    "a payload of words": lambda sent: encoded({**sent, "payload": "0x"}),
    "an empty payload": lambda sent: encoded({**sent, "payload": {}}),
    "NaN": lambda sent: b64encode(json.dumps({**sent, "x402Version": float("nan")}).encode()).decode(),
}
