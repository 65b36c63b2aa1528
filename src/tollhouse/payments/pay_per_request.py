"""Payment per request, built from the settings: a chain, a settler and the x402 payments; and the chain's status."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.config.settings import SettingError, Settings
from tollhouse.errors import Problem
from tollhouse.evm import parse_address, parse_private_key
from tollhouse.logs import logger
from tollhouse.money import MICROS_PER_USD, usd
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.x402.payments import X402, Terms
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator, FacilitatorTerms
from tollhouse.payments.x402.settlement.gas import NANOS_PER_USD, GasLimits
from tollhouse.payments.x402.settlement.remote import NoReplyError, RemoteFacilitator
from tollhouse.payments.x402.settlement.transactions import Wallet
from tollhouse.payments.x402.store import Attempts, pending_settlements
from tollhouse.payments.x402.types import TOKEN_NAME, TOKEN_NAMES, Requirement, Settler
from tollhouse.payments.x402.verification import WalletRules
from tollhouse.storage.database import Database

log = logger("payments.facilitator")

NO_PUBLIC_URL = "https://example.invalid/"
MAX_USD = 1_000_000
SUPPORTED_SECONDS, SUPPORTED_RETRY_SECONDS = 600.0, 5.0
"""How often a remote facilitator is asked what it supports: after a reply, and after none."""


@asynccontextmanager
async def open_settler(
    settings: Settings, database: Database, chain: ChainClient | None
) -> AsyncIterator[Settler | None]:
    """The settler that the settings name; None if they name none. Raises SettingError."""
    url, key = settings.x402_facilitator_url, settings.x402_facilitator_key
    if not url and not key:
        yield None
        return
    if url and key:
        raise SettingError("x402_facilitator_key: set this or x402_facilitator_url, not both")
    if chain is None:
        raise SettingError("evm_rpc_url: required to settle payments")
    async with _remote(settings, database, chain) if url else _built_in(settings, database, chain) as settler:
        yield settler


def wallet_rules(settings: Settings) -> WalletRules:
    """Which payers may be contracts. Raises SettingError."""
    if settings.x402_6492_factories and not settings.x402_contract_wallets:
        raise SettingError("x402_6492_factories: set x402_contract_wallets too")
    try:
        factories = tuple(parse_address(factory).text for factory in settings.x402_6492_factories)
    except ValueError as error:
        raise SettingError(f"x402_6492_factories: {error}") from None
    return WalletRules(settings.x402_contract_wallets, factories)


def gas_limits(settings: Settings) -> GasLimits:
    """The limits of what gas may cost. Raises SettingError."""
    price = settings.x402_price_usd if settings.x402_max_gas_usd is None else settings.x402_max_gas_usd
    return GasLimits(
        _nanos("x402_max_gas_usd", price),
        _nanos("x402_gas_usd_per_day", settings.x402_gas_usd_per_day),
        _nanos("x402_reserve_usd", settings.x402_reserve_usd),
        _nanos("x402_native_usd", settings.x402_native_usd, least=1),
        settings.x402_native_usd_feed,
    )


def _nanos(name: str, usd: Decimal, least: int = 0) -> int:
    if not least <= usd <= MAX_USD:
        raise SettingError(f"{name}: must be between {least} and {MAX_USD}")
    return int(usd * NANOS_PER_USD)


@asynccontextmanager
async def _remote(settings: Settings, database: Database, chain: ChainClient) -> AsyncIterator[Settler]:
    url, auth, resource_url = (
        settings.x402_facilitator_url,
        settings.x402_facilitator_auth,
        settings.public_url or NO_PUBLIC_URL,
    )
    remote = RemoteFacilitator(url, auth, chain, resource_url, Attempts(database), rules=wallet_rules(settings))
    check = asyncio.create_task(_watch_supported(remote, settings))
    try:
        yield remote
    finally:
        check.cancel()
        await asyncio.gather(check, return_exceptions=True)
        await remote.close()


@asynccontextmanager
async def _built_in(settings: Settings, database: Database, chain: ChainClient) -> AsyncIterator[Settler]:
    try:
        wallet = Wallet(settings.x402_facilitator_key)
    except ValueError as error:
        raise SettingError(f"x402_facilitator_key: {error}") from None
    # Only one process at a time chooses a nonce.
    account_lock = partial(database.turn, f"x402-{wallet.address.lower()}", Path(settings.data_dir))
    asset = parse_address(settings.usdc_address).text
    terms = FacilitatorTerms(settings.evm_chain_id, asset, gas_limits(settings), wallet_rules(settings))
    async with BuiltInFacilitator(chain, wallet, terms, account_lock, database) as built_in:
        log.info("built-in facilitator started", account=wallet.address)
        yield built_in


async def _watch_supported(remote: RemoteFacilitator, settings: Settings) -> None:
    """Warn the operator before the first payment fails, and learn who settles `upto`. Serving does not wait for it."""
    chain_id, asset = settings.evm_chain_id, parse_address(settings.usdc_address).text
    probe = Requirement(chain_id, 0, asset, asset, 0, TOKEN_NAMES.get(chain_id, TOKEN_NAME))
    reported: list[int] | str = []
    while True:
        pause = SUPPORTED_SECONDS
        try:
            unsupported: list[int] | str = await remote.unsupported_versions(probe)
        except NoReplyError as failure:
            unsupported, pause = str(failure), SUPPORTED_RETRY_SECONDS
        if unsupported and unsupported != reported:
            log.warning("remote facilitator: network not supported", cause=unsupported, network=probe.network)
        reported = unsupported
        await asyncio.sleep(pause)


@dataclass(frozen=True, slots=True)
class PayPerRequest:
    """The parts are None if the settings do not configure them; `x402` needs both others and `x402_pay_to`."""

    chain: ChainClient | None = None
    settler: Settler | None = None
    x402: X402 | None = None


@asynccontextmanager
async def open_pay_per_request(settings: Settings, database: Database, ledger: Ledger) -> AsyncIterator[PayPerRequest]:
    """The payments per request that the settings configure. Raises SettingError."""
    async with AsyncExitStack() as stack:
        chain = ChainClient(settings.rpc_urls[0]) if settings.rpc_urls else None
        if chain is not None:
            stack.push_async_callback(chain.close)
        settler = await stack.enter_async_context(open_settler(settings, database, chain))
        x402 = None
        if settings.x402_pay_to and (chain is None or settler is None):
            log.warning("x402 payments are off: set evm_rpc_url, and x402_facilitator_key or x402_facilitator_url")
        elif settings.x402_pay_to and chain and settler:
            x402 = X402(_terms(settings), database, ledger, chain, settler)
            stack.push_async_callback(x402.close)
        yield PayPerRequest(chain, settler, x402)


def _terms(settings: Settings) -> Terms:
    """Receipts are signed with the facilitator's key, if this server has one."""
    return Terms(
        chain_id=settings.evm_chain_id,
        asset=settings.usdc_address,
        pay_to=settings.x402_pay_to,
        receipt_key=parse_private_key(settings.x402_facilitator_key).secret if settings.x402_facilitator_key else b"",
        retention_days=settings.x402_retention_days,
    )


NODE_SECONDS = 5.0
"""How long the operator waits for the chain's node."""
_NANOS_PER_MICRO = NANOS_PER_USD // MICROS_PER_USD


class ChainStatus(Struct, frozen=True):
    """The chain as this server sees it. `pending` are payments that are being settled. `error` says what failed.

    Without a chain in the settings `is_configured` is false; `account` is that of the built-in facilitator.
    """

    is_configured: bool
    chain_id: int | None = None
    head: int | None = None
    head_age_seconds: int | None = None
    account: str | None = None
    balance_usd: str | None = None
    gas_per_payment_usd: str | None = None
    gas_today_usd: str | None = None
    pending: int | None = None
    oldest_pending_seconds: int | None = None
    error: str | None = None


async def read_chain_status(per_request: PayPerRequest, database: Database, chain_id: int) -> ChainStatus:
    """Head, gas and pending settlements; that a node does not answer within NODE_SECONDS is said in `error`."""
    chain, settler = per_request.chain, per_request.settler
    if chain is None:
        return ChainStatus(is_configured=False)
    async with database.reading() as connection:
        pending, oldest = await pending_settlements(connection)
    known: dict[str, Any] = {
        "chain_id": chain_id,
        "pending": pending,
        "oldest_pending_seconds": None if oldest is None else int(clock.seconds() - oldest),
    }
    try:
        async with asyncio.timeout(NODE_SECONDS):
            block = await chain.block()
            if block is not None:
                known |= {"head": block.number, "head_age_seconds": max(0, int(clock.seconds() - block.timestamp))}
            if isinstance(settler, BuiltInFacilitator):
                gas = await settler.gas_status()
                known |= {
                    "account": settler.address,
                    "balance_usd": usd(gas.balance_nanos // _NANOS_PER_MICRO),
                    "gas_per_payment_usd": usd(gas.payment_nanos // _NANOS_PER_MICRO),
                    "gas_today_usd": usd(gas.spent_nanos // _NANOS_PER_MICRO),
                }
    except (Problem, TimeoutError) as error:
        log.warning("chain status unknown", error=str(error))
        known["error"] = "The node did not answer. The log has the reason."
    return ChainStatus(is_configured=True, **known)
