"""The rule of the book: what a batch of operations does to what is known. Pure; both stores obey it."""

from collections.abc import Sequence

from msgspec.structs import replace

from tollhouse.payments.ledger.types import (
    AGENT_PREFIX,
    REVERSAL,
    AccountState,
    Changes,
    Delivered,
    Done,
    Entry,
    Gone,
    Insufficient,
    Kept,
    Known,
    Move,
    Moved,
    Operation,
    Overdrawn,
    Post,
    Reserve,
    Reserved,
    Result,
    State,
    Sweep,
    Taken,
    Transfer,
    Used,
    Void,
)
from tollhouse.payments.stored_response import KEPT_SECONDS, StoredResponse


def apply(operations: Sequence[Operation], known: Known, now: float) -> Changes:
    """Each operation in turn on the state that the ones before it left; `now` is in seconds since 1970."""
    page = _Page(known, now)
    results = [page.write(operation) for operation in operations]
    return page.changes(results)


def ids_of(operations: Sequence[Operation]) -> list[str]:
    """The transfers a batch has to know."""
    return [_id_of(operation) for operation in operations if not isinstance(operation, Sweep)]


def accounts_of(operations: Sequence[Operation], entries: dict[str, Entry]) -> list[str]:
    """The accounts a batch has to know, given the transfers it names."""
    transfers = [entry.transfer for entry in entries.values()]
    transfers += [operation.transfer for operation in operations if isinstance(operation, Move | Reserve)]
    return list({name for transfer in transfers for name in (transfer.debit, transfer.credit)})


def asked_again(operations: Sequence[Operation], entries: dict[str, Entry]) -> list[int]:
    """The seqs of posted reservations that a batch asks for again: they may have kept an answer."""
    ids = {operation.transfer.id for operation in operations if isinstance(operation, Reserve)}
    return [entry.seq for entry in entries.values() if entry.transfer.id in ids and entry.transfer.state == "posted"]


def _id_of(operation: Move | Reserve | Post | Void | Delivered) -> str:
    return operation.transfer.id if isinstance(operation, Move | Reserve) else operation.id


class _Page:
    """One batch being written."""

    def __init__(self, known: Known, now: float) -> None:
        self._now = now
        self._entries = dict(known.entries)
        self._accounts = dict(known.accounts)
        self._kept = dict(known.kept)
        self._next_seq = self._first_seq = known.next_seq
        self._added: dict[int, str] = {}
        self._resolved: list[tuple[int, State, float]] = []
        self._newly_kept: dict[int, Kept] = {}
        self._forgotten: list[int] = []
        self._touched: set[str] = set()
        self._forget_before: float | None = None

    def write(self, operation: Operation) -> Result:
        match operation:
            case Move():
                return self._move(operation)
            case Reserve():
                return self._reserve(operation)
            case Post():
                return self._post(operation.id, operation.kept)
            case Void():
                return self._void(operation)
            case Delivered():
                return self._forget(operation.id)
            case Sweep():
                self._forget_before = operation.before
                return Done()

    def changes(self, results: list[Result]) -> Changes:
        added = [self._entries[transfer_id] for transfer_id in self._added.values()]
        return Changes(
            results=results,
            added=added,
            resolved=self._resolved,
            opened=[entry for entry in added if entry.transfer.state == "pending"],
            closed=[seq for seq, _, _ in self._resolved if seq < self._first_seq],
            kept=self._newly_kept,
            forgotten=self._forgotten,
            accounts=[self._accounts[name] for name in sorted(self._touched)],
            forget_before=self._forget_before,
        )

    def _move(self, operation: Move) -> Result:
        wanted = operation.transfer
        found = self._entries.get(wanted.id)
        if found:
            if _content(found.transfer) != _content(wanted) or found.transfer.state != "settled":
                return Taken(found.transfer)
            return Moved(_is_origin(found, operation.owner, operation.number), found.transfer)
        if wanted.kind != REVERSAL and not self._can_spend(wanted.debit, wanted.amount_micros):
            return Overdrawn(wanted.debit, self._account(wanted.debit).available_micros)
        entry = self._add(replace(wanted, state="settled"), operation.owner, operation.number)
        self._settle(entry.transfer)
        return Moved(is_new=True, transfer=entry.transfer)

    def _reserve(self, operation: Reserve) -> Result:
        wanted, owner, number = operation.transfer, operation.owner, operation.number
        found = self._entries.get(wanted.id)
        if found and not _is_origin(found, owner, number):
            return self._used(found, operation.fingerprint)
        if found and found.transfer.amount_micros:
            # The same operation, tried again because nobody could tell whether its first commit happened.
            return Reserved(wanted.id)
        if found or not self._can_spend(wanted.debit, wanted.amount_micros):
            return self._burn(wanted, owner, number, found)
        entry = self._add(replace(wanted, state="pending"), owner, number, operation.fingerprint)
        debit = self._account(wanted.debit)
        self._put(replace(debit, reserved_micros=debit.reserved_micros + entry.transfer.amount_micros))
        return Reserved(wanted.id)

    def _burn(self, wanted: Transfer, owner: int, number: int, found: Entry | None) -> Insufficient:
        """The id is taken although nothing is set aside: a claim of nothing that counts as voided."""
        if not found:
            entry = self._add(replace(wanted, amount_micros=0, state="voided"), owner, number)
            self._resolved.append((entry.seq, "voided", self._now))
        return Insufficient(self._account(wanted.debit).available_micros)

    def _used(self, found: Entry, fingerprint: bytes) -> Used:
        state = found.transfer.state
        if state == "settled":
            return Used("posted")
        kept = self._kept.get(found.seq)
        if not kept or kept.fingerprint != fingerprint or self._now - kept.at >= KEPT_SECONDS:
            return Used(state)
        return Used(state, kept.answer)

    def _post(self, transfer_id: str, kept: StoredResponse | None) -> Result:
        found = self._entries.get(transfer_id)
        if not found or found.transfer.state not in {"pending", "posted"}:
            return Gone(found.transfer.state if found else None)
        if found.transfer.state == "posted":
            return Done()
        self._resolve(found, "posted")
        self._unreserve(found.transfer)
        self._settle(found.transfer)
        for name in (found.transfer.debit, found.transfer.credit):
            side = self._account(name)
            last_at = self._now if side.last_at is None else max(side.last_at, self._now)
            self._put(replace(side, posted_count=side.posted_count + 1, last_at=last_at))
        if kept:
            self._kept[found.seq] = self._newly_kept[found.seq] = Kept(kept, found.fingerprint, self._now)
        return Done()

    def _void(self, operation: Void) -> Result:
        found = self._entries.get(operation.id)
        if not found or (operation.origin and not _is_origin(found, *operation.origin)):
            return Gone(None)
        state = found.transfer.state
        if state != "pending":
            return Done() if state == "voided" else Gone(state)
        self._resolve(found, "voided")
        self._unreserve(found.transfer)
        return Done()

    def _forget(self, transfer_id: str) -> Done:
        found = self._entries.get(transfer_id)
        if found:
            self._kept.pop(found.seq, None)
            if not self._newly_kept.pop(found.seq, None):
                self._forgotten.append(found.seq)
        return Done()

    def _add(self, transfer: Transfer, owner: int, number: int, fingerprint: bytes = b"") -> Entry:
        entry = Entry(self._next_seq, replace(transfer, at=self._now), owner, number, fingerprint)
        self._next_seq += 1
        self._entries[transfer.id] = entry
        self._added[entry.seq] = transfer.id
        return entry

    def _resolve(self, entry: Entry, state: State) -> None:
        self._entries[entry.transfer.id] = replace(entry, transfer=replace(entry.transfer, state=state))
        self._resolved.append((entry.seq, state, self._now))

    def _settle(self, transfer: Transfer) -> None:
        amount = transfer.amount_micros
        debit = self._account(transfer.debit)
        self._put(
            replace(
                debit,
                balance_micros=debit.balance_micros - amount,
                total_out_micros=debit.total_out_micros + amount,
            )
        )
        credit = self._account(transfer.credit)
        self._put(
            replace(
                credit,
                balance_micros=credit.balance_micros + amount,
                total_in_micros=credit.total_in_micros + amount,
            )
        )

    def _unreserve(self, transfer: Transfer) -> None:
        debit = self._account(transfer.debit)
        self._put(replace(debit, reserved_micros=debit.reserved_micros - transfer.amount_micros))

    def _can_spend(self, name: str, amount_micros: int) -> bool:
        """Agents spend what they have; the treasury, revenue and the like stand for the world outside."""
        return not name.startswith(AGENT_PREFIX) or self._account(name).available_micros >= amount_micros

    def _account(self, name: str) -> AccountState:
        return self._accounts.get(name) or AccountState(name)

    def _put(self, account: AccountState) -> None:
        self._accounts[account.name] = account
        self._touched.add(account.name)


def _content(transfer: Transfer) -> tuple[str, str, int, str]:
    return transfer.debit, transfer.credit, transfer.amount_micros, transfer.kind


def _is_origin(entry: Entry, owner: int, number: int) -> bool:
    return entry.owner == owner and entry.number == number
