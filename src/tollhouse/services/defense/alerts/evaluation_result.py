"""When a rule that is true is told: pure decisions, the same for the live data and for a preview."""

from msgspec import Struct

from tollhouse.services.defense.alerts.rule import Rule

_SECONDS_PER_MINUTE = 60


class Verdict(Struct, frozen=True):
    """What a rule came to. `window_state` names what the value rests on: the same one is never told twice."""

    value: float | None
    is_met: bool
    window_state: str


class Told(Struct, frozen=True):
    """When a rule was last told, in seconds since 1970, and what of; None as long as it never was."""

    at: float | None = None
    window_state: str | None = None


def is_due(rule: Rule, verdict: Verdict, told: Told, now: float) -> bool:
    """Whether to tell now: the rule is true, of something not told yet, and the cool-down is over.

    So it is told when it comes true. While it stays true it is told again once a cool-down, if the window has moved or
    the value changed meanwhile; one that comes true again within the cool-down waits for its end.
    """
    return verdict.is_met and verdict.window_state != told.window_state and now >= free_at(rule, told)


def free_at(rule: Rule, told: Told) -> float:
    """The end of the cool-down in seconds since 1970; 0 where none runs."""
    return 0.0 if told.at is None else told.at + rule.cooldown_minutes * _SECONDS_PER_MINUTE
