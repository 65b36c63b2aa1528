"""Every row of the table, on both deployments: the attack fails, and the money is right afterwards."""

import pytest

from tests.attacks import deposits, holes, keys, mcp_tools, payments, requests, signed_calls
from tests.attacks.attack import TABLE, Attack
from tests.attacks.summary import ATTEMPTS
from tests.attacks.target import Target
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

assert all((payments, signed_calls, deposits, holes, keys, requests, mcp_tools)), (
    "each module puts its rows into the table"
)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("attack", TABLE, ids=lambda attack: f"{attack.kind}-{attack.name}")
async def test_attack_fails(attack: Attack, kind: str, targets: dict[str, Target], record_property) -> None:
    target = targets[kind]
    before = sum(each.sent for each in targets.values())
    others = [each for name, each in targets.items() if name != kind] if attack.is_joint else []
    await attack.play(target, *others)
    made = sum(each.sent for each in targets.values()) - before
    assert made >= attack.count, f"{made} attempts were made"
    record_property(ATTEMPTS, (attack.kind, made))
    await until(target.is_balanced)


async def test_every_payment_on_the_chain_is_booked_once(targets: dict[str, Target]) -> None:
    booked = [transfer for target in targets.values() for transfer in await target.payments_booked()]
    assert len({transfer.id for transfer in booked}) == len(booked)
    given = sum(target.given for target in targets.values())
    assert sum(transfer.amount_micros for transfer in booked) + given == await targets["sqlite"].earned()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_every_deposit_in_the_ledger_is_on_the_chain(kind: str, targets: dict[str, Target]) -> None:
    deposits = await targets[kind].reconcile()
    assert deposits.agrees, deposits.differences
