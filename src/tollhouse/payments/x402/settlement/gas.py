"""What gas costs, and what limits it: a ceiling per payment, a budget per day, the account's reserve, refused payers.

Amounts in USD are in nano-USD (`nanos`), because the gas of one payment may cost less than a micro-USD.
"""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from time import monotonic
from typing import Literal

from msgspec import Raw, Struct
from prometheus_client import Counter, Gauge

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.client import LATEST, ChainClient
from tollhouse.payments.chain.contracts import (
    latest_price,
    layer1_fee,
    layer1_fee_call,
    multicall,
    multicall_results,
    price_calls,
)
from tollhouse.payments.chain.replies import Receipt
from tollhouse.payments.x402 import store
from tollhouse.payments.x402.settlement.transactions import (
    FEE_HISTORY_BLOCKS,
    MIN_TIP,
    PERCENTILE,
    Attempt,
    Fees,
    fee_quote,
)
from tollhouse.payments.x402.verification import Exact
from tollhouse.periodic import repeat
from tollhouse.storage.database import Database, Transaction

log = logger("payments.facilitator")

PAYMENT_GAS = Exact.gas
"""What a payment of scheme `exact` from an EOA uses: the price of a payment in metrics and logs."""
VERIFICATION_GAS, DEPLOYMENT_VERIFICATION_GAS = 2_000_000, 16_000_000
"""The gas limit of a verification: a call may use up all but a 64th, and the rest must do for what follows. The account
must be able to pay for it."""
QUOTE_SECONDS = 2.0
"""How long prices are kept: one block of Base. Requests in between cost no round trip."""
REFRESH_SECONDS = 60.0
"""How often metrics and warnings are refreshed without payments."""
FEED_MAX_AGE_SECONDS = 2 * 3_600
"""Chainlink updates its feeds of large coins at least every hour."""
WARNING_SECONDS = 3_600.0
NANOS_PER_USD, WEI_PER_COIN = 10**9, 10**18

_SECONDS = {"gas_price": 60, "gas_reserve": 300}
_DETAILS = {
    "gas_price": "Gas on the chain costs more than this server pays for one payment.",
    "gas_budget": "This server has spent the gas it pays for today (UTC).",
    "gas_reserve": "This server's account has too little of the chain's native coin to pay for gas.",
}

_GAS_USED = Counter("tollhouse_facilitator_gas_used", "Gas used by transactions of the facilitator")
_GAS_USD = Counter("tollhouse_facilitator_gas_usd", "Cost of that gas in USD")
_FAILED = Counter("tollhouse_facilitator_failed_payments", "Payments whose transaction did not settle them")
_BALANCE = Gauge(
    "tollhouse_facilitator_balance_usd",
    "Native coin of the facilitator's account, in USD",
    multiprocess_mode="mostrecent",
)
_TODAY = Gauge(
    "tollhouse_facilitator_gas_usd_today",
    "Gas spent or reserved this UTC day, in USD, by all processes",
    multiprocess_mode="mostrecent",
)
_PRICE = Gauge(
    "tollhouse_facilitator_payment_gas_usd",
    "Cost of the gas of one payment now, in USD",
    multiprocess_mode="mostrecent",
)


class GasLimits(Struct, frozen=True):
    """The operator's limits. `coin_nanos` is the price of one native coin where no `feed` (an address) tells it."""

    payment_nanos: int
    day_nanos: int
    reserve_nanos: int
    coin_nanos: int
    feed: str = ""


class GasQuote(Struct, frozen=True):
    """Prices at one moment. `layer1_wei` is what a rollup charges for the data of one payment; 0 elsewhere.

    `base_fee` and `tip` are in wei for each unit of gas, `coin_nanos` is a coin in nano-USD, the balance is in wei.
    """

    base_fee: int
    tip: int
    layer1_wei: int
    coin_nanos: int
    balance: int

    @property
    def payment_wei(self) -> int:
        """The cost of a payment of scheme `exact` that is alone in its transaction."""
        return self.cost_wei(PAYMENT_GAS)

    def cost_wei(self, gas: int) -> int:
        """The cost of a payment that uses so much gas."""
        return gas * (self.base_fee + self.tip) + self.layer1_wei

    def in_wei(self, nanos: int) -> int:
        """What that amount of USD buys."""
        return nanos * WEI_PER_COIN // self.coin_nanos

    def in_nanos(self, wei: int) -> int:
        """The amount in USD, rounded up."""
        return -(-wei * self.coin_nanos // WEI_PER_COIN)


class GasStatus(Struct, frozen=True):
    """What the account holds, what the gas of one payment costs now, and what was spent this UTC day, in nano-USD."""

    balance_nanos: int
    payment_nanos: int
    spent_nanos: int


def limited_fees(quote: GasQuote, ceiling_wei: int, gas: int) -> Fees | None:
    """The fees for `gas` that can never cost more than the ceiling; None if no block would include that.

    Twice the next block's base fee, enough for six full blocks, and the usual tip, as far as the ceiling allows.
    """
    highest = (ceiling_wei - quote.layer1_wei) // max(gas, 1)
    if highest < quote.base_fee + MIN_TIP:
        return None
    return Fees(min(2 * quote.base_fee + quote.tip, highest), min(quote.tip, highest - quote.base_fee))


def max_gas(quote: GasQuote, ceiling_wei: int) -> int:
    """The most gas that one payment may use at the current price."""
    return max(0, ceiling_wei - quote.layer1_wei) // (quote.base_fee + MIN_TIP)


def payments_unavailable(reason: Literal["gas_price", "gas_budget", "gas_reserve"]) -> Problem:
    """No payment is taken now, because of its gas. Nothing was claimed or charged."""
    seconds = _SECONDS.get(reason) or 86_400 - int(clock.seconds()) % 86_400
    return Problem(
        "payments-unavailable",
        f"{_DETAILS[reason]} Nothing was charged. Send the same payment again later.",
        reason=reason,
        retry_after_seconds=seconds,
    )


class Gas:
    """The price of gas, what this server spends on it, and who may not make it spend any more.

    Processes that share a database share the day's budget and the refused payers.
    """

    def __init__(self, chain: ChainClient, account: str, limits: GasLimits, database: Database, sample: bytes) -> None:
        """`sample` is a transaction with one payment: rollups charge for its bytes."""
        self._chain = chain
        self._account = account
        self._limits = limits
        self._database = database
        self._sample = sample
        self.refused = RefusedPayers(database)
        self._quote: GasQuote | None = None
        self._quoted_at = 0.0
        self._quoting = asyncio.Lock()
        self._spent_nanos = 0
        self._correction = 0
        self._warned_at: dict[str, float] = {}

    async def admit(self, gas: int = PAYMENT_GAS) -> Fees:
        """The fees of a payment that is taken now and uses so much gas.

        Raises Problem `payments-unavailable`, ChainUnavailable.
        """
        quote = await self.quote()
        fees, cost = limited_fees(quote, self.ceiling_wei(quote), gas), quote.in_nanos(quote.cost_wei(gas))
        if fees is None:
            self._warn("gas above x402_max_gas_usd: no payments are taken", payment_gas_usd=cost / NANOS_PER_USD)
            raise payments_unavailable("gas_price")
        if self._spent_nanos + cost > self._limits.day_nanos:
            self._warn("x402_gas_usd_per_day is spent: no payments are taken")
            raise payments_unavailable("gas_budget")
        if quote.balance < VERIFICATION_GAS * fees.max_fee:
            self._warn("too little native coin for gas: no payments are taken", account=self._account)
            raise payments_unavailable("gas_reserve")
        return fees

    async def quote(self) -> GasQuote:
        """The current prices, at most QUOTE_SECONDS old. Raises ChainUnavailable, Problem `storage-unavailable`."""
        async with self._quoting:
            if self._quote is None or monotonic() - self._quoted_at >= QUOTE_SECONDS:
                quote = await self._query()
                async with self._database.reading() as connection:
                    self._spent_nanos = await store.spent(connection, _today()) + self._correction
                    await self.refused.load(connection)
                self._quote, self._quoted_at = quote, monotonic()
                self._observe(quote)
            return self._quote

    async def status(self) -> GasStatus:
        """The account and the prices now. Raises ChainUnavailable, Problem `storage-unavailable`."""
        quote = await self.quote()
        return GasStatus(quote.in_nanos(quote.balance), quote.in_nanos(quote.payment_wei), self._spent_nanos)

    def verification_gas(self, fees: Fees, *, with_deployment: bool) -> int:
        """The gas limit of a verification, as far as the account can pay for it."""
        if not with_deployment or self._quote is None:
            return VERIFICATION_GAS
        return max(VERIFICATION_GAS, min(DEPLOYMENT_VERIFICATION_GAS, self._quote.balance // fees.max_fee))

    def highest_fee(self, quote: GasQuote, gas: int) -> int:
        """The highest fee per gas at which a payment that uses `gas` stays below the ceiling."""
        return (self.ceiling_wei(quote) - quote.layer1_wei) // gas

    def ceiling_wei(self, quote: GasQuote) -> int:
        """The most that the gas of one payment may cost."""
        return quote.in_wei(self._limits.payment_nanos)

    async def reserve(self, transaction: Transaction, attempt: Attempt, payments: int, expected_gas: int) -> int:
        """Take the likely cost of a transaction from the day's budget, before it is sent; the amount in nano-USD.

        `expected_gas` is what its payments use, 0 where it carries none.

        Raises Problem `payments-unavailable` when the budget is spent: then nothing may be sent.
        """
        assert self._quote is not None, "the fees come from a quote"
        gas = min(attempt.request.gas, expected_gas or PAYMENT_GAS)
        price = min(attempt.fees.max_fee, self._quote.base_fee + attempt.fees.tip)
        nanos = self._quote.in_nanos(gas * price + payments * self._quote.layer1_wei)
        await self._spend(transaction, nanos)
        return nanos

    def release(self, nanos: int) -> None:
        """Give back what was reserved for a transaction that was not sent."""
        self._correction -= nanos
        self._spent_nanos -= nanos

    def spend(self, nanos: int, receipt: Receipt) -> None:
        """Replace what was reserved for a transaction by what it cost."""
        wei = receipt.gas_used * receipt.effective_gas_price + receipt.layer1_fee
        cost = self._quote.in_nanos(wei) if self._quote else nanos
        self.release(nanos - cost)
        _GAS_USED.inc(receipt.gas_used)
        _GAS_USD.inc(cost / NANOS_PER_USD)

    async def run(self) -> None:
        """Keep metrics, warnings and the stored sum up to date while no payments come."""

        async def refresh() -> None:
            await self.quote()
            await self.flush()

        await repeat(refresh, REFRESH_SECONDS, log, "gas price unknown")

    async def flush(self) -> None:
        """Store what transactions cost less or more than was reserved. Raises Problem `storage-unavailable`."""
        if self._correction:
            async with self._database.writing() as transaction:
                await self._spend(transaction, 0)

    async def _spend(self, transaction: Transaction, nanos: int) -> None:
        correction = self._correction
        spent = await store.add_spent(transaction, _today(), nanos + correction)
        if nanos and spent > self._limits.day_nanos:
            raise payments_unavailable("gas_budget")
        self._correction -= correction
        self._spent_nanos = spent

    async def _query(self) -> GasQuote:
        """Every price in one round trip."""
        calls = [layer1_fee_call(self._sample), *(price_calls(self._limits.feed) if self._limits.feed else [])]
        fees, balance, results = await self._chain.rpc.batch(
            [
                ("eth_feeHistory", [hex(FEE_HISTORY_BLOCKS), LATEST, [PERCENTILE]]),
                ("eth_getBalance", [self._account, LATEST]),
                multicall(calls),
            ]
        )
        return self._parse(fees, replies.quantity(balance), results, len(calls))

    def _parse(self, fees: Raw, balance: int, results: Raw, count: int) -> GasQuote:
        history = replies.fee_history(fees)
        layer1, *prices = multicall_results(results, count)
        coin_nanos = self._limits.coin_nanos
        if prices:
            price = latest_price(prices, clock.seconds() - FEED_MAX_AGE_SECONDS)
            if price is None:
                self._warn("x402_native_usd_feed gives no recent price: x402_native_usd is used")
            coin_nanos = price or coin_nanos
        return GasQuote(history.base_fees[-1], fee_quote(history).tip, layer1_fee(layer1), coin_nanos, balance)

    def _observe(self, quote: GasQuote) -> None:
        balance = quote.in_nanos(quote.balance)
        _BALANCE.set(balance / NANOS_PER_USD)
        _TODAY.set(self._spent_nanos / NANOS_PER_USD)
        _PRICE.set(quote.in_nanos(quote.payment_wei) / NANOS_PER_USD)
        if balance < self._limits.reserve_nanos:
            usd = balance / NANOS_PER_USD
            self._warn("reserve for gas is low: send native coin to the account", account=self._account, usd=usd)

    def _warn(self, event: str, **facts: object) -> None:
        """Log a warning, but not with every request."""
        now = monotonic()
        if now - self._warned_at.get(event, -WARNING_SECONDS) >= WARNING_SECONDS:
            self._warned_at[event] = now
            log.warning(event, **facts)


def _today() -> str:
    return datetime.fromtimestamp(clock.seconds(), UTC).date().isoformat()


class RefusedPayers:
    """Payers, and hashes of wallet code, whose transaction failed: for a day, then twice as long each time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._until: dict[str, float] = {}
        self._loaded_to = 0.0

    def has(self, subject: str) -> bool:
        """Whether nothing is sent for this payer or this code (hash)."""
        return self._until.get(subject, 0.0) > clock.seconds()

    async def add(self, subjects: Collection[str]) -> None:
        """Refuse them from now on, in this process even if the database is unavailable."""
        now = clock.seconds()
        self._until |= dict.fromkeys(subjects, now + store.FIRST_REFUSAL_SECONDS)
        _FAILED.inc()
        try:
            async with self._database.writing() as transaction:
                for subject in subjects:
                    self._until[subject] = await store.refuse(transaction, subject, now)
                await store.delete_old_refusals(transaction, now)
        except Problem as problem:
            log.warning("refused payer not stored", code=problem.code)

    async def load(self, connection: Transaction) -> None:
        """Read what other processes stored since the last time."""
        for row in await store.refusals(connection, self._loaded_to):
            self._until[row.subject] = row.refused_until
            # Other processes' clocks may be behind, and their transactions slow.
            self._loaded_to = max(self._loaded_to, row.failed_at - QUOTE_SECONDS)
        if len(self._until) > store.MAX_REFUSED:
            newest = sorted(self._until.items(), key=lambda entry: entry[1], reverse=True)
            self._until = dict(newest[: store.MAX_REFUSED])
