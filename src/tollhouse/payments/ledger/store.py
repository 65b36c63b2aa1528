"""What both ledger stores share: the reads, the SQL, the audit, and how failures are reported."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from tollhouse import failpoints
from tollhouse.errors import Problem
from tollhouse.logs import logger
from tollhouse.payments.ledger.types import (
    AGENT_PREFIX,
    REVERSAL,
    AccountState,
    LedgerCommand,
    LedgerEntry,
    LedgerReport,
    PeriodSum,
    PostedResponse,
    Result,
    Spending,
    StoredResponse,
    Transfer,
)

log = logger("ledger")

SECONDS_PER_DAY = 86_400
MINUTE, HOUR = 60, 3_600
FOREVER = 1e12


def unavailable(error: BaseException) -> Problem:
    """The disk is full, locked or gone: a clear problem for the caller, and the cause in the log."""
    log.error("ledger unavailable", error=str(error).partition("\n")[0])
    return Problem("storage-unavailable", "The ledger is unavailable. Try again shortly.", retry_after_seconds=5)


def reach_failpoints(commands: Sequence[LedgerCommand], moment: str) -> None:
    """The failpoints `ledger.<command>.before-commit` and `.after-commit`, where no caller knows the outcome yet."""
    for name in sorted({type(command).__name__.lower() for command in commands}):
        failpoints.reach(f"ledger.{name}.{moment}")


class Store(ABC):
    """Storage of a ledger. `owner` identifies this process among those that share it.

    Every method raises Problem `storage-unavailable` when the database cannot be reached or written.
    """

    owner: int
    period = "CAST(t.at / {width} AS BIGINT)"
    """The number of the period of `width` seconds that holds a transfer's time, in the database's dialect."""
    summed_at_once = 1_000
    """How many transfers one call of `sum_up` adds to the sums."""
    among = "t.seq IN ({numbers})"
    """Transfers by their numbers, so written that the database looks them up instead of testing all."""
    side_from = "t.{side} = $1 AND t.seq >= {number}"
    """Transfers with the account $1 on a side, from a number on, so written that the index of both columns is used."""

    @abstractmethod
    async def apply(self, commands: Sequence[LedgerCommand]) -> list[Result]:
        """Commit one transaction. After an unknown outcome it may be called again: see rules."""

    @abstractmethod
    async def alive(self, owners: Iterable[int]) -> set[int]:
        """The owners whose process is alive."""

    @abstractmethod
    async def audit(self) -> LedgerReport:
        """Derive every balance again from the transfers in one consistent read, and check the rules: see `report`."""

    @abstractmethod
    async def check_writable(self) -> None:
        """Commit a write that leaves nothing behind, where the ledger has a file of its own that may be full."""

    @abstractmethod
    async def sum_up(self) -> bool:
        """Add the next final transfers to the sums; whether there may be more. Without it `sums` reads more transfers.

        A transfer is final where it and all before it are resolved: its row never changes, and none is added before it.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close every connection, and release the process lease."""

    @abstractmethod
    async def _read(self, query: str, *values: object) -> Sequence[Sequence[Any]]:
        """The rows of a query with the placeholders $1, $2 and so on."""

    async def account(self, name: str) -> AccountState:
        """The state of an account; all zeros if it was never used."""
        rows = await self._read(f"{ACCOUNT} WHERE name = $1", name)
        return AccountState(*rows[0]) if rows else AccountState(name)

    async def reversed_micros(self, name: str) -> int:
        """What was taken back from an account, whose deposits a chain reorganization removed."""
        return int((await self._read(_REVERSED, name))[0][0])

    async def find(self, transfer_id: str) -> Transfer | None:
        """The transfer with that id."""
        transfers = await self._transfers("WHERE t.id = $1", transfer_id)
        return transfers[0] if transfers else None

    async def transfers(self, kind: str, since: float) -> list[Transfer]:
        """The transfers of a kind made at or after `since`, oldest first."""
        return await self._transfers("WHERE t.kind = $1 AND t.at >= $2 ORDER BY t.seq", kind, since)

    async def kinds(self) -> list[str]:
        """Every kind of transfer there is."""
        return [row[0] for row in await self._read(_KINDS)]

    async def between(self, kind: str, since: float, until: float) -> list[Transfer]:
        """The transfers of a kind made in that time, oldest first."""
        return await self._transfers(
            "WHERE t.kind = $1 AND t.at >= $2 AND t.at < $3 ORDER BY t.seq", kind, since, until
        )

    async def sums(self, account: str, kind: str, since: int, until: int, width: int) -> list[PeriodSum]:
        """What a kind moved into and out of an account, by period of `width` seconds, oldest first.

        Reads the sums, and the transfers that are not in them yet. The times and the width are multiples of a minute,
        for an agent of an hour, else ValueError is raised.
        """
        steps = (HOUR,) if account.startswith(AGENT_PREFIX) else (HOUR, MINUTE)
        step = next((each for each in steps if not (since % each or until % each or width % each)), None)
        if step is None:
            raise ValueError(f"the sums of {account} are of {steps[-1]} seconds")
        paid, got = (self.side_from.format(side=side, number=_FIRST_NEW) for side in ("debit", "credit"))
        query = self._by_number(_SUMS.format(period=self.period.format(width="$5"), paid=paid, got=got))
        rows = await self._read(query, account, kind, since, until, float(width), step)
        return [PeriodSum(row[0] * width, row[2], row[3], bool(row[1])) for row in rows]

    async def recent(self, limit: int, account: str | None = None) -> list[Transfer]:
        """The newest transfers, of one account or of all, newest first."""
        if account is None:
            return await self._transfers("ORDER BY t.seq DESC LIMIT $1", limit)
        newest = self.among.format(numbers=_NEWEST_OF_ACCOUNT)
        return await self._transfers(f"WHERE {newest} ORDER BY t.seq DESC LIMIT $2", account, limit)

    async def spending(self, account: str, kind: str, since: float) -> list[Spending]:
        """What an account paid by transfers of a kind that were made at or after `since`, by day and memo."""
        paid = self.side_from.format(side="debit", number=_FIRST_IN_TIME)
        query = self._by_number(_SPENDING.format(period=self.period.format(width="$5"), paid=paid))
        rows = await self._read(query, account, kind, since, FOREVER, SECONDS_PER_DAY)
        return [
            Spending(day, msgspec.json.decode(memo) if memo else None, count, amount)
            for day, memo, count, amount in rows
        ]

    async def pending(self) -> list[LedgerEntry]:
        """Every open reservation of any process."""
        chosen = self.among.format(numbers="SELECT seq FROM open_reservation")
        return [entry_from_row(row) for row in await self._read(self._by_number(f"{ENTRY} WHERE {chosen}"))]

    async def _transfers(self, where: str, *values: object) -> list[Transfer]:
        query = self._by_number(f"{ENTRY} {where}")
        return [entry_from_row(row).transfer for row in await self._read(query, *values)]

    def _by_number(self, query: str) -> str:
        """The query, so written that the rows beside each transfer are found by its number."""
        return query


# A transfer's row, as `entry_from_row` decodes it.
ENTRY = """SELECT t.seq, t.id, t.debit, t.credit, coalesce(r.amount, t.amount), t.kind, t.memo, t.at, t.owner, t.number,
    CASE WHEN NOT t.is_reservation THEN 'settled' ELSE coalesce(r.state, 'pending') END, o.fingerprint
    FROM transfer t LEFT JOIN resolution r ON r.seq = t.seq LEFT JOIN open_reservation o ON o.seq = t.seq"""
ACCOUNT = "SELECT name, balance, reserved, total_in, total_out, posted_count, last_at FROM account"
RESPONSE = "SELECT k.seq, k.head, b.body, k.fingerprint, k.at FROM kept k JOIN kept_body b ON b.hash = k.hash"
NEXT_SEQ = "SELECT coalesce(max(seq), 0) + 1 FROM transfer"
_NEWEST_OF_ACCOUNT = """SELECT seq FROM (SELECT seq FROM transfer WHERE debit = $1 ORDER BY seq DESC LIMIT $2) AS paid
    UNION SELECT seq FROM (SELECT seq FROM transfer WHERE credit = $1 ORDER BY seq DESC LIMIT $2) AS got"""

_KINDS = """WITH RECURSIVE known(kind) AS (SELECT min(kind) FROM transfer UNION ALL
    SELECT (SELECT min(kind) FROM transfer WHERE kind > known.kind) FROM known WHERE known.kind IS NOT NULL)
    SELECT kind FROM known WHERE kind IS NOT NULL"""
_SUM = "CAST(sum(coalesce(r.amount, t.amount)) AS BIGINT)"
SUMS_END = "SELECT coalesce(max(seq), 0) FROM period_sum_end"
# Both sides of the transfers that moved money, of those of a condition.
_SIDES = """SELECT t.debit AS account, FALSE AS is_credit, t.kind, t.at, coalesce(r.amount, t.amount) AS amount
    FROM transfer t LEFT JOIN resolution r ON r.seq = t.seq
    WHERE {of_debit} AND (NOT t.is_reservation OR r.state = 'posted')
    UNION ALL SELECT t.credit, TRUE, t.kind, t.at, coalesce(r.amount, t.amount)
    FROM transfer t LEFT JOIN resolution r ON r.seq = t.seq
    WHERE {of_credit} AND (NOT t.is_reservation OR r.state = 'posted')"""
_FIRST_NEW = f"({SUMS_END}) + 1"
# So written that no index of kind and time is used: new transfers are found by number.
_IN_TIME = "t.kind || '' = $2 AND t.at + 0 >= $3 AND t.at + 0 < $4"
_SUMS = f"""SELECT {{period}}, t.is_credit, CAST(sum(t.amount) AS BIGINT), CAST(sum(t.transfers) AS BIGINT)
    FROM (SELECT at, is_credit, amount, transfers FROM period_sum
        WHERE account = $1 AND kind = $2 AND at >= $3 AND at < $4 AND width = $6
        UNION ALL SELECT at, is_credit, amount, 1
        FROM ({_SIDES.format(of_debit=f"{{paid}} AND {_IN_TIME}", of_credit=f"{{got}} AND {_IN_TIME}")}) AS new) AS t
    GROUP BY 1, 2 ORDER BY 1, 2"""  # noqa: S608 - constants
# Summing up: the last of the next transfers, their sums, and how far the sums go.
NEXT_END = "SELECT max(seq) FROM (SELECT seq FROM transfer WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3) AS next"
# Agents are many, and have sums of hours alone.
_HAS_MINUTES = f"t.account NOT LIKE '{AGENT_PREFIX}%'"
_NEXT = "t.seq > $1 AND t.seq <= $2"
_ADD_SUMS = f"""INSERT INTO period_sum (account, kind, width, at, is_credit, amount, transfers)
    SELECT t.account, t.kind, step.width, {{period}} * step.width, t.is_credit, sum(t.amount), count(*)
    FROM ({_SIDES.format(of_debit=_NEXT, of_credit=_NEXT)}) AS t
    CROSS JOIN (SELECT {MINUTE} AS width UNION ALL SELECT {HOUR}) AS step
    WHERE step.width = {HOUR} OR {_HAS_MINUTES}
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (account, kind, width, at, is_credit) DO UPDATE SET amount = period_sum.amount + excluded.amount,
        transfers = period_sum.transfers + excluded.transfers"""  # noqa: S608 - constants
SET_SUMS_END = "INSERT INTO period_sum_end VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET seq = excluded.seq"

# Found by account: by kind, those of all accounts would be read. Transfers are numbered as they are made, by whatever
# process: those of a time have no smaller number than the first of the hour before.
_FIRST_IN_TIME = "(SELECT seq FROM transfer WHERE kind = $2 AND at >= $3 - 3600.0 ORDER BY at LIMIT 1)"
_SPENDING = f"""SELECT {{period}}, t.memo, count(*), {_SUM} FROM transfer t LEFT JOIN resolution r ON r.seq = t.seq
    WHERE {{paid}} AND t.kind || '' = $2 AND t.at >= $3 AND t.at < $4 AND (NOT t.is_reservation OR r.state = 'posted')
    GROUP BY 1, 2 ORDER BY 1"""  # noqa: S608 - constants
# The index is of rows with this very condition.
_REVERSED = f"""SELECT CAST(coalesce(sum(amount), 0) AS BIGINT) FROM transfer
    WHERE kind = '{REVERSAL}' AND debit = $1"""  # noqa: S608 - a constant

# The state of every account derived from the transfers; the last column is the sum of its reversals.
DERIVED = """SELECT name,
    CAST(sum(CASE WHEN counts THEN signed ELSE 0 END) AS BIGINT),
    CAST(sum(CASE WHEN is_pending THEN held ELSE 0 END) AS BIGINT),
    CAST(sum(CASE WHEN counts AND signed > 0 THEN signed ELSE 0 END) AS BIGINT),
    CAST(sum(CASE WHEN counts AND signed < 0 THEN -signed ELSE 0 END) AS BIGINT),
    count(posted_at),
    max(posted_at),
    CAST(sum(CASE WHEN kind = 'reversal' AND signed < 0 THEN -signed ELSE 0 END) AS BIGINT)
    FROM (SELECT t.debit AS name, -coalesce(r.amount, t.amount) AS signed, t.amount AS held, t.kind,
            NOT t.is_reservation OR r.state = 'posted' AS counts,
            t.is_reservation AND r.seq IS NULL AS is_pending,
            CASE WHEN t.is_reservation AND r.state = 'posted' THEN r.at END AS posted_at
        FROM transfer t LEFT JOIN resolution r ON r.seq = t.seq
        UNION ALL
        SELECT t.credit, coalesce(r.amount, t.amount), 0, t.kind,
            NOT t.is_reservation OR r.state = 'posted',
            t.is_reservation AND r.seq IS NULL,
            CASE WHEN t.is_reservation AND r.state = 'posted' THEN r.at END
        FROM transfer t LEFT JOIN resolution r ON r.seq = t.seq) AS side
    GROUP BY name"""
COUNTS = """SELECT (SELECT count(*) FROM account), (SELECT count(*) FROM transfer),
    (SELECT count(*) FROM open_reservation)"""

# Queries for rows that break a rule, by a description of the violation.
RULES: dict[str, str] = {
    "is resolved and there is no such reservation": """SELECT r.seq FROM resolution r
        LEFT JOIN transfer t ON t.seq = r.seq WHERE t.seq IS NULL OR NOT t.is_reservation""",
    "is resolved more than once": "SELECT seq FROM resolution GROUP BY seq HAVING count(*) > 1",
    "is resolved as neither posted nor voided": "SELECT seq FROM resolution WHERE state NOT IN ('posted', 'voided')",
    "was charged for more than was reserved, or for nothing": """SELECT t.id FROM resolution r
        JOIN transfer t ON t.seq = r.seq
        WHERE r.amount <= 0 OR r.amount > t.amount OR r.amount IS NOT NULL AND r.state <> 'posted'""",
    "is pending and not listed as open": """SELECT t.id FROM transfer t LEFT JOIN resolution r ON r.seq = t.seq
        LEFT JOIN open_reservation o ON o.seq = t.seq
        WHERE t.is_reservation AND r.seq IS NULL AND o.seq IS NULL""",
    "is listed as open and not pending": """SELECT o.seq FROM open_reservation o LEFT JOIN transfer t ON t.seq = o.seq
        LEFT JOIN resolution r ON r.seq = o.seq
        WHERE t.seq IS NULL OR r.seq IS NOT NULL OR NOT t.is_reservation""",
    "stands in the ledger more than once": "SELECT id FROM transfer GROUP BY id HAVING count(*) > 1",
    "moves less than nothing, or nothing at all": """SELECT t.id FROM transfer t
        LEFT JOIN resolution r ON r.seq = t.seq
        WHERE t.amount < 0 OR t.amount = 0 AND (NOT t.is_reservation OR coalesce(r.state, '') <> 'voided')""",
    "moves money from an account to itself": "SELECT id FROM transfer WHERE debit = credit",
    "has a stored response and was not posted": """SELECT k.seq FROM kept k LEFT JOIN resolution r ON r.seq = k.seq
        WHERE coalesce(r.state, '') <> 'posted'""",
}
# Sums that differ. Hours of accounts that have minutes are compared with these, everything else with the transfers.
_SUMMED = f"t.seq <= ({SUMS_END})"
_OFF_SUMS = f"""SELECT account, kind, width, at, is_credit, CAST(sum(amount) AS BIGINT), CAST(sum(transfers) AS BIGINT)
    FROM (SELECT t.account, t.kind, CASE WHEN {_HAS_MINUTES} THEN {MINUTE} ELSE {HOUR} END AS width,
            CASE WHEN {_HAS_MINUTES} THEN {{minute}} * {MINUTE} ELSE {{hour}} * {HOUR} END AS at,
            t.is_credit, -t.amount AS amount, -1 AS transfers
        FROM ({_SIDES.format(of_debit=_SUMMED, of_credit=_SUMMED)}) AS t
        UNION ALL SELECT t.account, t.kind, {HOUR}, {{hour}} * {HOUR}, t.is_credit, -t.amount, -t.transfers
        FROM period_sum AS t WHERE t.width = {MINUTE}
        UNION ALL SELECT account, kind, width, at, is_credit, amount, transfers FROM period_sum) AS each
    GROUP BY 1, 2, 3, 4, 5 HAVING sum(amount) <> 0 OR sum(transfers) <> 0"""  # noqa: S608


def add_sums(period: str) -> str:
    """The statement that adds the transfers after $1 until $2 to the sums; `period` is that of the store."""
    return _ADD_SUMS.format(period=period.format(width="step.width"))


def audit_queries(period: str) -> dict[str, str]:
    """The queries whose results `report` wants, by name; `period` is that of the store."""
    sums = _OFF_SUMS.format(minute=period.format(width=MINUTE), hour=period.format(width=HOUR))
    return {"accounts": ACCOUNT, "derived": DERIVED, "counts": COUNTS, "sums": sums, **RULES}


def entry_from_row(row: Sequence[Any]) -> LedgerEntry:
    """Decode a row of ENTRY."""
    seq, transfer_id, debit, credit, amount, kind, memo, at, owner, number, state, fingerprint = row
    decoded_memo = msgspec.json.decode(memo) if memo else None
    transfer = Transfer(transfer_id, debit, credit, amount, kind, decoded_memo, at, state)
    return LedgerEntry(seq, transfer, owner, number, fingerprint or b"")


def entry_row(entry: LedgerEntry) -> tuple[Any, ...]:
    """The columns of `transfer`, in order."""
    made = entry.transfer
    memo = None if made.memo is None else msgspec.json.encode(made.memo).decode()
    sides = (entry.seq, made.id, made.debit, made.credit, made.amount_micros, made.kind)
    return (*sides, memo, made.at, made.state != "settled", entry.owner, entry.number)


def account_row(account: AccountState) -> tuple[Any, ...]:
    """The columns of `account`, in the order of ACCOUNT."""
    return tuple(getattr(account, field) for field in AccountState.__struct_fields__)


def response_rows(responses: Mapping[int, PostedResponse]) -> tuple[list[tuple[Any, ...]], dict[bytes, bytes]]:
    """The rows of `kept`, and the bodies by their hash: equal bodies are stored once."""
    # Many calls of a batch got the very same body.
    digests = {body: sha256(body).digest() for body in {item.response.body for item in responses.values()}}
    rows = []
    for seq, item in responses.items():
        head = msgspec.msgpack.encode(msgspec.structs.replace(item.response, body=b""))
        rows.append((seq, item.fingerprint, item.at, head, digests[item.response.body]))
    return rows, {digest: body for body, digest in digests.items()}


def response_from_row(row: Sequence[Any]) -> tuple[int, PostedResponse]:
    """Decode a row of RESPONSE: the seq and the response."""
    seq, head, body, fingerprint, at = row
    response = msgspec.structs.replace(msgspec.msgpack.decode(head, type=StoredResponse), body=bytes(body))
    return seq, PostedResponse(response, fingerprint, at)


MAX_DIFFERENCES = 100
"""A broken ledger may be broken in a million places: so many are listed."""

Accounts = Mapping[str, AccountState]


def report(results: Mapping[str, Sequence[Sequence[Any]]]) -> LedgerReport:
    """Build the report from the results of `audit_queries`, all from one moment of the database."""
    broken_rules = dict(results)
    stored = {row[0]: AccountState(*row) for row in broken_rules.pop("accounts")}
    derived_rows = broken_rules.pop("derived")
    derived = {row[0]: AccountState(*row[:-1]) for row in derived_rows}
    ((accounts, transfers, pending),) = broken_rules.pop("counts")
    off_sums = broken_rules.pop("sums")
    total = sum(account.balance_micros for account in stored.values())
    differences = [
        *_differences(stored, derived),
        # Debits equal credits, so the sum of all balances must be 0.
        *([f"the balances add up to {total} micro-USD, not to 0"] if total else []),
        *_unexplained_debts(stored, {row[0]: row[-1] for row in derived_rows}),
        *(
            f"the sum of {kind} {'into' if is_credit else 'out of'} {account} in {width} seconds from {at:.0f} has "
            f"{micros} micro-USD and {count} transfers too many"
            for account, kind, width, at, is_credit, micros, count in sorted(map(tuple, off_sums))
        ),
        *(f"transfer {row[0]} {rule}" for rule, rows in broken_rules.items() for row in rows),
    ]
    return LedgerReport(not differences, accounts, transfers, pending, differences[:MAX_DIFFERENCES])


def _differences(stored: Accounts, derived: Accounts) -> list[str]:
    differences = []
    for name in sorted(stored.keys() | derived.keys()):
        has, should = stored.get(name, AccountState(name)), derived.get(name, AccountState(name))
        differences += [
            f"{name}: {field} is {getattr(has, field)}, its transfers give {getattr(should, field)}"
            for field in AccountState.__struct_fields__
            if getattr(has, field) != getattr(should, field)
        ]
    return differences


def _unexplained_debts(stored: Accounts, reversed_micros: Mapping[str, int]) -> list[str]:
    """Agents whose debt is larger than their reversals."""
    return [
        f"{name}: {account.available_micros} micro-USD available, which its reversals do not explain"
        for name, account in sorted(stored.items())
        if name.startswith(AGENT_PREFIX) and account.available_micros + reversed_micros.get(name, 0) < 0
    ]
