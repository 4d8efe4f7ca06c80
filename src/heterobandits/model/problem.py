"""The problem: arms, agents, what is true of them and what the planner believes.

The state of arm n is 1 with probability mu_n; agent a then reports 1 with probability s_a,
so an outcome is Bernoulli(s_a mu_n) [eq:Y_tan]. One that gives false alarms reports 1 with probability
phi_a where the state is 0, too. What counts is what is found: s_a mu_n in each of its tests. The optimum
sends the i-th most sensitive agent (who finds the i-th most in a visit, if that has several tests) to the arm
with the i-th highest mean [eq:f_star], and the regret of an assignment is what it earns less than that in
expectation [eq:regret_def]. Where the means change, each round has its own optimum.
"""

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heterobandits.caches import cached_property
from heterobandits.errors import (
    InvalidInput,
    check_one_per_agent,
    parse_integer,
    parse_json,
    parse_list,
    parse_means,
    parse_names,
    parse_path,
    parse_rates,
    parse_sensitivities,
    parse_tests,
    repr_of,
    unknown_name,
)
from heterobandits.limits import COUNT_MAX, DRIFT_TABLE_MAX_CELLS
from heterobandits.model.calibration import Trial, estimates_of_trials, parse_trials
from heterobandits.model.drift import Drift, Stretches, drift_of_rounds, drift_to_dict, parse_drift
from heterobandits.model.prior import Prior, parse_prior, prior_to_plain
from heterobandits.model.team import Team


@dataclass(frozen=True, init=False)
class Problem:
    """Agents of known, unequal sensitivity and arms of unknown mean.

    Parameters
    ----------
    means
        The true mean of each arm, in [0, 1]; or a row of them for each round, the last of which stays.
    sensitivities
        The true sensitivity of each agent, in (0, 1]; at most as many agents as arms.
    believed
        What the planner takes the sensitivities to be; the true ones if not given.
        Outcomes, optimum and regret always follow the true ones.
    arm_names, agent_names
        Names for tables, plots and explanations.
    false_positive_rates
        How often each agent reports a success where there is nothing, less often than its sensitivity;
        never if not given.
    believed_false_positive_rates
        What the planner takes those to be; the true ones if not given.
    tests
        How many tests each agent makes in a visit, all of them independent; one if not given.
    calibration, false_positive_calibration
        What the planner knows of sensitivities and false positive rates if these are not known to it exactly: of each agent how
        many of how many it found, or None. Where `believed` is not given, it is what that makes most probable.
    drift
        How the means change over the rounds, if they do: `Changes`, `Wave` or `Walk`. What is said of a problem
        without naming a round, such as its optimum, is of its `means`.
    prior
        What the planner believes of the means beforehand: a pair (a, b) for a Beta of all arms, a list with a pair or None for each,
        or "learned", one that all arms share and that is learned from what is seen of them. Every mean is as likely if not given.

    Examples
    --------
    >>> problem = Problem(means=[0.1, 0.5, 0.3], sensitivities=[0.2, 0.9])
    >>> problem.optimum
    (2, 1)
    >>> problem.regret((1, 2))
    0.14
    """

    means: tuple[float, ...]
    sensitivities: tuple[float, ...]
    believed: tuple[float, ...]
    arm_names: tuple[str, ...]
    agent_names: tuple[str, ...]
    false_positive_rates: tuple[float, ...]
    believed_false_positive_rates: tuple[float, ...]
    tests: tuple[int, ...]
    calibration: tuple[Trial, ...]
    false_positive_calibration: tuple[Trial, ...]
    drift: Drift | None
    prior: Prior

    def __init__(
        self,
        means: Any,
        sensitivities: Any,
        believed: Any = None,
        arm_names: Any = None,
        agent_names: Any = None,
        *,
        false_positive_rates: Any = None,
        believed_false_positive_rates: Any = None,
        tests: Any = None,
        calibration: Any = None,
        false_positive_calibration: Any = None,
        drift: Any = None,
        prior: Any = None,
    ) -> None:
        if _has_rows(means):
            if drift is not None:
                raise InvalidInput(
                    "means has a row for each round, and drift says how they change: give one or the other"
                )
            means, drift = drift_of_rounds(np.asarray(means) if hasattr(means, "ndim") else means)
        means = parse_means(means)
        sensitivities = parse_sensitivities(sensitivities)
        if len(sensitivities) > len(means):
            raise InvalidInput(
                f"sensitivities has {len(sensitivities)} agents and means has {len(means)} arms: "
                "each agent needs an arm of its own, so at most as many agents as arms"
            )
        agent_names = parse_names(agent_names, "agent_names", len(sensitivities), "agent")
        rates = parse_rates(false_positive_rates, sensitivities, agent_names)
        found = parse_trials(calibration, "calibration", agent_names)
        alarms = parse_trials(false_positive_calibration, "false_positive_calibration", agent_names)
        if believed is None:
            believed = estimates_of_trials(found, sensitivities)
        else:
            believed = parse_sensitivities(believed, "believed")
            check_one_per_agent(believed, "believed", len(sensitivities))
        rates_believed = (
            estimates_of_trials(alarms, rates)
            if believed_false_positive_rates is None
            else believed_false_positive_rates
        )
        set_ = object.__setattr__
        set_(self, "means", means)
        set_(self, "sensitivities", sensitivities)
        set_(self, "believed", believed)
        set_(self, "arm_names", parse_names(arm_names, "arm_names", len(means), "arm"))
        set_(self, "agent_names", agent_names)
        set_(self, "false_positive_rates", rates)
        set_(
            self,
            "believed_false_positive_rates",
            parse_rates(rates_believed, believed, agent_names, "believed_false_positive_rates"),
        )
        set_(self, "tests", parse_tests(tests, agent_names))
        set_(self, "calibration", found)
        set_(self, "false_positive_calibration", alarms)
        set_(self, "drift", parse_drift(drift, len(means)))
        set_(self, "prior", parse_prior(prior, len(means)))

    @property
    def arms(self) -> int:
        """The number of arms, N."""
        return len(self.means)

    @property
    def agents(self) -> int:
        """The number of agents, A."""
        return len(self.sensitivities)

    @cached_property
    def team(self) -> Team:
        """The agents as the planner believes them to be."""
        rates = self.believed_false_positive_rates
        return Team(
            self.believed,
            self.agent_names,
            false_positive_rates=rates,
            tests=self.tests,
            calibration=self.calibration,
            false_positive_calibration=self.false_positive_calibration,
        )

    @cached_property
    def true_team(self) -> Team:
        """The agents as they are."""
        rates = self.false_positive_rates
        return Team(
            self.sensitivities, self.agent_names, false_positive_rates=rates, tests=self.tests
        )

    @property
    def several_tests(self) -> bool:
        """Whether a visit may yield several tests."""
        return max(self.tests) > 1

    @property
    def is_believed(self) -> bool:
        """Whether the planner believes the truth about the agents, and knows it."""
        return self.team == self.true_team

    @property
    def optimum(self) -> tuple[int, ...]:
        """The arm of each agent in the best assignment; of equal arms, or agents, the first comes first."""
        arms = np.argsort(-np.array(self.means), kind="stable")[: self.agents]
        assignment = np.empty(self.agents, np.intp)
        assignment[self.true_team.order] = arms
        return tuple(assignment.tolist())

    def stretches(self, rounds: int) -> Stretches:
        """The means of all rounds up to this one, by stretches in which they stand still."""
        if self.drift is None:
            return Stretches(np.ones(1, np.int64), np.array([self.means]))
        if self.drift.count(rounds) * self.arms > DRIFT_TABLE_MAX_CELLS:
            raise InvalidInput(
                f"round {rounds:,} of a problem that changes in each of them: at most round {DRIFT_TABLE_MAX_CELLS // self.arms:,} "
                "with so many arms, as the means of all rounds up to it are tabled"
            )
        return self.drift.stretches(self.means, rounds)

    def at(self, round: int) -> "Problem":
        """The problem as it is in one round: with the means of that round, which then stand still.

        >>> problem = Problem([0.1, 0.5], [0.9], drift={"changes": [[3, [0.6, 0.5]]]})
        >>> [problem.at(t).optimum for t in (1, 2, 3, 4)]
        [(1,), (1,), (0,), (0,)]
        """
        round = parse_integer(round, "round", 1, COUNT_MAX)
        means = self.stretches(round).means[-1].tolist()
        return Problem(
            **{f.name: getattr(self, f.name) for f in fields(self)}
            | {"means": means, "drift": None}
        )

    def expected_reward(self, assignment: Any) -> float:
        """The expected number of true successes in a round with this assignment (one arm per agent)."""
        arms = self.checked_assignment(assignment)
        worth = self.true_team.worth.tolist()
        return float(sum(w * self.means[n] for w, n in zip(worth, arms, strict=True)))

    def regret(self, assignment: Any) -> float:
        """What a round with this assignment earns less than the optimum, in expectation."""
        arms = self.checked_assignment(assignment)
        losses = (
            w * (self.means[best] - self.means[n])
            for w, best, n in zip(self.true_team.worth.tolist(), self.optimum, arms, strict=True)
        )
        return float(max(0.0, sum(losses)))

    def most_regret(self, rounds: Sequence[int]) -> npt.NDArray[np.float64]:
        """The regret of the worst that can be done in every round up to each of these, which ascend.

        >>> Problem([0.1, 0.5, 0.9], [0.5, 1.0]).most_regret([1, 100]).tolist()  # 0.9 + 0.25, not 0.1 + 0.25
        [0.8, 80.0]
        """
        worth = -np.sort(-self.true_team.worth)
        starts, means = self.stretches(rounds[-1])
        means = np.sort(means)
        worst = (means[:, ::-1][:, : self.agents] - means[:, : self.agents]) @ worth
        total = np.concatenate([[0.0], np.cumsum(np.diff(starts) * worst[:-1])])
        last = np.searchsorted(starts, rounds, side="right") - 1
        return np.asarray(total[last] + (np.asarray(rounds) - starts[last] + 1) * worst[last])

    def checked_assignment(self, assignment: Any) -> tuple[int, ...]:
        """`assignment` as a tuple of one arm per agent, no arm twice."""
        arms = parse_list(assignment, "assignment", "arms, one per agent")
        if len(arms) != self.agents:
            raise InvalidInput(
                f"assignment has {len(arms)} arms: one for each of the {self.agents} agents"
            )
        checked = tuple(
            parse_integer(n, f"assignment[{a}]", 0, self.arms - 1) for a, n in enumerate(arms)
        )
        for a, n in enumerate(checked):
            if n in checked[:a]:
                raise InvalidInput(f"assignment[{a}] is {n}: arm {n} is taken by another agent")
        return checked

    def to_dict(self) -> dict[str, Any]:
        """The problem as plain lists, as it stands in JSON and TOML files."""
        values = {
            field.name: list(getattr(self, field.name))
            for field in fields(self)
            if field.name not in ("drift", "prior")
        }
        for name in ("calibration", "false_positive_calibration"):
            if any(values[name]):
                values[name] = [list(trial or ()) for trial in values[name]]
            else:
                del values[name]
        # what reading it back makes of a field that is missing
        usual = estimates_of_trials(self.false_positive_calibration, self.false_positive_rates)
        if self.believed_false_positive_rates == usual:
            del values["believed_false_positive_rates"]
            if not any(self.false_positive_rates):
                del values["false_positive_rates"]
        if not self.several_tests:
            del values["tests"]
        if not self.prior.is_uniform:
            values["prior"] = prior_to_plain(self.prior)
        return values if self.drift is None else {**values, "drift": drift_to_dict(self.drift)}

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """The problem from what `to_dict` gives; all but means and sensitivities may be missing."""
        if not isinstance(values, dict):
            raise InvalidInput(
                f"a problem is a table with means and sensitivities, not {repr_of(values)}"
            )
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise unknown_name("field of a problem", key, known)
        for key in ("means", "sensitivities"):
            if key not in values:
                raise InvalidInput(f"a problem needs {key}: {repr_of(values)} has none")
        return cls(**values)

    def to_json(self) -> str:
        """The problem as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The problem from JSON text."""
        return cls.from_dict(_parse_text(text, parse_json, "JSON"))

    def to_toml(self) -> str:
        """The problem as TOML text."""
        # JSON's arrays of numbers and texts are TOML's: names have no DEL, which TOML wants escaped.
        values = self.to_dict()
        for key, part in values.pop("drift", {}).items():
            values[f"drift.{key}"] = part
        lines = (
            f"{key} = {json.dumps(part, ensure_ascii=False)}\n" for key, part in values.items()
        )
        return "".join(lines)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """The problem from TOML text."""
        return cls.from_dict(_parse_text(text, tomllib.loads, "TOML"))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The problem from a .json or .toml file."""
        path = parse_path(path)
        readers = {".json": cls.from_json, ".toml": cls.from_toml}
        if path.suffix.lower() not in readers:
            raise InvalidInput(f"{path} is neither a .json nor a .toml file")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
            ) from None
        try:
            return readers[path.suffix.lower()](text)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None


def parse_problem(problem: Any) -> Problem:
    """`problem`, if it is one."""
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem is {repr_of(problem)}: a Problem")
    return problem


def _has_rows(means: Any) -> bool:
    """Whether this is a list of rows rather than of numbers."""
    if hasattr(means, "ndim"):  # an array, or a data frame
        return bool(means.ndim == 2)
    return (
        isinstance(means, (list, tuple))
        and len(means) > 0
        and isinstance(means[0], (list, tuple, np.ndarray))
    )


def _parse_text(text: Any, parse: Callable[[str], Any], language: str) -> Any:
    if not isinstance(text, str):
        raise InvalidInput(f"not a problem in {language}: {repr_of(text)} is no text")
    try:
        return parse(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not a problem in {language}: {error}") from None
