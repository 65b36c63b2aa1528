"""The application context: settings and stores that services, admission and commands share."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tollhouse import clock
from tollhouse.accounts.keys import KeyRing, open_key_ring
from tollhouse.accounts.plans import Plans, open_plans
from tollhouse.accounts.subscriptions.stripe_client import StripeApi, open_stripe
from tollhouse.accounts.wallets import WalletRegistry
from tollhouse.admission.offers import Offers
from tollhouse.admission.operator_access import OperatorAccess
from tollhouse.admission.visits import Visits
from tollhouse.config.settings import SettingError, Settings
from tollhouse.http.hosts import OwnHosts
from tollhouse.metering.allotments import AllotmentMeter
from tollhouse.metering.meter import CounterMeter, Meter
from tollhouse.payments.deposits import Deposits, open_deposits
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.payments.pay_per_request import PayPerRequest, open_pay_per_request
from tollhouse.statistics.statistics import Statistics, open_statistics
from tollhouse.status.incident_store import Incidents
from tollhouse.storage.counters import NoCounters
from tollhouse.storage.counters_file import FileCounters
from tollhouse.storage.counters_postgres import PostgresCounters, StoredCounts
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.messages import Messages, open_messages
from tollhouse.storage.migrate import migrate
from tollhouse.webhooks.webhooks import Webhooks, open_webhooks


@dataclass(frozen=True, slots=True)
class AppContext:
    """What every service is built from. `deposits` and `stripe` are None where the settings do not configure them."""

    settings: Settings
    plans: Plans
    database: Database
    messages: Messages
    keys: KeyRing
    wallets: WalletRegistry
    meter: Meter
    ledger: Ledger
    deposits: Deposits | None
    webhooks: Webhooks
    statistics: Statistics
    incidents: Incidents
    operator: OperatorAccess
    visits: Visits
    per_request: PayPerRequest
    stripe: StripeApi | None
    started_at: float
    offers: Offers
    hosts: OwnHosts

    def uptime_seconds(self) -> int:
        """Seconds since this process started to serve."""
        return int(clock.seconds() - self.started_at)


@contextlib.asynccontextmanager
async def open_context(settings: Settings, *, answers_calls: bool = True) -> AsyncIterator[AppContext]:
    """The context over a migrated database. Only a process that answers calls counts usage. Raises SettingError."""
    plans = open_plans(settings)
    async with contextlib.AsyncExitStack() as stack:
        database = open_database(settings)
        stack.push_async_callback(database.close)
        await migrate(database)
        meter = _meter(settings, database) if answers_calls else CounterMeter(NoCounters())
        stack.push_async_callback(meter.close)
        ledger = await open_ledger(settings, database)
        stack.push_async_callback(ledger.close)
        deposits = await stack.enter_async_context(open_deposits(settings, ledger))
        webhooks = open_webhooks(settings, database)
        stack.push_async_callback(webhooks.close)
        messages = open_messages(settings, database)
        stack.push_async_callback(messages.close)
        keys = await open_key_ring(database, settings.key_hash_secret, messages)
        statistics = await stack.enter_async_context(
            open_statistics(database, keys.address_hash, answers_calls=answers_calls)
        )
        yield AppContext(
            settings=settings,
            plans=plans,
            database=database,
            messages=messages,
            keys=keys,
            wallets=WalletRegistry(database, settings.agent_prefix),
            meter=meter,
            ledger=ledger,
            deposits=deposits,
            webhooks=webhooks,
            statistics=statistics,
            incidents=Incidents(database),
            operator=OperatorAccess(settings),
            visits=Visits(settings, keys.derive_secret("visits")),
            per_request=await stack.enter_async_context(open_pay_per_request(settings, database, ledger)),
            stripe=await stack.enter_async_context(open_stripe(settings)),
            started_at=clock.seconds(),
            offers=Offers(),
            hosts=OwnHosts(settings),
        )


def _meter(settings: Settings, database: Database) -> Meter:
    if settings.redis_url:
        try:
            from tollhouse.metering.redis_meter import RedisMeter
        except ModuleNotFoundError:
            raise SettingError("redis_url: needs the extra: pip install 'tollhouse[redis]'") from None
        return RedisMeter(settings.redis_url, StoredCounts(database))
    if not database.is_sqlite:
        return CounterMeter(PostgresCounters(database))
    is_shared = settings.workers > 1
    counters = FileCounters(Path(settings.data_dir), shared=is_shared)
    return AllotmentMeter(counters) if is_shared else CounterMeter(counters)
