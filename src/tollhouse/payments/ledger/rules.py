"""The ledger's rules: what a batch of commands changes. Pure functions, shared by both stores."""

from collections.abc import Sequence

from msgspec.structs import replace

from tollhouse.payments.ledger.types import (
    AGENT_PREFIX,
    RESPONSE_TTL_SECONDS,
    REVERSAL,
    AccountState,
    BatchChanges,
    BatchState,
    Delivered,
    Done,
    Gone,
    IdTaken,
    Insufficient,
    LedgerCommand,
    LedgerEntry,
    Move,
    Moved,
    Overdrawn,
    Post,
    PostedResponse,
    Release,
    Reserve,
    Reserved,
    Result,
    State,
    Sweep,
    Transfer,
    Used,
    Void,
)


def apply(commands: Sequence[LedgerCommand], known: BatchState, now: float) -> BatchChanges:
    """Apply each command in turn to the state that the ones before it left; `now` is in seconds since 1970."""
    batch = _Batch(known, now)
    results = [batch.write(command) for command in commands]
    return batch.changes(results)


def transfer_ids(commands: Sequence[LedgerCommand]) -> list[str]:
    """The ids of the transfers that a batch reads."""
    return [
        command.transfer.id if isinstance(command, Move | Reserve) else command.id
        for command in commands
        if not isinstance(command, Sweep)
    ]


def account_names(commands: Sequence[LedgerCommand], entries: dict[str, LedgerEntry]) -> list[str]:
    """The names of the accounts that a batch reads, given the transfers it names."""
    transfers = [entry.transfer for entry in entries.values()]
    transfers += [command.transfer for command in commands if isinstance(command, Move | Reserve)]
    return list({name for transfer in transfers for name in (transfer.debit, transfer.credit)})


def reclaimed_seqs(commands: Sequence[LedgerCommand], entries: dict[str, LedgerEntry]) -> list[int]:
    """The seqs of posted reservations that a batch reserves again: they may have a stored response."""
    ids = {command.transfer.id for command in commands if isinstance(command, Reserve)}
    return [entry.seq for entry in entries.values() if entry.transfer.id in ids and entry.transfer.state == "posted"]


class _Batch:
    """One batch in progress."""

    def __init__(self, known: BatchState, now: float) -> None:
        self._now = now
        self._entries = dict(known.entries)
        self._accounts = dict(known.accounts)
        self._responses = dict(known.responses)
        self._next_seq = self._first_seq = known.next_seq
        self._added: dict[int, str] = {}
        self._resolved: list[tuple[int, State, float, int | None]] = []
        self._deleted: list[int] = []
        self._new_responses: dict[int, PostedResponse] = {}
        self._forgotten: list[int] = []
        self._touched: set[str] = set()
        self._forget_before: float | None = None

    def write(self, command: LedgerCommand) -> Result:  # noqa: PLR0911 - one per command
        match command:
            case Move():
                return self._move(command)
            case Reserve():
                return self._reserve(command)
            case Post():
                return self._post(command)
            case Void():
                return self._void(command.id)
            case Release():
                return self._release(command)
            case Delivered():
                return self._forget(command.id)
            case Sweep():
                self._forget_before = command.before
                return Done()

    def changes(self, results: list[Result]) -> BatchChanges:
        added = [self._entries[transfer_id] for transfer_id in self._added.values()]
        return BatchChanges(
            results=results,
            added=added,
            resolved=self._resolved,
            opened=[entry for entry in added if entry.transfer.state == "pending"],
            closed=[seq for seq, *_ in self._resolved if seq < self._first_seq] + self._deleted,
            deleted=self._deleted,
            responses=self._new_responses,
            forgotten=self._forgotten,
            accounts=[self._accounts[name] for name in sorted(self._touched)],
            forget_before=self._forget_before,
        )

    def _move(self, command: Move) -> Result:
        requested = command.transfer
        existing = self._entries.get(requested.id)
        if existing:
            if _content(existing.transfer) != _content(requested) or existing.transfer.state != "settled":
                return IdTaken(existing.transfer)
            return Moved(_is_origin(existing, command.owner, command.number), existing.transfer)
        if requested.kind != REVERSAL and not self._can_spend(requested.debit, requested.amount_micros):
            return Overdrawn(requested.debit, self._account(requested.debit).available_micros)
        entry = self._add(replace(requested, state="settled"), command.owner, command.number)
        self._settle(entry.transfer)
        return Moved(is_new=True, transfer=entry.transfer)

    def _reserve(self, command: Reserve) -> Result:
        requested = command.transfer
        existing = self._entries.get(requested.id)
        if existing:
            # A command may be retried because the outcome of its first commit is unknown.
            is_retry = _is_origin(existing, command.owner, command.number)
            return Reserved(requested.id) if is_retry else self._used(existing, command.fingerprint)
        debit = self._account(requested.debit)
        if not self._can_spend(requested.debit, requested.amount_micros):
            return Insufficient(debit.available_micros)
        self._add(replace(requested, state="pending"), command.owner, command.number, command.fingerprint)
        self._put(replace(debit, reserved_micros=debit.reserved_micros + requested.amount_micros))
        return Reserved(requested.id)

    def _used(self, existing: LedgerEntry, fingerprint: bytes) -> Used:
        state = existing.transfer.state
        if state == "settled":
            return Used("posted")
        stored = self._responses.get(existing.seq)
        if not stored or stored.fingerprint != fingerprint or self._now - stored.at >= RESPONSE_TTL_SECONDS:
            return Used(state)
        return Used(state, stored.response)

    def _post(self, command: Post) -> Result:
        existing = self._entries.get(command.id)
        if existing and command.origin and not _is_origin(existing, *command.origin):
            return Gone(None)
        if not existing or existing.transfer.state not in {"pending", "posted"}:
            return Gone(existing.transfer.state if existing else None)
        if existing.transfer.state == "posted":
            return Done()
        reserved = existing.transfer.amount_micros
        charged = reserved if command.amount_micros is None else min(command.amount_micros, reserved)
        self._unreserve(existing.transfer)
        self._settle(self._resolve(existing, "posted", charged))
        for name in (existing.transfer.debit, existing.transfer.credit):
            side = self._account(name)
            last_at = self._now if side.last_at is None else max(side.last_at, self._now)
            self._put(replace(side, posted_count=side.posted_count + 1, last_at=last_at))
        if command.response:
            self._responses[existing.seq] = self._new_responses[existing.seq] = PostedResponse(
                command.response, existing.fingerprint, self._now
            )
        return Done()

    def _void(self, transfer_id: str) -> Result:
        existing = self._entries.get(transfer_id)
        if not existing:
            return Gone(None)
        state = existing.transfer.state
        if state != "pending":
            return Done() if state == "voided" else Gone(state)
        self._resolve(existing, "voided")
        self._unreserve(existing.transfer)
        return Done()

    def _release(self, command: Release) -> Result:
        existing = self._entries.get(command.id)
        if not existing or (command.origin and not _is_origin(existing, *command.origin)):
            return Gone(None)
        if existing.transfer.state != "pending":
            return Gone(existing.transfer.state)
        self._unreserve(existing.transfer)
        del self._entries[command.id]
        if not self._added.pop(existing.seq, None):
            self._deleted.append(existing.seq)
        return Done()

    def _forget(self, transfer_id: str) -> Done:
        existing = self._entries.get(transfer_id)
        # Others have no response; one of the same batch may still post it.
        if existing and existing.transfer.state == "posted":
            self._responses.pop(existing.seq, None)
            if not self._new_responses.pop(existing.seq, None):
                self._forgotten.append(existing.seq)
        return Done()

    def _add(self, transfer: Transfer, owner: int, number: int, fingerprint: bytes = b"") -> LedgerEntry:
        entry = LedgerEntry(self._next_seq, replace(transfer, at=self._now), owner, number, fingerprint)
        self._next_seq += 1
        self._entries[transfer.id] = entry
        self._added[entry.seq] = transfer.id
        return entry

    def _resolve(self, entry: LedgerEntry, state: State, amount_micros: int | None = None) -> Transfer:
        """The transfer as it is from now on; `amount_micros` is what was charged."""
        reserved = entry.transfer.amount_micros
        charged = reserved if amount_micros is None else amount_micros
        resolved = replace(entry.transfer, state=state, amount_micros=charged)
        self._entries[entry.transfer.id] = replace(entry, transfer=resolved)
        # The row of an entry that is added here holds the amount that was charged.
        is_partial = charged != reserved and entry.seq < self._first_seq
        self._resolved.append((entry.seq, state, self._now, charged if is_partial else None))
        return resolved

    def _settle(self, transfer: Transfer) -> None:
        amount = transfer.amount_micros
        debit = self._account(transfer.debit)
        self._put(
            replace(
                debit, balance_micros=debit.balance_micros - amount, total_out_micros=debit.total_out_micros + amount
            )
        )
        credit = self._account(transfer.credit)
        self._put(
            replace(
                credit, balance_micros=credit.balance_micros + amount, total_in_micros=credit.total_in_micros + amount
            )
        )

    def _unreserve(self, transfer: Transfer) -> None:
        debit = self._account(transfer.debit)
        self._put(replace(debit, reserved_micros=debit.reserved_micros - transfer.amount_micros))

    def _can_spend(self, name: str, amount_micros: int) -> bool:
        """Agents spend only what they have; other accounts, such as the treasury, may go below zero."""
        return not name.startswith(AGENT_PREFIX) or self._account(name).available_micros >= amount_micros

    def _account(self, name: str) -> AccountState:
        return self._accounts.get(name) or AccountState(name)

    def _put(self, account: AccountState) -> None:
        self._accounts[account.name] = account
        self._touched.add(account.name)


def _content(transfer: Transfer) -> tuple[str, str, int, str]:
    return transfer.debit, transfer.credit, transfer.amount_micros, transfer.kind


def _is_origin(entry: LedgerEntry, owner: int, number: int) -> bool:
    return entry.owner == owner and entry.number == number
