"""Logistic regression with a prior: what labelled examples teach where they are few.

The labels come from few days, so each weight is pulled towards what general knowledge expects (PRIORS) instead of
towards zero: a maximum a posteriori estimate with a Gaussian prior, found by Newton's method.
"""

from collections.abc import Mapping, Sequence
from operator import mul

from msgspec import Struct

from tollhouse.services.defense.ingest.conflict_features import NAMES
from tollhouse.services.defense.ingest.conflict_model import Weights, probability

# The prior's precision: weights are expected within half a unit of their prior (standard deviation 1 / sqrt(4)).
PULL = 4.0
STEPS = 12

# Expected log-odds per unit of a feature; features not named here are expected to say nothing.
PRIORS: Mapping[str, float] = {
    "words_weapon": 0.6,
    "words_forces": 0.4,
    "words_insurgent": 0.6,
    "words_attack": 0.5,
    "words_killing": 0.4,
    "words_war": 0.5,
    "words_zone": 0.4,
    "words_opinion": -0.9,
    "words_speech": -0.5,
    "words_protest": -0.8,
    "words_crime": -0.6,
    "words_accident": -0.5,
    "words_sport": -0.6,
    "words_culture": -0.6,
    "words_memory": -0.6,
    "words_business": -0.4,
    "words_violent_kinds": 0.4,
    "words_tame_kinds": -0.4,
    "killing_by_mishap_or_crime": -1.2,
    "violent_in_war_country": 0.5,
    "violent_in_anglosphere": -0.8,
    "none_in_war_country": 0.5,
    "place_war": 0.6,
    "place_unrest": 0.3,
    "place_anglosphere": -0.6,
    "actor_war": 0.3,
    "actor_unrest": 0.1,
    "actor_military": 0.3,
    "actor_irregular": 0.8,
    "code_bombing": 0.4,
    "code_artillery": 0.4,
    "code_mass": 0.5,
    "code_assault_only": -0.3,
    "share_of_fights": 1.0,
    "share_of_protests": -1.0,
    "fights_log": 0.2,
    "tone": -0.5,
    "tone_grim": 0.4,
}
# One in nine, as log-odds: how often such a URL is a battle before anything is known about it.
PRIOR_BIAS = -2.0


class Example(Struct, frozen=True):
    """A labelled URL as the learner sees it: its features in the order of NAMES, and the fold of its story."""

    url: str
    values: list[float]
    is_battle: bool
    fold: int


def fit(known: Sequence[Example], pull: float = PULL) -> Weights:
    """The maximum a posteriori weights; Newton's method converges in under ten steps from the prior."""
    prior = [PRIORS.get(name, 0.0) for name in NAMES]
    # The constant is left free: how common battles are is what the labels know best.
    pulls = [pull] * len(prior) + [0.01]
    centre = [*prior, PRIOR_BIAS]
    weights = list(centre)
    for _ in range(STEPS):
        gradient, curvature = _slope(known, weights, centre, pulls)
        weights = [weight - step for weight, step in zip(weights, _solve(curvature, gradient), strict=True)]
    return Weights(weights[-1], weights[:-1])


def _slope(
    known: Sequence[Example], weights: list[float], centre: list[float], pulls: list[float]
) -> tuple[list[float], list[list[float]]]:
    """Gradient and lower half of the Hessian of the negative log posterior."""
    size = len(weights)
    gradient = [pull * (weight - middle) for pull, weight, middle in zip(pulls, weights, centre, strict=True)]
    curvature = [[0.0] * size for _ in range(size)]
    for at, pull in enumerate(pulls):
        curvature[at][at] = pull
    now = Weights(weights[-1], weights[:-1])
    for example in known:
        said = probability(now, example.values)
        # Most features are 0: only the others move anything.
        present = [(at, value) for at, value in enumerate([*example.values, 1.0]) if value]
        for at, value in present:
            gradient[at] += (said - example.is_battle) * value
            row, scale = curvature[at], said * (1 - said) * value
            for other, other_value in present:
                if other > at:
                    break
                row[other] += scale * other_value
    return gradient, curvature


def _solve(lower: list[list[float]], right: list[float]) -> list[float]:
    """The vector that a positive definite matrix, given by its lower half, maps to `right` (Cholesky)."""
    size = len(right)
    root = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = lower[i][j] - sum(map(mul, root[i][:j], root[j][:j]))
            root[i][j] = rest**0.5 if i == j else rest / root[j][j]
    middle: list[float] = []
    for i in range(size):
        middle.append((right[i] - sum(map(mul, root[i][:i], middle))) / root[i][i])
    answer = [0.0] * size
    for i in reversed(range(size)):
        answer[i] = (middle[i] - sum(root[k][i] * answer[k] for k in range(i + 1, size))) / root[i][i]
    return answer
