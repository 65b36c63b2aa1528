"""What clients of a ledger saw across its crashes, and what must then be true of it.

The journal is one JSON line an event, appended by a single write, so that what a client saw outlives whoever dies. The
same events describe calls to a whole server: `call` is `<agent id>:<nonce>`, `tried` is written before the request
leaves, the outcome when it has arrived, nothing when the connection broke.
"""

import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from tollhouse.payments.ledger.ledger import Ledger
from tollhouse.payments.ledger.types import Transfer

Outcome = Literal["tried", "answered", "refused", "returned", "reused"]


class Call(msgspec.Struct, frozen=True, tag=True):
    """One event of one signed call.

    `refused` means any answer that must cost nothing, for good; `returned` is one that gave the nonce back; `reused` is
    the 401.
    """

    call: str
    outcome: Outcome
    body: str = ""


class Money(msgspec.Struct, frozen=True, tag=True):
    """A deposit or a reversal: asked for, or acknowledged."""

    transfer: str
    micros: int
    is_done: bool


Event = Call | Money


class Journal:
    """Appends events; reads back what all of its writers wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, event: Event) -> None:
        os.write(self._file, msgspec.json.encode(event) + b"\n")

    def events(self) -> Iterator[Event]:
        for line in self._path.read_bytes().splitlines():
            yield msgspec.json.decode(line, type=Event)

    def close(self) -> None:
        os.close(self._file)


class Seen:
    """The journal summed up."""

    def __init__(self, journal: Journal) -> None:
        self.tried: set[str] = set()
        self.refused: set[str] = set()
        self.returned: set[str] = set()
        self.waiting: Counter[str] = Counter()
        self.reused: set[str] = set()
        self.bodies: dict[str, set[str]] = defaultdict(set)
        self.money: dict[str, Money] = {}
        for event in journal.events():
            if isinstance(event, Call):
                self._see(event)
            elif event.is_done or event.transfer not in self.money:
                self.money[event.transfer] = event

    def _see(self, event: Call) -> None:
        self.tried.add(event.call)
        self.returned.discard(event.call)
        self.waiting[event.call] += 1 if event.outcome == "tried" else -1
        if event.outcome == "answered":
            self.bodies[event.call].add(event.body)
        elif event.outcome == "refused":
            self.refused.add(event.call)
        elif event.outcome == "returned":
            self.returned.add(event.call)
        elif event.outcome == "reused":
            self.reused.add(event.call)

    def open(self) -> list[str]:
        """Calls without an answer: a client of theirs still waits, or was not refused for good.

        Two clients may send the same call, and one may write that its try was returned after the other was charged.
        """
        returned = {call for call in self.returned if not self.waiting[call]}
        return sorted(self.tried - self.refused - returned - set(self.bodies))


async def complaints(ledger: Ledger, seen: Seen, price_micros: int) -> list[str]:
    """What is wrong, in sentences; call it when the dead are recovered from and every open call was tried again."""
    report = await ledger.verify()
    calls = [transfer for transfer in await ledger.transfers("call", 0.0) if _call_of(transfer) in seen.tried]
    charged: dict[str, int] = defaultdict(int)
    for transfer in calls:
        charged[_call_of(transfer)] += transfer.state == "posted"
    return [
        *report.differences,
        *(f"{transfer.id} is still pending" for transfer in calls if transfer.state == "pending"),
        *(
            f"{transfer.id} cost {transfer.amount_micros}"
            for transfer in calls
            if not _is_priced(transfer, price_micros)
        ),
        *(f"{call} was charged {times} times" for call, times in charged.items() if times > 1),
        *(f"{call} was answered and not charged" for call in seen.bodies if not charged[call]),
        *(f"{call} got {len(bodies)} answers" for call, bodies in seen.bodies.items() if len(bodies) > 1),
        *(f"{call} was refused and charged" for call in seen.refused if charged[call]),
        *(f"{call} was charged and never answered" for call in charged if charged[call] and call not in seen.bodies),
        *[sentence async for sentence in _about_money(ledger, seen)],
    ]


async def _about_money(ledger: Ledger, seen: Seen) -> AsyncIterator[str]:
    for money in seen.money.values():
        found = await ledger.find(money.transfer)
        if money.is_done and found is None:
            yield f"{money.transfer} was acknowledged and is not there"
        if found and (found.amount_micros, found.state) != (money.micros, "settled"):
            yield f"{money.transfer} is {found.amount_micros} and {found.state}, not {money.micros} and settled"


def _is_priced(transfer: Transfer, price_micros: int) -> bool:
    return transfer.amount_micros == price_micros


def _call_of(transfer: Transfer) -> str:
    """`call:<agent id>:<nonce>`, whatever may follow."""
    return ":".join(transfer.id.split(":")[1:3])
