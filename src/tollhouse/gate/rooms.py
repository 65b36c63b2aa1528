"""The rooms of the house that a service is built from."""

from dataclasses import dataclass

from tollhouse import clock
from tollhouse.access.keys import KeyRing
from tollhouse.access.wallets import WalletRing
from tollhouse.metering.meter import Meter
from tollhouse.payments.checkout.words import Provider
from tollhouse.payments.deposits import Deposits
from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.per_request import PerRequest
from tollhouse.settings import Settings
from tollhouse.storage.database import Database
from tollhouse.webhooks.room import Webhooks


@dataclass(frozen=True, slots=True)
class Rooms:
    """What `app.py` hands to every service. `deposits` is None where not configured."""

    settings: Settings
    database: Database
    keys: KeyRing
    wallets: WalletRing
    meter: Meter
    ledger: Ledger
    deposits: Deposits | None
    webhooks: Webhooks
    per_request: PerRequest
    stripe: Provider | None
    started_at: float

    def uptime_seconds(self) -> int:
        """Since this process began to serve."""
        return int(clock.seconds() - self.started_at)
