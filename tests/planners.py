"""What the tests of the planner share: policies of one's own, tables made by hand, circumstances."""

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from heterobandits import CATALOGUE, Planner, Policy, policy
from heterobandits.core.randomness import uniform

PLANNED = [name for name in CATALOGUE if not policy(name).simulated_only]


def optimism(known):
    """A shared index of the user's own, infinite where nothing was pulled."""
    s = known.team.slope[:, None, None]
    information = (s**2 * known.pulls).sum(axis=0)
    weighted = (s * known.successes).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        index = weighted / information + np.sqrt(math.log(2 + known.rounds) / information)
    return np.where(information > 0, index, np.inf)


def own_optimism(known):
    """An index per agent of the user's own."""
    s = known.team.slope[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        index = known.successes / known.pulls + 0.4 / np.sqrt(s * known.pulls)
    return np.where(known.pulls > 0, index, np.inf)


OWN = [
    Policy("optimism", index=optimism),
    Policy("random optimism", index=optimism, first="random"),
    Policy("own optimism", index=own_optimism, index_per="agent"),
]


def labelled(entry):
    return policy(entry).label


def fixed(table, first="most sensitive"):
    """A policy whose index is this table: a list for all agents, or a row for each."""
    table = np.array(table, float)[..., None]
    per = "arm" if table.ndim == 2 else "agent"
    return Policy("fixed", index=lambda known: table, index_per=per, first=first)


def with_tables(planner, pulls, successes, rounds):
    """The same planner after `rounds` rounds that left these tables."""
    return Planner(
        planner.sensitivities,
        planner.arm_names,
        planner.policy,
        planner.seed,
        agent_names=planner.agent_names,
        trial=planner.trial,
        pulls=pulls,
        successes=successes,
        rounds=rounds,
        left=planner.left,
    )


def play(planner, rounds, means=None):
    """Let the planner run; an outcome is 1 if the arm's luck is below its mean."""
    arms = len(planner.arm_names)
    means = means or [(n + 1) / (arms + 1) for n in range(arms)]
    for _ in range(rounds):
        plan = planner.ask()
        r = planner.rounds + 1
        planner.tell(plan, [int(uniform(99, 0, r, n) < means[n]) for n in plan.assignment])
    return planner


def every_allowed(agents, arms, absent=(), closed=(), forbidden=(), forced=()):
    """Every assignment that is allowed, as dicts; as many agents are sent as there are arms for."""
    present = [a for a in range(agents) if a not in absent]
    free = [n for n in range(arms) if n not in closed]
    count = min(len(present), len(free))
    for who in itertools.combinations(present, count):
        for where in itertools.permutations(free, count):
            f = dict(zip(who, where, strict=True))
            if any(f.get(a) == n for a, n in forbidden) or any(f.get(a) != n for a, n in forced):
                continue
            yield f


def value(f, table, weights):
    return math.fsum(weights[a] * table[a][n] for a, n in f.items())


def sent(plan):
    return {a: n for a, n in enumerate(plan.assignment) if n is not None}


@st.composite
def sizes(draw, most=4):
    arms = draw(st.integers(1, most))
    return draw(st.integers(1, arms)), arms


@st.composite
def circumstances(draw, agents, arms, pairs=True):
    """Circumstances of a round by number; they may contradict each other."""
    found = {
        "absent": draw(st.sets(st.integers(0, agents - 1), max_size=2)),
        "closed": draw(st.sets(st.integers(0, arms - 1), max_size=2)),
    }
    if pairs:
        pair = st.tuples(st.integers(0, agents - 1), st.integers(0, arms - 1))
        found["forbidden"] = draw(st.sets(pair, max_size=4))
        found["forced"] = draw(st.sets(pair, max_size=1))
    return found


def contradictory(absent=(), closed=(), forbidden=(), forced=()):
    return any(a in absent or n in closed or (a, n) in forbidden for a, n in forced)


def ready():
    """A planner with a history and three named agents, of whom one stays home, and its plan."""
    planner = play(
        Planner([0.9, 0.5, 0.3], ["a", "b", "c", "d"], agent_names=["x", "y", "z"], seed=4), 9
    )
    return planner, planner.ask(absent=["z"])
