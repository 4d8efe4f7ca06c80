"""Conformance checks for policies: what the planner and the simulator rely on.

`check_policy(policy)` runs them all and raises an AssertionError that says what is wrong.
In a test suite, run them one by one:

    @pytest.mark.parametrize("check", CHECKS)
    def test_my_policy(check):
        check(my_policy)
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import LearningTable
from heterobandits.core.randomness import round_words
from heterobandits.model.problem import Problem
from heterobandits.model.team import Team
from heterobandits.planner.planner import Planner
from heterobandits.policies.policy import Policy
from heterobandits.policies.policy import policy as catalogued
from heterobandits.simulation.engine import Learning, PolicyWorld
from heterobandits.simulation.simulation import simulate

CONFORMANCE_PROBLEMS = (
    Problem([0.3, 0.7], [0.9]),
    Problem([0.2, 0.9, 0.5], [0.4, 0.8]),
    Problem([0.1, 0.3, 0.5, 0.7], [0.25, 0.5, 0.5, 1.0], believed=[0.5, 0.5, 0.4, 0.9]),
    Problem([0.3, 0.1, 0.6], [0.9, 0.7, 0.9], false_positive_rates=[0.05, 0.3, 0.0]),
    Problem([0.3, 0.1, 0.6], [0.9, 0.4], tests=[1, 3], calibration=[(17, 20), None]),
)
INDEX_DRAW_WORD = 0x9E3779B9  # where a policy draws by address, every arm and trial draws the same
# a sum over agents may be rounded differently when they are listed differently
INDEX_TOLERANCE = 1e-9


def require(holds: bool, otherwise: str) -> None:
    """Raise an AssertionError with this text unless the condition holds, even under `python -O`."""
    if not holds:
        raise AssertionError(otherwise)


def random_tables(problem: Problem, trials: int, seed: int) -> tuple[LearningTable, LearningTable]:
    """Random pulls and successes, shape (agents, arms, trials); some pairs and arms never pulled."""
    random = np.random.default_rng(seed)
    shape = (problem.agents, problem.arms, trials)
    seen = (random.random(shape) < 0.7) & (random.random((1, problem.arms, trials)) < 0.9)
    pulls = np.where(seen, random.integers(1, 40, shape), 0).astype(np.int32)
    return pulls, random.binomial(pulls, 0.4).astype(np.int32)


def index_of(
    policy: Policy, team: Team, pulls: LearningTable, successes: LearningTable
) -> npt.NDArray[np.float64]:
    """The policy's index after 50 rounds, with the agents as they are listed."""
    trials = pulls.shape[-1]

    def draws(first: int, count: int) -> npt.NDArray[np.uint32]:
        return np.full((count, trials), INDEX_DRAW_WORD, np.uint32)

    tables_ = (np.ascontiguousarray(pulls), np.ascontiguousarray(successes))
    rows = policy.index_rows(team, *tables_, 50, draws)
    if policy.sorted_by == "estimate":
        return rows
    return rows[0] if policy.index_per == "arm" else rows


def ranks_tables(policy: Policy) -> bool:
    """Whether the policy depends on the two tables alone."""
    return policy.index_per != "assignment" and not policy.needs_means


def check_numbers(policy: Policy) -> None:
    """The index has the right shape and no NaN, at the start and later, in blocks of any size."""
    if not ranks_tables(policy):
        return
    for problem in CONFORMANCE_PROBLEMS:
        for trials in (1, 5):
            for pulls, successes in (
                random_tables(problem, trials, 1),
                (np.zeros((problem.agents, problem.arms, trials), np.int32),) * 2,
            ):
                index_of(policy, problem.team, pulls, successes)  # refuses what is wrong


def check_pure(policy: Policy) -> None:
    """The same tables give the same index, and are left as they were."""
    if not ranks_tables(policy):
        return
    for problem in CONFORMANCE_PROBLEMS:
        pulls, successes = random_tables(problem, 4, 2)
        before = pulls.copy(), successes.copy()
        first = index_of(policy, problem.team, pulls, successes).copy()
        require(np.array_equal(pulls, before[0]), f"{policy.name} changed the table of pulls")
        require(np.array_equal(successes, before[1]), f"{policy.name} changed the successes")
        second = index_of(policy, problem.team, pulls, successes)
        require(
            np.array_equal(first, second),
            f"{policy.name} gave two answers for the same tables: a policy keeps no state and "
            "draws no numbers of its own",
        )


def check_trials_apart(policy: Policy) -> None:
    """A trial's index does not depend on the trials beside it."""
    if not ranks_tables(policy):
        return
    for problem in CONFORMANCE_PROBLEMS:
        pulls, successes = random_tables(problem, 6, 3)
        together = index_of(policy, problem.team, pulls, successes)
        for trial in range(6):
            one = slice(trial, trial + 1)
            alone = index_of(policy, problem.team, pulls[..., one], successes[..., one])
            require(
                np.array_equal(together[..., one], alone),
                f"{policy.name} gives trial {trial} another index when it is played alone: "
                "work along the first axes, never along the last",
            )


def check_real_tables(policy: Policy) -> None:
    """Tables of real numbers, as they are while visits are under way, give the index of the same whole numbers."""
    if not ranks_tables(policy):
        return
    for problem in CONFORMANCE_PROBLEMS:
        pulls, successes = random_tables(problem, 4, 6)
        whole = index_of(policy, problem.team, pulls, successes)
        tables = (table.astype(np.float64) for table in (pulls, successes))
        require(
            np.allclose(
                index_of(policy, problem.team, *tables), whole, rtol=INDEX_TOLERANCE, atol=0
            ),
            f"{policy.name} gives another index where the same numbers are floats: plans count visits under way with "
            "fractions of a success",
        )


def check_arms_alike(policy: Policy) -> None:
    """Relabelling the arms relabels the index."""
    if not ranks_tables(policy):
        return
    for problem in CONFORMANCE_PROBLEMS:
        pulls, successes = random_tables(problem, 4, 4)
        mixed = np.random.default_rng(4).permutation(problem.arms)
        index = index_of(policy, problem.team, pulls, successes)
        relabelled = index_of(policy, problem.team, pulls[:, mixed], successes[:, mixed])
        require(
            np.allclose(relabelled, np.take(index, mixed, axis=-2), rtol=INDEX_TOLERANCE, atol=0),
            f"{policy.name} prefers some arms by their number",
        )


def check_agents_alike(policy: Policy) -> None:
    """Relabelling the agents leaves the index of the arms, or relabels it if each has its own."""
    if not ranks_tables(policy):
        return
    for problem in CONFORMANCE_PROBLEMS:
        pulls, successes = random_tables(problem, 4, 5)
        mixed = np.random.default_rng(5).permutation(problem.agents)
        if (
            policy.leads
        ):  # it begins in picking order, in which the first listed of equals comes first
            for worth in problem.team.worth:
                equals = problem.team.worth[mixed] == worth
                mixed[equals] = np.sort(mixed[equals])
        index = index_of(policy, problem.team, pulls, successes)
        relabelled = index_of(policy, problem.team.picked(mixed), pulls[mixed], successes[mixed])
        wanted = index[mixed] if policy.index_per == "agent" else index
        require(
            np.allclose(relabelled, wanted, rtol=INDEX_TOLERANCE, atol=0),
            f"{policy.name} treats agents by their number, not by their sensitivity",
        )


def check_one_path(policy: Policy) -> None:
    """The planner, told what the simulator's luck brings, walks the simulator's path."""
    if policy.simulated_only:
        return
    seed, trial = 11, 3
    for problem in CONFORMANCE_PROBLEMS:
        learning = Learning(PolicyWorld(problem, policy), seed, trial, 1)
        team = problem.team.columns
        planner = Planner(arms=problem.arms, policy=policy, seed=seed, trial=trial, **team)
        (lucky,) = learning.world.arrays.threshold
        for round_ in range(1, 41):
            plan = planner.ask()
            words = round_words(seed, trial, round_, 0, problem.arms)[:, 0].astype(np.int64)
            found = [
                int((words[arm] <= lucky[a, arm]).sum()) for a, arm in enumerate(plan.assignment)
            ]
            planner.tell(plan, list(zip(found, problem.tests, strict=True)))
            learning.advance(1)
            require(
                np.array_equal(learning.pulls[:, :, 0], planner.pulls),
                f"{policy.name} plans round {round_} of {problem} differently in the planner and "
                "in the simulator",
            )


def check_regret(policy: Policy) -> None:
    """A simulation runs, regret never falls below zero, and blocks do not matter."""
    for problem in CONFORMANCE_PROBLEMS:
        whole = simulate(problem, policy, horizon=30, trials=20, seed=6, keep="all")
        parts = simulate(problem, policy, horizon=30, trials=20, seed=6, keep="all", block=3)
        regrets = np.asarray(whole.kept)
        require(
            np.array_equal(regrets, np.asarray(parts.kept)),
            f"{policy.name} gives other regrets in blocks of another size",
        )
        require(bool((regrets > -1e-9).all()), f"{policy.name} has a regret below zero")


CONFORMANCE_CHECKS: tuple[Callable[[Policy], None], ...] = (
    check_numbers,
    check_pure,
    check_trials_apart,
    check_real_tables,
    check_arms_alike,
    check_agents_alike,
    check_one_path,
    check_regret,
)


def check_policy(policy: str | Policy) -> None:
    """Run all conformance checks on a policy.

    Examples
    --------
    >>> check_policy("min-width")
    """
    entry = catalogued(policy)
    for check in CONFORMANCE_CHECKS:
        check(entry)
