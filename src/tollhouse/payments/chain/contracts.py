"""ABI of the contracts used here: ERC-20 and EIP-3009 tokens, contract wallets (EIP-1271, EIP-6492), Multicall3.

Also of Permit2, and of the contract through which x402's scheme `upto` settles its transfers.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Raw, Struct

from tollhouse.evm import (
    PERMIT2,
    UPTO_PROXY,
    PermitTransfer,
    Signature,
    TransferWithAuthorization,
    keccak256,
    parse_address,
)
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient, RpcCall
from tollhouse.payments.chain.replies import ChainRefused, ChainUnavailable, Log

USDC_ON_BASE = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"

TRANSFER_TOPIC = "0x" + keccak256(b"Transfer(address,address,uint256)").hex()
USED_TOPIC = "0x" + keccak256(b"AuthorizationUsed(address,bytes32)").hex()
CANCELLED_TOPIC = "0x" + keccak256(b"AuthorizationCanceled(address,bytes32)").hex()


def address_topic(address: str) -> str:
    """The topic of a log that is an address."""
    return "0x" + address[2:].zfill(64)


class TokenTransfer(Struct, frozen=True):
    """One Transfer log: token units that went from one address to another (lower-case)."""

    token: str
    sender: str
    recipient: str
    amount_micros: int
    log: Log


def token_transfer(log: Log) -> TokenTransfer | None:
    """Decode a Transfer log; None for another event, or another shape (such as an NFT's)."""
    if len(log.topics) != 3 or log.topics[0] != TRANSFER_TOPIC or len(log.data) != 32:
        return None
    if any(topic[2:26] != "0" * 24 for topic in log.topics[1:]):
        return None  # an address is in the last 20 of 32 bytes
    sender, recipient = ("0x" + topic[26:] for topic in log.topics[1:])
    return TokenTransfer(log.address, sender, recipient, int.from_bytes(log.data), log)


async def token_balance(chain: ChainClient, token: str, holder: str) -> int:
    """The balance of a holder, in token units. Raises ChainUnavailable."""
    try:
        return_data = await chain.call(token, call_data("balanceOf(address)", holder))
    except ChainRefused as refusal:
        raise ChainUnavailable(f"the token call failed with {refusal.code}") from None
    if len(return_data) != 32:
        raise ChainUnavailable("no token contract at the address")
    return int.from_bytes(return_data)


def call_data(signature: str, *words: str | int) -> bytes:
    """ABI-encode a call: the function selector, then each address or number in 32 bytes."""
    numbers = (int(word, 16) if isinstance(word, str) else word for word in words)
    return selector(signature) + b"".join(number.to_bytes(32) for number in numbers)


def selector(signature: str) -> bytes:
    """The first four bytes of a call of that function, or of a revert with that error."""
    return keccak256(signature.encode())[:4]


MULTICALL3 = "0xcA11bde05977b3631167028862bE2a173976CA11"
"""The address of Multicall3 on every chain that has it."""

WORD = 32
_FIELDS = "address,address,uint256,uint256,uint256,bytes32"
_EOA_TRANSFER = selector(f"transferWithAuthorization({_FIELDS},uint8,bytes32,bytes32)")
_CONTRACT_TRANSFER = selector(f"transferWithAuthorization({_FIELDS},bytes)")
_AGGREGATE = selector("aggregate3((address,bool,bytes)[])")
_STATE = selector("authorizationState(address,bytes32)")
_ERROR = selector("Error(string)")
# The suffix of an EIP-6492 signature, which also says how to deploy the wallet.
_WRAPPED = bytes.fromhex("6492") * 16


class ContractCall(Struct, frozen=True):
    """One contract call: the address and the call data."""

    to: str
    data: bytes


class CallResult(Struct, frozen=True):
    """The result of one aggregated call: its return data or, where it reverted, the revert data."""

    is_success: bool
    return_data: bytes


class WalletSignature(Struct, frozen=True):
    """A contract wallet's signature, and the factory call that deploys the wallet if it names one (EIP-6492)."""

    signature: bytes
    deployment: ContractCall | None = None


def unwrap_signature(signature: bytes) -> WalletSignature:
    """Decode a contract wallet's signature. A malformed one stays as it is, and no wallet accepts it."""
    if not signature.endswith(_WRAPPED):
        return WalletSignature(signature)
    body = signature.removesuffix(_WRAPPED)
    try:
        factory = _word(body, 0).to_bytes(WORD)
        inner, data = (_bytes_at(body, _word(body, at)) for at in (2 * WORD, WORD))
    except ValueError:
        return WalletSignature(signature)
    if any(factory[:12]):
        return WalletSignature(signature)
    return WalletSignature(inner, ContractCall("0x" + factory[12:].hex(), data))


def transfer_with_eoa_signature(authorization: TransferWithAuthorization, signature: Signature) -> bytes:
    """`transferWithAuthorization` with v, r and s, for a payer with a private key (EOA)."""
    compact = signature.compact
    return _EOA_TRANSFER + _fields(authorization) + _number(27 + compact[64]) + compact[:64]


def transfer_with_contract_signature(authorization: TransferWithAuthorization, signature: bytes) -> bytes:
    """`transferWithAuthorization` with signature bytes, for a payer that may be a contract."""
    head = _fields(authorization)
    return _CONTRACT_TRANSFER + head + _number(len(head) + WORD) + _bytes(signature)


def authorization_state(sender: bytes, nonce: bytes) -> bytes:
    """Call data that asks a token whether an authorization nonce was used or cancelled."""
    return _STATE + _address(sender) + nonce


def balance_of(holder: bytes) -> bytes:
    """Call data that asks a token for a balance."""
    return call_data("balanceOf(address)", "0x" + holder.hex())


def aggregate_calls(calls: Sequence[ContractCall], *, may_fail: bool = True) -> bytes:
    """Call data for `aggregate3` of Multicall3: many calls in order, each of which may fail alone, or none may."""
    tuples = [
        _address(bytes.fromhex(call.to[2:])) + _number(may_fail) + _number(3 * WORD) + _bytes(call.data)
        for call in calls
    ]
    offsets, at = [], len(calls) * WORD
    for one in tuples:
        offsets.append(_number(at))
        at += len(one)
    return _AGGREGATE + _number(WORD) + _number(len(calls)) + b"".join(offsets) + b"".join(tuples)


def decode_results(return_data: bytes, count: int) -> list[CallResult]:
    """Decode the results of `count` aggregated calls. Raises ValueError for any other shape."""
    array = return_data[_word(return_data, 0) :]
    if _word(array, 0) != count:
        raise ValueError("the number of results differs from the number of calls")
    elements = array[WORD:]
    tails = [elements[_word(elements, number * WORD) :] for number in range(count)]
    return [CallResult(_word(tail, 0) == 1, _bytes_at(tail, _word(tail, WORD))) for tail in tails]


def multicall(calls: Sequence[ContractCall], at: str = LATEST, transaction: Mapping[str, str] | None = None) -> RpcCall:
    """The RPC call that executes all of `calls` in one `eth_call`, in order, on one block.

    `transaction` are members of the transaction that it stands for, such as `from` and `gas`.
    """
    return "eth_call", [{"to": MULTICALL3, "data": "0x" + aggregate_calls(calls).hex(), **(transaction or {})}, at]


def multicall_results(reply: Raw, count: int) -> list[CallResult]:
    """Decode the reply to `multicall`. Raises ChainUnavailable."""
    try:
        return decode_results(replies.hex_bytes(reply), count)
    except ValueError:
        failure = "Multicall3 is missing on this chain, or returned an unexpected shape"
    raise ChainUnavailable(failure)


def direct_call(call: ContractCall, sender: str, transaction: Mapping[str, str] | None = None) -> RpcCall:
    """The RPC call that executes one call as if `sender` sent it. `transaction` are members of its transaction."""
    return "eth_call", [{"to": call.to, "data": "0x" + call.data.hex(), **(transaction or {}), "from": sender}, LATEST]


def direct_result(reply: Raw | ChainRefused) -> CallResult:
    """Decode the reply to `direct_call`. Raises ChainUnavailable."""
    if isinstance(reply, ChainRefused):
        return CallResult(is_success=False, return_data=reply.data)
    return CallResult(is_success=True, return_data=replies.hex_bytes(reply))


def uint256(result: CallResult) -> int:
    """Decode the number that a call returned. Raises ChainUnavailable."""
    if not result.is_success or len(result.return_data) != WORD:
        raise ChainUnavailable("no EIP-3009 token at the address")
    return int.from_bytes(result.return_data)


GAS_PRICE_ORACLE = "0x420000000000000000000000000000000000000F"
"""The contract on rollups of the OP stack (Base, for example) that tells the fee for a transaction's data."""
MAX_DECIMALS = 36
_LAYER1_FEE = selector("getL1Fee(bytes)")


def layer1_fee_call(transaction: bytes) -> ContractCall:
    """Ask for the fee, in wei, that the chain charges for a transaction's bytes beside its gas."""
    return ContractCall(GAS_PRICE_ORACLE, _LAYER1_FEE + _number(WORD) + _bytes(transaction))


def layer1_fee(result: CallResult) -> int:
    """Decode the fee; 0 on a chain without that contract."""
    return uint256(result) if result.is_success and len(result.return_data) == WORD else 0


def price_calls(feed: str) -> list[ContractCall]:
    """Ask a price feed (Chainlink's AggregatorV3Interface) for its newest price and its decimals."""
    return [ContractCall(feed, call_data("latestRoundData()")), ContractCall(feed, call_data("decimals()"))]


def latest_price(results: Sequence[CallResult], oldest: float) -> int | None:
    """The price in billionths of the feed's unit; None if there is none since `oldest` (seconds since 1970)."""
    newest, decimals = results
    if (len(newest.return_data), len(decimals.return_data)) != (5 * WORD, WORD) or not newest.is_success:
        return None
    round_id, price, _, updated_at, answered_in = (_word(newest.return_data, WORD * n) for n in range(5))
    places = uint256(decimals)
    # A negative price is a number above half the range.
    if not 0 < price < 1 << 255 or updated_at < oldest or answered_in < round_id or places > MAX_DECIMALS:
        return None
    return price * 10**9 // 10**places or None


def revert_text(return_data: bytes) -> str:
    """The message of a revert; empty if there is none."""
    if not return_data.startswith(_ERROR):
        return ""
    try:
        return _bytes_at(return_data[4:], _word(return_data[4:], 0)).decode()
    except ValueError:
        return ""


_SETTLED_TOPICS = frozenset(("0x" + keccak256(event).hex(),) for event in (b"Settled()", b"SettledWithPermit()"))
"""The topics of the log that follows a transfer: the second where the same call had Permit2 approved."""
INVALIDATED_TOPIC = "0x" + keccak256(b"UnorderedNonceInvalidation(address,uint256,uint256)").hex()

_SETTLE = "settle(((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)"
_SETTLE_SELECTOR = selector(_SETTLE)
_WORDS = 10
"""The words before the signature: permit (4), amount, owner, witness (3), and where the signature starts."""


class UptoSettlement(Struct, frozen=True):
    """What a call of `settle` orders: an amount in the token's smallest unit, by the owner's permit with that nonce.

    Owner and nonce are lower-case hexadecimal with 0x.
    """

    owner: str
    nonce: str
    amount: int


def settle_call(permit: PermitTransfer, amount: int, signature: bytes) -> ContractCall:
    """Take that amount of a permitted transfer. Only the permit's facilitator may send it."""
    head = call_data(
        _SETTLE,
        permit.token.hex(),
        permit.value,
        permit.nonce.hex(),
        permit.valid_before,
        amount,
        permit.sender.hex(),
        permit.recipient.hex(),
        permit.facilitator.hex(),
        permit.valid_after,
        _WORDS * WORD,
    )
    return ContractCall(UPTO_PROXY, head + _bytes(signature))


def settlements(data: bytes) -> Iterator[UptoSettlement]:
    """The calls of `settle` in a transaction's data, also inside of a call to another contract."""
    at = data.find(_SETTLE_SELECTOR)
    while at >= 0:
        words = [data[at + 4 + WORD * number :][:WORD] for number in range(_WORDS)]
        if len(words[-1]) == WORD:
            owner, nonce = "0x" + words[5][12:].hex(), "0x" + words[2].hex()
            yield UptoSettlement(owner, nonce, int.from_bytes(words[4]))
        at = data.find(_SETTLE_SELECTOR, at + 1)


def is_ordered(data: bytes, owner: str, nonce: str, amount: int | None = None) -> bool:
    """Whether a transaction's data calls `settle` for that owner and nonce; with `amount`, for exactly that much."""
    return any((one.owner, one.nonce) == (owner, nonce) and amount in {None, one.amount} for one in settlements(data))


def nonce_word_call(permit: PermitTransfer) -> ContractCall:
    """Ask for the word of the bitmap that holds the permit's nonce."""
    return ContractCall(PERMIT2, call_data("nonceBitmap(address,uint256)", permit.sender.hex(), _word_of(permit)))


def nonce_mask(permit: PermitTransfer) -> int:
    """The bit of that word that is set once the nonce was used or invalidated."""
    return 1 << permit.nonce[-1]


def is_invalidation(log: Log, permit: PermitTransfer) -> bool:
    """Whether the log says that the owner gave up the permit's nonce."""
    word, mask = int.from_bytes(log.data[:WORD]), int.from_bytes(log.data[WORD:])
    return log.topics[0] == INVALIDATED_TOPIC and word == _word_of(permit) and bool(mask & nonce_mask(permit))


def is_settled(log: Log) -> bool:
    """Whether the log says that the transfer before it settled a payment of scheme `upto`."""
    return log.address == UPTO_PROXY.lower() and log.topics in _SETTLED_TOPICS


def allowance_call(token: str, owner: bytes) -> ContractCall:
    """Ask a token how much Permit2 may take from the owner."""
    return ContractCall(token, call_data("allowance(address,address)", owner.hex(), PERMIT2))


def proxy_call() -> ContractCall:
    """Ask the settling contract for its Permit2: no answer means that the chain has no such contract."""
    return ContractCall(UPTO_PROXY, call_data("PERMIT2()"))


def is_proxy(return_data: bytes) -> bool:
    """Whether that was the answer of the settling contract."""
    return return_data == _address(parse_address(PERMIT2).raw)


def _word_of(permit: PermitTransfer) -> int:
    return int.from_bytes(permit.nonce[:-1])


def _fields(authorization: TransferWithAuthorization) -> bytes:
    addresses = (authorization.sender, authorization.recipient)
    numbers = (authorization.value, authorization.valid_after, authorization.valid_before)
    return b"".join([*map(_address, addresses), *map(_number, numbers), authorization.nonce])


def _bytes(value: bytes) -> bytes:
    return _number(len(value)) + value + bytes(-len(value) % WORD)


def _bytes_at(body: bytes, at: int) -> bytes:
    length = _word(body, at)
    value = body[at + WORD : at + WORD + length]
    if len(value) != length:
        raise ValueError("truncated bytes")
    return value


def _word(body: bytes, at: int) -> int:
    word = body[at : at + WORD]
    if len(word) != WORD:
        raise ValueError("a truncated word")
    return int.from_bytes(word)


def _number(value: int) -> bytes:
    return value.to_bytes(WORD)


def _address(raw: bytes) -> bytes:
    return raw.rjust(WORD, b"\0")
