"""The server's settings: one line each with name, type, default and meaning. Services declare their own sections."""

from dataclasses import dataclass
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import Meta

from tollhouse.config.section import (
    Address,
    Count,
    HttpUrl,
    Name,
    PositiveFloat,
    PositiveInt,
    Section,
    SettingError,
    setting,
)

__all__ = ["PlanSettings", "SettingError", "Settings"]

S = TypeVar("S", bound=Section)

LogLevel = Literal["debug", "info", "warning", "error"]
DatabaseUrl = Annotated[
    str,
    Meta(
        pattern="^((sqlite:///|postgresql://|postgresql[+]asyncpg://|postgres://).*)?$",
        description="a URL that starts with sqlite:///, postgresql:// or postgres://",
    ),
]
RedisUrl = Annotated[
    str,
    Meta(
        pattern="^((rediss?([+]cluster)?|unix)://.*)?$",
        description="a URL that starts with redis://, rediss://, redis+cluster://, rediss+cluster:// or unix://",
    ),
]
Contact = Annotated[
    str,
    Meta(pattern="^((mailto:|https://|tel:).*)?$", description="a URL that starts with mailto:, https:// or tel:"),
]
OperatorToken = Annotated[
    str,
    Meta(pattern="^([!-~]{20,})?$", description="at least 20 characters, ASCII without spaces (`admin_token` before)"),
]
HostName = Annotated[
    str,
    Meta(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$", description="a host, `name` or `name:port`"),
]
ListenAddress = Annotated[
    str, Meta(pattern=r"^((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5})?$", description="an address, `host:port`")
]
PrivateKey = Annotated[
    str, Meta(pattern="^((0x)?[0-9a-fA-F]{64})?$", description="a private key, 64 hexadecimal digits")
]
RootPath = Annotated[str, Meta(pattern="^(/[^/?#\\s\"'<>]+)*$", description="a path such as /paid, or empty")]
HexKey = Annotated[str, Meta(pattern="^([0-9a-fA-F]{64})?$", description="64 hexadecimal digits")]
# The last days of the bundled recordings; `true` stands for the first.
RecordedDay = Literal["2020-11-15", "2023-07-02"]
Recorded = Annotated[
    bool | RecordedDay | None,
    Meta(description=f"`true`, `false`, or the day of a bundled recording: {' or '.join(get_args(RecordedDay))}"),
]
Failpoint = Annotated[
    str,
    Meta(pattern="^([a-z0-9.-]+(:[1-9][0-9]{0,8})?)?$", description="a failpoint's name, with `:N` for the Nth pass"),
]


class PlanSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[plans.NAME]`: a plan that the operator adds, or changes of a default plan."""

    requests_per_day: int | Literal["unlimited"] | None = None
    requests_per_minute: int | None = None
    price_usd_month: Decimal | None = None
    price_usd_year: Decimal | None = None
    entitlements: tuple[str, ...] | None = None
    chat_per_day: int | Literal["unlimited"] | None = None


class PriceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[prices.SERVICE.OPERATION]`: what a call costs, and how many requests of a plan it counts as."""

    request_usd: Decimal | None = None
    row_usd: Decimal | None = None
    requests: int | dict[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Section):
    """Server."""

    service: str = setting("", "Serve only this service, at the root; empty: all, each under its prefix")
    services_dir: str = setting("services", "Directory of service definitions, one `NAME.toml` each")
    hosts: dict[str, str] = setting({}, "Table host name → service: the host serves that service at its root")
    public_url: HttpUrl = setting("", "Public URL of the server's root, used in links and descriptions")
    root_path: RootPath = setting(
        "", "Path under which a proxy that removes it, or another application, offers the server: `/paid`"
    )
    allowed_hosts: tuple[HostName, ...] = setting(
        (), "More hosts that open the operator's pages: `name` or `name:port`"
    )
    served_at: str = setting("", "Local URL of the server, used in links without `public_url`; `serve` sets it")
    trusted_proxies: str = setting("", "Networks whose `X-Forwarded-For` is trusted, separated by commas")
    workers: PositiveInt = setting(1, "Number of processes that handle requests")
    background_work: bool = setting(True, "Run the background work in the server; `--no-worker` turns it off")
    recorded: Recorded = setting(
        None,
        "`true`: recorded data only, or the day of a recording: `2023-07-02`; `false`: live data only; unset: both",
    )
    request_deadline_seconds: PositiveFloat = setting(10.0, "Time limit for receiving a request body")
    idle_timeout_seconds: PositiveInt = setting(65, "Time limit for the next request head on a connection")
    idle_connections_per_address: PositiveInt = setting(100, "Idle connections of one client address per process")
    body_limit_bytes: PositiveInt = setting(1_048_576, "Maximum size of a request body")
    operator_token: OperatorToken = setting("", "Token of the operator; empty: made at the first start", "secret")
    operator_listen: ListenAddress = setting("", "`host:port` where alone the operator's pages and `/metrics` are")
    metrics_open: bool = setting(False, "Show `/metrics` without the operator's token")
    otlp_url: HttpUrl = setting(
        "", "URL of an OpenTelemetry collector that receives traces over HTTP. Needs `tollhouse[otlp]`"
    )
    contact: Contact = setting("", "Where to report security problems; empty: derived from `public_url`")
    log_level: LogLevel = setting("info", "`debug` (every request), `info`, `warning` or `error`")
    failpoint: Failpoint = setting("", "For crash tests: the place at which the process exits")


@dataclass(frozen=True, kw_only=True)
class StorageSettings(Section):
    """Storage."""

    data_dir: str = setting("data", "Directory of the SQLite databases, usage counts and locks")
    database_url: DatabaseUrl = setting("", "Database URL; empty: file `tollhouse.db` in `data_dir`", "has_password")
    encryption_key: HexKey = setting("", "Key of stored webhook secrets; empty: made, kept in `data_dir`", "secret")
    redis_url: RedisUrl = setting("", "Redis that counts usage for several machines", "has_password")
    index_snapshots: str = setting("", "Folder or URL (`s3://bucket/prefix`) where machines share search indexes")
    import_max_bytes: PositiveInt = setting(
        1_073_741_824, "Disk space in bytes for one feed from an address, unpacked, in `data_dir`"
    )
    import_seconds: PositiveFloat = setting(3_600.0, "Time limit for fetching one feed from an address")


@dataclass(frozen=True, kw_only=True)
class AccountSettings(Section):
    """Accounts and plans."""

    plans: dict[str, PlanSettings] = setting({}, "Tables `[plans.NAME]`: plans to add, or changes of default plans")
    prices: dict[str, dict[str, PriceSettings]] = setting(
        {}, "Tables `[prices.SERVICE.OPERATION]`: what a call costs, and how many requests of a plan it counts as"
    )
    default_plan: str = setting("free", "Plan of a new key; its price must be 0")
    keys_per_address_per_hour: PositiveInt = setting(60, "Free keys one client address can create in an hour")
    free_per_ip_per_day: Count = setting(100, "Free requests per client address and UTC day, without a key; `0`: none")
    console_free: Count = setting(
        2_000, "Requests per client address and UTC day of the pages, read without a key; `0`: the pages need a key"
    )
    failed_attempts_per_minute: PositiveInt = setting(
        120, "Refused keys, signatures and payments per minute and client address, wallet or payer"
    )
    key_hash_secret: str = setting("", "Secret of the key hashes; empty: generated, kept in the database", "secret")
    agent_prefix: str = setting("service", "First word of the message that an agent signs")


@dataclass(frozen=True, kw_only=True)
class PaymentSettings(Section):
    """Chain and deposits."""

    evm_rpc_url: HttpUrl = setting("", "JSON-RPC URL of a node of the chain", "secret")
    evm_rpc_urls: tuple[HttpUrl, ...] = setting((), "More nodes of the chain, asked after `evm_rpc_url`", "secret")
    evm_chain_id: PositiveInt = setting(8453, "Chain id; 8453 is Base")
    usdc_address: Address = setting("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "Address of the USDC contract")
    treasury_address: Address = setting("", "Address that receives the deposits of agents")
    deposit_confirmations: PositiveInt = setting(10, "Blocks before a deposit is credited, its own included")
    deposit_second_source_usd: Decimal = setting(Decimal(100), "With several nodes, two must agree on larger deposits")


@dataclass(frozen=True, kw_only=True)
class X402Settings(Section):
    """x402 payments per request."""

    x402_pay_to: Address = setting("", "Address that receives payments; empty: no payments are taken")
    x402_price_usd: Decimal = setting(Decimal("0.001"), "Price in USDC of a request beyond the free allowance")
    x402_facilitator_url: HttpUrl = setting("", "URL of a remote facilitator; empty: the built-in one")
    x402_facilitator_auth: str = setting("", "Bearer token for the remote facilitator", "secret")
    x402_facilitator_key: PrivateKey = setting("", "Private key of the built-in facilitator; it pays the gas", "secret")
    x402_retention_days: PositiveInt = setting(400, "Days until settled payments and their receipts are deleted")
    x402_contract_wallets: bool = setting(False, "Accept payments from contract wallets, whose code uses gas")
    x402_6492_factories: tuple[Address, ...] = setting((), "Contracts that may be called to deploy a payer's wallet")
    x402_max_gas_usd: Decimal | None = setting(None, "Most that the gas of one payment may cost; unset: the price")
    x402_gas_usd_per_day: Decimal = setting(Decimal(100), "Most that gas may cost in a UTC day")
    x402_reserve_usd: Decimal = setting(Decimal(5), "Warn when the facilitator's account holds less native coin")
    x402_native_usd: Decimal = setting(Decimal(4000), "Price of the chain's native coin, which pays for gas")
    x402_native_usd_feed: Address = setting("", "Chainlink feed of that price; empty: `x402_native_usd`")


@dataclass(frozen=True, kw_only=True)
class StripeSettings(Section):
    """Stripe."""

    stripe_secret_key: str = setting("", "Secret key of the Stripe account. Needs `tollhouse[stripe]`", "secret")
    stripe_webhook_secret: str = setting("", "Signing secret of the webhook endpoint at Stripe", "secret")
    stripe_api_base: HttpUrl = setting("https://api.stripe.com", "URL of the Stripe API")
    stripe_prices: dict[str, str] = setting({}, "Table price id → plan: the prices that are for sale")


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Section):
    """Language model."""

    llm_base_url: HttpUrl = setting("", "URL of an OpenAI-compatible server. Needs `tollhouse[chat]`")
    llm_api_key: str = setting("", "API key for that server", "secret")
    llm_timeout_seconds: PositiveFloat = setting(30.0, "Time limit for one answer")
    llm_tokens_per_day: Count = setting(2_000_000, "Tokens per key and UTC day on a capped plan; `0`: no limit")
    model_fast: Name = setting("fast", "Name of the default model")
    model_pro: Name = setting("pro", "Name of the other model")


@dataclass(frozen=True, kw_only=True)
class WebhookSettings(Section):
    """Webhooks."""

    webhook_allow_loopback: bool = setting(False, "For development: allow webhooks to this machine, over `http://` too")
    webhook_retention_days: PositiveInt = setting(30, "Days until events and the record of deliveries are deleted")


@dataclass(frozen=True, kw_only=True)
class Settings(
    ServerSettings,
    StorageSettings,
    AccountSettings,
    PaymentSettings,
    X402Settings,
    StripeSettings,
    ModelSettings,
    WebhookSettings,
):
    """The settings in effect. `sections` are those of services, where they differ from the defaults."""

    sections: tuple[Section, ...] = ()

    def section(self, kind: type[S]) -> S:
        """The settings that a service declares in a section of its own."""
        return next((one for one in self.sections if isinstance(one, kind)), None) or kind()

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is SQLite, the default."""
        return not self.database_url or self.database_url.startswith("sqlite")

    @property
    def root_url(self) -> str:
        """The URL of the server's root without a slash at the end: the public one, else the local one."""
        local = self.served_at or "http://127.0.0.1:8000"
        return self.public_url.rstrip("/") or f"{local}{self.root_path}"

    @property
    def link_root(self) -> str:
        """What links to paths of this server begin with: the public URL, else the path of the root."""
        return self.public_url.rstrip("/") or self.root_path

    @property
    def rpc_urls(self) -> tuple[str, ...]:
        """The URLs of the chain's nodes, each once, the first one first; empty if none is set."""
        return tuple(dict.fromkeys(url for url in (self.evm_rpc_url, *self.evm_rpc_urls) if url))

    def trusted_networks(self) -> list[IPv4Network | IPv6Network]:
        """The networks whose `X-Forwarded-For` is trusted."""
        return [ip_network(part.strip(), strict=False) for part in self.trusted_proxies.split(",") if part.strip()]


SECTIONS = cast("tuple[type[Section], ...]", Settings.__bases__)
