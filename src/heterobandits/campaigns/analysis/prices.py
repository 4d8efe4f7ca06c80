"""What the constraints of a round cost, in expected detections   docs/campaigns-answers.md

    weight[a, n]   tests_a s_a mean_n: the detections expected of agent a on arm n, with the posterior mean of the arm
    expected(C)    the sum of weights of the plan under the circumstances C
    best(C)        the greatest sum of weights of an assignment under C; somebody may stay home
    lost(c)        expected(C without c) - expected(C), for a constraint c of C

A detection is a true one: false alarms do not count. A plan explores, too: where it would explore more with a constraint less,
what is lost is negative.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.campaigns.analysis.answers import mixed_arms_text
from heterobandits.campaigns.analysis.beliefs import beliefs_of
from heterobandits.campaigns.analysis.probabilities import has_forecast, nothing_known_text
from heterobandits.campaigns.plan_events import plan_arguments
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.state import State
from heterobandits.planner import planning
from heterobandits.planner.matching import allowed_pairs
from heterobandits.planner.plans import Plan

ConstraintKind = Literal["absent", "closed", "forbidden", "forced"]

PRICE_MIN_DETECTIONS = 0.001  # detections that are said as a number
MOST_PRICED = 30  # constraints: each takes a plan of its own
ALWAYS_PRICED = 5  # constraints, however large the campaign is
PRICED_PAIRS = 200_000  # agents times arms times constraints that are priced: a second or two
PRICE_TOLERANCE = 1e-12  # of what is expected at best: sums that differ by less are equal


@dataclass(frozen=True)
class Price:
    """What one constraint costs: the agent or arm it concerns, or both, and the detections that the plan loses.

    They are below 0 where the plan without it would make fewer, and 0 where there would be none.
    """

    kind: ConstraintKind
    agent: int | None
    arm: int | None
    lost: float
    text: str


@dataclass(frozen=True)
class Prices:
    """The detections expected in one round.

    Attributes
    ----------
    expected
        Those of the plan, which explores, too.
    best
        The most that any assignment under the circumstances is expected to make. Both are None before anything is known.
    constraints
        What each costs, the dearest first. What two cost together may be more or less than the sum.
    warnings
        What they go by although it is known better, and how many constraints are not priced, in words.
    """

    expected: float | None
    best: float | None
    constraints: list[Price]
    warnings: list[str]


def prices(state: State, given: RoundGiven, plan: Plan) -> Prices:
    """What this plan of the next round is expected to detect, and what each circumstance that it was made under costs."""
    if not has_forecast(state):
        return Prices(None, None, [], [nothing_known_text(state)])
    weights = detection_weights(state)
    every = constraints_of(state, given)
    fitting = max(ALWAYS_PRICED, PRICED_PAIRS // max(1, weights.size))
    some = every[: min(MOST_PRICED, fitting)]
    expected = expected_detections(weights, enumerate(plan.assignment))
    best = greatest_weight(state, given, weights)
    others = (state.circumstances(circumstances_without(given, *one)) for one in some)
    found = []
    for (kind, agent, arm), sent in zip(
        some, planning.assignments_under(*plan_arguments(state), others), strict=True
    ):
        more = 0.0 if sent is None else expected_detections(weights, sent.items()) - expected
        lost = more if abs(more) > PRICE_TOLERANCE * best else 0.0
        found.append(Price(kind, agent, arm, lost, render_price(state, kind, agent, arm, lost)))
    found.sort(key=lambda price: -price.lost)
    said = [mixed_arms_text(state), unpriced_text(len(some), len(every))]
    return Prices(expected, best, found, [*filter(None, said)])


def unpriced_text(priced: int, constraints: int) -> str:
    """How many constraints are not priced, in words, if there are any."""
    if priced == constraints:
        return ""
    rest = constraints - priced
    return f"Not priced: {rest:,} of {constraints:,} constraints, as each takes a plan of its own."


def expected_detections(weights: Floats, pairs: Iterable[tuple[int, int | None]]) -> float:
    """The number of detections expected from these visits."""
    return float(sum(weights[row, arm] for row, arm in pairs if arm is not None))


def detection_weights(state: State) -> Floats:
    """The detections expected from each possible visit, rows of the team by arms."""
    return np.asarray(state.team.worth[:, None] * beliefs_of(state).mean)


def greatest_weight(state: State, given: RoundGiven, weights: Floats) -> float:
    """The largest total weight that an assignment can reach under these circumstances."""
    from scipy.optimize import linear_sum_assignment

    rows, arms = weights.shape
    allowed = allowed_pairs(rows, arms, state.circumstances(given))
    value = np.where(allowed, weights, 0.0)  # a pair that is not allowed: the agent stays home
    return float(value[linear_sum_assignment(value, maximize=True)].sum())


def constraints_of(
    state: State, given: RoundGiven
) -> list[tuple[ConstraintKind, int | None, int | None]]:
    """The constraints of a round; who or what is retired has none."""

    def here(agent: int | None, arm: int | None) -> bool:
        gone = agent is not None and state.agents[agent].retired
        return not gone and not (arm is not None and state.arms[arm].retired)

    made: list[tuple[ConstraintKind, int | None, int | None]] = [
        *(("absent", a, None) for a in sorted(given.absent)),
        *(("closed", None, n) for n in sorted(given.closed)),
        *(("forbidden", *pair) for pair in sorted(given.forbidden)),
        *(("forced", *pair) for pair in sorted(given.forced)),
    ]
    return [one for one in made if here(*one[1:])]


def circumstances_without(
    given: RoundGiven, kind: ConstraintKind, agent: int | None, arm: int | None
) -> RoundGiven:
    """The circumstances without this constraint."""
    one = agent if kind == "absent" else arm if kind == "closed" else (agent, arm)
    return replace(given, **{kind: getattr(given, kind) - {one}})


def render_price(
    state: State, kind: ConstraintKind, agent: int | None, arm: int | None, lost: float
) -> str:
    """The cost of a constraint as a sentence."""
    who = "" if agent is None else state.agents[agent].name
    place = "" if arm is None else state.arms[arm].name
    what = {
        "absent": f"{who} is absent",
        "closed": f"{place} is closed",
        "forbidden": f"{who} may not go to {place}",
        "forced": f"{who} must go to {place}",
    }
    more = f": the plan without it is worth {render_detections(-lost)} less" if lost < 0 else ""
    return f"That {what[kind]} costs {render_detections(max(lost, 0.0))}{more}."


def render_detections(lost: float) -> str:
    """A number of detections in words.

    >>> render_detections(0.375), render_detections(1.0), render_detections(1234.4), render_detections(1e-5)
    ('0.38 expected detections', '1 expected detection', '1,234 expected detections', 'less than 0.001 expected detections')
    """
    if not lost:
        return "nothing"
    if lost < PRICE_MIN_DETECTIONS:
        return f"less than {PRICE_MIN_DETECTIONS} expected detections"
    number = f"{lost:.2g}" if lost < 10 else f"{lost:,.0f}"
    return f"{number} expected detection{'s' * (number != '1')}"
