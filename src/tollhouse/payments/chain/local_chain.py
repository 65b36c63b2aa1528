"""A local chain for the demo and the tests: an anvil process with funded accounts and a test USDC token."""

import asyncio
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from tollhouse.config.loader import variables
from tollhouse.errors import OperatorError
from tollhouse.evm import PERMIT2, UPTO_PROXY, address_of, checksummed, parse_private_key
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.contracts import MULTICALL3, USDC_ON_BASE, call_data
from tollhouse.payments.chain.replies import Receipt

FILE = Path(__file__).parent / "contracts.json"


class Contract(Struct, frozen=True):
    """`creation` deploys the contract (append the constructor arguments); `runtime` is its code once deployed."""

    creation: str
    runtime: str


class _Artifacts(Struct, frozen=True):
    contracts: dict[str, Contract]


@cache
def load_contracts() -> dict[str, Contract]:
    """Our compiled contracts by name (sources in contracts/, rebuilt by `make contracts`)."""
    return msgspec.json.decode(FILE.read_bytes(), type=_Artifacts).contracts


PACKAGE = Path("node_modules", "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
MANIFEST = Path(__file__).parent / "npm"
INSTALL_SECONDS = 300.0
START_SECONDS = 20.0
STOP_SECONDS = 5.0
MAX_PORTS = 3

# The shell becomes the node. Its child waits for the end of our pipe, which comes with our exit, and kills the node.
_WITH_PARENT = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL $$) & exec "$@" 3<&- </dev/null'


class NodeNotInstalled(OperatorError):
    """anvil is not installed or does not start. The message says what to do."""


def find_anvil() -> Path:
    """The path of anvil: from `make`, from `install_anvil`, or from the PATH. Raises NodeNotInstalled."""
    places = [folder / PACKAGE for folder in (Path(sys.prefix) / "npm", _cache(), MANIFEST)]
    on_path = shutil.which("anvil")
    for place in [*places, *([Path(on_path)] if on_path else [])]:
        if place.is_file():
            return place
    run = "Run" if shutil.which("npm") else "Install Node.js, which has npm, then run"
    raise NodeNotInstalled(
        f"the local chain needs `anvil`. {run} `npm ci --ignore-scripts --omit=dev --prefix {MANIFEST}` "
        "(Linux on x86-64), or put Foundry's anvil on the PATH"
    )


def install_anvil(say: Callable[[str], object]) -> None:
    """Install anvil with npm for this user, if there is none yet and npm has it for this machine.

    The lock file holds the package's hash, and no script of it runs. `say` takes a line about it.
    """
    npm = shutil.which("npm")
    with suppress(NodeNotInstalled):
        find_anvil()
        return
    if npm is None or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return
    folder = _cache()
    say(f"Installing the local chain's node, an npm package, into {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(MANIFEST / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_SECONDS)  # noqa: S603 - no input
    except (OSError, subprocess.SubprocessError) as error:
        raise NodeNotInstalled(
            f"the local chain's node could not be installed with npm into {folder}: {error}"
        ) from None


def _cache() -> Path:
    return Path(variables().get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tollhouse" / "npm"


@asynccontextmanager
async def run_node(options: Sequence[str]) -> AsyncIterator[str]:
    """Run a node; yields its URL. Raises NodeNotInstalled when it does not start."""
    node = find_anvil()
    with tempfile.TemporaryDirectory(prefix="tollhouse-chain-", ignore_cleanup_errors=True) as home:
        process, port = await _start(node, options, Path(home))
        closing = asyncio.create_task(_close_pipe_after_exit(process))
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await _stop(process)
            await closing


async def _start(node: Path, options: Sequence[str], home: Path) -> tuple[Process, int]:
    for _ in range(MAX_PORTS):
        # Another process may take the port before the node does: the node then exits at once.
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
            if await _wait_listening(process, port):
                return process, port
        except BaseException:
            await _stop(process)
            raise
        await _stop(process)
    output = (home / "node.log").read_text("utf-8", "replace").strip()[-500:]
    raise NodeNotInstalled(f"{node} does not start: {output or 'no output'}")


async def _wait_listening(process: Process, port: int) -> bool:
    """Whether the node accepts connections; False when it exited or took too long."""
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


async def _close_pipe_after_exit(process: Process) -> None:
    """End the watcher of a node that crashed, before its process id can be another's."""
    await process.wait()
    assert process.stdin is not None
    process.stdin.close()


async def _stop(process: Process) -> None:
    """Terminate the node, kill it after a while, and close the pipe, which ends its watcher."""
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
MINED_SECONDS = 30.0
POLL_SECONDS = 0.01
ENOUGH_WEI = 10**20
BASE_FEE, TIP, MAX_FEE = 1_000_000, 1_000_000, 10**12
"""Of gas, in wei: as on Base. The node's own default is a thousand times as much."""


class Account(Struct, frozen=True):
    """An account whose private key is public: never send anything of value to it on another chain."""

    address: str
    private_key: str


# What every anvil and hardhat derives from the mnemonic `test test test test test test test test test test test junk`.
_PRIVATE_KEYS = (
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
    "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
    "0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
    "0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
    "0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
    "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
)
ACCOUNTS = tuple(Account(checksummed(address_of(parse_private_key(key).public_key)), key) for key in _PRIVATE_KEYS)
# The last one mints, so that the nonces of the others are their own.
MINTER = ACCOUNTS[-1]


class LocalChain:
    """A running local chain with Base's id and, at USDC's address there, a token with the same EIP-712 domain.

    `url` is the node's address, `client` its client. A block is mined with each transaction, or every `block_seconds`.
    """

    usdc_address = USDC_ON_BASE

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = ChainClient(url)

    @classmethod
    @asynccontextmanager
    async def start(cls, *, block_seconds: int | None = None) -> AsyncIterator[Self]:
        """Start a new chain; it ends with the block, or with this process. Raises NodeNotInstalled."""
        options = ["--chain-id", str(CHAIN_ID), "--accounts", str(len(ACCOUNTS)), "--base-fee", str(BASE_FEE)]
        async with run_node(options) as url:
            chain = cls(url)
            try:
                await chain._install_contracts()
                if block_seconds is not None:
                    await chain.mine_every(block_seconds)
                yield chain
            finally:
                await chain.client.close()

    async def fund_usdc(self, address: str, micros: int) -> None:
        """Mint tokens, and wait until they are mined."""
        await self.wait_mined(
            await self.send(MINTER, self.usdc_address, call_data("mint(address,uint256)", address, micros))
        )

    async def transfer_usdc(self, sender: Account | str, to: str, micros: int) -> str:
        """Send tokens from any address; the transaction's hash, before it is mined."""
        return await self.send(sender, self.usdc_address, call_data("transfer(address,uint256)", to, micros))

    async def approve_permit2(self, owner: Account | str, micros: int = 2**256 - 1) -> None:
        """Let Permit2 take tokens that the owner signs away, and wait until that is mined."""
        approve = call_data("approve(address,uint256)", PERMIT2, micros)
        await self.wait_mined(await self.send(owner, self.usdc_address, approve))

    async def send(self, sender: Account | str, to: str | None, data: bytes, *, gas: int | None = None) -> str:
        """Send a transaction from any address, signed or impersonated by the node; its hash.

        With `gas` it is not simulated first, so that one that reverts is mined too.
        """
        address = await self._unlock(sender)
        params = {"from": address, "data": "0x" + data.hex()}
        params |= {"to": to} if to else {}
        params |= {"gas": hex(gas)} if gas else {}
        params |= {"maxFeePerGas": hex(MAX_FEE), "maxPriorityFeePerGas": hex(TIP)}
        return str(await self.request("eth_sendTransaction", params))

    async def wait_mined(self, tx_hash: str) -> Receipt:
        """The receipt of a transaction, once it is in a block. Raises TimeoutError after MINED_SECONDS."""
        async with asyncio.timeout(MINED_SECONDS):
            while True:
                receipt = await self.client.receipt(tx_hash)
                if receipt is not None:
                    return receipt
                await asyncio.sleep(POLL_SECONDS)

    async def mine_every(self, seconds: int | None) -> None:
        """From now on mine a block at this interval; 0 mines none, None mines one with each transaction."""
        await self.request("evm_setIntervalMining", seconds or 0)
        await self.request("evm_setAutomine", seconds is None)

    async def request(self, method: str, *params: Any) -> Any:
        """Call any method of the node once. Raises ChainRefused, ChainUnavailable."""
        return msgspec.json.decode(await self.client.rpc.send(method, *params))

    async def _install_contracts(self) -> None:
        """Put our contracts at the addresses of what they stand in for. The token's minter is in slot 0."""
        made = load_contracts()
        await self.request("anvil_setCode", self.usdc_address, made["TestDollar"].runtime)
        await self.request("anvil_setStorageAt", self.usdc_address, "0x0", "0x" + MINTER.address[2:].lower().zfill(64))
        await self.request("anvil_setCode", MULTICALL3, made["Batcher"].runtime)
        await self.request("anvil_setCode", PERMIT2, made["SignaturePermits"].runtime)
        await self.request("anvil_setCode", UPTO_PROXY, made["UptoProxy"].runtime)

    async def _unlock(self, sender: Account | str) -> str:
        address = sender.address if isinstance(sender, Account) else sender
        if address.lower() not in _FUNDED:
            await self.request("anvil_impersonateAccount", address)
            await self.request("anvil_setBalance", address, hex(ENOUGH_WEI))
        return address


_FUNDED = frozenset(account.address.lower() for account in ACCOUNTS)
