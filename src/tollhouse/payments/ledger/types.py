"""Types of the ledger: transfers, accounts, stored responses, commands, results, and what a batch reads and changes."""

from typing import Any, Literal

from msgspec import Struct

TREASURY = "treasury"
REVENUE = "revenue"
REVERSALS = "reversals"
REVERSAL = "reversal"
"""The only kind of transfer that may take an agent's balance below zero."""

AGENT_PREFIX = "agent:"

State = Literal["settled", "pending", "posted", "voided"]


def agent_account(agent_id: str) -> str:
    """The name of an agent's account."""
    return f"{AGENT_PREFIX}{agent_id}"


RESPONSE_TTL_SECONDS = 600.0
"""How long the same signed request gets the same response again (wire contract, section 3, Agents)."""


class StoredResponse(Struct, frozen=True):
    """A response to be sent again, byte for byte, if the first sending failed.

    One that `reopens` has no body: it was passed on while it arrived, so the same request is passed on again.
    """

    status: int
    media_type: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    etag: str = ""
    cache_control: str = ""
    passes_through: bool = False
    reopens: bool = False


class Transfer(Struct, frozen=True):
    """Money moved from `debit` to `credit`, immutable. `id` is the caller's choice and can be taken once.

    The ledger sets `at` (seconds since 1970) and `state`: a move is settled; a reservation is pending until it is
    posted or voided. Once it is posted, `amount_micros` is what was charged. An agent's account is `agent:<agent_id>`;
    `memo` is a small JSON object.
    """

    id: str
    debit: str
    credit: str
    amount_micros: int
    kind: str
    memo: dict[str, Any] | None = None
    at: float = 0.0
    state: State = "settled"

    @property
    def facts(self) -> dict[str, Any]:
        """What the memo says; nothing without one."""
        return self.memo or {}


class PeriodSum(Struct, frozen=True):
    """What transfers of a kind, settled or posted, moved into or out of an account in the period that begins at `at`.

    `is_credit` is false for what left the account.
    """

    at: int
    micros: int
    transfers: int
    is_credit: bool = True


class Spending(Struct, frozen=True):
    """What an account paid on the UTC day `day` (days since 1970) by transfers with the same memo."""

    day: int
    memo: dict[str, Any] | None
    count: int
    amount_micros: int


class Moved(Struct, frozen=True):
    """The transfer as it is in the ledger; `is_new` unless it was there before, with the same content."""

    is_new: bool
    transfer: Transfer


class Reserved(Struct, frozen=True):
    """The price is reserved, and the id is taken."""

    id: str


class Insufficient(Struct, frozen=True):
    """Nothing is reserved and nothing is stored. `balance_micros` is what the account can still spend."""

    balance_micros: int


class Used(Struct, frozen=True):
    """The id was taken before. `response` is what it paid for, if this same request may have it again."""

    state: Literal["pending", "posted", "voided"]
    response: StoredResponse | None = None


class AccountState(Struct, frozen=True):
    """The state of an account in micro-USD; all zeros if it was never used.

    `balance` is settled money, `reserved` the sum of open reservations, `available` the difference. `posted_count`
    counts the account's posted reservations; `last_at` is when the last one was posted.
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
        """What the account can still spend."""
        return self.balance_micros - self.reserved_micros


class LedgerReport(Struct, frozen=True):
    """The result of an audit: all balances derived again from the transfers, and all rules checked.

    `accounts`, `transfers` and `pending` are counts; each of `differences` is one sentence.
    """

    balanced: bool
    accounts: int
    transfers: int
    pending: int
    differences: list[str]


class IdTakenError(Exception):
    """Another transfer, `transfer`, has this id."""

    def __init__(self, transfer: Transfer) -> None:
        super().__init__(f"another transfer has the id {transfer.id}")
        self.transfer = transfer


class OverdrawnError(Exception):
    """The move would take an agent's balance below zero; `balance_micros` is what it could still spend."""

    def __init__(self, account: str, balance_micros: int) -> None:
        super().__init__(f"{account} has {balance_micros} micro-USD")
        self.balance_micros = balance_micros


class ReservationGoneError(Exception):
    """The reservation cannot be posted: it was voided, or never made. Nothing was charged."""


class Move(Struct, frozen=True):
    """Settle at once. `owner` and `number` identify this command among others with the same content."""

    transfer: Transfer
    owner: int
    number: int


class Reserve(Struct, frozen=True):
    """Take the id and reserve the money."""

    transfer: Transfer
    fingerprint: bytes
    owner: int
    number: int


class Post(Struct, frozen=True):
    """Charge a reservation, and store its response; with an origin (owner, number) only if that command made it.

    `amount_micros` is what to charge, at most what was reserved; all of it without.
    """

    id: str
    response: StoredResponse | None
    origin: tuple[int, int] | None = None
    amount_micros: int | None = None


class Void(Struct, frozen=True):
    """Give the money of a reservation back; its id stays taken."""

    id: str


class Release(Struct, frozen=True):
    """Delete a reservation: its id is free again. With an origin (owner, number) only if that command made it."""

    id: str
    origin: tuple[int, int] | None = None


class Delivered(Struct, frozen=True):
    """Delete the response of a posted reservation."""

    id: str


class Sweep(Struct, frozen=True):
    """Delete every response stored before that time, and the bodies without references."""

    before: float


LedgerCommand = Move | Reserve | Post | Void | Release | Delivered | Sweep


class IdTaken(Struct, frozen=True):
    """Refused: the id belongs to a transfer with another content."""

    transfer: Transfer


class Overdrawn(Struct, frozen=True):
    """Refused: an agent's account has too little."""

    account: str
    balance_micros: int


class Done(Struct, frozen=True):
    """It is done, by this command or an earlier one."""


class Gone(Struct, frozen=True):
    """Refused: the reservation is in that state, or does not exist."""

    state: State | None


Result = Moved | Reserved | Insufficient | Used | IdTaken | Overdrawn | Done | Gone


class LedgerEntry(Struct, frozen=True):
    """A transfer with its position, and the command and process that made it.

    `fingerprint` is set while a reservation is pending.
    """

    seq: int
    transfer: Transfer
    owner: int
    number: int
    fingerprint: bytes = b""


class PostedResponse(Struct, frozen=True):
    """A response stored with a posted reservation since `at`, for requests with that fingerprint."""

    response: StoredResponse
    fingerprint: bytes
    at: float


class BatchState(Struct, frozen=True):
    """What a batch reads: the transfers and accounts it names, and the stored responses by `seq`."""

    entries: dict[str, LedgerEntry]
    accounts: dict[str, AccountState]
    responses: dict[int, PostedResponse]
    next_seq: int


class BatchChanges(Struct, frozen=True):
    """What a batch changes: one result per command, and the rows.

    `resolved` are (seq, state, at, amount) of reservations that were open before or are added here; the amount is set
    where less was charged than was reserved. `opened` are the added ones that stay pending; `closed`, `deleted` and
    `forgotten` are seqs.
    """

    results: list[Result]
    added: list[LedgerEntry]
    resolved: list[tuple[int, State, float, int | None]]
    opened: list[LedgerEntry]
    closed: list[int]
    deleted: list[int]
    responses: dict[int, PostedResponse]
    forgotten: list[int]
    accounts: list[AccountState]
    forget_before: float | None
