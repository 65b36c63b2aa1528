"""The checkout's provider, put together from the settings."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tollhouse.accounts.subscriptions.types import Provider
from tollhouse.config.settings import SettingError, Settings
from tollhouse.logs import logger

log = logger("payments.checkout")

_NEEDED = ("stripe_secret_key", "stripe_webhook_secret", "stripe_prices")


def settings_missing(settings: Settings) -> Sequence[str]:
    """The settings without which nothing is sold: whoever pays must also be heard of."""
    return [name for name in _NEEDED if not getattr(settings, name)]


@asynccontextmanager
async def open_stripe(settings: Settings) -> AsyncIterator[Provider | None]:
    """Stripe, where the settings name an account. Raises SettingError when the SDK is not installed."""
    missing = settings_missing(settings)
    if missing:
        if len(missing) < len(_NEEDED):
            log.warning("nothing is sold through Stripe", settings_missing=missing)
        yield None
        return
    try:
        from tollhouse.accounts.subscriptions.stripe_client import StripeApi
    except ModuleNotFoundError:
        raise SettingError("stripe_secret_key: needs the extra: pip install 'tollhouse[stripe]'") from None
    api = StripeApi(settings.stripe_secret_key, settings.stripe_webhook_secret, settings.stripe_api_base)
    try:
        yield api
    finally:
        await api.close()
