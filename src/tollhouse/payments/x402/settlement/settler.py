"""Who settles payments here: the facilitator that the settings name, or our own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tollhouse.config.settings import SettingError, Settings
from tollhouse.evm.address import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.x402.settlement.built_in import BuiltInFacilitator, FacilitatorTerms
from tollhouse.payments.x402.settlement.remote import NoAnswerError, RemoteFacilitator
from tollhouse.payments.x402.settlement.transaction import Wallet
from tollhouse.payments.x402.types import TOKEN_NAME, TOKEN_NAMES, Requirement, Settler
from tollhouse.storage.database import Database

log = logger("payments.facilitator")

NO_PUBLIC_URL = "https://example.invalid/"


@asynccontextmanager
async def open_settler(
    settings: Settings, database: Database, chain: ChainClient | None
) -> AsyncIterator[Settler | None]:
    """The settler while the block runs; None where the settings name none. Raises SettingError."""
    url, key = settings.x402_facilitator_url, settings.x402_facilitator_key
    if not url and not key:
        yield None
        return
    if url and key:
        raise SettingError("x402_facilitator_key: give this or x402_facilitator_url, not both")
    if chain is None:
        raise SettingError("evm_rpc_url: settling payments needs a node of the chain")
    async with _remote(settings, chain) if url else _built_in(settings, database, chain) as settler:
        yield settler


def factories_of(settings: Settings) -> tuple[str, ...]:
    """Who may make a payer's wallet (EIP-6492), checksummed. Raises SettingError."""
    try:
        return tuple(parse_address(factory).text for factory in settings.x402_6492_factories)
    except ValueError as error:
        raise SettingError(f"x402_6492_factories: {error}") from None


@asynccontextmanager
async def _remote(settings: Settings, chain: ChainClient) -> AsyncIterator[Settler]:
    resource_url = settings.public_url or NO_PUBLIC_URL
    remote = RemoteFacilitator(settings.x402_facilitator_url, settings.x402_facilitator_auth, chain, resource_url)
    looking = asyncio.create_task(_tell_what_lacks(remote, settings))
    try:
        yield remote
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await remote.close()


@asynccontextmanager
async def _built_in(settings: Settings, database: Database, chain: ChainClient) -> AsyncIterator[Settler]:
    try:
        wallet = Wallet(settings.x402_facilitator_key)
    except ValueError as error:
        raise SettingError(f"x402_facilitator_key: {error}") from None
    # One transaction at a time is chosen a nonce for, whichever process sends it.
    turn = partial(database.turn, f"x402-{wallet.address.lower()}", Path(settings.data_dir))
    asset = parse_address(settings.usdc_address).text
    terms = FacilitatorTerms(settings.evm_chain_id, asset, factories_of(settings))
    async with BuiltInFacilitator(chain, wallet, terms, turn) as built_in:
        log.info("payments are settled here", account=wallet.address)
        yield built_in


async def _tell_what_lacks(remote: RemoteFacilitator, settings: Settings) -> None:
    """The operator should know before the first payer does. Serving does not wait for it."""
    chain_id, asset = settings.evm_chain_id, parse_address(settings.usdc_address).text
    probe = Requirement(chain_id, 0, asset, asset, 0, TOKEN_NAMES.get(chain_id, TOKEN_NAME))
    try:
        lacking = await remote.lacks(probe)
    except NoAnswerError as failure:
        log.warning("the facilitator does not say what it settles", failure=str(failure))
        return
    if lacking:
        log.warning("the facilitator does not settle such payments", versions=lacking, network=probe.network)
