from functools import partial

import pytest

from tests.payments.ledger.transfers import ANSWER, deposit, reversal
from tollhouse.payments.ledger import rules
from tollhouse.payments.ledger.types import (
    RESPONSE_TTL_SECONDS,
    AccountState,
    BatchState,
    Delivered,
    Done,
    Gone,
    IdTaken,
    Insufficient,
    LedgerEntry,
    Move,
    Moved,
    Overdrawn,
    Post,
    PostedResponse,
    Release,
    Reserve,
    Reserved,
    Sweep,
    Transfer,
    Used,
    Void,
)

NOW = 1_000.0
CALL = Transfer("call", "agent:a", "revenue", 10, "call")


def known(*entries: LedgerEntry, accounts=(), responses=None):
    by_id = {entry.transfer.id: entry for entry in entries}
    return BatchState(by_id, {account.name: account for account in accounts}, responses or {}, next_seq=100)


def stored_entry(state, seq=1, owner=1, number=1, amount=10):
    transfer = Transfer("call", "agent:a", "revenue", amount, "call", at=5.0, state=state)
    return LedgerEntry(seq, transfer, owner, number, b"f" if state == "pending" else b"")


def rich(balance=1_000, reserved=0):
    return AccountState("agent:a", balance, reserved, total_in_micros=balance)


def only(command, known):
    changes = rules.apply([command], known, NOW)
    return changes.results[0], changes


def test_move_adds_one_settled_transfer_and_changes_two_accounts():
    result, changes = only(Move(deposit("1", 70), 1, 1), known())
    assert isinstance(result, Moved)
    assert result.is_new
    assert [(entry.seq, entry.transfer.at, entry.transfer.state) for entry in changes.added] == [(100, NOW, "settled")]
    assert [(one.name, one.balance_micros) for one in changes.accounts] == [("agent:a", 70), ("treasury", -70)]
    assert (changes.resolved, changes.opened, changes.closed) == ([], [], [])


def test_state_and_time_that_the_caller_wrote_are_not_believed():
    forged = Transfer("1", "treasury", "agent:a", 5, "deposit", at=9e9, state="posted")
    _, changes = only(Move(forged, 1, 1), known())
    assert (changes.added[0].transfer.at, changes.added[0].transfer.state) == (NOW, "settled")


def test_refused_move_changes_nothing():
    result, changes = only(Move(Transfer("1", "agent:a", "revenue", 11, "fee"), 1, 1), known(accounts=[rich(10)]))
    assert result == Overdrawn("agent:a", 10)
    assert (changes.added, changes.accounts) == ([], [])


def test_reserved_money_cannot_be_moved_but_can_be_reversed():
    state = known(accounts=[rich(10, reserved=5)])
    assert only(Move(Transfer("1", "agent:a", "revenue", 6, "fee"), 1, 1), state)[0] == Overdrawn("agent:a", 5)
    result, changes = only(Move(reversal("1", 100), 1, 1), state)
    assert isinstance(result, Moved)
    assert changes.accounts[0].available_micros == -95


def test_only_agents_must_have_what_they_give():
    result, _ = only(Reserve(Transfer("1", "x402", "revenue", 5, "call"), b"", 1, 1), known())
    assert result == Reserved("1")


@pytest.mark.parametrize(
    ("available", "outcome"), [(9, Insufficient(9)), (10, Reserved("call")), (-3, Insufficient(-3))]
)
def test_reservation_needs_the_whole_price(available, outcome):
    assert only(Reserve(CALL, b"f", 1, 1), known(accounts=[rich(available + 4, reserved=4)]))[0] == outcome


def test_insufficient_balance_changes_nothing():
    result, changes = only(Reserve(CALL, b"f", 1, 1), known())
    assert result == Insufficient(0)
    assert (changes.added, changes.resolved, changes.accounts) == ([], [], [])
    assert (changes.opened, changes.closed, changes.deleted) == ([], [], [])


def test_reservation_of_0_that_an_earlier_version_stored_keeps_its_id_taken():
    taken = stored_entry("voided", owner=7, amount=0)
    assert only(Reserve(CALL, b"f", 1, 1), known(taken, accounts=[rich()]))[0] == Used("voided")


def test_same_operation_tried_again_has_the_same_result():
    """After a lost commit nobody can tell what happened: the batch is applied again to what then is known."""
    move = Move(deposit("1", 70), owner=7, number=3)
    _, first = only(move, known())
    again, changes = only(move, known(*first.added))
    assert again.is_new
    assert (changes.added, changes.accounts) == ([], [])
    for state in (known(accounts=[rich()]), known()):
        command = Reserve(CALL, b"f", owner=7, number=4)
        result, first = only(command, state)
        again, changes = only(command, known(*first.added, accounts=first.accounts))
        assert type(again) is type(result)
        assert (changes.added, changes.accounts, changes.resolved) == ([], [], [])


def test_another_operation_with_the_same_id_is_another_one():
    for owner, number in ((7, 4), (8, 3)):
        result, _ = only(Move(deposit("1", 70), owner, number), known(LedgerEntry(1, deposit("1", 70), 7, 3)))
        assert not result.is_new
        assert only(Reserve(CALL, b"f", owner, number), known(stored_entry("pending", owner=7, number=3)))[0] == Used(
            "pending"
        )


@pytest.mark.parametrize("state", ["pending", "posted", "voided"])
def test_move_with_the_id_of_a_reservation_is_refused(state):
    entry = stored_entry(state)
    assert only(Move(CALL, 1, 1), known(entry))[0] == IdTaken(entry.transfer)


def test_post_settles_what_was_reserved_and_keeps_the_answer():
    result, changes = only(Post("call", ANSWER), known(stored_entry("pending"), accounts=[rich(50, reserved=10)]))
    assert result == Done()
    agent, revenue = changes.accounts
    assert (agent.balance_micros, agent.reserved_micros, agent.posted_count, agent.last_at) == (40, 0, 1, NOW)
    assert (revenue.balance_micros, revenue.posted_count) == (10, 1)
    assert (changes.resolved, changes.closed) == ([(1, "posted", NOW, None)], [1])
    assert changes.responses == {1: PostedResponse(ANSWER, b"f", NOW)}


def test_posting_what_was_reserved_before_a_reversal_goes_through():
    _, changes = only(Post("call", None), known(stored_entry("pending"), accounts=[rich(-20, reserved=10)]))
    assert changes.accounts[0].balance_micros == -30


@pytest.mark.parametrize(
    ("state", "post", "void"),
    [
        ("posted", Done(), Gone("posted")),
        ("voided", Gone("voided"), Done()),
        ("settled", Gone("settled"), Gone("settled")),
    ],
)
def test_what_is_resolved_stays_as_it_is(state, post, void):
    for command, expected in ((Post("call", ANSWER), post), (Void("call"), void)):
        result, changes = only(command, known(stored_entry(state)))
        assert result == expected
        assert (changes.resolved, changes.accounts, changes.responses) == ([], [], {})


@pytest.mark.parametrize("command", [Release, partial(Post, response=None)])
def test_command_meant_for_one_reservation_spares_another_with_the_same_id(command):
    state = known(stored_entry("pending", owner=7, number=3), accounts=[rich(50, reserved=10)])
    assert only(command("call", origin=(7, 4)), state)[0] == Gone(None)
    assert only(command("call", origin=(7, 3)), state)[0] == Done()


def test_release_deletes_what_is_pending_and_nothing_else():
    _, changes = only(Release("call"), known(stored_entry("pending"), accounts=[rich(50, reserved=10)]))
    assert (changes.deleted, changes.closed, changes.resolved) == ([1], [1], [])
    assert [account.reserved_micros for account in changes.accounts] == [0]
    for state in ("posted", "voided", "settled"):
        result, changes = only(Release("call"), known(stored_entry(state), accounts=[rich(50)]))
        assert (result, changes.deleted, changes.accounts) == (Gone(state), [], [])
    assert only(Release("call"), known())[0] == Gone(None)


def test_operations_of_one_batch_see_each_other():
    batch = [
        Move(deposit("1", 15), 1, 1),
        Reserve(CALL, b"f", 1, 2),
        Reserve(CALL, b"f", 1, 3),
        Reserve(Transfer("call2", "agent:a", "revenue", 10, "call"), b"g", 1, 4),
        Post("call", ANSWER),
        Reserve(CALL, b"f", 1, 5),
        Delivered("call"),
        Reserve(CALL, b"f", 1, 6),
    ]
    changes = rules.apply(batch, known(), NOW)
    assert changes.results[1:] == [
        Reserved("call"),
        Used("pending"),
        Insufficient(5),
        Done(),
        Used("posted", ANSWER),
        Done(),
        Used("posted"),
    ]
    assert (changes.opened, changes.closed, changes.responses, changes.forgotten) == ([], [], {}, [])
    assert changes.resolved == [(101, "posted", NOW, None)]


@pytest.mark.parametrize(
    ("fingerprint", "age", "is_given"), [(b"f", 599.9, True), (b"g", 1.0, False), (b"f", RESPONSE_TTL_SECONDS, False)]
)
def test_kept_answer_is_for_the_same_request_and_for_ten_minutes(fingerprint, age, is_given):
    state = known(stored_entry("posted"), responses={1: PostedResponse(ANSWER, b"f", NOW - age)})
    result, _ = only(Reserve(CALL, fingerprint, 2, 2), state)
    assert result == Used("posted", ANSWER if is_given else None)


def test_last_call_is_the_latest_even_if_the_clock_went_back():
    account = AccountState("agent:a", 50, 10, 60, last_at=NOW + 9)
    _, changes = only(Post("call", None), known(stored_entry("pending"), accounts=[account]))
    assert changes.accounts[0].last_at == NOW + 9


def test_sweep_and_forgetting_name_what_goes():
    changes = rules.apply(
        [Sweep(400.0), Delivered("call"), Delivered("unknown")], known(stored_entry("posted", seq=8)), NOW
    )
    assert (changes.forget_before, changes.forgotten) == (400.0, [8])


def test_known_state_is_left_as_it_was():
    state = known(stored_entry("pending"), accounts=[rich(50, reserved=10)])
    rules.apply([Post("call", ANSWER), Move(deposit("1", 5), 1, 9)], state, NOW)
    assert state == known(stored_entry("pending"), accounts=[rich(50, reserved=10)])
