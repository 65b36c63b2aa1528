"""The last chapter: the operator's view of what the tour has paid."""

from tollhouse import app
from tollhouse.demo.narrator import Narrator, shortened
from tollhouse.demo.stage import Stage
from tollhouse.money import usd

TRANSFERS = 4
MARKS = {True: "✓", False: "✗"}


async def the_books(stage: Stage, tell: Narrator) -> None:
    """Every cent twice, and the chain agrees."""
    tell.chapter("7  The books", "What `tollhouse ledger show` and `tollhouse ledger verify` say.")
    async with app.rooms_of(stage.settings, answers_calls=False) as rooms:
        transfers = [*reversed(await rooms.ledger.recent(TRANSFERS))]
        assert rooms.deposits is not None, "the stage has a chain"
        assert rooms.per_request.x402 is not None, "the stage takes payments"
        books = await rooms.ledger.verify()
        deposits = await rooms.deposits.reconcile()
        payments = await rooms.per_request.x402.reconcile()
    for one in transfers:
        tell.result(shortened(f"{usd(one.amount_micros):>6} USD  {one.kind:<8} {one.debit} → {one.credit}"))
    tell.say("")
    tell.result(f"{MARKS[books.balanced]} double entry: {books.accounts} accounts, {books.transfers} transfers")
    for name, found in (("deposits", deposits), ("payments", payments)):
        ours, theirs = usd(found.ledger_micros), usd(found.chain_micros)
        tell.result(f"{MARKS[found.agrees]} {name}: {ours} USD in the books, {theirs} USD on the chain")
