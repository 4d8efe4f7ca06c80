"""Our own addition to the paper's robustness: agents whose sensitivities are only calibrated   docs/model.md (8) to (10)

The COVID tests once more, for planners that know how many of so many planted cases each agent found, or what the paper's
cases state of the agents, or both: their regret, how often an interval for a mean fails, and how wide the intervals are.
Nothing of it was published, so no claim is judged by it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from heterobandits.caches import cached_property
from heterobandits.errors import parse_integer
from heterobandits.experiments.catalogue import MISJUDGED
from heterobandits.experiments.runs import TitledJob, job_of_pieces, run_works
from heterobandits.inference.intervals import exact_posteriors, mean_threshold
from heterobandits.limits import ADDRESS_MAX, DEFAULT_DELTA
from heterobandits.model.calibration import estimate_of_trial
from heterobandits.model.domains import DOMAINS
from heterobandits.model.problem import Problem
from heterobandits.policies.policy import policy
from heterobandits.provenance import version_of
from heterobandits.simulation.coverage import strain_functions
from heterobandits.simulation.engine import (
    Control,
    Learning,
    PolicyWorld,
    compile_kernels,
    is_stopped,
)
from heterobandits.simulation.pool.pieces import PieceResult as Kept
from heterobandits.simulation.pool.pieces import (
    render_definition,
    short_digest,
    versions_of_results,
)
from heterobandits.simulation.pool.shards import ShardStore

CalibrationOutcome = list[tuple[int, int]]  # of each agent: how many of how many

CALIBRATION_STUDY_NAME = "calibration"
CALIBRATION_STUDY_TITLE = "COVID tests, sensitivities only calibrated"

STUDY_DRAWS = 24
STUDY_TRIALS = (
    8  # with each calibration: with more, little is learnt of what differs from one to the next
)
STUDY_TESTS = (10, 20, 50, 200)
INTERVAL_LOOK_ROUNDS = 10  # rounds from one look at the intervals to the next
SEASON_COST = 3e6  # beside the trials times rounds times cells of an experiment
# 2**64 over the golden ratio: its multiples keep away from each other
SEASON_SEED_FACTOR = 0x9E3779B97F4A7C15

COVID = DOMAINS["covid"]
STATED_SENSITIVITIES = {
    case.removeprefix("covid-"): DOMAINS[case].problem.believed for case in MISJUDGED
}
STUDY_POLICIES = ("posterior-sorted", "calibrated-sorted")


def problem_with_estimates(found: CalibrationOutcome) -> Problem:
    """The problem for a planner that takes the calibration's estimates for the truth."""
    believed = [estimate_of_trial(trial) for trial in found]
    return Problem(COVID.problem.means, COVID.problem.sensitivities, believed)


def problem_with_calibration(
    found: CalibrationOutcome, stated: tuple[float, ...] | None = None
) -> Problem:
    """The problem for a planner that uses those estimates, or stated ones, and knows how uncertain they are."""
    return Problem(COVID.problem.means, COVID.problem.sensitivities, stated, calibration=found)


# planners that know a calibration
CALIBRATED_PLANNERS: dict[str, Callable[[CalibrationOutcome], Problem]] = {
    "plugged in": problem_with_estimates,
    "calibrated": problem_with_calibration,
    **{
        f"calibrated, stated {case}": partial(problem_with_calibration, stated=stated)
        for case, stated in STATED_SENSITIVITIES.items()
    },
}
STATED_PLANNERS = {
    f"stated {case.removeprefix('covid-')}": DOMAINS[case].problem for case in MISJUDGED
}
STUDY_CELLS = [  # of the table: a planner, and how many tests of each agent it knows
    *((planner, tests) for planner in CALIBRATED_PLANNERS for tests in STUDY_TESTS),
    *((planner, 0) for planner in STATED_PLANNERS),
]


@dataclass(frozen=True)
class Study:
    """The size of a study: calibrations for each number of tests, trials for each calibration, and the seed."""

    draws: int = STUDY_DRAWS
    trials: int = STUDY_TRIALS
    seed: int = 0

    def __post_init__(self) -> None:
        parse_integer(self.draws, "draws", 2)
        parse_integer(self.trials, "trials", 1)
        parse_integer(self.seed, "seed", 0, ADDRESS_MAX)

    @classmethod
    def of(cls, trials: int | None, seed: int) -> "Study":
        """One with about so many trials behind each figure: all that it has by default, and never more."""
        if trials is None:
            return cls(seed=seed)
        each = min(STUDY_TRIALS, trials // 2)
        return cls(min(STUDY_DRAWS, -(-trials // each)), each, seed)


@dataclass(frozen=True)
class StudyRow:
    """One planner after one number of tests per agent; 0 tests if it does not know the calibration.

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


class SeasonMeans(NamedTuple):
    """The trials of one calibration, averaged."""

    regret: float
    failed: float
    width: float


def draw_calibrations(tests: int, draws: int, seed: int) -> list[CalibrationOutcome]:
    """What each agent finds in so many tests, drawn so many times."""
    random = np.random.default_rng([tests, seed])
    return [
        [(found, tests) for found in random.binomial(tests, COVID.problem.sensitivities).tolist()]
        for _ in range(draws)
    ]


def seed_of_season(seed: int, draw: int) -> int:
    """The seed for one calibration's trials: the same for all planners, different for each study and draw."""
    return (seed * SEASON_SEED_FACTOR + draw) % (ADDRESS_MAX + 1)


def play_season(
    problem: Problem, seed: int, trials: int, control: Control | None = None
) -> SeasonMeans | None:
    """Play the trials of one calibration, checking the intervals now and then; None if stopped early.

    The agents are sent by calibrated-sorted if they are only calibrated, by posterior-sorted if they count as known.
    """
    team = problem.team
    name = "calibrated-sorted" if team.is_calibrated else "posterior-sorted"
    learning = Learning(PolicyWorld(problem, policy(name)), seed, 0, trials)
    (look,) = strain_functions(learning, COVID.horizon, DEFAULT_DELTA, ("posterior-ratio",))
    failed = np.zeros(trials, bool)
    for _ in range(0, COVID.horizon, INTERVAL_LOOK_ROUNDS):
        if control is not None and is_stopped(control):
            return None
        learning.advance(INTERVAL_LOOK_ROUNDS)
        failed |= look()["posterior-ratio"] >= 1
    c, y = (table.reshape(len(team), -1) for table in (learning.pulls, learning.successes))
    known, share = exact_posteriors(team, c, y, DEFAULT_DELTA)
    lower, upper = known.ends(mean_threshold(problem.arms, share))
    return SeasonMeans(
        float(learning.regrets().mean()), float(failed.mean()), float((upper - lower).mean())
    )


@dataclass(frozen=True)
class SeasonPiece:
    """The trials of one calibration, as a piece for the runner; they are as many as the study has."""

    problem: Problem
    seed: int
    trials: int

    @cached_property
    def definition(self) -> str:
        """All that its figures follow from; scipy finds the ends of sets."""
        return render_definition(
            {
                "study": CALIBRATION_STUDY_NAME,
                "problem": self.problem.to_dict(),
                "seed": self.seed,
                "trials": self.trials,
                "horizon": COVID.horizon,
                "every": INTERVAL_LOOK_ROUNDS,
                "delta": DEFAULT_DELTA,
                "made_with": {**versions_of_results(), "scipy": version_of("scipy")},
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


def season_pieces(study: Study) -> list[SeasonPiece]:
    """All pieces of the study: one season for each planner, number of tests and calibration drawn."""
    drawn = {tests: draw_calibrations(tests, study.draws, study.seed) for tests in STUDY_TESTS}
    problems = [
        view(found)
        for view in CALIBRATED_PLANNERS.values()
        for tests in STUDY_TESTS
        for found in drawn[tests]
    ]
    problems += [problem for problem in STATED_PLANNERS.values() for _ in range(study.draws)]
    seeds = [seed_of_season(study.seed, draw) for draw in range(study.draws)] * len(STUDY_CELLS)
    return [SeasonPiece(*one, study.trials) for one in zip(problems, seeds, strict=True)]


def study_job(study: Study) -> TitledJob:
    """The study for the runner."""
    return job_of_pieces(CALIBRATION_STUDY_TITLE, season_pieces(study))


def study_rows(study: Study, played: list[Kept]) -> list[StudyRow]:
    """The figures of all planners after all numbers of tests."""
    found = {row.place: SeasonMeans(*row.kept) for row in played}
    each = iter([found[season.place] for season in season_pieces(study)])
    return [
        sum_up_seasons(study, *cell, [next(each) for _ in range(study.draws)])
        for cell in STUDY_CELLS
    ]


def play_study(study: Study, *, threads: int | None = None) -> list[StudyRow]:
    """Play the study now and return its rows, the same for any number of threads."""
    compile_kernels(policy(name) for name in STUDY_POLICIES)
    (played,) = run_works([study_job(study)], ShardStore(None), threads=threads)
    return study_rows(study, played)


def sum_up_seasons(study: Study, planner: str, tests: int, seasons: list[SeasonMeans]) -> StudyRow:
    """The row of one planner after so many tests, from a season for each calibration."""
    table = np.array(seasons)
    regret, failed, width = table.mean(axis=0).tolist()
    error = float(table[:, 0].std(ddof=1)) / len(table) ** 0.5
    return StudyRow(planner, tests, regret, error, failed, width, study.draws, study.trials)
