"""The way to the checkout: one customer for each key, one open page at a time, and the customer's portal."""

from typing import Any

from msgspec import Struct

from tollhouse import clock
from tollhouse.accounts.subscriptions import store
from tollhouse.accounts.subscriptions.types import CheckoutParams, Provider, ProviderFailed, Session
from tollhouse.errors import Problem
from tollhouse.storage.database import Database

# Were a webhook lost, a payment would still be noticed this long after its page was opened.
LOOK_AFTER_SECONDS = 3_600.0


class Returning(Struct, frozen=True):
    """Where buyers come back to: after paying, after leaving without, and from the portal."""

    paid_url: str
    left_url: str
    portal_url: str


class Buying:
    """What a key's holder does to pay. No transaction is open while Stripe is asked."""

    def __init__(self, provider: Provider, database: Database, returning: Returning) -> None:
        self._provider = provider
        self._database = database
        self._returning = returning

    async def begin(self, key_id: str, email: str, price_id: str) -> Session:
        """The page where this price is paid for this key: the one that is open already, or a new one.

        Raises Problem `already-subscribed`, ProviderFailed.
        """
        async with self._database.writing() as transaction:
            account, is_new = await store.open_account(transaction, key_id)
        if account.subscription_id and account.price_id == price_id:
            raise _already_subscribed()
        if account.customer_id is None:
            account = await self._with_customer(account, email, may_exist=not is_new)
        session = await self._open_session(account, price_id)
        if session is not None:
            return session
        try:
            return await self._new_session(account, price_id)
        except ProviderFailed as failure:
            # What is missing may as well be the price.
            if not failure.is_missing or await self._provider.is_customer(account.customer_id):
                raise
        # The operator deleted the customer at Stripe, or changed to another account there.
        account = await self._with_customer(account, email, may_exist=False)
        return await self._new_session(account, price_id)

    async def portal(self, key_id: str) -> str:
        """The address of the customer's portal. Raises Problem `not-found`, ProviderFailed."""
        async with self._database.reading() as connection:
            account = await store.account_of_key(connection, key_id)
        if account is None or account.customer_id is None:
            raise Problem("not-found", "This key has never been at the checkout: POST /api/stripe/checkout begins.")
        return await self._provider.portal(account.customer_id, self._returning.portal_url)

    async def _with_customer(self, account: Any, email: str, *, may_exist: bool) -> Any:
        """The account with a customer. Asked for at the same time or again after a crash, it is the same customer."""
        key_id, former = account.key_id, account.customer_id
        customer_id = await self._provider.customer_named(key_id, email) if may_exist else None
        if customer_id is None:
            customer_id = await self._created_customer(account, email)
        async with self._database.writing() as transaction:
            await store.name_customer(transaction, key_id, former, customer_id)
            return await store.account_of_key(transaction, key_id)

    async def _created_customer(self, account: Any, email: str) -> str:
        key_id, tries = account.key_id, account.customer_tries
        try:
            # Stripe keeps the answer to a name, failures too; what failed for certain is tried under another one.
            name = f"tollhouse-customer-{key_id}-{tries}-{account.customer_id or 'first'}"
            return await self._provider.create_customer(key_id, email, name)
        except ProviderFailed as failure:
            if failure.how != "no-answer":
                async with self._database.writing() as transaction:
                    await store.another_customer_try(transaction, key_id, tries)
            raise

    async def _open_session(self, account: Any, price_id: str) -> Session | None:
        """The account's page if it is open for this price; one that is open for another price is closed."""
        if account.session_id is None or account.session_expires_at <= clock.seconds():
            return None
        try:
            session = await self._provider.session(account.session_id)
            if session.is_open and account.session_price == price_id:
                return session
            if session.is_open:
                await self._provider.expire(session.id)
        except ProviderFailed as failure:
            # It was paid or has expired in this moment, or belongs to another account at Stripe.
            if failure.how != "refused":
                raise
        return None

    async def _new_session(self, account: Any, price_id: str) -> Session:
        key_id, sessions = account.key_id, account.sessions
        order = CheckoutParams(
            key_id, account.customer_id, price_id, self._returning.paid_url, self._returning.left_url
        )
        kept: dict[str, object] = {}
        try:
            session = await self._provider.create_session(
                order, f"tollhouse-session-{key_id}-{sessions}-{account.customer_id}-{price_id}"
            )
            kept = {
                "session_id": session.id,
                "session_price": price_id,
                "session_expires_at": session.expires_at,
                "look_again_at": clock.seconds() + LOOK_AFTER_SECONDS,
            }
        except ProviderFailed as failure:
            if failure.how == "no-answer":
                raise
            await self._count_session(key_id, sessions, kept)
            raise
        await self._count_session(key_id, sessions, kept)
        return session

    async def _count_session(self, key_id: str, sessions: int, kept: dict[str, object]) -> None:
        async with self._database.writing() as transaction:
            await store.next_session(transaction, key_id, sessions, **kept)


def _already_subscribed() -> Problem:
    return Problem(
        "already-subscribed",
        "This key is paid for at this price already. POST /api/stripe/portal leads to where that is changed or ended.",
        parameter="price_id",
    )
