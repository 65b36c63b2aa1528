"""Endpoints under /api/agent: register a wallet, credit a deposit, read a balance and what was spent."""

from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from tollhouse import clock
from tollhouse.accounts.key_endpoints import SECONDS_PER_HOUR, Email, Label, iso_day
from tollhouse.accounts.plans import MINIMUM_DEPOSIT_MICROS
from tollhouse.accounts.wallets import Agent, AgentHeaders, WalletRegistry
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem, invalid_parameter
from tollhouse.evm import Address, parse_address
from tollhouse.http.endpoint import JSON, Example, Request, endpoint
from tollhouse.http.terms import AGENT_CALL, FREE
from tollhouse.metering.address_budget import count_or_refuse
from tollhouse.metering.meter import SECONDS_PER_DAY, Meter, Windows
from tollhouse.money import usd
from tollhouse.payments import credit
from tollhouse.payments.deposits import Deposits
from tollhouse.payments.ledger.ledger import Ledger

REGISTER, USAGE = "/api/agent/register", "/api/agent/usage"
SIGNED_FOR_SECONDS = 600
"""How long, and how far ahead of this clock, a signature opens the usage of a wallet."""
USAGES_PER_ADDRESS_PER_MINUTE = 60
# Each deposit makes several calls to the node.
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


class AgentRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/agent/register`."""

    wallet_address: Wallet
    label: Annotated[Label | None, Meta(description="Your own name for the wallet")] = None
    email: Annotated[
        Email | None,
        Meta(
            description="The operator's way to reach you. Requires the wallet's signature: the three X-Agent headers, "
            "over the path `/api/agent/register?email=<email>`"
        ),
    ] = None


class SigningExample(Struct, frozen=True):
    """One signed message."""

    path: str
    nonce: str
    message: str


class Authentication(Struct, frozen=True):
    """How to sign a call: fill path and nonce into `message_template` and sign it as EIP-191 personal_sign."""

    scheme: str
    message_template: str
    headers: dict[str, str]
    example: SigningExample


class AgentRegistered(Struct, frozen=True):
    """A registered wallet. `treasury_address` is null where this server does not accept deposits.

    `price_per_call_usd` is the usual price: an operation that costs more or less says so in OpenAPI (`x-price`).
    """

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
    """A deposit that is credited, by this request or an earlier one (`already_credited`)."""

    credited_usd: str
    balance_usd: str
    tx_hash: str
    block_number: int
    already_credited: bool


class BalanceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The query of `GET /api/agent/balance`."""

    wallet_address: Wallet


class AgentBalance(Struct, frozen=True):
    """Balance and totals of a wallet, in decimal USD. `reserved_usd` is held for calls in flight."""

    agent_id: str
    wallet_address: str
    balance_usd: str
    reserved_usd: str
    deposited_usd: str
    spent_usd: str
    calls: int
    last_call_at: str | None


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The query of `GET /api/agent/usage`."""

    signed_at: Annotated[
        int,
        Meta(
            ge=0,
            le=10**11,
            description="When the wallet signed, in seconds since 1970; valid for 10 minutes",
            examples=[1769846400],
        ),
    ]
    days: Annotated[int, Meta(ge=1, le=400, description="How many UTC days, today included")] = 30


class OperationSpending(Struct, frozen=True):
    """Paid calls of one operation. `service` and `operation` are empty for calls of before they were recorded."""

    service: str
    operation: str
    calls: int
    spent_usd: str


class AgentDay(Struct, frozen=True):
    """What a wallet's calls cost on a UTC day."""

    day: str
    calls: int
    spent_usd: str
    operations: list[OperationSpending]


class AgentUsage(Struct, frozen=True):
    """What a wallet's calls cost on each UTC day, oldest first."""

    agent_id: str
    wallet_address: str
    days: list[AgentDay]


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


_WALLET = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
_TX_HASH = f"0x{'5c' * 32}"
_AGENT, _USDC = "agent_3f1c9a52b7d04e66", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
_SIGNING = _authentication("service", _WALLET)
_EXAMPLE_REGISTERED = AgentRegistered(
    _AGENT, _WALLET, "my agent", _SIGNING, "0.01", "1.00", "eip155:8453", _USDC, treasury_address=None
)
_EXAMPLE_CREDITED = DepositCredited("5.00", "5.00", _TX_HASH, 31337, already_credited=False)
_EXAMPLE_BALANCE = AgentBalance(_AGENT, _WALLET, "4.99", "0.00", "5.00", "0.01", 1, "2026-01-31T08:00:00Z")
_EXAMPLE_DAY = AgentDay("2026-01-31", 1, "0.01", [OperationSpending("defense", "getBrief", 1, "0.01")])
_EXAMPLE_USAGE = AgentUsage(_AGENT, _WALLET, [_EXAMPLE_DAY])

_DEPOSIT_PROBLEMS = (
    "not-found", "deposit-pending", "deposit-invalid", "deposit-conflict", "rate-limited", "upstream-unavailable",
    "not-configured",
)  # fmt: skip

_endpoint = partial(endpoint, terms=FREE, tag="agents")


class AgentEndpoints:
    """Handlers of the agent endpoints. `deposits` is None where this server does not accept any."""

    def __init__(
        self, settings: Settings, wallets: WalletRegistry, ledger: Ledger, deposits: Deposits | None, meter: Meter
    ) -> None:
        self._settings = settings
        self._wallets = wallets
        self._ledger = ledger
        self._deposits = deposits
        self._meter = meter
        self._registrations = Windows(None, settings.keys_per_address_per_hour, SECONDS_PER_HOUR)
        self._usages = Windows(None, USAGES_PER_ADDRESS_PER_MINUTE)
        self._reports = Windows(None, DEPOSITS_PER_ADDRESS_PER_MINUTE)

    @_endpoint(
        "POST",
        REGISTER,
        id="registerAgent",
        problems=("rate-limited", "missing-credentials", "invalid-signature"),
        examples={"body": {"wallet_address": _WALLET, "label": "my agent"}, JSON: to_builtins(_EXAMPLE_REGISTERED)},
        sample=Example(body={"wallet_address": "$WALLET_ADDRESS", "label": "my agent"}),
    )
    async def register(self, request: Request[None, AgentRequest]) -> AgentRegistered:
        """Register a wallet as an agent.

        Returns how to sign calls and where to deposit. Registering a wallet again returns the same `agent_id`.
        An `email` is taken only with the wallet's signature over
        `service:/api/agent/register?email=<email>:<nonce>`, and replaces the one of before.
        """
        body = request.body
        wallet = _body_address(body.wallet_address)
        agent = await self._wallets.agent_of(wallet.raw)
        if agent is None or body.email is not None:
            await count_or_refuse(self._meter, "agents", request.address, self._registrations, "registrations")
        if body.email is not None:
            signer = self._signer(request, f"{REGISTER}?email={body.email}")
            if signer != wallet.raw:
                raise Problem(
                    "invalid-signature",
                    "X-Agent-Address is not the wallet that is registered.",
                    headers={"WWW-Authenticate": 'Agent error="invalid_signature"'},
                )
        if agent is None:
            agent = await self._wallets.register(wallet.text, body.label)
        if body.email is not None:
            await self._wallets.set_email(agent, body.email)
        return self._registered(agent)

    def _signer(self, request: Request[Any, Any], path: str) -> bytes:
        """The wallet that signed this path and query. Raises Problem `missing-credentials`, `invalid-signature`."""
        headers = request.http.headers if request.http is not None else {}
        sent = [headers.get(f"x-agent-{name}".encode(), "") for name in ("address", "nonce", "signature")]
        if not all(sent):
            raise Problem(
                "missing-credentials",
                f"This requires the wallet's signature. Sign `{self._settings.agent_prefix}:{path}:<nonce>` and send "
                "X-Agent-Address, X-Agent-Nonce and X-Agent-Signature.",
                headers={"WWW-Authenticate": "Agent"},
            )
        return self._wallets.signed_by(path, "", AgentHeaders(*sent))

    @_endpoint(
        "POST",
        "/api/agent/deposit",
        id="depositCredit",
        problems=_DEPOSIT_PROBLEMS,
        examples={"body": {"wallet_address": _WALLET, "tx_hash": _TX_HASH}, JSON: to_builtins(_EXAMPLE_CREDITED)},
        sample=Example(body={"wallet_address": "$WALLET_ADDRESS", "tx_hash": "$TX_HASH"}),
    )
    async def deposit(self, request: Request[None, DepositRequest]) -> DepositCredited:
        """Credit a deposit.

        Finds the USDC transfer from the wallet to the treasury on the chain and credits it once.
        """
        wallet = _body_address(request.body.wallet_address)
        agent = await self._known(wallet.raw)
        if self._deposits is None:
            raise Problem(
                "not-configured",
                "This server does not accept deposits: `evm_rpc_url` and `treasury_address` are not configured.",
                setting="evm_rpc_url, treasury_address",
            )
        await count_or_refuse(self._meter, "deposits", request.address, self._reports, "deposits")
        credited = await self._deposits.credit(agent.agent_id, agent.wallet_address, request.body.tx_hash)
        return DepositCredited(
            credited_usd=usd(credited.credited_micros),
            balance_usd=usd(credited.balance_micros),
            tx_hash=credited.tx_hash,
            block_number=credited.block_number,
            already_credited=credited.already_credited,
        )

    @_endpoint(
        "GET",
        "/api/agent/balance",
        id="getAgentBalance",
        problems=("not-found",),
        examples={JSON: to_builtins(_EXAMPLE_BALANCE)},
        sample=Example(query={"wallet_address": "$WALLET_ADDRESS"}),
    )
    async def balance(self, request: Request[BalanceQuery, None]) -> AgentBalance:
        """Balance and totals of a wallet."""
        try:
            wallet = parse_address(request.query.wallet_address)
        except ValueError as error:
            raise invalid_parameter("wallet_address", f"`wallet_address`: {error}.") from None
        agent = await self._known(wallet.raw)
        standing = await credit.agent_balance(self._ledger, agent.agent_id)
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

    @_endpoint(
        "GET",
        USAGE,
        id="getAgentUsage",
        problems=("missing-credentials", "invalid-signature", "rate-limited"),
        examples={JSON: to_builtins(_EXAMPLE_USAGE)},
        sample=Example(
            query={"signed_at": "$SIGNED_AT"},
            headers={
                "X-Agent-Address": "$WALLET_ADDRESS",
                "X-Agent-Nonce": "$AGENT_NONCE",
                "X-Agent-Signature": "$AGENT_SIGNATURE",
            },
        ),
    )
    async def usage(self, request: Request[UsageQuery, None]) -> AgentUsage:
        """What a wallet's calls cost, by day and operation.

        Only for the wallet itself: a balance is public, what it was spent on is not. Sign
        `service:/api/agent/usage?<query>:<nonce>` with the query exactly as it is sent. Costs nothing.
        """
        await count_or_refuse(self._meter, "usage", request.address, self._usages, "requests")
        signer = self._signer(request, f"{USAGE}?{request.over_http.query.decode('latin-1')}")
        if abs(clock.seconds() - request.query.signed_at) > SIGNED_FOR_SECONDS:
            raise invalid_parameter("signed_at", "`signed_at` must be within 10 minutes of the server's time.")
        agent = await self._known(signer)
        today = int(clock.seconds() // SECONDS_PER_DAY)
        first = today - request.query.days + 1
        spent = await credit.agent_spending(self._ledger, agent.agent_id, first)
        days = []
        for day in range(first, today + 1):
            of_day = [one for one in spent if one.day == day]
            calls, micros = sum(one.calls for one in of_day), sum(one.spent_micros for one in of_day)
            each = [OperationSpending(one.service, one.operation, one.calls, usd(one.spent_micros)) for one in of_day]
            days.append(AgentDay(iso_day(day), calls, usd(micros), each))
        return AgentUsage(agent.agent_id, agent.wallet_address, days)

    async def _known(self, wallet: bytes) -> Agent:
        agent = await self._wallets.agent_of(wallet)
        if agent is None:
            raise Problem("not-found", "This wallet is not registered. Register it with POST /api/agent/register.")
        return agent

    def _registered(self, agent: Agent) -> AgentRegistered:
        settings = self._settings
        return AgentRegistered(
            agent_id=agent.agent_id,
            wallet_address=agent.wallet_address,
            label=agent.label,
            authentication=_authentication(settings.agent_prefix, agent.wallet_address),
            price_per_call_usd=usd(AGENT_CALL.micros()),
            minimum_deposit_usd=usd(MINIMUM_DEPOSIT_MICROS),
            network=f"eip155:{settings.evm_chain_id}",
            asset=settings.usdc_address,
            treasury_address=settings.treasury_address or None,
        )


def _body_address(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise Problem("invalid-body", f"`wallet_address`: {error}.", parameter="wallet_address") from None
