"""Processes die at seeded places while others live on; afterwards what clients saw and what was charged must agree."""

import pytest

from tests.payments.ledger.crash_journal import Call, Journal, Money, Seen, complaints
from tests.payments.ledger.crash_run import run
from tests.payments.ledger.transfers import PRICE, charge, deposit, reserve

pytestmark = pytest.mark.both_databases

# `python -m tests.payments.ledger.crash_run --seeds 200` goes through many more: docs/ledger.md.
SQLITE_SEEDS, POSTGRES_SEEDS = range(6), range(2)


@pytest.mark.parametrize("seed", SQLITE_SEEDS)
def test_crashed_ledger_on_sqlite_charges_what_was_answered_and_nothing_twice(seed, tmp_path):
    verdict = run(seed, f"sqlite:///{tmp_path}/tollhouse.db", tmp_path)
    assert verdict.wrong == []
    assert verdict.answered > 100
    assert verdict.crashes > 0


@pytest.mark.parametrize("seed", POSTGRES_SEEDS)
def test_crashed_ledger_on_postgres_charges_what_was_answered_and_nothing_twice(seed, tmp_path, postgres_url):
    verdict = run(seed, postgres_url, tmp_path)
    assert verdict.wrong == []
    assert verdict.answered > 100
    assert verdict.crashes > 0


def test_ledger_that_forgets_which_ids_were_taken_is_found_out(tmp_path):
    """The mutant: without the replay check this very test must fail."""
    verdict = run(0, f"sqlite:///{tmp_path}/tollhouse.db", tmp_path, forgets=True)
    assert any("was charged 2 times" in sentence for sentence in verdict.wrong)


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    yield journal
    journal.close()


@pytest.mark.parametrize(
    ("outcomes", "is_open"),
    [
        (["tried", "returned"], False),
        (["tried", "tried", "returned"], True),
        (["tried", "tried", "returned", "reused"], True),
        (["tried", "returned", "tried"], True),
        (["tried", "reused"], True),
        (["tried", "refused"], False),
    ],
)
def test_call_is_open_while_one_of_its_clients_waits(journal, outcomes, is_open):
    for outcome in outcomes:
        journal.write(Call("a:1", outcome))
    assert Seen(journal).open() == (["a:1"] if is_open else [])


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([Call("a:paid", "answered", "x")], None),
        ([Call("a:paid", "answered", "x"), Call("a:paid", "reused")], None),
        ([Call("a:voided", "refused")], None),
        ([Call("a:voided", "tried")], None),
        ([Call("a:voided", "answered", "x")], "a:voided was answered and not charged"),
        ([Call("a:never", "answered", "x")], "a:never was answered and not charged"),
        ([Call("a:paid", "answered", "x"), Call("a:paid", "answered", "y")], "a:paid got 2 answers"),
        ([Call("a:paid", "tried")], "a:paid was charged and never answered"),
        ([Call("a:paid", "refused"), Call("a:paid", "answered", "x")], "a:paid was refused and charged"),
        ([Call("a:open", "tried")], "call:a:open is still pending"),
        ([Call("a:dear", "answered", "x")], "call:a:dear cost 20000"),
        ([Money("deposit:1", 9 * PRICE, is_done=True)], None),
        ([Money("deposit:2", 9 * PRICE, is_done=True)], "deposit:2 was acknowledged and is not there"),
        ([Money("deposit:1", 8 * PRICE, is_done=False)], "deposit:1 is 90000 and settled, not 80000 and settled"),
    ],
)
async def test_check_complains_of(ledger, journal, events, complaint):
    await ledger.move(deposit("1", 9 * PRICE))
    await charge(ledger, "paid", "a")
    await reserve(ledger, "voided", "a")
    await ledger.void("call:a:voided")
    await reserve(ledger, "open", "a")
    await reserve(ledger, "dear", "a", price=2 * PRICE)
    await ledger.post("call:a:dear", None)
    for event in events:
        journal.write(event)
    assert await complaints(ledger, Seen(journal), PRICE) == ([complaint] if complaint else [])
