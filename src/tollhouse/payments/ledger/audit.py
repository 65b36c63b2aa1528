"""What an audit says of a ledger: the stored balances against those its transfers give, and every rule of the book."""

from collections.abc import Mapping, Sequence
from typing import Any

from tollhouse.payments.ledger.types import AGENT_PREFIX, AccountState, LedgerReport

LONGEST_LIST = 100
"""A broken ledger may be broken in a million places: so many are told."""

Rows = Sequence[Sequence[Any]]
Accounts = Mapping[str, AccountState]


def report(answers: Mapping[str, Rows]) -> LedgerReport:
    """The verdict, from what one moment of the database answered to the questions of `store.AUDIT`."""
    told = dict(answers)
    stored = {row[0]: AccountState(*row) for row in told.pop("accounts")}
    derived_rows = told.pop("derived")
    derived = {row[0]: AccountState(*row[:-1]) for row in derived_rows}
    ((accounts, transfers, pending),) = told.pop("counts")
    differences = [
        *_unlike(stored, derived),
        *_out_of_balance(stored),
        *_overdrawn(stored, {row[0]: row[-1] for row in derived_rows}),
        *(f"transfer {row[0]} {rule}" for rule, rows in told.items() for row in rows),
    ]
    return LedgerReport(not differences, accounts, transfers, pending, differences[:LONGEST_LIST])


def _unlike(stored: Accounts, derived: Accounts) -> list[str]:
    found = []
    for name in sorted(stored.keys() | derived.keys()):
        has, should = stored.get(name, AccountState(name)), derived.get(name, AccountState(name))
        found += [
            f"{name}: {field} is {getattr(has, field)}, its transfers give {getattr(should, field)}"
            for field in AccountState.__struct_fields__
            if getattr(has, field) != getattr(should, field)
        ]
    return found


def _out_of_balance(stored: Accounts) -> list[str]:
    """What is taken from one account is given to another: all of them together are nothing."""
    total = sum(account.balance_micros for account in stored.values())
    return [f"the balances add up to {total} micro-USD, not to 0"] if total else []


def _overdrawn(stored: Accounts, reversed_micros: Mapping[str, int]) -> list[str]:
    """Agents that owe more than reversals took from them."""
    return [
        f"{name}: {account.available_micros} micro-USD are left, which its reversals do not explain"
        for name, account in sorted(stored.items())
        if name.startswith(AGENT_PREFIX) and account.available_micros + reversed_micros.get(name, 0) < 0
    ]
