"""A local chain for the demo and the tests: an anvil process with funded accounts and a test USDC token."""

import asyncio
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import USDC_ON_BASE, call_data
from tollhouse.payments.chain.replies import Receipt

FILE = Path(__file__).parent / "contracts.json"


class Contract(Struct, frozen=True):
    """`creation` deploys it (constructor arguments are appended); `runtime` is what then stands at its address."""

    creation: str
    runtime: str


class _Artefacts(Struct, frozen=True):
    contracts: dict[str, Contract]


@cache
def contracts() -> dict[str, Contract]:
    """Every contract by its name."""
    return msgspec.json.decode(FILE.read_bytes(), type=_Artefacts).contracts


PACKAGE = Path("node_modules", "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
MANIFEST = Path(__file__).parent / "npm"
START_SECONDS = 20.0
STOP_SECONDS = 5.0
MOST_PORTS = 3

# The shell becomes the node; its child waits for the end of our pipe, which comes however we end, and kills the node.
_WITH_PARENT = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL $$) & exec "$@" 3<&- </dev/null'


class NoNode(Exception):
    """The node is not installed or does not start; the message says what to do."""


def program() -> Path:
    """The node: where `make` installs it, where npm installs it in place, or on the PATH. Raises NoNode."""
    places = [folder / PACKAGE for folder in (Path(sys.prefix) / "npm", MANIFEST)]
    on_path = shutil.which("anvil")
    for place in [*places, *([Path(on_path)] if on_path else [])]:
        if place.is_file():
            return place
    raise NoNode(
        f"the local chain needs the node `anvil`: run `npm ci --ignore-scripts --omit=dev --prefix {MANIFEST}` "
        "(Linux on x86-64), or put Foundry's anvil on the PATH"
    )


@asynccontextmanager
async def running(options: Sequence[str]) -> AsyncIterator[str]:
    """The node's address while it runs. Raises NoNode when it does not start."""
    node = program()
    with tempfile.TemporaryDirectory(prefix="tollhouse-chain-", ignore_cleanup_errors=True) as home:
        process, port = await _started(node, options, Path(home))
        letting_go = asyncio.create_task(_let_go_when_ended(process))
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await _ended(process)
            await letting_go


async def _started(node: Path, options: Sequence[str], home: Path) -> tuple[Process, int]:
    for _ in range(MOST_PORTS):
        # Between our look and its start another may take the port: the node then ends at once.
        port = _free_port()
        fixed = ["--host", "127.0.0.1", "--port", str(port), "--quiet", "--cache-path", str(home)]
        with (home / "node.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", _WITH_PARENT, "sh", str(node), *fixed, *options),
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        try:
            if await _listens(process, port):
                return process, port
        except BaseException:
            await _ended(process)
            raise
        await _ended(process)
    said = (home / "node.log").read_text("utf-8", "replace").strip()[-500:]
    raise NoNode(f"{node} does not start: {said or 'it says nothing'}")


async def _listens(process: Process, port: int) -> bool:
    """Whether the node got as far as listening; False when it ended, or took too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    await writer.wait_closed()
                    return process.returncode is None
                await asyncio.sleep(0.01)
    return False


async def _let_go_when_ended(process: Process) -> None:
    """End the watcher of a node that crashed, before its process id can be another's."""
    await process.wait()
    assert process.stdin is not None
    process.stdin.close()


async def _ended(process: Process) -> None:
    """Ask it to end, insist after a while, and let go of the pipe, which ends its watcher."""
    assert process.stdin is not None
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
    process.stdin.close()
    await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


CHAIN_ID = 8453
MULTICALL3 = "0xcA11bde05977b3631167028862bE2a173976CA11"
MINED_SECONDS = 30.0
POLL_SECONDS = 0.01
ENOUGH_WEI = 10**20


class Account(Struct, frozen=True):
    """An account whose key the whole world knows: never send anything of value to it on another chain."""

    address: str
    private_key: str


# What every anvil and hardhat derives from the mnemonic `test test test test test test test test test test test junk`.
ACCOUNTS = (
    Account(
        "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    ),
    Account(
        "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    ),
    Account(
        "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    ),
    Account(
        "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
        "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    ),
    Account(
        "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
        "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
    ),
    Account(
        "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc",
        "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
    ),
    Account(
        "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
        "0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
    ),
    Account(
        "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
        "0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
    ),
    Account(
        "0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f",
        "0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
    ),
    Account(
        "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720",
        "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
    ),
)
# The last one mints, so that the nonces of the others are their own.
MINTER = ACCOUNTS[-1]


class LocalChain:
    """A running local chain with Base's id and, at USDC's address there, a token with the same EIP-712 domain.

    `url` is the node's address, `client` asks it. Blocks come with each transaction, or every `block_seconds`.
    """

    usdc_address = USDC_ON_BASE

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = ChainClient(url)

    @classmethod
    @asynccontextmanager
    async def start(cls, *, block_seconds: int | None = None) -> AsyncIterator[Self]:
        """A new chain; it ends with the block, or with this process. Raises NoNode when no node is installed."""
        async with running(["--chain-id", str(CHAIN_ID), "--accounts", str(len(ACCOUNTS))]) as url:
            chain = cls(url)
            try:
                await chain._furnish()
                if block_seconds is not None:
                    await chain.mine_every(block_seconds)
                yield chain
            finally:
                await chain.client.close()

    async def fund_usdc(self, address: str, micros: int) -> None:
        """Mint tokens; when it returns they are there."""
        await self.mined(
            await self.send(MINTER, self.usdc_address, call_data("mint(address,uint256)", address, micros))
        )

    async def transfer_usdc(self, sender: Account | str, to: str, micros: int) -> str:
        """Send tokens from an account, or from any address at all; the transaction's hash, before it is mined."""
        return await self.send(sender, self.usdc_address, call_data("transfer(address,uint256)", to, micros))

    async def send(self, sender: Account | str, to: str | None, data: bytes, *, gas: int | None = None) -> str:
        """A transaction that the node signs or, for a stranger's address, pretends was signed; its hash.

        With `gas` it is sent without being tried first, so that one that reverts is mined too.
        """
        address = await self._unlocked(sender)
        asked = {"from": address, "data": "0x" + data.hex()}
        asked |= {"to": to} if to else {}
        asked |= {"gas": hex(gas)} if gas else {}
        return str(await self.ask("eth_sendTransaction", asked))

    async def mined(self, tx_hash: str) -> Receipt:
        """The receipt of a transaction, once it is in a block. TimeoutError after MINED_SECONDS."""
        async with asyncio.timeout(MINED_SECONDS):
            while True:
                receipt = await self.client.receipt(tx_hash)
                if receipt is not None:
                    return receipt
                await asyncio.sleep(POLL_SECONDS)

    async def mine(self, blocks: int = 1) -> None:
        """Make blocks now."""
        await self.ask("anvil_mine", hex(blocks))

    async def mine_every(self, seconds: int | None) -> None:
        """From now on make a block every so many seconds, whatever is in it; with 0 none at all unless told to.

        With None, one with each transaction.
        """
        await self.ask("evm_setIntervalMining", seconds or 0)
        await self.ask("evm_setAutomine", seconds is None)

    async def ask(self, method: str, *params: Any) -> Any:
        """Anything the node understands, once. Raises ChainRefused, ChainUnavailable."""
        return msgspec.json.decode(await self.client.rpc.command(method, *params))

    async def _furnish(self) -> None:
        """Our token where USDC stands, with its minter in slot 0; our batcher where Multicall3 stands."""
        made = contracts()
        await self.ask("anvil_setCode", self.usdc_address, made["TestDollar"].runtime)
        await self.ask("anvil_setStorageAt", self.usdc_address, "0x0", "0x" + MINTER.address[2:].lower().zfill(64))
        await self.ask("anvil_setCode", MULTICALL3, made["Batcher"].runtime)

    async def _unlocked(self, sender: Account | str) -> str:
        address = sender.address if isinstance(sender, Account) else sender
        if address.lower() not in _FUNDED:
            await self.ask("anvil_impersonateAccount", address)
            await self.ask("anvil_setBalance", address, hex(ENOUGH_WEI))
        return address


_FUNDED = frozenset(account.address.lower() for account in ACCOUNTS)
