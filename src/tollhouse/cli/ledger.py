"""`tollhouse ledger`: prove that the books balance, and look into them."""

import asyncio
import json
import sys

import msgspec
from cyclopts import App

from tollhouse import clock
from tollhouse.admission.context import open_context
from tollhouse.cli.options import HERE, Where
from tollhouse.config.settings import SettingError

ledger = App(name="ledger", help="Prove that the books balance; show the newest entries.")


@ledger.command
def verify(*, where: Where = HERE) -> None:
    """Derive every balance again and compare, with the chain too where one is configured; exit 1 if anything is off."""
    report = asyncio.run(_verified(where))
    print(json.dumps(report))
    sys.exit(0 if report["balanced"] else 1)


@ledger.command
def show(account: str = "", *, limit: int = 20, where: Where = HERE) -> None:
    """Print the newest transfers, of one account or of all, one JSON object a line."""

    async def run() -> None:
        async with open_context(where.settings(), answers_calls=False) as context:
            for transfer in await context.ledger.recent(limit, account or None):
                print(msgspec.json.encode(transfer).decode())

    asyncio.run(run())


async def _verified(where: Where) -> dict[str, object]:
    async with open_context(where.settings(), answers_calls=False) as context:
        report: dict[str, object] = msgspec.to_builtins(await context.ledger.verify())
        if context.deposits is not None:
            chain = await context.deposits.reconcile()
            report["chain"] = msgspec.to_builtins(chain)
            report["balanced"] = bool(report["balanced"]) and chain.agrees
        if context.per_request.x402 is not None:
            payments = await context.per_request.x402.reconcile()
            report["payments"] = msgspec.to_builtins(payments)
            report["balanced"] = bool(report["balanced"]) and payments.agrees
        return report


@ledger.command
def receipts(*, limit: int = 20, where: Where = HERE) -> None:
    """Print the newest payments per request with their signed receipts, one JSON object a line."""

    async def run() -> None:
        async with open_context(where.settings(), answers_calls=False) as context:
            if context.per_request.x402 is None:
                raise SettingError("x402_pay_to: this server takes no payments per request")
            for paid in await context.per_request.x402.receipts(clock.seconds(), limit):
                print(msgspec.json.encode(paid).decode())

    asyncio.run(run())
