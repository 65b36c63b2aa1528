"""What can be asked of a ledger, and what a store tells back: the words of a batch."""

from msgspec import Struct

from tollhouse.payments.ledger.types import AccountState, Insufficient, Moved, Reserved, State, Transfer, Used
from tollhouse.payments.stored_response import StoredResponse


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
