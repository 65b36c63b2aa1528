"""Attacks on signed calls: forged and replayed ones, and wallets that spend what they do not have."""

import secrets

from eth_account import Account as Signer
from eth_account.messages import encode_defunct

from tests.attacks.attack import attack
from tests.attacks.target import CALL_MICROS, FEED, FEED_PATH, Target
from tests.payments.x402.signed_payments import ORDER
from tollhouse.client import Agent

ADDRESS, NONCE, SIGNATURE = "X-Agent-Address", "X-Agent-Nonce", "X-Agent-Signature"


def _signed(key: bytes, message: str) -> str:
    return Signer.sign_message(encode_defunct(text=message), key).signature.to_0x_hex()


async def _are_refused(target: Target, wallet: Agent, many: dict[str, dict[str, str]], path: str = FEED) -> None:
    """Each is 400 or 401, and the wallet keeps its credit."""
    credit = await target.credit(wallet)
    answers = await target.at_once(target.send(path, headers, process=n) for n, headers in enumerate(many.values()))
    for name, answer in zip(many, answers, strict=True):
        assert answer.status in {400, 401, 431, 429, 0}, (name, answer)
    assert await target.credit(wallet) == credit


@attack("signed calls", 65)
async def flipped_bit_in_a_call_signature_is_refused(target: Target) -> None:
    wallet = await target.wallet()
    good = wallet.headers(FEED_PATH)
    raw = bytes.fromhex(good[SIGNATURE].removeprefix("0x"))
    many = {}
    for place in range(65):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << place % 8 if place < 64 else 0x40
        many[f"byte {place}"] = {**good, SIGNATURE: "0x" + flipped.hex()}
    await _are_refused(target, wallet, many)


@attack("signed calls", 30)
async def malformed_agent_header_is_refused(target: Target) -> None:
    wallet = await target.wallet()
    good = wallet.headers(FEED_PATH)
    raw = bytes.fromhex(good[SIGNATURE].removeprefix("0x"))
    s, v = int.from_bytes(raw[32:64]), raw[64]
    high = raw[:32] + (ORDER - s).to_bytes(32) + bytes([55 - v if v >= 27 else 1 - v])
    signatures = {
        "high s": high.hex(), "short": raw[:-1].hex(), "long": (raw + b"\0").hex(), "empty": "", "0x": "0x",
        "zeros": "00" * 65, "v of 2": (raw[:64] + b"\2").hex(), "v of 29": (raw[:64] + b"\x1d").hex(),
        "v of 255": (raw[:64] + b"\xff").hex(), "words": "sign here", "huge": "ab" * 4_000, "not hex": "zz" * 65,
        "s of zero": (raw[:32] + bytes(32) + raw[64:]).hex(), "list": f"{raw.hex()},{raw.hex()}",
    }  # fmt: skip
    nonces = {
        "7 bytes": "ab" * 7, "65 bytes": "ab" * 65, "odd": "abc", "none": "", "words": "nonce", "0x": "0x",
        "colon": "ab:cd", "spaces": "ab cd", "unicode": "\uff41\uff42" * 8, "list": good[NONCE] + "," + good[NONCE],
        "other": secrets.token_hex(16),
    }  # fmt: skip
    other = Agent(secrets.token_bytes(32)).address
    mixed = wallet.address[:2] + wallet.address[2:].swapcase()
    addresses = {"other": other, "checksum": mixed, "short": wallet.address[:-1], "none": "", "words": "me",
                 "zero": "0x" + "00" * 20, "list": f"{wallet.address}, {other}",
                 "no 0x": wallet.address[2:-1] + "g"}  # fmt: skip
    many = {
        **{f"signature {name}": {**good, SIGNATURE: value} for name, value in signatures.items()},
        **{f"nonce {name}": {**good, NONCE: value} for name, value in nonces.items()},
        **{f"address {name}": {**good, ADDRESS: value} for name, value in addresses.items()},
        **{f"without {name}": {key: value for key, value in good.items() if key != name} for name in good},
        "with a key": {**good, "Authorization": f"Bearer {target.operator_key}"},
        "with an empty key": {**good, "Authorization": ""},
    }
    await _are_refused(target, wallet, many)


@attack("signed calls", 14)
async def signature_over_another_message_is_refused(target: Target) -> None:
    key = secrets.token_bytes(32)
    funded = await target.wallet()
    key = bytes(funded._key.secret)
    nonce = secrets.token_hex(16)
    messages = [
        f"tollhouse:{FEED_PATH}:{nonce}", f"service:{FEED_PATH}/:{nonce}", f"service:/feeds/stories:{nonce}",
        f"service:{FEED_PATH}:{secrets.token_hex(16)}", f"Service:{FEED_PATH}:{nonce}", f"service:{FEED_PATH}{nonce}",
        f"service::{nonce}", f"service:{FEED_PATH}:", "", f"service:{FEED_PATH}?limit=2:{nonce}", nonce,
        f" service:{FEED_PATH}:{nonce}", f"service:{FEED_PATH}:{nonce}\n", f"service:/chat:{nonce}",
    ]  # fmt: skip
    many = {message: {ADDRESS: funded.address, NONCE: nonce, SIGNATURE: _signed(key, message)} for message in messages}
    await _are_refused(target, funded, many)


@attack("signed calls", 40)
async def used_call_is_neither_answered_nor_charged_again(target: Target) -> None:
    wallet = await target.wallet()
    good = wallet.headers(FEED_PATH)
    assert (await target.send(FEED, good)).status == 200
    await target.refuses(401, FEED, good)
    raw = bytes.fromhex(good[SIGNATURE].removeprefix("0x"))
    twin = raw[:64] + bytes([raw[64] - 27 if raw[64] >= 27 else raw[64] + 27])
    twins = [
        good,
        {**good, NONCE: good[NONCE].upper()},
        {**good, NONCE: "0x" + good[NONCE]},
        {**good, ADDRESS: wallet.address.lower()},
        {**good, ADDRESS: "0x" + wallet.address[2:].upper()},
        {**good, SIGNATURE: "0x" + twin.hex()},
        {**good, SIGNATURE: raw.hex().upper()},
        {**good, NONCE: "00" + good[NONCE]},
    ]
    credit = await target.credit(wallet)
    assert credit == 1_000_000 - CALL_MICROS
    attempts = [
        target.send(path, twin, method=method, process=process)
        for twin in twins
        for process in range(2)
        for path, method in [(FEED, "GET"), (FEED, "HEAD"), ("/defense/feeds/events?limit=2", "GET")]
    ]
    for answer in await target.at_once(attempts):
        assert answer.status in {400, 401, 429}, answer
    assert await target.credit(wallet) == credit


@attack("signed calls", 20)
async def raced_call_is_charged_once(target: Target) -> None:
    wallet = await target.wallet()
    good = wallet.headers(FEED_PATH)
    answers = await target.at_once(target.send(FEED, good, process=number) for number in range(20))
    assert {answer.status for answer in answers} <= {200, 401}
    assert len({answer.body for answer in answers if answer.status == 200}) == 1
    assert await target.credit(wallet) == 1_000_000 - CALL_MICROS


@attack("signed calls", 20)
async def one_signature_raced_over_many_requests_buys_one(target: Target) -> None:
    wallet = await target.wallet()
    good = wallet.headers(FEED_PATH)
    answers = await target.at_once(
        target.send(f"/defense{FEED_PATH}?limit={number}", good, process=number) for number in range(1, 21)
    )
    assert sorted(answer.status for answer in answers) == [200, *[401] * 19]
    assert await target.credit(wallet) == 1_000_000 - CALL_MICROS


@attack("signed calls", 120)
async def wallet_never_spends_more_than_it_has(target: Target) -> None:
    wallet = await target.wallet()
    answers = await target.at_once(
        target.send(FEED, wallet.headers(FEED_PATH), process=number) for number in range(120)
    )
    assert sorted(answer.status for answer in answers) == [*[200] * 100, *[402] * 20]
    assert await target.credit(wallet) == 0


@attack("signed calls", 8)
async def refused_call_costs_nothing(target: Target) -> None:
    wallet = await target.wallet()
    paths = ["/feeds/events?limit=0", "/feeds/events?colour=red", "/feeds/events/conflict_none", "/feeds/none",
             "/feeds/stories?limit=1000", "/feeds/entities?type=horse", "/api/keys/verify",
             "/feeds/events?limit=\u0661"]  # fmt: skip
    for path in paths:
        answer = await target.send(f"/defense{path}", wallet.headers(path.partition("?")[0]))
        assert answer.status in {400, 401, 404}, answer
    assert await target.credit(wallet) == 1_000_000


@attack("signed calls", 6)
async def unregistered_wallet_is_refused(target: Target) -> None:
    for number in range(6):
        stranger = Agent(secrets.token_bytes(32))
        assert (await target.send(FEED, stranger.headers(FEED_PATH), process=number)).status == 401
