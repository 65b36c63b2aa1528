"""Any sequence of commands against a plain model: what the ledger says is what the model says."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.payments.ledger.transfers import ANSWER
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.payments.ledger.types import (
    IdTakenError,
    Insufficient,
    OverdrawnError,
    ReservationGoneError,
    Reserved,
    Transfer,
    Used,
)
from tollhouse.storage.database import open_database

pytestmark = pytest.mark.both_databases

HOUR = 3_600
EXAMPLES, STEPS = 40, 25
AGENTS = st.sampled_from("ab")
IDS = st.integers(0, 5)
AMOUNTS = st.integers(1, 40)

_examples = itertools.count()


class Model:
    """The same book as plain dictionaries."""

    def __init__(self) -> None:
        self.balance = {"a": 0, "b": 0}
        self.moves = {}
        self.calls = {}
        self.responses = set()

    def available(self, agent):
        held = sum(amount for whose, amount, state in self.calls.values() if (whose, state) == (agent, "pending"))
        return self.balance[agent] - held


class Machine(RuleBasedStateMachine):
    def __init__(self, ledger: Ledger, runner: asyncio.Runner) -> None:
        super().__init__()
        self.ledger, self.run = ledger, runner.run
        self.model = Model()
        self.example = next(_examples)

    def account(self, agent):
        return f"agent:{agent}{self.example}"

    def id(self, kind, number):
        return f"{kind}:{self.example}:{number}"

    @rule(agent=AGENTS, number=IDS, amount=AMOUNTS)
    def deposit(self, agent, number, amount):
        self._move("deposit", "treasury", self.account(agent), number, amount, agent, +1)

    @rule(agent=AGENTS, number=IDS, amount=AMOUNTS)
    def reverse(self, agent, number, amount):
        self._move("reversal", self.account(agent), "treasury", number, amount, agent, -1)

    @rule(agent=AGENTS, number=IDS, amount=AMOUNTS)
    def take_fee(self, agent, number, amount):
        self._move("fee", self.account(agent), "revenue", number, amount, agent, -1)

    def _move(self, kind, debit, credit, number, amount, agent, sign) -> None:
        model, content = self.model, (agent, amount)
        transfer = Transfer(self.id(kind, number), debit, credit, amount, kind)
        known = model.moves.get((kind, number))
        if known is None and kind == "fee" and model.available(agent) < amount:
            with pytest.raises(OverdrawnError):
                self.run(self.ledger.move(transfer))
        elif known is not None and known != content:
            with pytest.raises(IdTakenError):
                self.run(self.ledger.move(transfer))
        else:
            assert self.run(self.ledger.move(transfer)).is_new == (known is None)
            if known is None:
                model.moves[kind, number] = content
                model.balance[agent] += sign * amount

    @rule(agent=AGENTS, number=IDS, amount=AMOUNTS)
    def reserve(self, agent, number, amount):
        model = self.model
        asked = self.ledger.reserve(
            self.id("call", number), self.account(agent), "revenue", amount, "call", b"%d" % amount
        )
        outcome = self.run(asked)
        if number in model.calls:
            _, price, state = model.calls[number]
            is_kept = number in model.responses and price == amount
            assert outcome == Used(state, ANSWER if is_kept else None)
        elif model.available(agent) < amount:
            assert outcome == Insufficient(model.available(agent))
        else:
            assert isinstance(outcome, Reserved)
            model.calls[number] = (agent, amount, "pending")

    @rule(number=IDS)
    def post(self, number):
        agent, amount, state = self.model.calls.get(number, ("", 0, ""))
        posting = self.ledger.post(self.id("call", number), ANSWER)
        if state not in {"pending", "posted"}:
            with pytest.raises(ReservationGoneError):
                self.run(posting)
            return
        self.run(posting)
        if state == "pending":
            self.model.calls[number] = (agent, amount, "posted")
            self.model.balance[agent] -= amount
            self.model.responses.add(number)

    @rule(number=IDS)
    def void(self, number):
        agent, amount, state = self.model.calls.get(number, ("", 0, ""))
        voiding = self.ledger.void(self.id("call", number))
        if state not in {"pending", "voided"}:
            with pytest.raises(ReservationGoneError):
                self.run(voiding)
            return
        self.run(voiding)
        self.model.calls[number] = (agent, amount, "voided")

    @rule(number=IDS)
    def release(self, number):
        self.run(self.ledger.release(self.id("call", number)))
        if self.model.calls.get(number, ("", 0, ""))[2] == "pending":
            del self.model.calls[number]

    @rule(number=IDS)
    def deliver(self, number):
        _, _, state = self.model.calls.get(number, ("", 0, ""))
        if state != "posted":
            return

        async def mark_delivered() -> None:
            self.ledger.delivered(self.id("call", number))

        self.run(mark_delivered())
        self.model.responses.discard(number)

    @rule()
    def keep_house(self):
        self.run(self.ledger.sweep())
        assert self.run(self.ledger.recover()) == 0

    @rule()
    def sum_up(self):
        self.run(self.ledger.sum_up())

    @invariant()
    def sums_are_what_the_model_says(self):
        for agent in self.model.balance:
            sums = self.run(self.ledger.sums(self.account(agent), "call", 0, 2**40 * HOUR, HOUR))
            posted = [
                amount for whose, amount, state in self.model.calls.values() if (whose, state) == (agent, "posted")
            ]
            assert (sum(one.micros for one in sums), sum(one.transfers for one in sums)) == (sum(posted), len(posted))

    @invariant()
    def accounts_are_what_the_model_says(self):
        for agent, balance in self.model.balance.items():
            account = self.run(self.ledger.account(self.account(agent)))
            assert (account.balance_micros, account.available_micros) == (balance, self.model.available(agent))
            posted = [whose for whose, _, state in self.model.calls.values() if (whose, state) == (agent, "posted")]
            assert account.posted_count == len(posted)

    def teardown(self):
        report = self.run(self.ledger.verify())
        assert report.balanced, report.differences


def test_any_sequence_of_operations_leaves_what_a_plain_model_leaves(database_url):
    with asyncio.Runner() as runner:
        chosen = Settings(database_url=database_url)
        database = open_database(chosen)
        ledger = runner.run(open_ledger(chosen, database))
        try:
            run_state_machine_as_test(
                lambda: Machine(ledger, runner),
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    derandomize=True,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(ledger.close())
            runner.run(database.close())
