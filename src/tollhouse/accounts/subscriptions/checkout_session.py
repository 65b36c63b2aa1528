"""Checkout sessions and the customer portal: one customer and at most one open checkout page per key."""

from collections.abc import Mapping

from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts.subscriptions import store
from tollhouse.accounts.subscriptions.store import Account
from tollhouse.accounts.subscriptions.stripe_client import StripeApi, StripeCallFailed
from tollhouse.errors import Problem
from tollhouse.storage.database import Database

# If its webhook is lost, a payment is noticed this long after its checkout page was opened.
SYNC_AFTER_CHECKOUT_SECONDS = 3_600.0


class CheckoutPage(Struct, frozen=True):
    """An open checkout session. The key changes its tier when Stripe reports that the payment succeeded."""

    checkout_url: str
    session_id: str


class Checkout:
    """Opens checkout pages and portals. No database transaction is open during a call to Stripe."""

    def __init__(self, api: StripeApi, database: Database, default_plan: str) -> None:
        self._api = api
        self._database = database
        self._default_plan = default_plan

    async def open_page(self, key_id: str, email: str, price_id: str) -> CheckoutPage:
        """The checkout page for this key and price: the one that is open, or a new one.

        Raises Problem `already-subscribed`, StripeCallFailed.
        """
        async with self._database.writing() as transaction:
            account, is_new = await store.get_or_create_account(transaction, key_id, self._default_plan)
        if account.subscription_id and account.price_id == price_id:
            raise Problem(
                "already-subscribed",
                "This key is already subscribed at this price. Use POST /api/stripe/portal to change or cancel.",
                parameter="price_id",
            )
        if account.customer_id is None:
            account = await self._assign_customer(account, email, may_exist=not is_new)
        page = await self._reusable_page(account, price_id)
        if page is not None:
            return page
        try:
            return await self._create_page(account, price_id)
        except StripeCallFailed as failure:
            # The missing object may be the price.
            if not failure.is_missing or await self._api.customer_exists(account.customer_id or ""):
                raise
        # The operator deleted the customer at Stripe, or switched to another Stripe account.
        account = await self._assign_customer(account, email, may_exist=False)
        return await self._create_page(account, price_id)

    async def open_portal(self, key_id: str) -> str:
        """The URL of the customer portal. Raises Problem `not-found`, StripeCallFailed."""
        async with self._database.reading() as connection:
            account = await store.find_account(connection, key_id)
        if account is None or account.customer_id is None:
            raise Problem("not-found", "This key has no Stripe customer yet. Start with POST /api/stripe/checkout.")
        return await self._api.create_portal(account.customer_id)

    async def _assign_customer(self, account: Account, email: str, *, may_exist: bool) -> Account:
        """The account with a customer: the same one for concurrent calls and after a crash."""
        key_id, former, attempt = account.key_id, account.customer_id, account.customer_attempts
        customer_id = await self._api.find_customer(key_id, email) if may_exist else None
        if customer_id is None:
            try:
                idempotency_key = f"tollhouse-customer-{key_id}-{attempt}-{former or 'first'}"
                customer_id = await self._api.create_customer(key_id, email, idempotency_key)
            except StripeCallFailed as failure:
                # Stripe repeats its response to an idempotency key, errors too: after an error use another key.
                if failure.outcome != "unknown":
                    await self._update(key_id, {"customer_attempts": attempt + 1}, {"customer_attempts": attempt})
                raise
        # Unless a concurrent call has replaced the former customer.
        return await self._update(key_id, {"customer_id": customer_id}, {"customer_id": former})

    async def _reusable_page(self, account: Account, price_id: str) -> CheckoutPage | None:
        """The account's page if it is open for this price. A page that is open for another price is closed."""
        if account.session_id is None or (account.session_expires_at or 0) <= clock.seconds():
            return None
        try:
            session = await self._api.session(account.session_id)
            if session.url:
                if account.session_price_id == price_id:
                    return CheckoutPage(session.url, session.id)
                await self._api.expire_session(session.id)
        except StripeCallFailed as failure:
            # The session was just paid, has just expired, or belongs to another Stripe account.
            if failure.outcome != "refused":
                raise
        return None

    async def _create_page(self, account: Account, price_id: str) -> CheckoutPage:
        key_id, customer_id, attempt = account.key_id, account.customer_id or "", account.session_attempts
        try:
            idempotency_key = f"tollhouse-session-{key_id}-{attempt}-{customer_id}-{price_id}"
            session = await self._api.create_session(key_id, customer_id, price_id, idempotency_key)
        except StripeCallFailed as failure:
            if failure.outcome != "unknown":
                await self._update(key_id, {"session_attempts": attempt + 1}, {"session_attempts": attempt})
            raise
        values = {
            "session_attempts": attempt + 1,
            "session_id": session.id,
            "session_price_id": price_id,
            "session_expires_at": session.expires_at,
            "next_sync_at": clock.seconds() + SYNC_AFTER_CHECKOUT_SECONDS,
        }
        await self._update(key_id, values, {"session_attempts": attempt})
        return CheckoutPage(session.url, session.id)

    async def _update(self, key_id: str, values: Mapping[str, object], expected: Mapping[str, object]) -> Account:
        async with self._database.writing() as transaction:
            await store.update_account(transaction, key_id, values, expected)
            return await store.get_account(transaction, key_id)
