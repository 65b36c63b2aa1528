"""The rooms of the house that a service is built from."""

from dataclasses import dataclass

from tollhouse import clock
from tollhouse.accounts.keys import KeyRing
from tollhouse.accounts.plans import Plans
from tollhouse.accounts.subscriptions.stripe_client import StripeApi
from tollhouse.accounts.wallets import WalletRegistry
from tollhouse.config.settings import Settings
from tollhouse.metering.meter import Meter
from tollhouse.payments.deposits.deposits import Deposits
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.pay_per_request import PayPerRequest
from tollhouse.storage.database import Database
from tollhouse.webhooks.webhooks import Webhooks


@dataclass(frozen=True, slots=True)
class AppContext:
    """What `app.py` hands to every service. `deposits` is None where not configured."""

    settings: Settings
    plans: Plans
    database: Database
    keys: KeyRing
    wallets: WalletRegistry
    meter: Meter
    ledger: Ledger
    deposits: Deposits | None
    webhooks: Webhooks
    per_request: PayPerRequest
    stripe: StripeApi | None
    started_at: float

    def uptime_seconds(self) -> int:
        """Since this process began to serve."""
        return int(clock.seconds() - self.started_at)
