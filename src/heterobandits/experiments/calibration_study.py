"""Our own addition to the paper's robustness: agents whose sensitivities are only calibrated   docs/model.md (8) to (10)

The COVID tests once more, for planners that know how many of so many planted cases each agent found, or what the paper's
cases state of the agents, or both: their regret, how often an interval for a mean fails, and how wide the intervals are.
Nothing of it was published, so no claim is judged by it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from heterobandits.errors import whole_number
from heterobandits.experiments.catalogue import CASES
from heterobandits.experiments.runs import TitledJob, all_of, run_works
from heterobandits.inference.intervals import exactly_known, mean_threshold
from heterobandits.limits import DEFAULT_DELTA, MOST_ADDRESS
from heterobandits.model.calibration import estimate
from heterobandits.model.domains import DOMAINS
from heterobandits.model.problem import Problem
from heterobandits.policies.policy import policy
from heterobandits.provenance import version
from heterobandits.simulation.coverage import promises
from heterobandits.simulation.engine import (
    Control,
    Learning,
    PolicyWorld,
    compile_kernels,
    is_stopped,
)
from heterobandits.simulation.pool.pieces import PieceResult as Kept
from heterobandits.simulation.pool.pieces import (
    canonical_definition,
    made_with_versions,
    short_digest,
)
from heterobandits.simulation.pool.shards import ShardStore

Found = list[tuple[int, int]]  # of each agent: how many of how many

NAME = "calibration"
TITLE = "COVID tests, sensitivities only calibrated"

DRAWS = 24
TRIALS = (
    8  # with each calibration: with more, little is learnt of what differs from one to the next
)
SIZES = (10, 20, 50, 200)
EVERY = 10  # rounds from one look at the intervals to the next
SEASON_COST = 3e6  # beside the trials times rounds times cells of an experiment
SPREAD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: its multiples keep away from each other

COVID = DOMAINS["covid"]
STATED = {case.removeprefix("covid-"): DOMAINS[case].problem.believed for case in CASES}
POLICIES = ("posterior-sorted", "calibrated-sorted")


def plugged_in(found: Found) -> Problem:
    """The problem for a planner that takes what calibration makes most probable for known."""
    believed = [estimate(trial) for trial in found]
    return Problem(COVID.problem.means, COVID.problem.sensitivities, believed)


def problem_as_calibrated(found: Found, stated: tuple[float, ...] | None = None) -> Problem:
    """The problem for a planner that plans with the same, or with what is stated, and knows how little that says."""
    return Problem(COVID.problem.means, COVID.problem.sensitivities, stated, calibration=found)


TRIED: dict[str, Callable[[Found], Problem]] = {  # planners that know a calibration
    "plugged in": plugged_in,
    "calibrated": problem_as_calibrated,
    **{
        f"calibrated, stated {case}": partial(problem_as_calibrated, stated=stated)
        for case, stated in STATED.items()
    },
}
UNTRIED = {f"stated {case.removeprefix('covid-')}": DOMAINS[case].problem for case in CASES}
CELLS = [  # of the table: a planner, and how many tests of each agent it knows
    *((planner, tests) for planner in TRIED for tests in SIZES),
    *((planner, 0) for planner in UNTRIED),
]


@dataclass(frozen=True)
class Study:
    """How much is played: calibrations drawn for each number of tests, trials with each of them, and the luck of it all."""

    draws: int = DRAWS
    trials: int = TRIALS
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.draws, "draws", 2)
        whole_number(self.trials, "trials", 1)
        whole_number(self.seed, "seed", 0, MOST_ADDRESS)

    @classmethod
    def of(cls, trials: int | None, seed: int) -> "Study":
        """One with about so many trials behind each figure: all that it has by default, and never more."""
        if trials is None:
            return cls(seed=seed)
        each = min(TRIALS, trials // 2)
        return cls(min(DRAWS, -(-trials // each)), each, seed)


@dataclass(frozen=True)
class StudyRow:
    """One planner after one number of tests of each agent, 0 if it knows of none.

    Attributes
    ----------
    regret, regret_se
        At the horizon; the error is that of the mean over the calibrations drawn.
    failed
        The share of trials in which an interval failed, of any mean in any round that was looked at.
    width
        Of the intervals at the horizon, on the average.
    draws, trials
        How many calibrations, and how many trials with each.
    """

    planner: str
    tests: int
    regret: float
    regret_se: float
    failed: float
    width: float
    draws: int
    trials: int


class Season(NamedTuple):
    """What came of the trials of one calibration: means over these trials."""

    regret: float
    failed: float
    width: float


def calibrations(tests: int, draws: int, seed: int) -> list[Found]:
    """What each agent finds in so many tests, drawn so many times."""
    random = np.random.default_rng([tests, seed])
    return [
        [(found, tests) for found in random.binomial(tests, COVID.problem.sensitivities).tolist()]
        for _ in range(draws)
    ]


def season_seed(seed: int, draw: int) -> int:
    """The seed of a calibration's trials: the same for all planners, and another one in every study and draw."""
    return (seed * SPREAD + draw) % (MOST_ADDRESS + 1)


def play_season(
    problem: Problem, seed: int, trials: int, control: Control | None = None
) -> Season | None:
    """Play the trials of one calibration, and look at the intervals every now and then; None if stopped before the end.

    The agents are sent by calibrated-sorted if they are only calibrated, by posterior-sorted if they count as known.
    """
    team = problem.team
    name = "calibrated-sorted" if team.is_calibrated else "posterior-sorted"
    learning = Learning(PolicyWorld(problem, policy(name)), seed, 0, trials)
    (look,) = promises(learning, COVID.horizon, DEFAULT_DELTA, ("posterior-ratio",))
    failed = np.zeros(trials, bool)
    for _ in range(0, COVID.horizon, EVERY):
        if control is not None and is_stopped(control):
            return None
        learning.advance(EVERY)
        failed |= look()["posterior-ratio"] >= 1
    c, y = (table.reshape(len(team), -1) for table in (learning.pulls, learning.successes))
    known, share = exactly_known(team, c, y, DEFAULT_DELTA)
    lower, upper = known.ends(mean_threshold(problem.arms, share))
    return Season(
        float(learning.regrets().mean()), float(failed.mean()), float((upper - lower).mean())
    )


@dataclass(frozen=True)
class Seasoned:
    """The trials of one calibration, as a piece for the runner; they are as many as the study has."""

    problem: Problem
    seed: int
    trials: int

    @cached_property
    def definition(self) -> str:
        """All that its figures follow from; scipy finds the ends of sets."""
        return canonical_definition(
            {
                "study": NAME,
                "problem": self.problem.to_dict(),
                "seed": self.seed,
                "trials": self.trials,
                "horizon": COVID.horizon,
                "every": EVERY,
                "delta": DEFAULT_DELTA,
                "made_with": {**made_with_versions(), "scipy": version("scipy")},
            }
        )

    @cached_property
    def place(self) -> tuple[str, int, int]:
        """Its digest, and all its trials."""
        return short_digest(self.definition), 0, self.trials

    @property
    def rounds(self) -> int:
        """Of all trials."""
        return self.trials * COVID.horizon

    @property
    def cost(self) -> float:
        """Beside the trials times rounds times cells of an experiment."""
        return SEASON_COST

    def play(self, control: Control) -> Kept | None:
        """Play them."""
        begin = time.perf_counter()
        season = play_season(self.problem, self.seed, self.trials, control)
        if season is None:
            return None
        seconds = time.perf_counter() - begin
        return Kept(*self.place, self.definition, [], [], [seconds], [*season], [], [])


def seasons(study: Study) -> list[Seasoned]:
    """All that is to be played: a season for each planner, number of tests and calibration drawn."""
    drawn = {tests: calibrations(tests, study.draws, study.seed) for tests in SIZES}
    problems = [view(found) for view in TRIED.values() for tests in SIZES for found in drawn[tests]]
    problems += [problem for problem in UNTRIED.values() for _ in range(study.draws)]
    seeds = [season_seed(study.seed, draw) for draw in range(study.draws)] * len(CELLS)
    return [Seasoned(*one, study.trials) for one in zip(problems, seeds, strict=True)]


def study_job(study: Study) -> TitledJob:
    """The study for the runner."""
    return all_of(TITLE, seasons(study))


def study_rows(study: Study, played: list[Kept]) -> list[StudyRow]:
    """The figures of all planners after all numbers of tests."""
    found = {row.place: Season(*row.kept) for row in played}
    each = iter([found[season.place] for season in seasons(study)])
    return [
        sum_up_seasons(study, *cell, [next(each) for _ in range(study.draws)]) for cell in CELLS
    ]


def play_study(study: Study, *, threads: int | None = None) -> list[StudyRow]:
    """The same, played now: whatever the number of threads."""
    compile_kernels(policy(name) for name in POLICIES)
    (played,) = run_works([study_job(study)], ShardStore(None), threads=threads)
    return study_rows(study, played)


def sum_up_seasons(study: Study, planner: str, tests: int, seasons: list[Season]) -> StudyRow:
    """The row of one planner after so many tests, from a season for each calibration."""
    table = np.array(seasons)
    regret, failed, width = table.mean(axis=0).tolist()
    error = float(table[:, 0].std(ddof=1)) / len(table) ** 0.5
    return StudyRow(planner, tests, regret, error, failed, width, study.draws, study.trials)
