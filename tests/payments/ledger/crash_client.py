"""Many clients of one ledger, in a process that may die at a failpoint: run by crash_run, never by hand."""

import asyncio
import random
import uuid
from pathlib import Path

import msgspec

from tests.payments.ledger.crash_journal import Call, Journal, Money, Seen
from tollhouse import failpoints
from tollhouse.config.settings import Settings
from tollhouse.payments.ledger.ledger import Ledger, open_ledger
from tollhouse.payments.ledger.types import Insufficient, ReservationGoneError, Reserved, StoredResponse, Transfer
from tollhouse.storage.database import open_database

PRICE = 10_000
AGENTS = 4
CLIENTS = 24


class Life(msgspec.Struct, frozen=True):
    """One process's part: `name` tells seed and life, so that several seeds can share a database."""

    database_url: str
    journal: str
    name: str
    seed: int
    commands: int
    failpoint: str = ""
    forgets: bool = False
    collects: bool = False


class ForgetfulLedger(Ledger):
    """The mutant: it forgets which ids were taken, so a signed call can be replayed."""

    def __init__(self, ledger: Ledger) -> None:
        vars(self).update(vars(ledger))
        self._newest = {}

    async def reserve(self, transfer_id, debit, credit, amount_micros, kind, fingerprint):
        mine = self._newest[_asker(), transfer_id] = f"{transfer_id}:{uuid.uuid4().hex}"
        outcome = await super().reserve(mine, debit, credit, amount_micros, kind, fingerprint)
        return Reserved(transfer_id) if isinstance(outcome, Reserved) else outcome

    async def post(self, transfer_id, kept):
        await super().post(self._newest[_asker(), transfer_id], kept)

    async def void(self, transfer_id):
        await super().void(self._newest[_asker(), transfer_id])

    async def release(self, transfer_id):
        await super().release(self._newest[_asker(), transfer_id])

    def delivered(self, transfer_id):
        super().delivered(self._newest[_asker(), transfer_id])


def _asker() -> int:
    return id(asyncio.current_task())


class Clients:
    """What the clients of one process do, as the gate would do it for them."""

    def __init__(self, ledger: Ledger, journal: Journal, life: Life) -> None:
        self._ledger, self._journal, self._life = ledger, journal, life
        self._moments = random.Random(life.seed)
        self._calls = 0

    async def work(self) -> None:
        turns = iter(range(self._life.commands))
        await asyncio.gather(*(self._client(turns) for _ in range(CLIENTS)))

    async def collect(self) -> None:
        """Every client that waits for an answer asks once more, now that nothing dies."""
        for call in Seen(self._journal).open():
            await self._call(call)

    async def _client(self, turns) -> None:
        for _ in turns:
            chance = self._moments.random()
            if chance < 0.75:
                await self._call(self._some_call(), fails=chance < 0.08)
            elif chance < 0.9:
                await self._move("deposit", "treasury", self._agent(), self._moments.randint(1, 8) * PRICE)
            elif chance < 0.94:
                await self._move("reversal", self._agent(), "reversals", PRICE)
            elif chance < 0.97:
                await self._ledger.recover()
            else:
                await self._ledger.sweep()

    def _agent(self) -> str:
        return f"agent:{self._life.name.partition('/')[0]}-{self._moments.randrange(AGENTS)}"

    def _some_call(self) -> str:
        """Mostly a fresh nonce; sometimes one that this life, or one before it, has sent already."""
        self._calls += self._moments.random() < 0.7
        number = self._calls if self._moments.random() < 0.8 else self._moments.randint(0, self._calls)
        seed, _, life = self._life.name.partition("/")
        life = life if self._moments.random() < 0.8 else str(self._moments.randint(0, int(life)))
        return f"{seed}-{number % AGENTS}:{life}.{number}"

    async def _call(self, call: str, *, fails: bool = False) -> None:
        transfer_id, agent = f"call:{call}", f"agent:{call.partition(':')[0]}"
        self._journal.write(Call(call, "tried"))
        outcome = await self._ledger.reserve(transfer_id, agent, "revenue", PRICE, "call", b"same request")
        if isinstance(outcome, Insufficient):
            self._journal.write(Call(call, "returned"))
        elif isinstance(outcome, Reserved):
            await self._answer(call, transfer_id, fails=fails)
        elif outcome.response:
            self._send(call, transfer_id, outcome.response)
        else:
            self._journal.write(Call(call, "reused"))

    async def _answer(self, call: str, transfer_id: str, *, fails: bool) -> None:
        await asyncio.sleep(self._moments.random() * 0.002)
        if fails:
            # Some calls fail on the caller's side and use their nonce; the others may be sent again.
            is_refused = self._moments.random() < 0.5
            await (self._ledger.void if is_refused else self._ledger.release)(transfer_id)
            self._journal.write(Call(call, "refused" if is_refused else "returned"))
            return
        answer = StoredResponse(200, "text/plain", uuid.uuid4().hex.encode())
        try:
            await self._ledger.post(transfer_id, answer)
        except ReservationGoneError:
            self._journal.write(Call(call, "returned"))
            return
        self._send(call, transfer_id, answer)

    def _send(self, call: str, transfer_id: str, answer: StoredResponse) -> None:
        failpoints.reach("paid-answer.before-send")
        self._journal.write(Call(call, "answered", answer.body.decode()))
        failpoints.reach("paid-answer.after-send")
        self._ledger.delivered(transfer_id)

    async def _move(self, kind: str, debit: str, credit: str, micros: int) -> None:
        number = self._moments.randrange(10_000)
        # The amount belongs to the id: deposits are asked for twice, and by two processes at once.
        transfer = Transfer(f"{kind}:{debit}:{credit}:{micros}:{number % 40}", debit, credit, micros, kind)
        self._journal.write(Money(transfer.id, micros, is_done=False))
        await self._ledger.move(transfer)
        self._journal.write(Money(transfer.id, micros, is_done=True))


def live(life: Life) -> None:
    asyncio.run(_live(life))


async def _live(life: Life) -> None:
    settings = Settings(database_url=life.database_url)
    database = open_database(settings)
    ledger = await open_ledger(settings, database)
    clients = Clients(ForgetfulLedger(ledger) if life.forgets else ledger, Journal(Path(life.journal)), life)
    failpoints.arm(life.failpoint)
    await (clients.collect() if life.collects else clients.work())
    await ledger.close()
    await database.close()
