"""Our own addition to the paper's robustness: agents whose sensitivities are only calibrated   docs/model.md (8) to (10)

The COVID tests once more, for planners that know how many of so many planted cases each agent found, or what the paper's
cases state of the agents, or both: their regret, how often an interval for a mean fails, and how wide the intervals are.
Nothing of it was published, so no claim is judged by it.
"""

import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from heterobandits.calibration import estimate
from heterobandits.engine import Learning, World, compile_kernels
from heterobandits.errors import InvalidInput, json_from, shown, whole_number
from heterobandits.experiments.catalogue import CASES
from heterobandits.experiments.domains import DOMAINS
from heterobandits.experiments.runs import Kept, Report
from heterobandits.interrupts import held_back
from heterobandits.intervals import exactly_known, mean_threshold
from heterobandits.policies import policy
from heterobandits.problem import Problem
from heterobandits.promises import promises
from heterobandits.provenance import version, versions
from heterobandits.ranges import DEFAULT_DELTA, MOST_ADDRESS
from heterobandits.simulation import Progress, available_threads

Found = list[tuple[int, int]]  # of each agent: how many of how many

NAME = "calibration"
TITLE = "COVID tests, sensitivities only calibrated"
FORMAT = 1

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


def calibrated(found: Found, stated: tuple[float, ...] | None = None) -> Problem:
    """The problem for a planner that plans with the same, or with what is stated, and knows how little that says."""
    return Problem(COVID.problem.means, COVID.problem.sensitivities, stated, calibration=found)


TRIED: dict[str, Callable[[Found], Problem]] = {  # planners that know a calibration
    "plugged in": plugged_in,
    "calibrated": calibrated,
    **{
        f"calibrated, stated {case}": partial(calibrated, stated=stated)
        for case, stated in STATED.items()
    },
}
UNTRIED = {f"stated {case.removeprefix('covid-')}": DOMAINS[case].problem for case in CASES}


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

    @property
    def seasons(self) -> int:
        """How many times the trials of a calibration are played."""
        return self.draws * (len(TRIED) * len(SIZES) + len(UNTRIED))

    @property
    def definition(self) -> dict[str, Any]:
        """All that its figures follow from, as it stands in JSON."""
        return {
            **asdict(self),
            "problem": COVID.problem.to_dict(),
            "stated": {case: list(stated) for case, stated in STATED.items()},
            "horizon": COVID.horizon,
            "every": EVERY,
            "delta": DEFAULT_DELTA,
            "versions": {**versions(), "scipy": version("scipy")},  # which finds the ends of sets
        }


@dataclass(frozen=True)
class Row:
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


def cost(study: Study) -> float:
    """About how long it takes, in the units in which `runs` counts experiments."""
    return SEASON_COST * study.seasons


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


def play_season(problem: Problem, seed: int, trials: int) -> Season:
    """Play the trials of one calibration, and look at the intervals every now and then.

    The agents are sent by calibrated-sorted if they are only calibrated, by posterior-sorted if they count as known.
    """
    team = problem.team
    name = "calibrated-sorted" if team.is_calibrated else "posterior-sorted"
    learning = Learning(World(problem, policy(name)), seed, 0, trials)
    (look,) = promises(learning, COVID.horizon, DEFAULT_DELTA, ("posterior-ratio",))
    failed = np.zeros(trials, bool)
    for _ in range(0, COVID.horizon, EVERY):
        learning.advance(EVERY)
        failed |= look()["posterior-ratio"]
    c, y = (table.reshape(len(team), -1) for table in (learning.pulls, learning.successes))
    known, share = exactly_known(team, c, y, DEFAULT_DELTA)
    lower, upper = known.ends(mean_threshold(problem.arms, share))
    return Season(
        float(learning.regrets().mean()), float(failed.mean()), float((upper - lower).mean())
    )


def play_study(
    study: Study, *, threads: int | None = None, progress: Progress = lambda done, total: None
) -> list[Row]:
    """The figures of all planners after all numbers of tests, the same for any number of threads.

    `progress` is called in the calling thread with the seasons played and in all.
    """
    drawn = {tests: calibrations(tests, study.draws, study.seed) for tests in SIZES}
    cells = {
        (planner, tests): [view(found) for found in drawn[tests]]
        for planner, view in TRIED.items()
        for tests in SIZES
    }
    cells |= {(planner, 0): [problem] * study.draws for planner, problem in UNTRIED.items()}
    seeds = [season_seed(study.seed, draw) for draw in range(study.draws)]
    compile_kernels(policy(name) for name in POLICIES)
    pool = ThreadPoolExecutor(available_threads() if threads is None else threads)
    seasons: list[Season] = []
    with held_back() as strike:
        try:
            for season in pool.map(
                partial(play_season, trials=study.trials),
                [problem for problems in cells.values() for problem in problems],
                seeds * len(cells),
            ):
                seasons.append(season)
                progress(len(seasons), study.seasons)
                strike()
        finally:
            pool.shutdown(cancel_futures=True)
    each = iter(seasons)
    return [summed_up(study, *cell, [next(each) for _ in seeds]) for cell in cells]


def summed_up(study: Study, planner: str, tests: int, seasons: list[Season]) -> Row:
    """The row of one planner after so many tests, from a season for each calibration."""
    table = np.array(seasons)
    regret, failed, width = table.mean(axis=0).tolist()
    error = float(table[:, 0].std(ddof=1)) / len(table) ** 0.5
    return Row(planner, tests, regret, error, failed, width, study.draws, study.trials)


def run_study(
    study: Study,
    kept: Kept,
    report: Report = lambda title, share: None,
    note: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """The rows of the study, played or read; `report` is told the share of the study that is done."""
    report(TITLE, 0.0)
    known = kept.read(NAME, rows_from)
    if isinstance(known, str):
        note(known)
    elif known is not None and known[0] == study.definition:
        return known[1]
    rows = play_study(study, progress=lambda done, total: report(TITLE, done / total))
    kept.write(NAME, to_json(study, rows))
    return rows


def to_json(study: Study, rows: list[Row]) -> str:
    """The rows, and what they follow from."""
    payload = {
        "heterobandits_calibration": FORMAT,
        "definition": study.definition,
        "rows": [asdict(row) for row in rows],
    }
    return json.dumps(payload, indent=1, ensure_ascii=False)


def rows_from(text: str) -> tuple[dict[str, Any], list[Row]]:
    """What rows follow from, and the rows, as `to_json` wrote them; anything else is refused."""
    try:
        payload = json_from(text)
        format_, definition, rows = (
            payload[key] for key in ("heterobandits_calibration", "definition", "rows")
        )
        found = list(_read(rows, definition))
    except InvalidInput as error:
        raise InvalidInput(f"a study that is damaged: {error}") from None
    except (AttributeError, ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput(f"not a study of calibrated agents: {shown(text)}") from None
    if format_ != FORMAT:
        raise InvalidInput(f"a study of format {shown(format_)}: this version reads {FORMAT}")
    return definition, found


def _read(rows: list[dict[str, Any]], definition: dict[str, Any]) -> Iterator[Row]:
    """The rows, if all of them are there with numbers that they can have."""
    wanted = [*((p, tests) for p in TRIED for tests in SIZES), *((p, 0) for p in UNTRIED)]
    if [(row["planner"], row["tests"]) for row in rows] != wanted:
        raise InvalidInput("its rows are not those of the planners and their tests")
    for given in rows:
        row = Row(**given)
        for name in ("draws", "trials"):
            if given[name] != definition[name]:
                raise InvalidInput(f"{name} is {shown(given[name])} with {row.planner!r}")
        for name in ("regret", "regret_se", "failed", "width"):
            number, most = given[name], 1.0 if name in ("failed", "width") else math.inf
            if type(number) is not float or not 0.0 <= number <= most or math.isinf(number):
                raise InvalidInput(f"{name} is {shown(number)} with {row.planner!r}")
        yield row
