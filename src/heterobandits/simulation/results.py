"""Regret curves: moments, quantiles, paired differences and tables.

A trial's regret is rounded once to a multiple of a fixed power of two and then summed in
whole numbers. Sums of whole numbers do not depend on their order, so means and standard
errors come out with the same bits however the trials were split over blocks, threads,
shards or machines, and merging two results is exact.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import BigIntegers, Floats
from heterobandits.errors import (
    InvalidInput,
    parse_choice,
    parse_fraction,
    parse_integer,
    parse_list,
    parse_names,
    parse_real,
    position_of_name,
    repr_of,
)
from heterobandits.model.problem import Problem
from heterobandits.output import files, plots
from heterobandits.simulation import moments

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


FAILED_MEDIAN_MULTIPLE = 10  # the median's regret: a trial with more has failed,
FAILED_REGRET_SHARE = 0.01  # if that is also more than this share of the most that it could lose,
FAILED_REGRET_MIN = 1e-6  # and no rounding
UNDER_WAY_CHOICES = ("counted", "ignored")
MERGED_FIELDS = (  # in which results that are merged must agree
    *("problem", "policies", "parameters", "horizon", "seed", "rounds", "versions"),
    *("delay", "under_way"),
)
REGRET_BITS = 52  # what a regret fills at most: the two halves that the engine sums by


def binary_places(horizon: int, tests: int) -> int:
    """The exponent e such that any regret of this many rounds of so many tests, times 2**e, fills at most 52 bits."""
    return REGRET_BITS - (horizon * tests).bit_length()


def _sum_exactly(units: Floats) -> BigIntegers:
    """Exact sums over the last axis of whole numbers of up to REGRET_BITS bits, in halves that cannot overflow."""
    half = REGRET_BITS // 2
    whole = units.astype(np.int64)
    high, low = ((part.sum(axis=-1)).astype(object) for part in (whole >> half, whole % 2**half))
    return np.asarray(high * 2**half + low)


def geometric_mean(values: Iterable[float]) -> float:
    """The mean of ratios: that of their logarithms, which treats 1/2 and 2 alike."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def join_spans(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same trials in as few spans as possible, in ascending order; no trial may be in two."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if joined and start < joined[-1][1]:
            raise InvalidInput(f"trial {start} is there twice: it would count twice")
        if joined and start == joined[-1][1]:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)


def count_failed_trials(regrets: Floats, most: Any) -> npt.NDArray[np.int64]:
    """The number of failed trials: regret over FAILED_TIMES the median and over FAILED_SHARE of the maximum.

    The last axis is that of the trials. `most` is what a trial can lose, one number or one for each along the axis before it.
    """
    median = np.median(regrets, axis=-1)
    limit = (
        np.maximum(FAILED_MEDIAN_MULTIPLE * median, FAILED_REGRET_SHARE * np.asarray(most))
        + FAILED_REGRET_MIN
    )
    return np.asarray((regrets > limit[..., None]).sum(axis=-1))


class Ratio(NamedTuple):
    """Mean regret of one policy over that of another at each checkpoint, with a confidence interval."""

    rounds: npt.NDArray[np.int64]
    value: Floats
    lower: Floats
    upper: Floats


class Difference(NamedTuple):
    """Regret of one policy minus another's on the same luck, at each checkpoint."""

    rounds: npt.NDArray[np.int64]
    mean: Floats
    se: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """What `simulate` measured: the regret of every policy at every checkpoint.

    Attributes
    ----------
    problem, horizon, seed
        What was run.
    policies
        The label of each policy, in the order given; `parameters` has what it stands for.
    rounds
        The checkpoints; the last one is the horizon.
    spans
        The trials run, as pairs (first, last + 1).
    partial
        Whether the run was interrupted before all trials were done.
    seconds
        For each policy the time the threads spent on it, divided by their number; compiling
        is not counted.
    delay, under_way
        By how many rounds outcomes came late, and what policies made of visits until then; without a delay, "counted".
    """

    problem: Problem
    policies: tuple[str, ...]
    parameters: tuple[dict[str, Any], ...]
    horizon: int
    seed: int
    rounds: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    sums: BigIntegers
    products: BigIntegers
    seconds: tuple[float, ...]
    partial: bool
    versions: dict[str, str]
    kept_rounds: tuple[int, ...] = ()
    kept: Floats | None = None  # [policy, kept round, trial], trials in ascending order
    delay: int = 0
    under_way: str = "counted"

    @property
    def trials(self) -> int:
        """The number of trials behind every number."""
        return sum(stop - start for start, stop in self.spans)

    @property
    def places(self) -> int:
        """The exponent of the unit in which regrets are summed."""
        return binary_places(self.horizon, sum(self.problem.tests))

    def __repr__(self) -> str:
        """What was run, and the regret of each policy at the horizon."""
        regrets = ", ".join(
            f"{label} {self.mean(label)[-1]:.4g} ± {self.se(label)[-1]:.2g}"
            for label in self.policies
        )
        count = f"{self.trials:,} trial{'s' * (self.trials > 1)}"
        return (
            f"<Results: {self.problem.agents} agents, {self.problem.arms} arms, "
            f"{self.horizon:,} rounds, {count}{self.delay_text}{', interrupted' * self.partial}; "
            f"regret ± SE: {regrets}>"
        )

    @property
    def delay_text(self) -> str:
        """How late outcomes came, after a comma; nothing if they came at once."""
        late = f", outcomes {self.delay:,} round{'s' * (self.delay > 1)} late" if self.delay else ""
        return late + ", visits under way ignored" * (self.under_way == "ignored")

    def position(self, policy: str) -> int:
        """Where a policy stands in `policies`."""
        return position_of_name(policy, "policy in these results", self.policies)

    def mean(self, policy: str) -> Floats:
        """Mean regret at each checkpoint."""
        return moments.mean_of_sums(self.trials, self.places, self.sums[self.position(policy)])

    def se(self, policy: str) -> Floats:
        """Standard error of the mean at each checkpoint; NaN for a single trial."""
        p = self.position(policy)
        return moments.standard_error_of_sums(
            self.trials, self.places, self.sums[p], self.products[p, p]
        )

    def difference(self, policy: str, other: str, level: float = 0.95) -> Difference:
        """Mean of (regret of `policy` - regret of `other`), trial by trial on the same luck.

        The interval is Student's, at this confidence level, for each checkpoint alone. It takes the mean for nearly normal: what
        fails in fewer than 3 of `trials` trials, and was not seen, is not in it.
        """
        level = parse_fraction(level, "level")
        mean, se = moments.paired_difference(*self._pair(policy, other))
        reach = moments.student_quantile(level, self.trials) * se
        return Difference(np.array(self.rounds), mean, se, mean - reach, mean + reach)

    def ratio(self, policy: str, other: str, level: float = 0.95) -> Ratio:
        """Mean regret of `policy` over that of `other`, on the same luck; NaN where that is zero.

        The interval is Student's for the logarithm of the ratio, whose variance is that of
        x / mean x - y / mean y over the pairs (x, y) of regrets; what it takes for granted is what `difference` does.
        """
        level = parse_fraction(level, "level")
        value, error = moments.log_ratio(*self._pair(policy, other))
        factor = np.exp(moments.student_quantile(level, self.trials) * error)
        return Ratio(np.array(self.rounds), value, value / factor, value * factor)

    def evidence(self, policy: str, other: str) -> Floats:
        """The logarithm of the evidence that `policy` has less expected regret than `other`, at each checkpoint.

        If it has not, this ever reaches ln(1/e) with probability e at most, however often you look and whatever the law of
        the regrets is: rare failures that no trial has shown are allowed for, as far as regret can go.
        """
        most = self.problem.most_regret(self.rounds)
        return moments.log_evidence(most, *self._pair(policy, other))

    def _pair(self, policy: str, other: str) -> tuple[Any, ...]:
        """Two policies, as `moments` takes them."""
        p, q = self.position(policy), self.position(other)
        squares = self.products
        return (
            *(self.trials, self.places, self.sums[p], self.sums[q]),
            *(squares[p, p], squares[p, q], squares[q, q]),
        )

    def regrets(self, policy: str) -> Floats:
        """The regret of every trial at the horizon; needs keep="final" or keep="all"."""
        return np.asarray(self._kept()[self.position(policy), -1])

    def quantiles(self, policy: str, probabilities: Sequence[float]) -> Floats:
        """Quantiles over the trials, shape (probabilities, kept rounds); needs keep="all" or "final"."""
        given = parse_list(probabilities, "probabilities", "numbers in [0, 1]")
        levels = [parse_real(p, "a quantile's level", "a number in [0, 1]") for p in given]
        if not levels or not all(0 <= p <= 1 for p in levels):
            raise InvalidInput(f"probabilities is {repr_of(probabilities)}: numbers in [0, 1]")
        return np.asarray(np.quantile(self._kept()[self.position(policy)], levels, axis=-1))

    def _kept(self) -> Floats:
        if self.kept is None:
            raise InvalidInput('no trial was kept: simulate with keep="final" or keep="all"')
        return self.kept

    def merge(self, other: "Results") -> "Results":
        """Both results as if they had been one run; they must differ in nothing but their trials."""
        if not isinstance(other, Results):
            raise InvalidInput(f"other is {repr_of(other)}: Results, as simulate gives")
        for field in MERGED_FIELDS:
            mine, theirs = getattr(self, field), getattr(other, field)
            if mine != theirs:
                raise InvalidInput(
                    f"results with different {field} cannot be merged: "
                    f"{repr_of(mine, 120)} and {repr_of(theirs, 120)}"
                )
        spans = join_spans(self.spans + other.spans)
        if self.kept_rounds != other.kept_rounds:
            raise InvalidInput(
                "results that kept different rounds of their trials cannot be merged: "
                f"{repr_of(self.kept_rounds, 120)} and {repr_of(other.kept_rounds, 120)}"
            )
        kept = None
        if self.kept is not None and other.kept is not None:
            ids = [
                i
                for part in (self, other)
                for start, stop in part.spans
                for i in range(start, stop)
            ]
            kept = np.concatenate([self.kept, other.kept], axis=-1)[..., np.argsort(ids)]
        return replace(
            self,
            spans=spans,
            sums=self.sums + other.sums,
            products=self.products + other.products,
            seconds=tuple(a + b for a, b in zip(self.seconds, other.seconds, strict=True)),
            partial=self.partial or other.partial,
            kept=kept,
        )

    def rounds_per_second(self, policy: str) -> float:
        """Trials times horizon over the seconds this policy took."""
        seconds = self.seconds[self.position(policy)]
        return self.trials * self.horizon / seconds if seconds > 0 else math.nan

    def provenance(self) -> dict[str, Any]:
        """Everything needed to make these numbers again."""
        return {
            "problem": self.problem.to_dict(),
            "policies": list(self.parameters),
            "horizon": self.horizon,
            "seed": self.seed,
            "trials": self.trials,
            "trial_spans": [list(span) for span in self.spans],
            "partial": self.partial,
            "versions": self.versions,
            **({"delay": self.delay, "under_way": self.under_way} if self.delay else {}),
        }

    def to_frame(self) -> "pd.DataFrame":
        """One row for each policy and checkpoint: mean regret, its standard error, quantiles if kept."""
        import pandas as pd

        frames = []
        for label in self.policies:
            columns: dict[str, Any] = {
                "policy": label,
                "round": np.array(self.rounds),
                "mean": self.mean(label),
                "se": self.se(label),
                "trials": self.trials,
            }
            if self.kept is not None and self.kept_rounds == self.rounds:
                levels = (0.05, 0.5, 0.95)
                for level, row in zip(levels, self.quantiles(label, levels), strict=True):
                    columns[f"q{100 * level:02.0f}"] = row
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    def to_json(self) -> str:
        """The results without loss; `from_json` reads them back. Large sums are written as text."""
        return files.render_results(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Results from what `to_json` wrote."""
        return files.parse_results(text, cls._checked)

    @classmethod
    def _checked(cls, spans: Iterable[tuple[int, int]], **fields: Any) -> Self:
        """Results of these fields, which may come from anywhere."""
        results = cls(spans=join_spans(spans), **fields)
        results._check()
        return results

    def _check(self) -> None:
        """Refuse what does not fit together; the message says what."""
        policies, checkpoints = len(self.policies), len(self.rounds)
        labels = parse_names(self.policies, "labels", len(self.parameters), "policy")
        if labels != self.policies or not all(isinstance(p["name"], str) for p in self.parameters):
            raise InvalidInput(f"labels are {repr_of(self.policies)}: the names of the policies")
        parse_integer(self.delay, "delay", 0, self.horizon)
        parse_choice(self.under_way, "under_way", UNDER_WAY_CHOICES)
        if not isinstance(self.partial, bool):
            raise InvalidInput(f"partial is {repr_of(self.partial)}: true or false")
        for before, round_ in pairwise((0, *self.rounds)):
            parse_integer(round_, "a checkpoint", before + 1, self.horizon)
        for start, stop in self.spans:
            parse_integer(
                stop, "the end of a span of trials", parse_integer(start, "its start", 0) + 1
            )
        if not self.rounds or self.rounds[-1] != self.horizon or not self.spans:
            raise InvalidInput("the last checkpoint is not the horizon, or there are no trials")
        if self.sums.shape != (policies, checkpoints):
            raise InvalidInput(f"sums have the shape {self.sums.shape}")
        if self.products.shape != (policies, policies, checkpoints):
            raise InvalidInput(f"products have the shape {self.products.shape}")
        moments = [(self.sums[p], self.products[p, p]) for p in range(policies)] + [
            (self.sums[p] - self.sums[q], self._squared_differences(p, q))
            for p, q in combinations(range(policies), 2)
        ]
        if any((self.trials * squares < sums * sums).any() for sums, squares in moments):
            raise InvalidInput("the sums of squares are less than the sums allow")
        # the largest regret of a trial; rounding in the ledger may take one a little below 0 or beyond it
        slack = sum(self.problem.tests)
        most = (self.horizon * sum(self.problem.tests) << self.places) + slack
        if (self.sums < -slack * self.trials).any() or (self.sums > most * self.trials).any():
            raise InvalidInput("the sums are of regrets that no trial can have")
        if any((self.products[p, p] > self.trials * most**2).any() for p in range(policies)):
            raise InvalidInput("the sums of squares are of regrets that no trial can have")
        if len(self.seconds) != policies or not all(
            parse_real(s, "seconds", "") >= 0 for s in self.seconds
        ):
            raise InvalidInput(f"seconds are {repr_of(self.seconds)}")
        kept = (policies, len(self.kept_rounds), self.trials)
        if self.kept is not None and (
            self.kept.shape != kept or self.kept_rounds not in (self.rounds[-1:], self.rounds)
        ):
            raise InvalidInput(f"the kept trials have the shape {self.kept.shape}")
        if self.kept is not None:
            units = np.rint(self.kept * 2.0**self.places)
            inside = ((units >= -slack) & (units <= most)).all()
            if not inside or (_sum_exactly(units) != self.sums[:, -len(self.kept_rounds) :]).any():
                raise InvalidInput("the kept trials do not add up to the sums")

    def _squared_differences(self, p: int, q: int) -> BigIntegers:
        """Sums over the trials of the squared difference of two policies' regrets."""
        return np.asarray(self.products[p, p] - 2 * self.products[p, q] + self.products[q, q])

    def to_csv(self, path: str | Path) -> None:
        """The table as CSV, with the provenance in a first line that starts with '#'."""
        files.write_csv(self, path)

    def to_parquet(self, path: str | Path) -> None:
        """The table as Parquet, with the provenance in the file's metadata under 'heterobandits'."""
        files.write_parquet(self, path)

    def plot(self, ax: "Axes | None" = None, title: str = "", limit: float | None = None) -> "Axes":
        """Mean regret over the rounds with a band of two standard errors, as in the paper.

        `limit` is the least regret per ln T in the long run, `bounds.lower_bound(problem)`: if it
        is given, its curve is drawn too, where the run is long enough that no policy ends below it.
        """
        return plots.draw_regret(self, ax, title, limit)

    def save(self, folder: str | Path, title: str = "", limit: float | None = None) -> list[Path]:
        """Write results.json (without loss), results.csv, results.parquet and regret.png into `folder`.

        `limit` as in `plot`.
        """
        return files.save_results(self, folder, title, limit)
