"""How good stated probabilities of battles are: precision, recall and F1 at a threshold, and the Brier score."""

from collections.abc import Sequence


def scores(said: Sequence[float], truth: Sequence[bool], threshold: float) -> dict[str, float | None]:
    """Each 0..1 and rounded to four places, None where it would divide by nothing. Brier (1950): 0 is best."""
    called = [p >= threshold for p in said]
    right = sum(call and is_battle for call, is_battle in zip(called, truth, strict=True))
    error = sum((p - is_battle) ** 2 for p, is_battle in zip(said, truth, strict=True))
    return {
        "precision": _ratio(right, sum(called)),
        "recall": _ratio(right, sum(truth)),
        "f1": _ratio(2 * right, sum(called) + sum(truth)),
        "brier": _ratio(error, len(truth)),
    }


def _ratio(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
