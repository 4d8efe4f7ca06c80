"""Regret curves: moments, quantiles, paired differences, tables, files and the plot.

A trial's regret is rounded once to a multiple of a fixed power of two and then summed in
whole numbers. Sums of whole numbers do not depend on their order, so means and standard
errors come out with the same bits however the trials were split over blocks, threads,
shards or machines, and merging two results is exact.
"""

import json
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from heterobandits.errors import (
    MOST,
    InvalidInput,
    UnsupportedVersion,
    fraction,
    real_number,
    shown,
    unknown,
    whole_number,
)
from heterobandits.problem import Problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.object_]  # Python's whole numbers, of any size

FORMAT = 1
HALF_BITS = 26  # a regret fills two halves of this many bits, so that products of halves fit in 64


class Style(NamedTuple):
    """How a policy is drawn."""

    title: str
    colour: str
    dashes: str | tuple[int, tuple[int, ...]]


STYLES = {
    "min-width": Style("Min-Width", "#0000ff", "-"),
    "min-ucb": Style("Min-UCB", "#008000", "--"),
    "no-sharing": Style("No-Sharing", "#ff8c00", "-."),
    "cucb": Style("CUCB", "#00a5c8", ":"),
    "ucb": Style("UCB", "#d62728", (0, (5, 1, 1, 1, 1, 1))),
    "min-width-grouped": Style("Min-Width, grouped", "#6a5acd", (0, (4, 1))),
    "mixture-width": Style("Mixture-Width", "#8e44ad", (0, (6, 2))),
    "kl-ucb": Style("KL-UCB", "#2f4f4f", (0, (3, 1, 1, 1))),
    "posterior-ratio": Style("Posterior-Ratio", "#d4a017", "--"),
    "posterior-ratio-decay": Style("Posterior-Ratio, decaying", "#9a7d0a", ":"),
    "posterior-sorted": Style("Posterior-Sorted", "#c2185b", "-"),
    "thompson": Style("Thompson", "#5d8aa8", "-."),
    "thompson-sorted": Style("Thompson-Sorted", "#1b7a8c", (0, (2, 2))),
    "greedy": Style("Greedy", "#8c564b", "--"),
    "random": Style("Random", "#7f7f7f", ":"),
    "oracle": Style("Oracle", "#000000", "-"),
}


def style_of(label: str, others: Iterator[str] | None = None) -> Style:
    """How the policy of this label is drawn; one that is not in the catalogue takes the next colour."""
    return STYLES.get(label) or Style(label, next(others or iter(OTHER_COLOURS)), "-")


OTHER_COLOURS = ("#9467bd", "#e377c2", "#bcbd22", "#17becf", "#aa3377")


def binary_places(horizon: int, agents: int) -> int:
    """The exponent e such that any regret of this many rounds, times 2**e, fills at most 52 bits."""
    return 2 * HALF_BITS - (horizon * agents).bit_length()


def tally(regrets: Floats, places: int) -> tuple[Integers, Integers]:
    """Exact sums and sums of products over the trials of a block.

    From regrets[policy, checkpoint, trial] come sums[policy, checkpoint] in units of 2**-places
    and products[policy, policy, checkpoint] in units of 4**-places.
    """
    units = np.rint(np.ldexp(regrets, places)).astype(np.int64)
    high = units >> HALF_BITS
    low = units - (high << HALF_BITS)

    def dot(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> Integers:
        return np.asarray(np.einsum("pkb,qkb->pqk", left, right), object)

    mixed = dot(high, low) + dot(low, high)
    products = dot(high, high) * 4**HALF_BITS + mixed * 2**HALF_BITS + dot(low, low)
    return units.sum(axis=-1).astype(object), products


def joined_spans(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
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


def versions() -> dict[str, str]:
    """The versions of everything that can change a number."""
    packages = ("heterobandits", "numpy", "numba")
    found = {name: metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **found}


def machine() -> dict[str, Any]:
    """What the numbers were computed on; it changes how long that takes, not what comes out."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
    }


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


@dataclass(frozen=True, eq=False)
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
    """

    problem: Problem
    policies: tuple[str, ...]
    parameters: tuple[dict[str, Any], ...]
    horizon: int
    seed: int
    rounds: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    sums: Integers
    products: Integers
    seconds: tuple[float, ...]
    partial: bool
    versions: dict[str, str]
    kept_rounds: tuple[int, ...] = ()
    kept: Floats | None = None  # [policy, kept round, trial], trials in ascending order

    @property
    def trials(self) -> int:
        """The number of trials behind every number."""
        return sum(stop - start for start, stop in self.spans)

    @property
    def places(self) -> int:
        """The exponent of the unit in which regrets are summed."""
        return binary_places(self.horizon, self.problem.agents)

    def position(self, policy: str) -> int:
        """Where a policy stands in `policies`."""
        if policy not in self.policies:
            raise unknown("policy in these results", policy, self.policies)
        return self.policies.index(policy)

    def mean(self, policy: str) -> Floats:
        """Mean regret at each checkpoint."""
        unit = self.trials << self.places
        return np.array([total / unit for total in self.sums[self.position(policy)]], np.float64)

    def se(self, policy: str) -> Floats:
        """Standard error of the mean at each checkpoint; NaN for a single trial."""
        p = self.position(policy)
        return self._standard_error(self.sums[p], self.products[p, p])

    def difference(self, policy: str, other: str, level: float = 0.95) -> Difference:
        """Mean of (regret of `policy` - regret of `other`), trial by trial on the same luck.

        The interval is Student's, at this confidence level, for each checkpoint alone.
        """
        from scipy.special import stdtrit

        p, q = self.position(policy), self.position(other)
        level = fraction(level, "level")
        sums = self.sums[p] - self.sums[q]
        unit = self.trials << self.places
        mean = np.array([total / unit for total in sums], np.float64)
        se = self._standard_error(sums, self._squared_differences(p, q))
        reach = float(stdtrit(max(1, self.trials - 1), 0.5 + level / 2)) * se
        return Difference(np.array(self.rounds), mean, se, mean - reach, mean + reach)

    def ratio(self, policy: str, other: str, level: float = 0.95) -> Ratio:
        """Mean regret of `policy` over that of `other`, on the same luck; NaN where that is zero.

        The interval is Student's for the logarithm of the ratio, whose variance is that of
        x / mean x - y / mean y over the pairs (x, y) of regrets.
        """
        from scipy.special import stdtrit

        p, q = self.position(policy), self.position(other)
        level = fraction(level, "level")
        n = self.trials
        x, y = self.mean(policy), self.mean(other)
        scale = n * max(1, n - 1) << 2 * self.places

        def covariance(a: int, b: int) -> Floats:
            spread = n * self.products[a, b] - self.sums[a] * self.sums[b]
            return np.array([value / scale for value in spread], np.float64)

        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(y > 0, x / y, np.nan)
            spread = (
                covariance(p, p) / x**2 - 2 * covariance(p, q) / (x * y) + covariance(q, q) / y**2
            )
            reach = float(stdtrit(max(1, n - 1), 0.5 + level / 2)) * np.sqrt(
                np.maximum(spread, 0.0) / (n if n > 1 else math.nan)
            )
            rounds = np.array(self.rounds)
            return Ratio(rounds, value, value * np.exp(-reach), value * np.exp(reach))

    def _standard_error(self, sums: Integers, squares: Integers) -> Floats:
        n = self.trials
        if n < 2:
            return np.full(len(self.rounds), math.nan)
        unit = n * n * (n - 1) << 2 * self.places
        spread = (n * square - total * total for total, square in zip(sums, squares, strict=True))
        return np.array([math.sqrt(value / unit) for value in spread], np.float64)

    def regrets(self, policy: str) -> Floats:
        """The regret of every trial at the horizon; needs keep="final" or keep="all"."""
        return np.asarray(self._kept()[self.position(policy), -1])

    def quantiles(self, policy: str, probabilities: Sequence[float]) -> Floats:
        """Quantiles over the trials, shape (probabilities, kept rounds); needs keep="all" or "final"."""
        levels = [real_number(p, "a quantile's level", "a number in [0, 1]") for p in probabilities]
        if not levels or not all(0 <= p <= 1 for p in levels):
            raise InvalidInput(f"probabilities is {shown(probabilities)}: numbers in [0, 1]")
        return np.asarray(np.quantile(self._kept()[self.position(policy)], levels, axis=-1))

    def _kept(self) -> Floats:
        if self.kept is None:
            raise InvalidInput('no trial was kept: simulate with keep="final" or keep="all"')
        return self.kept

    def merge(self, other: "Results") -> "Results":
        """Both results as if they had been one run; they must differ in nothing but their trials."""
        for field in ("problem", "policies", "parameters", "horizon", "seed", "rounds"):
            if getattr(self, field) != getattr(other, field):
                raise InvalidInput(
                    f"results with different {field} cannot be merged: "
                    f"{shown(getattr(self, field))} and {shown(getattr(other, field))}"
                )
        spans = joined_spans(self.spans + other.spans)
        kept = None
        if self.kept is not None and other.kept is not None:
            if self.kept_rounds != other.kept_rounds:
                raise InvalidInput("results that kept different rounds cannot be merged")
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
            kept_rounds=self.kept_rounds if kept is not None else (),
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
        payload = {
            "heterobandits_results": FORMAT,
            **self.provenance(),
            "labels": list(self.policies),
            "rounds": list(self.rounds),
            "mean": {label: self.mean(label).tolist() for label in self.policies},
            "se": {label: without_nan(self.se(label)) for label in self.policies},
            "seconds": list(self.seconds),
            "sums": [[str(value) for value in row] for row in self.sums],
            "products": [[[str(v) for v in row] for row in block] for block in self.products],
            "kept_rounds": list(self.kept_rounds),
            "kept": None if self.kept is None else self.kept.tolist(),
        }
        return json.dumps(payload, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Results from what `to_json` wrote."""
        try:
            payload = json.loads(text)
            format_ = payload["heterobandits_results"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InvalidInput(f"not the results of heterobandits: {shown(text)}") from None
        if not isinstance(format_, int) or format_ > FORMAT:
            raise UnsupportedVersion(
                f"results of format {shown(format_)}: this version reads up to {FORMAT}"
            )
        try:
            results = cls(
                problem=Problem.from_dict(payload["problem"]),
                policies=tuple(payload["labels"]),
                parameters=tuple(payload["policies"]),
                horizon=whole_number(payload["horizon"], "horizon", 1, MOST),
                seed=whole_number(payload["seed"], "seed", 0),
                rounds=tuple(payload["rounds"]),
                spans=joined_spans((start, stop) for start, stop in payload["trial_spans"]),
                sums=_integers(payload["sums"]),
                products=_integers(payload["products"]),
                seconds=tuple(payload["seconds"]),
                partial=bool(payload["partial"]),
                versions=dict(payload["versions"]),
                kept_rounds=tuple(payload["kept_rounds"]),
                kept=None if payload["kept"] is None else np.array(payload["kept"], np.float64),
            )
            results._check()
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise InvalidInput(f"results that are damaged: {error}") from None
        return results

    def _check(self) -> None:
        """Refuse what does not fit together; the message says what."""
        policies, checkpoints = len(self.policies), len(self.rounds)
        for label, parameters in zip(self.policies, self.parameters, strict=True):
            if not isinstance(label, str) or not isinstance(parameters["name"], str):
                raise InvalidInput(f"a policy is called {shown(label)}")
        for before, round_ in pairwise((0, *self.rounds)):
            whole_number(round_, "a checkpoint", before + 1, self.horizon)
        for start, stop in self.spans:
            whole_number(
                stop, "the end of a span of trials", whole_number(start, "its start", 0) + 1
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
        if len(self.seconds) != policies or not all(
            real_number(s, "seconds", "") >= 0 for s in self.seconds
        ):
            raise InvalidInput(f"seconds are {shown(self.seconds)}")
        kept = (policies, len(self.kept_rounds), self.trials)
        if self.kept is not None and (
            self.kept.shape != kept or self.kept_rounds not in (self.rounds[-1:], self.rounds)
        ):
            raise InvalidInput(f"the kept trials have the shape {self.kept.shape}")

    def _squared_differences(self, p: int, q: int) -> Integers:
        """Sums over the trials of the squared difference of two policies' regrets."""
        return np.asarray(self.products[p, p] - 2 * self.products[p, q] + self.products[q, q])

    def to_csv(self, path: str | Path) -> None:
        """The table as CSV, with the provenance in a first line that starts with '#'."""
        text = "# " + json.dumps(self.provenance()) + "\n" + self.to_frame().to_csv(index=False)
        write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))

    def to_parquet(self, path: str | Path) -> None:
        """The table as Parquet, with the provenance in the file's metadata under 'heterobandits'."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(self.to_frame(), preserve_index=False)
        note = {b"heterobandits": json.dumps(self.provenance()).encode()}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **note})
        write_aside(path, lambda aside: pq.write_table(table, aside))

    def plot(self, ax: "Axes | None" = None, title: str = "", limit: float | None = None) -> "Axes":
        """Mean regret over the rounds with a band of two standard errors, as in the paper.

        `limit` is the least regret per ln T in the long run, `bounds.lower_bound(problem)`: if it
        is given, its curve is drawn too.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(6, 4), layout="constrained")[1]
        others = iter(OTHER_COLOURS * len(self.policies))
        rounds = np.array((0, *self.rounds))
        for label in self.policies:
            style = style_of(label, others)
            mean = np.array((0.0, *self.mean(label)))
            band = 2 * np.nan_to_num(np.array((0.0, *self.se(label))))
            ax.plot(rounds, mean, color=style.colour, linestyle=style.dashes, label=style.title)
            ax.fill_between(rounds, mean - band, mean + band, color=style.colour, alpha=0.2, lw=0)
        top = ax.get_ylim()[1]
        if limit is not None:
            draw_limit(ax, limit, self.horizon)
        ax.set(xlabel="round", ylabel="cumulative regret", title=title, xlim=(0, self.horizon))
        ax.set_ylim(0, top)
        ax.grid(alpha=0.25)
        noted = "interrupted, " if self.partial else ""
        ax.legend(title=f"{noted}{self.trials:,} trials ± 2 SE", title_fontsize="small")
        return ax

    def save(self, folder: str | Path, title: str = "", limit: float | None = None) -> list[Path]:
        """Write results.json (without loss), results.csv, results.parquet and regret.png into `folder`.

        `limit` as in `plot`.
        """
        from matplotlib.figure import Figure

        folder = Path(folder)
        figure = Figure(figsize=(6, 4), layout="constrained")
        self.plot(figure.subplots(), title, limit)
        written = [
            folder / name
            for name in ("results.json", "results.csv", "results.parquet", "regret.png")
        ]
        text = self.to_json()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_aside(written[0], lambda aside: aside.write_text(text, encoding="utf-8"))
            self.to_csv(written[1])
            self.to_parquet(written[2])
            write_aside(written[3], lambda aside: figure.savefig(aside, dpi=200, format="png"))
        except OSError as error:
            raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}") from None
        return written


LIMIT_STYLE: dict[str, Any] = {"color": "#444444", "linestyle": (0, (1, 2)), "lw": 1}


def limit_label(limit: float) -> str:
    """What a legend says of the least regret possible in the long run, limit times ln t."""
    return "limit for t → ∞: " + (f"{limit:.3g} ln t" if limit > 0 else "bounded")


def draw_limit(ax: "Axes", limit: float, horizon: int) -> None:
    """The least regret possible in the long run, limit times ln t; at finite t some policies are below."""
    rounds = np.unique(np.geomspace(1, max(2, horizon), 200))
    ax.plot(rounds, limit * np.log(rounds), label=limit_label(limit), **LIMIT_STYLE)


def write_aside(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in place: never half a file under that name."""
    path = Path(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    os.close(handle)
    aside = Path(name)
    try:
        write(aside)
        aside.chmod(0o644)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def without_nan(values: Floats) -> list[float | None]:
    """The values as JSON can hold them: None for what is not a number."""
    return [None if math.isnan(value) else float(value) for value in values]


def _integers(nested: Any) -> Integers:
    return np.asarray(np.vectorize(int, otypes=[object])(np.array(nested, dtype=object)))
