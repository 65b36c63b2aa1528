"""Types of the ledger: transfers, accounts, commands, results, and the state that a batch reads and changes."""

from typing import Any, Literal

from msgspec import Struct

from tollhouse.payments.stored_response import StoredResponse

TREASURY = "treasury"
REVENUE = "revenue"
REVERSALS = "reversals"
REVERSAL = "reversal"
"""The one kind of transfer that may take an agent's account below zero."""

AGENT_PREFIX = "agent:"

State = Literal["settled", "pending", "posted", "voided"]


def agent_account(agent_id: str) -> str:
    """The name of an agent's account."""
    return f"{AGENT_PREFIX}{agent_id}"


class Transfer(Struct, frozen=True):
    """Money from `debit` to `credit`, for ever. `id` is the caller's choice and is taken once.

    The ledger fills in `at` (seconds since 1970) and `state`: a move is settled; a reservation is pending until it is
    posted or voided. An agent's account is `agent:<agent_id>`; `memo` is a small JSON object.
    """

    id: str
    debit: str
    credit: str
    amount_micros: int
    kind: str
    memo: dict[str, Any] | None = None
    at: float = 0.0
    state: State = "settled"


class Moved(Struct, frozen=True):
    """The transfer as it stands in the ledger; `is_new` unless it stood there before, with the same content."""

    is_new: bool
    transfer: Transfer


class Reserved(Struct, frozen=True):
    """The price is set aside, and the id is taken."""

    id: str


class Insufficient(Struct, frozen=True):
    """Nothing is set aside, but the id is taken. `balance_micros` is what the account could still spend."""

    balance_micros: int


class Used(Struct, frozen=True):
    """The id was taken before. `kept` is the answer it paid for, where this same request may have it again."""

    state: Literal["pending", "posted", "voided"]
    kept: StoredResponse | None = None


class AccountState(Struct, frozen=True):
    """How an account stands, in micro-USD. An account nobody has touched is all zeros.

    `balance` is settled money, `reserved` what open reservations will take from it, `available` the difference.
    `posted_count` counts the posted reservations it was a side of; `last_at` is when the last one was posted.
    """

    name: str
    balance_micros: int = 0
    reserved_micros: int = 0
    total_in_micros: int = 0
    total_out_micros: int = 0
    posted_count: int = 0
    last_at: float | None = None

    @property
    def available_micros(self) -> int:
        """What it can still spend, reservations already taken off."""
        return self.balance_micros - self.reserved_micros


class LedgerReport(Struct, frozen=True):
    """What an audit found: every balance derived again from the transfers, every rule of the book checked.

    `accounts`, `transfers` and `pending` are counts; each of `differences` is one sentence about what is off.
    """

    balanced: bool
    accounts: int
    transfers: int
    pending: int
    differences: list[str]


class IdTakenError(Exception):
    """A transfer with this id and another content stands in the ledger: `transfer`."""

    def __init__(self, transfer: Transfer) -> None:
        super().__init__(f"the ledger has another transfer {transfer.id}")
        self.transfer = transfer


class OverdrawnError(Exception):
    """The move would have taken an agent's account below zero; `balance_micros` is what it could still spend."""

    def __init__(self, account: str, balance_micros: int) -> None:
        super().__init__(f"{account} has {balance_micros} micro-USD")
        self.balance_micros = balance_micros


class ReservationGoneError(Exception):
    """The reservation cannot be posted: it was voided meanwhile, or never was. Nothing was charged."""


class Move(Struct, frozen=True):
    """Settle at once. `owner` and `number` tell this very operation from another with the same content."""

    transfer: Transfer
    owner: int
    number: int


class Reserve(Struct, frozen=True):
    """Take the id and set the money aside."""

    transfer: Transfer
    fingerprint: bytes
    owner: int
    number: int


class Post(Struct, frozen=True):
    """Charge a reservation, and keep what it paid for."""

    id: str
    kept: StoredResponse | None


class Void(Struct, frozen=True):
    """Give a reservation back; with an origin (owner, number) only if it was made by that very operation."""

    id: str
    origin: tuple[int, int] | None = None


class Delivered(Struct, frozen=True):
    """Forget the answer that was kept with a posted reservation."""

    id: str


class Sweep(Struct, frozen=True):
    """Forget every answer kept before that moment, and the bodies nothing refers to."""

    before: float


Operation = Move | Reserve | Post | Void | Delivered | Sweep

# The names of the failpoints, and of nothing else.
NAMES: dict[type[Operation], str] = {
    Move: "move",
    Reserve: "reserve",
    Post: "post",
    Void: "void",
    Delivered: "delivered",
    Sweep: "sweep",
}


class Taken(Struct, frozen=True):
    """Refused: the id belongs to a transfer with another content."""

    transfer: Transfer


class Overdrawn(Struct, frozen=True):
    """Refused: an agent's account has too little."""

    account: str
    balance_micros: int


class Done(Struct, frozen=True):
    """It is so, whether this operation made it so or an earlier one."""


class Gone(Struct, frozen=True):
    """Refused: the reservation is in that state, or there is none."""

    state: State | None


Result = Moved | Reserved | Insufficient | Used | Taken | Overdrawn | Done | Gone


class Entry(Struct, frozen=True):
    """A transfer with what only the ledger knows: its place, which operation of which process made it.

    `fingerprint` is there while a reservation is pending.
    """

    seq: int
    transfer: Transfer
    owner: int
    number: int
    fingerprint: bytes = b""


class Kept(Struct, frozen=True):
    """An answer kept with a posted reservation, since `at`, for requests with that fingerprint."""

    answer: StoredResponse
    fingerprint: bytes
    at: float


class Known(Struct, frozen=True):
    """What a batch has to know: the transfers and accounts it names, the kept answers it asks for by `seq`."""

    entries: dict[str, Entry]
    accounts: dict[str, AccountState]
    kept: dict[int, Kept]
    next_seq: int


class Changes(Struct, frozen=True):
    """What a batch did: one result per operation, and the rows that make it so.

    `resolved` are (seq, state, at) of reservations that were open before or are added here; `opened` the added ones
    that stay pending; `closed` and `forgotten` are seqs.
    """

    results: list[Result]
    added: list[Entry]
    resolved: list[tuple[int, State, float]]
    opened: list[Entry]
    closed: list[int]
    kept: dict[int, Kept]
    forgotten: list[int]
    accounts: list[AccountState]
    forget_before: float | None
