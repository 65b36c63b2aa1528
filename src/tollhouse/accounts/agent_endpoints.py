"""Where an agent registers its wallet, reports a deposit and asks for its balance."""

from typing import Annotated

from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS
from tollhouse.accounts.wallets import Agent, WalletRegistry
from tollhouse.admission.context import AppContext
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem, invalid_parameter
from tollhouse.evm.address import Address, parse_address
from tollhouse.http.endpoint import Request
from tollhouse.http.terms import AGENT_CALL_MICROS
from tollhouse.metering.meter import Meter
from tollhouse.metering.rate_limit import count_or_refuse
from tollhouse.metering.windows import Windows
from tollhouse.money import usd
from tollhouse.payments import credit
from tollhouse.payments.deposits.deposits import Deposits
from tollhouse.payments.ledger.ledger import Ledger

SECONDS_PER_HOUR = 3_600
SECONDS_PER_MINUTE = 60
# Each report of a deposit asks the chain's node several questions.
DEPOSITS_PER_ADDRESS_PER_MINUTE = 60

Wallet = Annotated[
    str,
    Meta(
        max_length=100,
        description="An EVM address. Mixed case must carry the right checksum (EIP-55)",
        examples=["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"],
        extra_json_schema={"pattern": "^0[xX][0-9a-fA-F]{40}$"},
    ),
]
Label = Annotated[
    Annotated[str, Meta(max_length=100, pattern=r"^[^\x00]*$")] | None, Meta(description="What you will know it by")
]


class AgentRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/agent/register`."""

    wallet_address: Wallet
    label: Label = None
    email: Annotated[
        Annotated[str, Meta(max_length=254, pattern=r"^[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$")]
        | None,
        Meta(description="Where the operator can reach you"),
    ] = None


class SigningExample(Struct, frozen=True):
    """One call, signed."""

    path: str
    nonce: str
    message: str


class Authentication(Struct, frozen=True):
    """How to sign a call: `message_template` with path and nonce filled in, signed as EIP-191 personal_sign."""

    scheme: str
    message_template: str
    headers: dict[str, str]
    example: SigningExample


class AgentRegistered(Struct, frozen=True):
    """A registered wallet. `treasury_address` is null where this server takes no deposits yet."""

    agent_id: str
    wallet_address: str
    label: str | None
    authentication: Authentication
    price_per_call_usd: str
    minimum_deposit_usd: str
    network: str
    asset: str
    treasury_address: str | None


class DepositRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/agent/deposit`."""

    wallet_address: Wallet
    tx_hash: Annotated[
        str,
        Meta(
            max_length=100,
            description="The hash of the USDC transfer to the treasury",
            extra_json_schema={"pattern": "^0x[0-9a-fA-F]{64}$"},
        ),
    ]


class DepositCredited(Struct, frozen=True):
    """A deposit found on the chain and credited, now or before (`already_credited`)."""

    credited_usd: str
    balance_usd: str
    tx_hash: str
    block_number: int
    already_credited: bool


class BalanceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose balance."""

    wallet_address: Wallet


class AgentBalance(Struct, frozen=True):
    """What a wallet has and what it did. Money is decimal USD; `reserved_usd` is held for calls in flight."""

    agent_id: str
    wallet_address: str
    balance_usd: str
    reserved_usd: str
    deposited_usd: str
    spent_usd: str
    calls: int
    last_call_at: str | None


class AgentEndpoints:
    """The operations under `/api/agent`."""

    def __init__(self, context: AppContext) -> None:
        settings = context.settings
        self._settings: Settings = settings
        self._wallets: WalletRegistry = context.wallets
        self._ledger: Ledger = context.ledger
        self._deposits: Deposits | None = context.deposits
        self._meter: Meter = context.meter
        self._registrations = Windows(None, settings.keys_per_address_per_hour, SECONDS_PER_HOUR)
        self._reports = Windows(None, DEPOSITS_PER_ADDRESS_PER_MINUTE, SECONDS_PER_MINUTE)

    async def register(self, request: Request[None, AgentRequest]) -> AgentRegistered:
        """Register a wallet, or tell what it was registered as. Raises Problem `invalid-body`, `rate-limited`."""
        body = request.body
        wallet = _body_address(body.wallet_address)
        agent = await self._wallets.agent_of(wallet.raw)
        if agent is None:
            await count_or_refuse(self._meter, f"agents:{request.address}", self._registrations, "registrations")
            agent = await self._wallets.register(wallet.text, body.label, body.email)
        return self._registered(agent)

    async def deposit(self, request: Request[None, DepositRequest]) -> DepositCredited:
        """Credit a transfer found on the chain. Raises Problem for whatever is not a confirmed deposit."""
        wallet = _body_address(request.body.wallet_address)
        agent = await self._known(wallet)
        if self._deposits is None:
            raise Problem(
                "not-configured",
                "This server takes no deposits: its operator has not set `evm_rpc_url` and `treasury_address`.",
                setting="evm_rpc_url, treasury_address",
            )
        await count_or_refuse(self._meter, f"deposits:{request.address}", self._reports, "reports")
        credited = await self._deposits.credit(agent.agent_id, agent.wallet_address, request.body.tx_hash)
        return DepositCredited(
            credited_usd=usd(credited.credited_micros),
            balance_usd=usd(credited.balance_micros),
            tx_hash=credited.tx_hash,
            block_number=credited.block_number,
            already_credited=credited.already_credited,
        )

    async def balance(self, request: Request[BalanceQuery, None]) -> AgentBalance:
        """What the wallet can spend. Raises Problem `invalid-parameter` or `not-found`."""
        try:
            wallet = parse_address(request.query.wallet_address)
        except ValueError as error:
            raise invalid_parameter("wallet_address", f"`wallet_address`: {error}.") from None
        agent = await self._known(wallet)
        standing = await credit.standing(self._ledger, agent.agent_id)
        return AgentBalance(
            agent_id=agent.agent_id,
            wallet_address=agent.wallet_address,
            balance_usd=usd(standing.balance_micros),
            reserved_usd=usd(standing.reserved_micros),
            deposited_usd=usd(standing.deposited_micros),
            spent_usd=usd(standing.spent_micros),
            calls=standing.calls,
            last_call_at=None if standing.last_call_at is None else clock.iso(clock.at(standing.last_call_at)),
        )

    async def _known(self, wallet: Address) -> Agent:
        agent = await self._wallets.agent_of(wallet.raw)
        if agent is None:
            raise Problem("not-found", "This wallet is not registered; POST /api/agent/register does that.")
        return agent

    def _registered(self, agent: Agent) -> AgentRegistered:
        settings = self._settings
        return AgentRegistered(
            agent_id=agent.agent_id,
            wallet_address=agent.wallet_address,
            label=agent.label,
            authentication=_authentication(settings.agent_prefix, agent.wallet_address),
            price_per_call_usd=usd(AGENT_CALL_MICROS),
            minimum_deposit_usd=usd(MINIMUM_DEPOSIT_MICROS),
            network=f"eip155:{settings.evm_chain_id}",
            asset=settings.usdc_address,
            treasury_address=settings.treasury_address or None,
        )


def _authentication(prefix: str, wallet_address: str) -> Authentication:
    path, nonce = "/feeds/defense-brief", "9f86d081884c7d659a2feaa0c55ad015"
    return Authentication(
        scheme="EIP-191 personal_sign",
        message_template=f"{prefix}:<path>:<nonce>",
        headers={
            "X-Agent-Address": wallet_address,
            "X-Agent-Nonce": "<8 to 64 random bytes in hex, new for every call>",
            "X-Agent-Signature": "<65 bytes in hex over the message>",
        },
        example=SigningExample(path=path, nonce=nonce, message=f"{prefix}:{path}:{nonce}"),
    )


def _body_address(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise Problem("invalid-body", f"`wallet_address`: {error}.", parameter="wallet_address") from None
