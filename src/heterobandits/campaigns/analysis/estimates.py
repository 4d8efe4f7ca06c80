"""What is known of every arm, probable and certain: a record for each, in the order of the arms."""

from dataclasses import dataclass

import numpy as np

from heterobandits.campaigns.analysis.answers import certainty
from heterobandits.campaigns.analysis.beliefs import beliefs_of
from heterobandits.campaigns.analysis.probabilities import (
    PROBABLE_TAIL_CHANCE,
    probable,
)
from heterobandits.campaigns.state import State, once_for_state

HARDLY_VISITED = 3  # visits, with fewer of which an arm is marked


@dataclass(frozen=True)
class ArmEstimate:
    """What the campaign knows about one arm.

    Attributes
    ----------
    estimate, low, high
        The posterior mean by the prior, and the mean lies between the two others with a probability of 80 %.
    best_chance, among_chance
        The chance that it is the best arm, and that it is among the best so many as there are agents; 0 for an arm that is retired.
    lower, upper
        An interval that holds with the policy's confidence, whatever the prior.
    best_rank, worst_rank
        The best and the worst rank it can have among all arms, counted from 1.
    pulls, successes, visits
        All that was ever reported of it, whatever the policy has forgotten.
    by_agent
        The pulls by number of the agent, of those who made any.
    changed
        Whether it has changed, and the policy recalls what was seen before: then its interval and its rank are open.
    """

    arm: int
    name: str
    retired: bool
    estimate: float
    low: float
    high: float
    best_chance: float
    among_chance: float
    lower: float
    upper: float
    best_rank: int
    worst_rank: int
    pulls: int
    successes: int
    visits: int
    by_agent: dict[int, int]
    changed: bool = False


@once_for_state
def estimates(state: State) -> list[ArmEstimate]:
    """What the campaign knows about every arm, in the order of the arms."""
    certain, believed, chances = certainty(state), beliefs_of(state), probable(state).arms
    known, order = certain.intervals, certain.order
    ends = [believed.quantiles(q) for q in (PROBABLE_TAIL_CHANCE, 1.0 - PROBABLE_TAIL_CHANCE)]
    arms = len(state.arms)
    first = np.ones(arms, int) if order is None else order.best
    last = np.full(arms, arms) if order is None else order.worst
    by_agent = np.zeros((len(state.agents), arms), np.int64)
    np.add.at(by_agent, [row.agent for row in state.rows], state.pulls)
    visits = count_visits_by_arm(state)
    return [
        ArmEstimate(
            arm=n,
            name=arm.name,
            retired=arm.retired,
            estimate=float(believed.mean[n]),
            low=float(ends[0][n]),
            high=float(ends[1][n]),
            best_chance=chances[n].best if n in chances else 0.0,
            among_chance=chances[n].among if n in chances else 0.0,
            lower=float(known.lower[n]),
            upper=float(known.upper[n]),
            best_rank=int(first[n]),
            worst_rank=int(last[n]),
            pulls=int(by_agent[:, n].sum()),
            successes=int(state.successes[:, n].sum()),
            visits=visits[n],
            by_agent={int(a): int(by_agent[a, n]) for a in by_agent[:, n].nonzero()[0]},
            changed=n in certain.left_out,
        )
        for n, arm in enumerate(state.arms)
    ]


def order_by_estimate(state: State) -> list[ArmEstimate]:
    """The same, the highest estimate first; after those that were visited or of which something is stated the others, then the retired."""

    def place(known: ArmEstimate) -> tuple[bool, bool, float]:
        unknown = not known.visits and state.arms[known.arm].prior is None
        return known.retired, unknown, -known.estimate

    return sorted(estimates(state), key=place)


def mark_of_visits(known: ArmEstimate) -> str:
    """What is said of an arm of which little is known because hardly anybody was there."""
    if known.retired or known.visits >= HARDLY_VISITED:
        return ""
    return "hardly visited" if known.visits else "never visited"


def count_visits_by_arm(state: State) -> list[int]:
    """For each arm, the number of visits that have an outcome."""
    counts = [0] * len(state.arms)
    for round in state.rounds:
        for (_, arm), told in round.told.items():
            counts[arm] += told.counts is not None
    return counts
