"""A batch as the arguments of `ledger_apply` in PostgreSQL, and its results. The function follows `rules`.

The function is in storage/migrations/ledger/versions/0004_batches_in_postgresql.py.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from tollhouse.payments.ledger.types import (
    AGENT_PREFIX,
    REVERSAL,
    Delivered,
    Done,
    Gone,
    IdTaken,
    Insufficient,
    LedgerCommand,
    Move,
    Moved,
    Overdrawn,
    Post,
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
from tollhouse.payments.stored_response import RESPONSE_TTL_SECONDS, StoredResponse

NUMBERS: dict[type[LedgerCommand], int] = {Move: 1, Reserve: 2, Post: 3, Void: 4, Release: 5, Delivered: 6, Sweep: 7}
_STATES: tuple[State | None, ...] = (None, "pending", "posted", "voided", "settled")


class Batch:
    """The commands of one batch."""

    def __init__(self, commands: Sequence[LedgerCommand]) -> None:
        self.commands = commands
        self._digests: dict[bytes, bytes] = {}
        self._names: dict[str, int] = {}
        self._created: set[str] = set()
        self._known: set[str] = set()
        self._firsts: dict[str, int] = {}
        self._rows = [self._row(number, command) for number, command in enumerate(commands, 1)]

    def arguments(self, part: int, now: float, stored: set[bytes]) -> tuple[Any, ...]:
        """The arguments of the function. Equal bodies are stored once; those whose hash is in `stored` are not sent."""
        new = {digest: body for body, digest in self._digests.items() if digest not in stored}
        columns = [[row[column] for row in self._rows] for column in range(13)]
        names = list(self._names), list(self._created), list(self._known)
        return (part, now, RESPONSE_TTL_SECONDS, *names, *columns, list(new), list(new.values()))

    @property
    def hashes(self) -> set[bytes]:
        """Those of the bodies of its responses."""
        return set(self._digests.values())

    def results(self, rows: Sequence[Mapping[str, Any]], now: float) -> list[Result]:
        """One result per command from the rows of `ledger_apply`."""
        return [self._result(command, row, now) for command, row in zip(self.commands, rows, strict=True)]

    def _row(self, number: int, command: LedgerCommand) -> tuple[Any, ...]:
        kind = NUMBERS[type(command)]
        if isinstance(command, Sweep):
            return (kind, None, number, *[None] * 10)
        if isinstance(command, Move | Reserve):
            return self._transfer_row(number, kind, command)
        first = self._firsts.setdefault(command.id, number)
        if isinstance(command, Post | Void | Release):
            self._known.add(command.id)
        owner, made = (command.origin if isinstance(command, Post | Release) else None) or (None, None)
        amount = command.amount_micros if isinstance(command, Post) else None
        response = command.response if isinstance(command, Post) else None
        stored = self._response(response) if response else (None, None)
        return (kind, command.id, first, None, None, amount, None, None, None, owner, made, *stored)

    def _transfer_row(self, number: int, kind: int, command: Move | Reserve) -> tuple[Any, ...]:
        made = command.transfer
        first = self._firsts.setdefault(made.id, number)
        sides = [self._names.setdefault(name, len(self._names) + 1) for name in (made.debit, made.credit)]
        created = (made.debit, made.credit) if made.kind == REVERSAL else (made.credit,)
        self._created.update(name for name in created if name.startswith(AGENT_PREFIX))
        memo = None if made.memo is None else msgspec.json.encode(made.memo).decode()
        fingerprint = command.fingerprint if isinstance(command, Reserve) else None
        about = (made.amount_micros, made.kind, memo, fingerprint, command.owner, command.number)
        return (kind, made.id, first, *sides, *about, None, None)

    def _response(self, response: StoredResponse) -> tuple[bytes, bytes]:
        digest = self._digests.get(response.body)
        if digest is None:
            digest = self._digests[response.body] = sha256(response.body).digest()
        return msgspec.msgpack.encode(replace(response, body=b"")), digest

    def _result(self, command: LedgerCommand, row: Mapping[str, Any], now: float) -> Result:  # noqa: PLR0911 - by code
        state = _STATES[row["state"] or 0]
        match row["code"]:
            case 1 | 2 as code:
                return Moved(code == 1, self._existing(row, state, now))
            case 3:
                return IdTaken(self._existing(row, state, now))
            case 4:
                assert isinstance(command, Move)
                return Overdrawn(command.transfer.debit, row["micros"])
            case 5:
                assert isinstance(command, Reserve)
                return Reserved(command.transfer.id)
            case 6:
                return Insufficient(row["micros"])
            case 7:
                assert state
                return Used("posted" if state == "settled" else state, self._stored(row))
            case 9:
                return Gone(state)
        return Done()

    def _existing(self, row: Mapping[str, Any], state: State | None, now: float) -> Transfer:
        """The transfer with the command's id: made by a command of this batch, or stored before."""
        assert state
        if row["maker"]:
            maker = self.commands[row["maker"] - 1]
            assert isinstance(maker, Move | Reserve)
            return replace(maker.transfer, amount_micros=row["micros"], at=now, state=state)
        memo = msgspec.json.decode(row["memo"]) if row["memo"] else None
        sides = row["debit"], row["credit"]
        return Transfer(row["id"], *sides, row["micros"], row["kind"], memo, row["at"], state)

    def _stored(self, row: Mapping[str, Any]) -> StoredResponse | None:
        if row["answerer"] > 0:
            post = self.commands[row["answerer"] - 1]
            assert isinstance(post, Post)
            return post.response
        if row["answerer"] == 0 or row["body"] is None:
            return None
        return replace(msgspec.msgpack.decode(row["head"], type=StoredResponse), body=bytes(row["body"]))
