"""The paper's tables beside ours: regret and percent change with misjudged sensitivities, rankings.

The published percent changes are means over trials of (estimated - true) / true, with runs paired
that have nothing to do with each other. That mean is too high: by Jensen's inequality
E[1/X] > 1/E[X], so even a policy that is not affected at all shows a rise. Beside it stands the
ratio of the mean regrets, which is not biased that way and, on the same luck, much sharper.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.experiments.catalogue import (
    MISJUDGED,
    PUBLISHED_PERCENT_CHANGES,
    PUBLISHED_REGRET,
    SYNTHETIC,
    Experiment,
)
from heterobandits.simulation.results import Results

TABLE_CONFIDENCE = 0.999  # of the confidence intervals behind every verdict
TABLE_STANDARD_ERRORS = 3.3  # as many standard errors as belong to it
PUBLISHED_ROUNDING = 0.05  # a published figure has one decimal


@dataclass(frozen=True)
class RegretCell:
    """A published figure and ours, each with its standard error."""

    policy: str
    case: str
    published: float
    published_se: float
    ours: float
    ours_se: float

    @property
    def agrees(self) -> bool:
        """Whether the two differ by no more than their errors and the published rounding allow."""
        reach = (
            TABLE_STANDARD_ERRORS * math.hypot(self.published_se, self.ours_se) + PUBLISHED_ROUNDING
        )
        return abs(self.ours - self.published) <= reach


@dataclass(frozen=True)
class PercentCell(RegretCell):
    """A percent change: the paper's statistic in `ours`, the ratio of means beside it."""

    ratio: float
    ratio_se: float


def robustness_regret_table(results: dict[str, Results]) -> list[RegretCell]:
    """Regret at the horizon with misjudged sensitivities."""
    return [
        RegretCell(name, case, *published, *_regret_at_horizon(results[case], name))
        for name, row in PUBLISHED_REGRET.items()
        for case, published in zip(MISJUDGED, row, strict=True)
    ]


def _regret_at_horizon(results: Results, policy: str) -> tuple[float, float]:
    return float(results.mean(policy)[-1]), float(results.se(policy)[-1])


def robustness_percent_table(results: dict[str, Results]) -> list[PercentCell]:
    """Percent change of the regret against known sensitivities."""
    return [
        PercentCell(
            name,
            case,
            *published,
            *papers_percent(results[case].regrets(name), results["covid"].regrets(name)),
            *ratio_percent(results[case].regrets(name), results["covid"].regrets(name)),
        )
        for name, row in PUBLISHED_PERCENT_CHANGES.items()
        for case, published in zip(MISJUDGED, row, strict=True)
    ]


def papers_percent(estimated: Floats, true: Floats) -> tuple[float, float]:
    """The paper's statistic and its standard error: each trial paired with the one before, of another luck."""
    other = np.roll(true, 1)
    change = 100 * (estimated - other) / other
    return float(change.mean()), float(change.std(ddof=1) / math.sqrt(len(change)))


def ratio_percent(estimated: Floats, true: Floats) -> tuple[float, float]:
    """Percent change of the mean regret; the error, by the delta method, knows the shared luck."""
    ratio = estimated.mean() / true.mean()
    residual = (estimated - ratio * true) / true.mean()
    return 100 * float(ratio - 1), 100 * float(residual.std(ddof=1) / math.sqrt(len(true)))


@dataclass(frozen=True)
class PublishedRanking:
    """The published order of the policies beside ours, best first."""

    experiment: Experiment
    ours: tuple[str, ...]
    means: tuple[float, ...]
    verdict: Literal["match", "tied", "mismatch"]

    def to_dict(self) -> dict[str, Any]:
        """As it stands in JSON."""
        return {
            "means": list(self.experiment.problem.means),
            "sensitivities": list(self.experiment.problem.sensitivities),
            "published": list(self.experiment.ranking),
            "ours": list(self.ours),
            "regret": list(self.means),
            "verdict": self.verdict,
        }


def order_by_regret(results: Results) -> tuple[str, ...]:
    """The policies by their mean regret at the horizon, best first."""
    return tuple(sorted(results.policies, key=lambda label: float(results.mean(label)[-1])))


def rankings_table(results: dict[str, Results]) -> list[PublishedRanking]:
    """All rankings of the synthetic table that were run.

    "mismatch" if a pair of policies is, with confidence, in another order than published;
    "tied" if the order of our means differs, but only where the intervals overlap.
    """
    found = []
    for experiment in SYNTHETIC:
        if experiment.name not in results:
            continue
        run = results[experiment.name]
        ours = order_by_regret(run)
        means = tuple(float(run.mean(label)[-1]) for label in ours)
        order = experiment.ranking
        contradicted = any(
            run.difference(better, worse, TABLE_CONFIDENCE).lower[-1] > 0
            for i, better in enumerate(order)
            for worse in order[i + 1 :]
        )
        verdict: Literal["match", "tied", "mismatch"] = (
            "mismatch" if contradicted else "match" if ours == order else "tied"
        )
        found.append(PublishedRanking(experiment, ours, means, verdict))
    return found
