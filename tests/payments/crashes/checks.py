"""What is wrong with the money after a schedule: what clients got, compared with what was counted and charged."""

import json
from collections import Counter
from collections.abc import Container, Sequence

from msgspec import Struct

from tests.payments.crashes.plan import Attempt, Plan

BEGAN, CUT, GAVE_UP = -2, 0, -1
"""What a client writes down in place of a status: it sends, the answer was cut, and it does not send again."""
PENDING = {BEGAN, CUT, 409, 429, 502, 503}


class Answer(Struct):
    """What the client of an attempt got, from which process. The body is that of a whole answer."""

    attempt: int
    status: int
    body: str
    process: int


class Charges(Struct):
    """How often each nonce was charged from credit and by payment, and the requests of the key that count today.

    `keyed` is None where the day ended meanwhile.
    """

    credit: Counter[str]
    payments: Counter[str]
    keyed: int | None


def is_final(status: int, body: str) -> bool:
    """Whether the client need not send the same again: it was answered, or refused for good."""
    return status not in PENDING or "deposit-conflict" in body


def is_of_upstream(status: int, body: str) -> bool:
    """Whether the upstream is why there is no whole answer."""
    return status == CUT or (status in {502, 503} and '"upstream":"upstream"' in body.replace(": ", ":"))


def differences(plan: Plan, answers: Sequence[Answer], charges: Charges, crashed: Container[int]) -> list[str]:
    """Where what clients got differs from what they paid: answered = charged, once, and always the same answer.

    What is passed on while it arrives is fetched again if a process that sent it `crashed` (docs/proxy.md).
    """
    wrong = []
    by_subject: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        attempt = plan.attempts[answer.attempt]
        by_subject.setdefault((attempt.kind, attempt.about), []).append(answer)
        if answer.status == 500 and attempt.path != "/fails":
            wrong.append(f"{attempt.kind} was answered 500: {answer.body}")
        if attempt.kind == "deposit" and answer.status == 200 and plan.deposits[attempt.about] != attempt.owner:
            wrong.append("a deposit was credited to a wallet that did not send it")
    for (kind, about), got in by_subject.items():
        if kind == "deposit":
            wrong += _credited_once(about, got)
        elif kind == "keyed":
            wrong += [] if charges.keyed is None else _counted(got, charges.keyed, crashed)
        else:
            times = (charges.credit if kind == "call" else charges.payments)[about]
            wrong += _paid_once(plan.attempts[got[0].attempt], got, times, crashed)
    return wrong


def _credited_once(about: str, got: Sequence[Answer]) -> list[str]:
    bodies = {answer.body for answer in got if answer.status == 200}
    if not bodies:
        return [f"deposit {about} was never credited: {sorted({(answer.status, answer.body) for answer in got})}"]
    new = [body for body in bodies if not json.loads(body)["already_credited"]]
    return [f"deposit {about} was credited {len(new)} times"] if len(new) > 1 else []


def _counted(got: Sequence[Answer], used: int, crashed: Container[int]) -> list[str]:
    """Every whole answer counts, and nothing else but what was in progress in a crash or counted in advance.

    A process counts at most as many calls in advance as it has begun (metering/allotments.py).
    """
    statuses = Counter(answer.status for answer in got)
    ended = statuses.total() - statuses[BEGAN] - statuses[GAVE_UP]
    in_progress = statuses[BEGAN] - ended
    in_advance = in_progress + sum(answer.process in crashed for answer in got if answer.status not in {BEGAN, GAVE_UP})
    if statuses[200] <= used <= statuses[200] + in_progress + in_advance:
        return []
    return [f"{statuses[200]} calls with the key were answered and {used} counted, with {in_progress} cut by a crash"]


def _paid_once(attempt: Attempt, got: Sequence[Answer], times: int, crashed: Container[int]) -> list[str]:
    what, wrong = f"{attempt.kind} {attempt.path} {attempt.about}", []
    bodies = {answer.body for answer in got if answer.status == 200}
    statuses = sorted(answer.status for answer in got)
    if times > 1:
        wrong.append(f"{what} was charged {times} times")
    by_the_living = {answer.body for answer in got if answer.status == 200 and answer.process not in crashed}
    if len(by_the_living if attempt.is_passed_stream else bodies) > 1:
        wrong.append(f"{what} was worked out {len(bodies)} times")
    # A payment is settled at the first bytes; a client that gives up then does not fetch the rest.
    is_given_up = attempt.kind == "payment" and attempt.is_passed_stream and {CUT, GAVE_UP} <= {*statuses}
    if bool(bodies) != bool(times) and not (is_given_up and times):
        wrong.append(f"{what} was answered {statuses} and charged {times} times")
    return wrong
