"""Every setting, declared once: its name, type, default and meaning; the only reader of the environment."""

import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal

import msgspec

PREFIX = "TOLLHOUSE_"
LONGEST_FEED = 500
_MEASUREMENTS = "PROMETHEUS_MULTIPROC_DIR"
DEFAULT_FILE = "tollhouse.toml"
SECRETS = frozenset({
    "key_hash_secret", "admin_token", "llm_api_key", "ucdp_token", "acled_password", "evm_rpc_url",
    "x402_facilitator_auth", "x402_facilitator_key", "stripe_secret_key", "stripe_webhook_secret",
})  # fmt: skip
_URLS_WITH_PASSWORDS = frozenset({"database_url", "redis_url"})

LogLevel = Literal["debug", "info", "warning", "error"]


class SettingError(Exception):
    """A setting is unknown or malformed; the message is one line that names it."""


# Publishers' own feeds on defense; the operator may name others.
FEEDS = (
    "https://www.defenseone.com/rss/all/",
    "https://breakingdefense.com/feed/",
    "https://www.defensenews.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.militarytimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.armytimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.navytimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.airforcetimes.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.c4isrnet.com/arc/outboundfeeds/rss/?outputType=xml",
    "https://www.twz.com/feed",
    "https://taskandpurpose.com/feed/",
    "https://warontherocks.com/feed/",
    "https://news.usni.org/feed",
    "https://www.shephardmedia.com/news/feed/",
    "https://spacenews.com/feed/",
    "https://gcaptain.com/feed/",
    "https://www.airandspaceforces.com/feed/",
    "https://www.gov.uk/government/organisations/ministry-of-defence.atom",
)


class PlanSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[plans.NAME]`: a plan that the operator adds, or what changes in a default plan."""

    requests_per_day: int | Literal["unlimited"] | None = None
    requests_per_minute: int | None = None
    price_usd_month: Decimal | None = None
    price_usd_year: Decimal | None = None
    entitlements: tuple[str, ...] | None = None
    chat_per_day: int | Literal["unlimited"] | None = None


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator may decide. `docs/settings.md` explains each; a test keeps that page complete."""

    data_dir: str = "data"
    service: str = ""
    services_dir: str = "services"
    workers: int = 1
    background_work: bool = True
    database_url: str = ""
    redis_url: str = ""
    public_url: str = ""
    served_at: str = ""
    trusted_proxies: str = ""
    hosts: dict[str, str] = {}
    recorded: bool | None = None
    gdelt_url: str = "http://data.gdeltproject.org/gdeltv2/"
    gdelt_poll_seconds: float = 60.0
    retention_days: int = 8
    feeds: tuple[str, ...] = FEEDS
    feed_interval_seconds: float = 900.0
    ucdp_token: str = ""
    ucdp_version: str = "26.1"
    ucdp_url: str = "https://ucdpapi.pcr.uu.se/api/"
    acled_username: str = ""
    acled_password: str = ""
    acled_url: str = "https://acleddata.com/"
    evm_rpc_url: str = ""
    evm_chain_id: int = 8453
    usdc_address: str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
    treasury_address: str = ""
    agent_prefix: str = "service"
    deposit_confirmations: int = 10
    webhook_allow_loopback: bool = False
    x402_pay_to: str = ""
    x402_price_usd: Decimal = Decimal("0.001")
    x402_facilitator_url: str = ""
    x402_facilitator_auth: str = ""
    x402_facilitator_key: str = ""
    x402_6492_factories: tuple[str, ...] = ()
    stripe_secret_key: str = ""
    stripe_webhook_secret: str = ""
    stripe_api_base: str = "https://api.stripe.com"
    stripe_prices: dict[str, str] = {}
    plans: dict[str, PlanSettings] = {}
    default_plan: str = "free"
    free_per_ip_per_day: int = 100
    keys_per_address_per_hour: int = 60
    infra_chat_per_minute: int = 30
    llm_base_url: str = ""
    llm_api_key: str = ""
    llm_timeout_seconds: float = 30.0
    llm_tokens_per_day: int = 2_000_000
    model_fast: str = "fast"
    model_pro: str = "pro"
    studio_file: str = ""
    key_hash_secret: str = ""
    admin_token: str = ""
    contact: str = ""
    request_deadline_seconds: float = 10.0
    body_limit_bytes: int = 1_048_576
    log_level: LogLevel = "info"
    failpoint: str = ""

    @property
    def is_sqlite(self) -> bool:
        """Whether the embedded database serves, the default."""
        return not self.database_url or self.database_url.startswith("sqlite")

    @property
    def root_url(self) -> str:
        """The host's root for links that must be whole, without a slash at the end: outside, else on this machine."""
        return self.public_url.rstrip("/") or self.served_at or "http://127.0.0.1:8000"

    def trusted_networks(self) -> list[IPv4Network | IPv6Network]:
        """The networks whose `X-Forwarded-For` is believed."""
        return [ip_network(part.strip(), strict=False) for part in self.trusted_proxies.split(",") if part.strip()]


def load(config: str | None = None, **overrides: Any) -> Settings:
    """Defaults, then the file, then the environment, then the command line. Raises SettingError."""
    values = {**_from_file(config), **_from_environment(os.environ)}
    values |= {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingError(_one_line(error)) from None
    _check(settings)
    return settings


def export(settings: Settings) -> None:
    """Put the settings into the environment, for the worker processes that this one starts."""
    for name, value in msgspec.to_builtins(settings).items():
        if value is not None and value != {}:
            os.environ[PREFIX + name.upper()] = _as_text(value)


def has_display() -> bool:
    """Whether a person sits here who would see a browser come up."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def measure_together(folder: Path) -> None:
    """Have the workers of this server add their measurements up in files of `folder` (prometheus-client's own way)."""
    os.environ[_MEASUREMENTS] = str(folder.resolve())


def measures_together() -> bool:
    """Whether this process is one of several workers that measure together."""
    return _MEASUREMENTS in os.environ


def shown(settings: Settings) -> dict[str, Any]:
    """The settings with every secret masked, for `tollhouse settings`."""
    return {name: _masked(name, value) for name, value in msgspec.to_builtins(settings).items()}


def _from_file(config: str | None) -> dict[str, Any]:
    path = Path(config or DEFAULT_FILE)
    if config is None and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"the settings file {path} cannot be read: {error}") from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            found[name] = _FROM_TEXT.get(name, str)(text)
    return found


def _table(text: str) -> dict[str, str]:
    """`a=x,b=y` -> a table: how a table is written in one environment variable."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _listed(text: str) -> list[str]:
    """`a,b` -> a list: how a list is written in one environment variable."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _decoded(text: str) -> Any:
    """JSON: how a table of tables is written in one environment variable."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "hosts": _table, "feeds": _listed, "stripe_prices": _table, "plans": _decoded, "x402_6492_factories": _listed,
}  # fmt: skip


def _as_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(value)
    if isinstance(value, dict) and any(isinstance(item, dict) for item in value.values()):
        return msgspec.json.encode(value).decode()
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(settings: Settings) -> None:
    try:
        settings.trusted_networks()
    except ValueError as error:
        raise SettingError(f"trusted_proxies: {error}") from None
    for name in (
        "gdelt_poll_seconds",
        "feed_interval_seconds",
        "retention_days",
        "keys_per_address_per_hour",
        "free_per_ip_per_day",
        "infra_chat_per_minute",
        "llm_timeout_seconds",
        "x402_price_usd",
        "request_deadline_seconds",
        "body_limit_bytes",
        "workers",
        "evm_chain_id",
        "deposit_confirmations",
    ):
        if not getattr(settings, name) > 0:  # nan is no number to wait for either
            raise SettingError(f"{name}: must be greater than zero")
    if any(len(url) > LONGEST_FEED or not url.startswith(("http://", "https://")) for url in settings.feeds):
        raise SettingError(f"feeds: each must be an http(s) address of at most {LONGEST_FEED} characters")
    _check_payments(settings)
    for name, schemes in _SCHEMES.items():
        value = getattr(settings, name)
        if value and not value.startswith(schemes):
            raise SettingError(f"{name}: must start with one of {', '.join(schemes)}")


def _check_payments(settings: Settings) -> None:
    for name in ("usdc_address", "treasury_address", "x402_pay_to"):
        if getattr(settings, name) and not _ADDRESS.fullmatch(getattr(settings, name)):
            raise SettingError(f"{name}: must be an address, 0x and 40 hexadecimal digits")
    if not all(map(_ADDRESS.fullmatch, settings.x402_6492_factories)):
        raise SettingError("x402_6492_factories: each must be an address, 0x and 40 hexadecimal digits")
    if settings.x402_facilitator_key and not _PRIVATE_KEY.fullmatch(settings.x402_facilitator_key):
        raise SettingError("x402_facilitator_key: must be a private key, 64 hexadecimal digits")
    if not settings.model_fast or not settings.model_pro:
        raise SettingError("model_fast, model_pro: must be names of models")
    if settings.llm_tokens_per_day < 0:
        raise SettingError("llm_tokens_per_day: must be zero or more")
    if settings.failpoint and not _FAILPOINT.fullmatch(settings.failpoint):
        raise SettingError("failpoint: must be the name of a place, and after a colon which time it is come to")
    if settings.x402_price_usd * 1_000_000 % 1:
        raise SettingError("x402_price_usd: must be whole millionths of a dollar")


_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_FAILPOINT = re.compile(r"[a-z0-9.-]+(:[1-9][0-9]{0,8})?")
_PRIVATE_KEY = re.compile(r"(0x)?[0-9a-fA-F]{64}")
_SCHEMES = {
    "database_url": ("sqlite:///", "postgresql://", "postgresql+asyncpg://", "postgres://"),
    "redis_url": ("redis://", "rediss://", "unix://"),
    "public_url": ("http://", "https://"),
    "gdelt_url": ("http://", "https://"),
    "evm_rpc_url": ("http://", "https://"),
    "x402_facilitator_url": ("http://", "https://"),
    "llm_base_url": ("http://", "https://"),
    "stripe_api_base": ("http://", "https://"),
    "contact": ("mailto:", "https://", "tel:"),
}


def _masked(name: str, value: Any) -> Any:
    if name in SECRETS and value:
        return "***"
    if name in _URLS_WITH_PASSWORDS and isinstance(value, str):
        # To the last @, for a password may hold one; and where drivers take it as a parameter.
        without = re.sub(r"(?<=://)([^/@:]*):.*@", r"\1:***@", value)
        return re.sub(r"([?&]\w*pass\w*=)[^&]*", r"\1***", without, flags=re.IGNORECASE)
    return value


def _one_line(error: msgspec.ValidationError) -> str:
    message = str(error)
    unknown = re.search(r"unknown field `(\w+)`", message)
    if unknown:
        return f"{unknown[1]}: there is no such setting"
    field = re.search(r"`\$\.(\w+)`", message)
    return f"{field[1]}: {message.split(' - ', maxsplit=1)[0]}" if field else message
