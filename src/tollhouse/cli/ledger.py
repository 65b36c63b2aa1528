"""`tollhouse ledger`: verify the ledger and list its entries."""

import sys

import msgspec
from cyclopts import App

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.cli.options import DEFAULTS, CommonOptions, print_json, print_lines
from tollhouse.config.settings import SettingError
from tollhouse.payments.x402.claims import SettledPayment
from tollhouse.statistics.statistics import LEDGER_CHECK

ledger = App(name="ledger", help="Verify the ledger and list its entries.")


@ledger.command
def verify(*, common: CommonOptions = DEFAULTS) -> None:
    """Recompute every balance and compare it with the ledger and the chain. Exit with 1 on any difference."""
    report = common.run(_verify)
    print_json(report)
    sys.exit(0 if report["balanced"] else 1)


async def _verify(context: AppContext) -> dict[str, object]:
    report: dict[str, object] = msgspec.to_builtins(await context.ledger.verify())
    if context.deposits is not None:
        chain = await context.deposits.reconcile()
        report["chain"] = msgspec.to_builtins(chain)
        report["balanced"] = bool(report["balanced"]) and chain.agrees
    if context.per_request.x402 is not None:
        payments = await context.per_request.x402.reconcile()
        report["payments"] = msgspec.to_builtins(payments)
        report["balanced"] = bool(report["balanced"]) and payments.agrees
    await context.statistics.save_check(LEDGER_CHECK, report)
    return report


@ledger.command
def show(account: str = "", *, limit: int = 20, common: CommonOptions = DEFAULTS) -> None:
    """Print the newest transfers of one account or of all, one JSON object per line."""
    print_lines(common.run(lambda context: context.ledger.recent(limit, account or None)))


@ledger.command
def receipts(*, limit: int = 20, common: CommonOptions = DEFAULTS) -> None:
    """Print the newest x402 payments with their signed receipts, one JSON object per line."""

    async def command(context: AppContext) -> list[SettledPayment]:
        if context.per_request.x402 is None:
            raise SettingError("x402_pay_to: not set: this server takes no payments per request")
        return await context.per_request.x402.receipts(clock.seconds(), limit)

    print_lines(common.run(command))
