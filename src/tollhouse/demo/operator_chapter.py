"""The last chapter: the operator's view of what the tour has paid."""

from tollhouse import app
from tollhouse.demo.environment import Stage
from tollhouse.demo.printer import Narrator, shortened
from tollhouse.money import usd

TRANSFERS = 4
MARKS = {True: "✓", False: "✗"}


async def the_books(stage: Stage, tell: Narrator) -> None:
    """Every cent twice, and the chain agrees."""
    tell.chapter("7  The books", "What `tollhouse ledger show` and `tollhouse ledger verify` say.")
    async with app.open_context(stage.settings, answers_calls=False) as context:
        transfers = [*reversed(await context.ledger.recent(TRANSFERS))]
        assert context.deposits is not None, "the stage has a chain"
        assert context.per_request.x402 is not None, "the stage takes payments"
        books = await context.ledger.verify()
        deposits = await context.deposits.reconcile()
        payments = await context.per_request.x402.reconcile()
    for one in transfers:
        tell.result(shortened(f"{usd(one.amount_micros):>6} USD  {one.kind:<8} {one.debit} → {one.credit}"))
    tell.say("")
    tell.result(f"{MARKS[books.balanced]} double entry: {books.accounts} accounts, {books.transfers} transfers")
    for name, found in (("deposits", deposits), ("payments", payments)):
        ours, theirs = usd(found.ledger_micros), usd(found.chain_micros)
        tell.result(f"{MARKS[found.agrees]} {name}: {ours} USD in the books, {theirs} USD on the chain")
