"""What is asked of a node, by its meaning; every answer is parsed strictly and the questions are safe to repeat."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from tollhouse.payments.chain import replies
from tollhouse.payments.chain.errors import ChainRefused, ChainUnavailable
from tollhouse.payments.chain.replies import Block, FeeHistory, Log, Receipt, Transaction
from tollhouse.payments.chain.rpc import Rpc
from tollhouse.payments.chain.transport import Bounds

LATEST = "latest"
PENDING = "pending"

# Hashes of a block's transactions are enough.
_WHOLE = False


class ChainClient:
    """One node of one chain. Every method raises ChainUnavailable when there is no usable answer in time.

    Hashes and addresses go in and come out as lower-case text; amounts of gas and money of the chain are in wei.
    Only `call`, `estimate_gas` and `send_raw_transaction` raise ChainRefused.
    """

    def __init__(self, url: str, bounds: Bounds | None = None) -> None:
        self.rpc = Rpc(url, bounds)

    async def chain_id(self) -> int:
        return replies.quantity(await self._asked("eth_chainId"))

    async def block_number(self) -> int:
        """The height of the node's newest block."""
        return replies.quantity(await self._asked("eth_blockNumber"))

    async def receipt(self, tx_hash: str) -> Receipt | None:
        """What became of a transaction; None while the node has it in no block."""
        return replies.receipt(await self._asked("eth_getTransactionReceipt", tx_hash), tx_hash.lower())

    async def receipts(self, tx_hashes: Sequence[str]) -> list[Receipt | None]:
        """As `receipt`, for many at once."""
        found = await self.rpc.questions([("eth_getTransactionReceipt", [tx_hash]) for tx_hash in tx_hashes])
        return [replies.receipt(answer, asked.lower()) for answer, asked in zip(found, tx_hashes, strict=True)]

    async def transaction(self, tx_hash: str) -> Transaction | None:
        """A transaction, mined or waiting; None where the node does not know it."""
        return replies.transaction(await self._asked("eth_getTransactionByHash", tx_hash), tx_hash.lower())

    async def block(self, which: int | str = LATEST) -> Block | None:
        """The block of a height, a hash or a name such as `latest`; None where the node has none."""
        by_hash = isinstance(which, str) and which.startswith("0x")
        method = "eth_getBlockByHash" if by_hash else "eth_getBlockByNumber"
        return replies.block(await self._asked(method, _height(which), _WHOLE), which)

    async def blocks(self, heights: Sequence[int]) -> list[Block | None]:
        """The canonical blocks of many heights at once."""
        found = await self.rpc.questions([("eth_getBlockByNumber", [hex(height), _WHOLE]) for height in heights])
        return [replies.block(answer, height) for answer, height in zip(found, heights, strict=True)]

    async def call(self, to: str, data: bytes, *, sender: str | None = None, at: int | str = LATEST) -> bytes:
        """What a contract answers, changing nothing. Raises ChainRefused when it reverts."""
        asked = {"to": to, "data": _hex(data)} | ({"from": sender} if sender else {})
        return replies.hex_bytes(await self.rpc.question("eth_call", asked, _height(at)))

    async def estimate_gas(self, transaction: Mapping[str, str]) -> int:
        """How much gas a transaction would use. Raises ChainRefused when it would revert."""
        return replies.quantity(await self.rpc.question("eth_estimateGas", transaction))

    async def logs(self, address: str, topics: Sequence[str | None], first: int, last: int) -> list[Log]:
        """The logs of one contract in the blocks from `first` to `last`, both included."""
        asked = {"address": address, "topics": list(topics), "fromBlock": hex(first), "toBlock": hex(last)}
        found = replies.logs(await self._asked("eth_getLogs", asked))
        if any(log.address != address.lower() or not first <= log.block_number <= last for log in found):
            raise ChainUnavailable("logs that were not asked for")
        return found

    async def code(self, address: str) -> bytes:
        """The code of a contract; empty at any other address."""
        return replies.hex_bytes(await self._asked("eth_getCode", address, LATEST))

    async def transaction_count(self, address: str, at: int | str = PENDING) -> int:
        """The nonce of the address's next transaction."""
        return replies.quantity(await self._asked("eth_getTransactionCount", address, _height(at)))

    async def fee_history(self, blocks: int, percentiles: Sequence[float]) -> FeeHistory:
        """What gas cost in the newest `blocks`, with the tips at the given percentiles."""
        return replies.fee_history(await self._asked("eth_feeHistory", hex(blocks), LATEST, list(percentiles)))

    async def send_raw_transaction(self, signed: bytes) -> str:
        """Hand over a signed transaction; its hash. Said once: after a ChainUnavailable look whether it arrived."""
        return replies.tx_hash(await self.rpc.command("eth_sendRawTransaction", _hex(signed)))

    async def close(self) -> None:
        """Give every connection back."""
        await self.rpc.close()

    async def _asked(self, method: str, *params: Any) -> Raw:
        """The answer to a question that a sound node does not refuse."""
        try:
            return await self.rpc.question(method, *params)
        except ChainRefused as refusal:
            code = refusal.code
        raise ChainUnavailable(f"{method} was refused with {code}")


def _height(which: int | str) -> str:
    return hex(which) if isinstance(which, int) else which


def _hex(data: bytes) -> str:
    return "0x" + data.hex()
