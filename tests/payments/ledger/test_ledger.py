import asyncio
import collections

import pytest

from tests.payments.ledger.transfers import ANSWER, PRICE, charge, deposit, reserve, reversal
from tests.waiting import until
from tollhouse import clock
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.payments.ledger.ledger import open_ledger
from tollhouse.payments.ledger.types import (
    REVENUE,
    REVERSALS,
    TREASURY,
    IdTakenError,
    Insufficient,
    OverdrawnError,
    PeriodSum,
    ReservationGoneError,
    Reserved,
    StoredResponse,
    Transfer,
    Used,
)
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import NewerSchemaError

pytestmark = pytest.mark.both_databases

MINUTE, HOUR = 60, 3_600
FAR = 2**40 * HOUR


async def test_account_nobody_touched_is_all_zeros(ledger):
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.available_micros, account.reserved_micros) == (0, 0, 0)
    assert (account.total_in_micros, account.total_out_micros) == (0, 0)
    assert (account.posted_count, account.last_at) == (0, None)


async def test_deposit_moves_money_from_the_treasury_to_the_agent(ledger):
    moved = await ledger.move(deposit("1", 1_000_000, memo={"tx_hash": "0x1", "block_number": 7}))
    assert moved.is_new
    assert moved.transfer.memo == {"tx_hash": "0x1", "block_number": 7}
    assert (await ledger.account("agent:a")).balance_micros == 1_000_000
    assert (await ledger.account("treasury")).balance_micros == -1_000_000
    assert (await ledger.verify()).balanced


async def test_same_deposit_again_credits_nothing_and_says_so(ledger):
    first = await ledger.move(deposit("1", 1_000_000, memo={"block_number": 7}))
    again = await ledger.move(deposit("1", 1_000_000, memo={"block_number": 8}))
    assert not again.is_new
    assert again.transfer == first.transfer
    assert (await ledger.account("agent:a")).balance_micros == 1_000_000


async def test_same_deposit_ten_times_at_once_credits_once(ledger):
    moved = await asyncio.gather(*(ledger.move(deposit("1", 1_000_000)) for _ in range(10)))
    assert sorted(one.is_new for one in moved) == [False] * 9 + [True]
    assert (await ledger.account("agent:a")).total_in_micros == 1_000_000


async def test_same_deposit_at_several_servers_at_once_credits_once(open_another):
    ledgers = [await open_another() for _ in range(3)]
    moved = await asyncio.gather(*(ledger.move(deposit("1", 1_000_000)) for ledger in ledgers * 4))
    assert sum(one.is_new for one in moved) == 1
    assert (await ledgers[0].account("agent:a")).balance_micros == 1_000_000


@pytest.mark.parametrize("other", [deposit("1", 2_000_000), deposit("1", 1_000_000, "agent:b"), "call"])
async def test_same_id_with_another_content_is_refused(ledger, other):
    first = await ledger.move(deposit("1", 1_000_000))
    changed = Transfer("deposit:1", "treasury", "agent:a", 1_000_000, "call") if other == "call" else other
    with pytest.raises(IdTakenError) as refusal:
        await ledger.move(changed)
    assert refusal.value.transfer == first.transfer
    assert (await ledger.account("agent:b")).balance_micros == 0


async def test_move_that_overdraws_an_agent_is_refused_and_leaves_nothing(ledger):
    await ledger.move(deposit("1", 500))
    with pytest.raises(OverdrawnError) as refusal:
        await ledger.move(Transfer("fee", "agent:a", "revenue", 501, "fee"))
    assert refusal.value.balance_micros == 500
    assert await ledger.find("fee") is None
    assert (await ledger.account("revenue")).balance_micros == 0


async def test_reversal_takes_an_agent_below_zero_until_it_is_covered(ledger):
    await ledger.move(deposit("1", 2 * PRICE))
    await charge(ledger, "1")
    await ledger.move(reversal("1", 2 * PRICE))
    assert (await ledger.account("agent:a")).balance_micros == -PRICE
    assert await reserve(ledger, "2") == Insufficient(-PRICE)
    assert (await ledger.verify()).balanced
    await ledger.move(deposit("2", 2 * PRICE))
    assert await reserve(ledger, "3") == Reserved("call:agent:a:3")


async def test_reservation_takes_from_what_is_available_and_charges_nothing(ledger):
    await ledger.move(deposit("1", 3 * PRICE))
    assert isinstance(await reserve(ledger, "1"), Reserved)
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros) == (3 * PRICE, PRICE)
    assert account.available_micros == 2 * PRICE
    assert (account.posted_count, account.last_at) == (0, None)


async def test_posted_reservation_is_charged_once_however_often_it_is_posted(ledger):
    await ledger.move(deposit("1", 3 * PRICE))
    before = clock.seconds()
    await charge(ledger, "1")
    await ledger.post("call:agent:a:1", ANSWER)
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros) == (2 * PRICE, 0)
    assert (account.total_out_micros, account.posted_count) == (PRICE, 1)
    assert before <= account.last_at <= clock.seconds()
    assert (await ledger.account("revenue")).balance_micros == PRICE


@pytest.mark.parametrize(("cost", "charged"), [(PRICE - 1, PRICE - 1), (PRICE, PRICE), (PRICE + 1, PRICE)])
async def test_reservation_is_charged_what_the_call_cost_and_never_more_than_was_reserved(ledger, cost, charged):
    await ledger.move(deposit("1", 5 * PRICE))
    await reserve(ledger, "call")
    for _ in range(2):
        await ledger.post("call:agent:a:call", ANSWER, cost)
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros) == (5 * PRICE - charged, 0)
    assert (account.total_out_micros, account.posted_count) == (charged, 1)
    transfer = await ledger.find("call:agent:a:call")
    assert (transfer.amount_micros, transfer.state) == (charged, "posted")
    [spent] = await ledger.spending("agent:a", transfer.kind, 0.0)
    assert spent.amount_micros == charged
    sums = await ledger.sums(transfer.credit, transfer.kind, 0, FAR, MINUTE)
    assert [one.micros for one in sums] == [charged]
    assert (await ledger.verify()).balanced
    with pytest.raises(ValueError, match="above 0"):
        await ledger.post("call:agent:a:call", ANSWER, 0)


async def test_voided_reservation_costs_nothing_and_cannot_be_posted(ledger):
    await ledger.move(deposit("1", PRICE))
    await reserve(ledger, "1")
    await ledger.void("call:agent:a:1")
    await ledger.void("call:agent:a:1")
    with pytest.raises(ReservationGoneError, match="voided"):
        await ledger.post("call:agent:a:1", ANSWER)
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros, account.posted_count) == (PRICE, 0, 0)


async def test_posted_reservation_cannot_be_voided(ledger):
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1")
    with pytest.raises(ReservationGoneError, match="posted"):
        await ledger.void("call:agent:a:1")
    assert (await ledger.account("agent:a")).balance_micros == 0


async def test_reservation_nobody_made_can_be_neither_posted_nor_voided(ledger):
    for resolve in (ledger.post("call:agent:a:1", None), ledger.void("call:agent:a:1")):
        with pytest.raises(ReservationGoneError, match="unknown"):
            await resolve


async def test_settled_transfer_is_no_reservation(ledger):
    await ledger.move(deposit("1", PRICE))
    with pytest.raises(ReservationGoneError):
        await ledger.post("deposit:1", None)
    with pytest.raises(ReservationGoneError):
        await ledger.void("deposit:1")
    assert await ledger.reserve("deposit:1", "treasury", "agent:a", PRICE, "deposit", b"") == Used("posted")


async def test_price_above_the_balance_reserves_nothing_and_leaves_no_row(ledger):
    await ledger.move(deposit("1", PRICE - 1))
    for _ in range(3):
        assert await reserve(ledger, "1") == Insufficient(PRICE - 1)
    assert await ledger.find("call:agent:a:1") is None
    await ledger.move(deposit("2", 1))
    assert isinstance(await reserve(ledger, "1"), Reserved)
    assert (await ledger.verify()).balanced


async def test_released_reservation_costs_nothing_and_its_id_is_free(open_another):
    ledger, other = await open_another(), await open_another()
    await ledger.move(deposit("1", PRICE))
    for holder in (ledger, other, ledger):
        assert isinstance(await reserve(holder, "1"), Reserved)
        await holder.release("call:agent:a:1")
        await holder.release("call:agent:a:1")
        assert await ledger.find("call:agent:a:1") is None
        with pytest.raises(ReservationGoneError):
            await holder.post("call:agent:a:1", ANSWER)
        assert (await ledger.account("agent:a")).available_micros == PRICE
    await charge(ledger, "1")
    await ledger.release("call:agent:a:1")
    assert await reserve(other, "1") == Used("posted", ANSWER)
    assert (await ledger.verify()).balanced


async def test_reservation_that_another_made_meanwhile_is_not_posted_for_the_first(open_another):
    """The first one's process was taken for dead: its reservation was released, and the client sent its call again."""
    first, second = await open_another(), await open_another()
    await first.move(deposit("1", 2 * PRICE))
    await reserve(first, "1")
    await second.release("call:agent:a:1")
    assert isinstance(await reserve(second, "1"), Reserved)
    with pytest.raises(ReservationGoneError):
        await first.post("call:agent:a:1", ANSWER)
    await second.post("call:agent:a:1", ANSWER)
    assert (await first.account("agent:a")).posted_count == 1


async def test_id_released_and_taken_again_in_one_batch_is_taken_once(ledger, hold_the_ledger):
    await ledger.move(deposit("1", PRICE))
    await reserve(ledger, "1")
    async with hold_the_ledger():
        blocking = asyncio.create_task(ledger.move(deposit("2", PRICE)))
        await asyncio.sleep(0.05)
        waiting = [asyncio.create_task(ledger.release("call:agent:a:1")), asyncio.create_task(reserve(ledger, "1"))]
        await asyncio.sleep(0.05)
    await asyncio.gather(blocking, *waiting)
    await ledger.post("call:agent:a:1", ANSWER)
    account = await ledger.account("agent:a")
    assert (account.balance_micros, account.reserved_micros, account.posted_count) == (PRICE, 0, 1)
    assert (await ledger.verify()).balanced


async def test_fifty_calls_at_once_on_a_balance_for_twenty_reserve_exactly_twenty(open_another):
    ledgers = [await open_another() for _ in range(2)]
    await ledgers[0].move(deposit("1", 20 * PRICE))
    asked = (reserve(ledgers[number % 2], str(number)) for number in range(50))
    kinds = collections.Counter(type(outcome) for outcome in await asyncio.gather(*asked))
    assert kinds == {Reserved: 20, Insufficient: 30}
    assert (await ledgers[1].account("agent:a")).available_micros == 0


async def test_one_nonce_fifty_times_at_once_is_reserved_once(open_another):
    ledgers = [await open_another() for _ in range(2)]
    await ledgers[0].move(deposit("1", 50 * PRICE))
    outcomes = await asyncio.gather(*(reserve(ledgers[number % 2], "1") for number in range(50)))
    assert collections.Counter(map(type, outcomes)) == {Reserved: 1, Used: 49}
    assert {outcome.state for outcome in outcomes if isinstance(outcome, Used)} == {"pending"}


async def test_used_nonce_is_used_whatever_else_is_asked_with_it(ledger):
    await ledger.move(deposit("1", 2 * PRICE, "agent:b"))
    await ledger.move(deposit("2", 2 * PRICE))
    await reserve(ledger, "1")
    assert await ledger.reserve("call:agent:a:1", "agent:b", "revenue", 5, "other", b"x") == Used("pending")


async def test_paid_answer_is_given_again_to_the_same_request_alone(ledger):
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1")
    assert await reserve(ledger, "1") == Used("posted", ANSWER)
    assert await reserve(ledger, "1", fingerprint=b"other") == Used("posted")
    assert (await ledger.account("agent:a")).posted_count == 1


async def test_delivered_answer_is_given_no_more(ledger):
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1")
    ledger.delivered("call:agent:a:1")
    assert await reserve(ledger, "1") == Used("posted")


async def test_answer_that_was_just_handed_over_survives_a_crash(ledger, open_another):
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1")
    ledger.delivered("call:agent:a:1")
    assert await reserve(ledger, "1") == Used("posted")
    assert await reserve(await open_another(), "1") == Used("posted", ANSWER)


async def test_answer_that_has_surely_left_is_given_by_nobody(ledger, open_another, monkeypatch):
    monkeypatch.setattr("tollhouse.payments.ledger.ledger.GRACE_SECONDS", 0.0)
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1")
    ledger.delivered("call:agent:a:1")
    another = await open_another()

    async def is_gone() -> bool:
        await ledger.sweep()
        return await reserve(another, "1") == Used("posted")

    await until(is_gone)


async def test_answer_is_given_again_after_a_restart(open_another):
    ledger = await open_another()
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1")
    assert await reserve(await open_another(), "1") == Used("posted", ANSWER)


async def test_answer_is_kept_for_ten_minutes(ledger, monkeypatch):
    await ledger.move(deposit("1", 2 * PRICE))
    await charge(ledger, "1")
    now = clock.seconds()
    monkeypatch.setattr(clock, "seconds", lambda: now + 599)
    await ledger.sweep()
    assert await reserve(ledger, "1") == Used("posted", ANSWER)
    monkeypatch.setattr(clock, "seconds", lambda: now + 601)
    assert await reserve(ledger, "1") == Used("posted")
    await ledger.sweep()
    monkeypatch.setattr(clock, "seconds", lambda: now + 1)
    assert await reserve(ledger, "1") == Used("posted")


async def test_reservation_posted_without_an_answer_keeps_none(ledger):
    await ledger.move(deposit("1", PRICE))
    await charge(ledger, "1", answer=None)
    assert await reserve(ledger, "1") == Used("posted")


async def test_same_body_is_stored_once_and_goes_with_the_last_that_got_it(ledger, bodies, monkeypatch):
    await ledger.move(deposit("1", 1_001 * PRICE))
    await asyncio.gather(*(charge(ledger, str(number)) for number in range(1_000)))
    await charge(ledger, "other", answer=StoredResponse(200, "text/csv", b"other"))
    assert await bodies() == 2
    monkeypatch.setattr("tollhouse.payments.ledger.ledger.GRACE_SECONDS", 0.0)
    for number in range(999):
        ledger.delivered(f"call:agent:a:{number}")
    await asyncio.sleep(0.2)
    await ledger.sweep()
    assert await bodies() == 2
    assert await reserve(ledger, "999") == Used("posted", ANSWER)
    ledger.delivered("call:agent:a:999")

    async def is_gone() -> bool:
        await ledger.sweep()
        return await bodies() == 1

    await until(is_gone)


async def test_transfers_are_found_with_their_state(ledger):
    await ledger.move(deposit("1", 9 * PRICE))
    await charge(ledger, "posted")
    await reserve(ledger, "voided")
    await ledger.void("call:agent:a:voided")
    await reserve(ledger, "pending")
    found = [await ledger.find(f"call:agent:a:{state}") for state in ("posted", "voided", "pending")]
    assert [transfer.state for transfer in found] == ["posted", "voided", "pending"]
    assert (await ledger.find("deposit:1")).state == "settled"
    assert await ledger.find("deposit:2") is None


async def test_deposits_are_listed_by_time_with_their_memos(ledger, monkeypatch):
    for number in range(3):
        monkeypatch.setattr(clock, "seconds", lambda number=number: 1_000.0 + number)
        await ledger.move(deposit(str(number), PRICE, memo={"block": number, "note": "é\0"}))
    await charge(ledger, "1")
    listed = await ledger.transfers("deposit", since=1_001.0)
    assert [(transfer.id, transfer.at) for transfer in listed] == [("deposit:1", 1_001.0), ("deposit:2", 1_002.0)]
    assert [transfer.memo["block"] for transfer in listed] == [1, 2]
    assert listed[0].memo["note"] == "é\0"
    assert await ledger.transfers("refund", since=0.0) == []


async def test_recent_transfers_come_newest_first_of_all_or_of_one_account(ledger):
    await ledger.move(deposit("a", 9 * PRICE))
    await ledger.move(deposit("b", 9 * PRICE, "agent:b"))
    for number in range(3):
        await charge(ledger, str(number))
        await charge(ledger, str(number), "agent:b")
    assert [transfer.id for transfer in await ledger.recent(2)] == ["call:agent:b:2", "call:agent:a:2"]
    mine = await ledger.recent(10, "agent:a")
    assert [transfer.id for transfer in mine] == [
        *(f"call:agent:a:{number}" for number in (2, 1, 0)),
        "deposit:a",
    ]
    assert [transfer.id for transfer in await ledger.recent(1, "treasury")] == ["deposit:b"]


@pytest.mark.parametrize(
    "wrong",
    [
        Transfer("", "treasury", "agent:a", 1, "deposit"),
        Transfer("x" * 301, "treasury", "agent:a", 1, "deposit"),
        Transfer("nul\0", "treasury", "agent:a", 1, "deposit"),
        Transfer("half\ud800", "treasury", "agent:a", 1, "deposit"),
        Transfer("id", "agent:a", "agent:a", 1, "deposit"),
        Transfer("id", "treasury", "agent:a", 0, "deposit"),
        Transfer("id", "treasury", "agent:a", -1, "deposit"),
        Transfer("id", "treasury", "agent:a", 10**15 + 1, "deposit"),
        Transfer("id", "treasury", "agent:a", 1, "deposit", {"note": "x" * 5_000}),
    ],
)
async def test_what_is_no_transfer_is_refused_before_it_is_queued(ledger, wrong):
    with pytest.raises(ValueError, match=r"transfer|memo"):
        await ledger.move(wrong)
    assert await ledger.recent(1) == []


async def test_closing_writes_what_is_queued_and_takes_nothing_more(database_url, open_another):
    settings = Settings(database_url=database_url)
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    await database.close()
    waiting = [asyncio.create_task(ledger.move(deposit(str(number), PRICE))) for number in range(600)]
    await asyncio.sleep(0)
    await ledger.close()
    with pytest.raises(Problem, match="stopping"):
        await ledger.move(deposit("late", PRICE))
    assert all(moved.is_new for moved in await asyncio.gather(*waiting))
    other = await open_another()
    assert (await other.account("agent:a")).balance_micros == 600 * PRICE


async def test_ledger_of_a_later_version_is_refused_and_left_alone(ledger, open_another, sql):
    await ledger.move(deposit("1", PRICE))
    await sql("UPDATE ledger_version SET version_num = '9999'")
    with pytest.raises(NewerSchemaError, match="9999"):
        await open_another()
    assert (await ledger.account("agent:a")).balance_micros == PRICE


async def test_ledgers_opened_all_at_once_are_one_ledger(open_another):
    ledgers = await asyncio.gather(*(open_another() for _ in range(5)))
    await ledgers[0].move(deposit("1", PRICE))
    assert [(await ledger.account("agent:a")).balance_micros for ledger in ledgers] == [PRICE] * 5


async def test_event_loop_runs_on_while_a_batch_is_written(ledger, hold_the_ledger):
    """Another process holds the ledger, and would for ever if this loop stood still: everything but money goes on."""
    async with hold_the_ledger():
        moving = asyncio.create_task(ledger.move(deposit("1", PRICE)))
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not moving.done()
    assert (await moving).is_new


async def test_sums_are_those_of_the_transfers_however_many_of_them_are_summed_up(ledger, monkeypatch):
    ledger._store.summed_at_once = 2

    async def at(moment: float, *transfers: Transfer) -> None:
        monkeypatch.setattr(clock, "seconds", lambda: moment)
        for transfer in transfers:
            await ledger.move(transfer)

    async def call(name: str, account: str = "agent:a", micros: int = 1_000) -> None:
        assert isinstance(await ledger.reserve(name, account, REVENUE, micros, "call", b"print"), Reserved)

    await at(
        1_000,
        Transfer("d", TREASURY, "agent:a", 90_000, "deposit"),
        Transfer("d2", TREASURY, "agent:b", 90_000, "deposit"),
    )
    await call("first")
    await ledger.post("first", None)
    await at(3_599.9, Transfer("p1", "agent:a", REVENUE, 10_000, "call"), Transfer("p2", "x402", REVENUE, 700, "x402"))
    await at(
        3_600, Transfer("p3", "agent:b", REVENUE, 10_000, "call"), Transfer("p4", "agent:b", REVENUE, 5_000, "call")
    )
    for name in ("late", "given back", "released", "posted"):
        await call(name)
    await ledger.post("posted", None)
    await at(7_300, Transfer("back", REVENUE, REVERSALS, 700, "reversal"))

    async def check(late: int) -> None:
        count = bool(late)
        hours = [PeriodSum(0, 11_000, 2), PeriodSum(HOUR, 16_000 + late, 3 + count)]
        assert await ledger.sums(REVENUE, "call", 0, 9_000, HOUR) == hours
        assert await ledger.sums(REVENUE, "call", 0, HOUR, HOUR) == hours[:1]
        assert await ledger.sums(REVENUE, "call", 3_540, 3_660, MINUTE) == [
            PeriodSum(3_540, 10_000, 1), PeriodSum(3_600, 16_000 + late, 3 + count),
        ]  # fmt: skip
        assert await ledger.sums(REVENUE, "call", 0, 3 * HOUR, 3 * HOUR) == [PeriodSum(0, 27_000 + late, 5 + count)]
        assert await ledger.sums(REVENUE, "reversal", 0, 9_000, HOUR) == [PeriodSum(2 * HOUR, 700, 1, is_credit=False)]
        assert await ledger.sums("agent:b", "call", 0, 3 * HOUR, HOUR) == [PeriodSum(HOUR, 15_000, 2, is_credit=False)]
        assert await ledger.sums("agent:a", "call", HOUR, 3 * HOUR, HOUR) == [
            PeriodSum(HOUR, 1_000 + late, 1 + count, is_credit=False)
        ]
        assert (await ledger.verify()).balanced

    await check(late=0)
    ids = ("p3", "p4", "late", "given back", "released", "posted")
    assert [one.id for one in await ledger.between("call", HOUR, 9_000)] == list(ids)
    assert await ledger.kinds() == ["call", "deposit", "reversal", "x402"]
    # All before the first open reservation, two at a time.
    assert [await ledger.sum_up() for _ in range(5)] == [True, True, True, True, False]
    await check(late=0)
    await at(20_000)
    await ledger.release("released")
    await ledger.void("given back")
    await check(late=0)
    assert not await ledger.sum_up()
    await ledger.post("late", None, 400)
    await check(late=400)
    while await ledger.sum_up():
        await check(late=400)
    await at(20_001, Transfer("p5", "agent:a", REVENUE, 1, "call"))
    assert await ledger.sums(REVENUE, "call", 18_000, 25_200, HOUR) == [PeriodSum(18_000, 1, 1)]
    await check(late=400)


@pytest.mark.parametrize(
    ("account", "since", "width"), [(REVENUE, 30, MINUTE), (REVENUE, 0, 90), ("agent:a", MINUTE, HOUR)]
)
async def test_sums_of_parts_of_a_period_are_refused(ledger, account, since, width):
    with pytest.raises(ValueError, match="the sums of"):
        await ledger.sums(account, "call", since, 2 * HOUR, width)


async def test_number_of_a_released_reservation_that_is_used_again_is_summed_up(ledger):
    await ledger.move(deposit("1", 5 * PRICE))
    for name in ("1", "2"):
        await reserve(ledger, name)
    await ledger.release("call:agent:a:1")
    assert await ledger.sum_up()
    await ledger.release("call:agent:a:2")
    await charge(ledger, "3")
    assert await ledger.sum_up()
    assert [one.micros for one in await ledger.sums(REVENUE, "call", 0, FAR, HOUR)] == [PRICE]
    report = await ledger.verify()
    assert report.balanced, report.differences


async def test_several_processes_sum_each_transfer_up_once(open_another):
    ledgers = [await open_another() for _ in range(3)]
    for ledger in ledgers:
        ledger._store.summed_at_once = 3
    await ledgers[0].move(deposit("1", 50 * PRICE))

    async def pay(number: int) -> None:
        await charge(ledgers[number % 3], str(number))
        await ledgers[number % 3].sum_up()

    await asyncio.gather(*map(pay, range(40)))
    while await ledgers[0].sum_up():
        pass
    assert sum(one.transfers for one in await ledgers[0].sums(REVENUE, "call", 0, FAR, HOUR)) == 40
    report = await ledgers[0].verify()
    assert report.balanced, report.differences


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE period_sum SET amount = amount + 1 WHERE account = 'revenue' AND width = 60",
        "UPDATE period_sum SET transfers = 7 WHERE account = 'revenue' AND width = 3600",
        "DELETE FROM period_sum WHERE account = 'agent:a' AND kind = 'call'",
    ],
)
async def test_verification_compares_the_sums_with_the_transfers(ledger, sql, change):
    await ledger.move(deposit("1", 5 * PRICE))
    await charge(ledger, "1")
    assert await ledger.sum_up()
    assert (await ledger.verify()).balanced
    await sql(change)
    report = await ledger.verify()
    assert not report.balanced
    assert all(one.startswith("the sum of call ") for one in report.differences), report.differences
