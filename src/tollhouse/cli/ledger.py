"""`tollhouse ledger`: verify the ledger and list its entries."""

import sys
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from tollhouse import clock
from tollhouse.admission.context import AppContext
from tollhouse.cli.options import DEFAULTS, CommonOptions, print_json, print_lines, seconds_of
from tollhouse.config.settings import SettingError
from tollhouse.csv_text import write_rows
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
def receipts(
    *,
    limit: Annotated[int, Parameter(help="How many of the newest, without --since")] = 20,
    since: Annotated[datetime | None, Parameter(help="All payments settled since then (UTC), the oldest first")] = None,
    until: Annotated[datetime | None, Parameter(help="With --since: only those settled before then (UTC)")] = None,
    output: Annotated[
        Literal["ndjson", "csv"], Parameter(name="--format", help="One JSON object, or one CSV row, per line")
    ] = "ndjson",
    common: CommonOptions = DEFAULTS,
) -> None:
    """Print x402 payments with their signed receipts: the newest, or all of a period."""
    if until is not None and since is None:
        raise ValueError("--until needs --since")

    async def command(context: AppContext) -> None:
        if context.per_request.x402 is None:
            raise SettingError("x402_pay_to: not set: this server takes no payments per request")
        x402 = context.per_request.x402
        write = _write_csv if output == "csv" else print_json
        if output == "csv":
            _write(write_rows([SettledPayment.__struct_fields__]))
        if since is None:
            for payment in await x402.receipts(clock.seconds(), limit):
                write(payment)
            return
        async for payment in x402.export(seconds_of(since), clock.seconds() if until is None else seconds_of(until)):
            write(payment)

    common.run(command)


def _write_csv(payment: SettledPayment) -> None:
    values = msgspec.structs.asdict(payment)
    receipt = "" if payment.receipt is None else msgspec.json.encode(payment.receipt).decode()
    _write(write_rows([(values | {"receipt": receipt}).values()]))


def _write(rows: bytes) -> None:
    sys.stdout.buffer.write(rows)
