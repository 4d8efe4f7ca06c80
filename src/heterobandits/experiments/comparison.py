"""The verdict: chosen policies against the paper's five on the paper's problems and on random ones, and against the best possible.

For every problem the yardstick is the best of the paper's five there. It is picked by the same
trials that give its numbers, which favours it a little. Verdicts do not rest on which it is: by Student's
intervals a policy is ahead if it has less regret than each of the five, and behind if one of them has less.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heterobandits.errors import InvalidInput, parse_choice, parse_integer, parse_list, parse_path
from heterobandits.experiments import figures, leaderboard
from heterobandits.experiments.catalogue import FIGURES, SYNTHETIC, Experiment
from heterobandits.experiments.runs import (
    OnRunShare,
    open_store,
    run_experiments,
    trials_of_looks,
    with_trials,
    write_table,
)
from heterobandits.experiments.tiny_worlds import (
    QUICK_TINY_WORLDS,
    TINY_WORLDS,
    OptimumDistance,
    distances_to_optimum,
)
from heterobandits.inference.bounds import lower_bound
from heterobandits.model.problem import Problem
from heterobandits.output.files import check_writable, explain_write_errors, write_atomic
from heterobandits.output.plots import is_above_limit
from heterobandits.policies.catalogue import BEYOND_PAPER, PAPER
from heterobandits.policies.policy import CATALOGUE, Policy, parse_policies, policy
from heterobandits.provenance import describe_machine, versions_in_use
from heterobandits.simulation.results import Ratio, Results, count_failed_trials, geometric_mean

ComparisonGroup = Literal["settings", "domains", "random"]
ComparisonVerdict = Literal["ahead", "unclear", "behind"]

COMPARISON_GROUPS: tuple[ComparisonGroup, ...] = ("settings", "domains", "random")
# of a verdict, and of an interval, however often a problem is looked at
COMPARISON_CONFIDENCE = 0.99
# a ratio whose interval reaches no further to each side is known well enough
NARROW_RATIO_MARGIN = 0.05
SETTING_TRIALS = 32  # to begin with; where that is not enough, more
DOMAIN_TRIALS = 125
COMPARISON_DOMAINS = ("covid", "hotel", "poaching-2", "poaching-3", "poaching-5")

RANDOM_PROBLEM_COUNT = 200
RANDOM_SEED = 2024
RANDOM_HORIZON_ROUNDS = 2000
RANDOM_TRIALS = 32
RANDOM_MAX_AGENTS = 10
RANDOM_MAX_ARMS = 20
UCB_FAST_MAX_ASSIGNMENTS = 1000  # beyond, ucb takes longer than all others together

QUICK_COMPARISON_TRIALS = 32
# of the long horizon of the settings, a quick run plays one in so many rounds
QUICK_SETTING_DIVISOR = 20
QUICK_RANDOM_PROBLEM_COUNT = 20


@dataclass(frozen=True)
class ComparedPolicy:
    """One policy on one problem.

    Attributes
    ----------
    best
        Which of the paper's five has the least mean regret there.
    ratio, lower, upper
        Mean regret over that policy's, with an interval at LEVEL.
    verdict
        Whether, by Student's intervals, it has less regret than each of the paper's five, or one of them less than it, or neither.
    sure
        Whether that holds whatever the law of the regrets is: rare failures that nobody saw included.
    trials, played
        Behind the numbers; and all that were played, those behind the verdict included.
    largest, failed
        The largest regret of all that were played, and how many failed.
    to_min_width
        Mean regret over Min-Width's.
    to_limit
        Mean regret over C ln T; None where C, the lower bound, is zero.
    """

    problem: str
    title: str
    group: ComparisonGroup
    policy: str
    regret: float
    se: float
    best: str
    ratio: float
    lower: float
    upper: float
    verdict: ComparisonVerdict
    sure: bool
    trials: int
    played: int
    largest: float
    failed: int
    to_min_width: float
    to_limit: float | None


@dataclass(frozen=True)
class Comparison:
    """The results of the comparison, and how long it took."""

    rows: list[ComparedPolicy]
    speeds: dict[str, float]  # million rounds a second over all problems
    seconds: float
    quick: bool
    folder: Path
    entered: tuple[Policy, ...] = ()  # beside those of the catalogue
    distances: tuple[OptimumDistance, ...] = ()  # from the best possible, in tiny worlds

    def policy_of(self, label: str) -> Policy:
        """The policy of a label in the rows."""
        return next((p for p in self.entered if p.label == label), None) or CATALOGUE[label]

    def of(self, policy: str, group: ComparisonGroup | None = None) -> list[ComparedPolicy]:
        """The rows of one policy, of one group if that is given."""
        return [r for r in self.rows if r.policy == policy and group in (None, r.group)]

    @property
    def policies(self) -> list[str]:
        """All that were compared, the least regret beside the best of the five first."""
        names = dict.fromkeys(row.policy for row in self.rows)
        return sorted(names, key=lambda name: geometric_mean(r.ratio for r in self.of(name)))

    def standings(self) -> list[dict[str, Any]]:
        """One entry for each policy, best first: what `--format json` prints and the page shows."""
        return [
            {
                "policy": name,
                "guarantee": self.policy_of(name).guarantee,
                "groups": {
                    group: standing_of_policy(rows)
                    for group in COMPARISON_GROUPS
                    if (rows := self.of(name, group))
                },
                "all": standing_of_policy(self.of(name)),
                "million_rounds_per_second": self.speeds[name],
            }
            for name in self.policies
        ]

    @property
    def page(self) -> Path:
        """The leaderboard."""
        return self.folder / "leaderboard.html"

    def summary(self) -> dict[str, Any]:
        """What `heterobandits compare --format json` prints."""
        return {
            "standings": self.standings(),
            "rows": [asdict(row) for row in self.rows],
            "optimum": [asdict(one) | {"ratio": one.ratio} for one in self.distances],
            "level": COMPARISON_CONFIDENCE,
            "quick": self.quick,
            "page": str(self.page),
            "seconds": self.seconds,
        }


def standing_of_policy(rows: Sequence[ComparedPolicy]) -> dict[str, Any]:
    """A policy over many problems."""
    limits = [row.to_limit for row in rows if row.to_limit is not None]
    worst = max(rows, key=lambda row: row.ratio)
    return {
        "problems": len(rows),
        **{v: sum(r.verdict == v for r in rows) for v in ("ahead", "unclear", "behind")},
        "sure": sum(row.sure for row in rows),
        "played": sum(row.played for row in rows),
        "failed": sum(row.failed for row in rows),
        "ratio": geometric_mean(row.ratio for row in rows),
        "to_min_width": float(np.median([row.to_min_width for row in rows])),
        "to_limit": float(np.median(limits)) if limits else None,
        "worst_ratio": worst.ratio,
        "worst_problem": worst.title,
    }


def random_problems(count: int) -> list[Problem]:
    """The same problems for everybody: agents from 1 to 10, arms from their number to 20, at least two.

    Means are uniform on [0, 1] and sensitivities on [0.05, 1], with three digits.
    """
    random = np.random.default_rng(RANDOM_SEED)
    problems = []
    for _ in range(count):
        agents = int(random.integers(1, RANDOM_MAX_AGENTS + 1))
        arms = int(random.integers(max(2, agents), RANDOM_MAX_ARMS + 1))
        means = random.uniform(0.0, 1.0, arms).round(3)
        sensitivities = random.uniform(0.05, 1.0, agents).round(3)
        problems.append(Problem(means.tolist(), sensitivities.tolist()))
    return problems


def comparison_experiments(
    policies: Sequence[str | Policy], quick: bool
) -> dict[ComparisonGroup, list[Experiment]]:
    """The comparison's experiments by group, each with these policies and the paper's five."""
    entries = {policy(p).label: policy(p) for p in (*PAPER, *policies)}
    names = tuple(label if label in CATALOGUE else entry for label, entry in entries.items())
    # more than a ranking is made of them, so single trials are kept
    settings = [replace(e, policies=names, at_first=SETTING_TRIALS, ranking=()) for e in SYNTHETIC]
    domains = [
        replace(e, policies=names, at_first=DOMAIN_TRIALS)
        for e in FIGURES
        if e.name in COMPARISON_DOMAINS
    ]
    count = QUICK_RANDOM_PROBLEM_COUNT if quick else RANDOM_PROBLEM_COUNT
    drawn = [
        Experiment(
            f"random-{i}",
            f"random problem {i}: {problem.agents} agent{'s' * (problem.agents > 1)}, {problem.arms} arms",
            problem,
            RANDOM_HORIZON_ROUNDS,
            RANDOM_TRIALS,
            "random problems",
            policies=tuple(
                n
                for n in names
                if policy(n).index_per != "assignment"
                or count_assignments(problem) <= UCB_FAST_MAX_ASSIGNMENTS
            ),
        )
        for i, problem in enumerate(random_problems(count), 1)
    ]
    if quick:
        settings = [
            replace(
                e,
                horizon=e.horizon // QUICK_SETTING_DIVISOR,
                trials=QUICK_COMPARISON_TRIALS,
                at_first=None,
            )
            for e in settings
        ]
        domains = with_trials(domains, QUICK_COMPARISON_TRIALS)
        drawn = [replace(e, trials=QUICK_COMPARISON_TRIALS, horizon=e.horizon // 4) for e in drawn]
    return {"settings": settings, "domains": domains, "random": drawn}


def count_assignments(problem: Problem) -> int:
    """The number of ways to send the agents to different arms."""
    return math.perm(problem.arms, problem.agents)


def papers_policies_in(results: Results) -> list[str]:
    """The paper's policies that were run."""
    return [name for name in PAPER if name in results.policies]


def best_of_five(results: Results) -> str:
    """The paper's policy with the lowest mean regret."""
    return min(papers_policies_in(results), key=lambda name: float(results.mean(name)[-1]))


def verdict_of(
    experiment: Experiment, looked: Results, name: str
) -> tuple[ComparisonVerdict, bool]:
    """Whether a policy is ahead or behind, and whether that is certain.

    The error that is allowed, half of it for each side, is shared by all the looks there may be, and for "behind" by the five.
    """
    five = papers_policies_in(looked)
    rivals = [rival for rival in five if rival != name]
    error, looks = 1.0 - COMPARISON_CONFIDENCE, len(trials_of_looks(experiment))
    one, any_ = 1.0 - error / looks, 1.0 - error / (looks * len(five))
    if name not in five and all(looked.difference(name, r, one).upper[-1] < 0 for r in rivals):
        least = min(float(looked.evidence(name, r)[-1]) for r in rivals)
        return "ahead", least >= math.log(2 / error)
    if any(looked.difference(name, r, any_).lower[-1] > 0 for r in rivals):
        most = max(float(looked.evidence(r, name)[-1]) for r in rivals)
        return "behind", most >= math.log(2 * len(five) / error)
    return "unclear", False


def judge_policies(
    experiment: Experiment, group: ComparisonGroup, results: Results, looked: Results | None = None
) -> list[ComparedPolicy]:
    """Every policy on one problem; verdicts come from the trials at the last look, if those are others."""
    looked = results if looked is None else looked
    means = {name: float(results.mean(name)[-1]) for name in results.policies}
    best = best_of_five(results)
    limit = lower_bound(experiment.problem) * math.log(experiment.horizon)
    most = experiment.problem.most_regret([experiment.horizon])[0]
    rows = []
    for name, regret in means.items():
        ratio = results.ratio(name, best, COMPARISON_CONFIDENCE)
        verdict, sure = verdict_of(experiment, looked, name)
        regrets = [part.regrets(name) for part in (results, looked)[: 1 + (looked is not results)]]
        every = np.concatenate(regrets)
        rows.append(
            ComparedPolicy(
                problem=experiment.name,
                title=experiment.title,
                group=group,
                policy=name,
                regret=regret,
                se=float(results.se(name)[-1]),
                best=best,
                ratio=float(ratio.value[-1]),
                lower=float(ratio.lower[-1]),
                upper=float(ratio.upper[-1]),
                verdict=verdict,
                sure=sure,
                trials=results.trials,
                played=len(every),
                largest=float(every.max()),
                failed=int(count_failed_trials(every, most)),
                to_min_width=regret / means["min-width"],
                to_limit=regret / limit if limit > 0 else None,
            )
        )
    return rows


def is_known(experiment: Experiment, results: Results) -> bool:
    """Whether every other policy is told apart from the best of the paper's five, or known to be about as good."""
    best, level = (
        best_of_five(results),
        1.0 - (1.0 - COMPARISON_CONFIDENCE) / len(trials_of_looks(experiment)),
    )
    return all(
        verdict_of(experiment, results, name)[0] != "unclear"
        or is_narrow(results.ratio(name, best, level))
        for name in results.policies
        if name not in PAPER
    )


def is_narrow(ratio: Ratio) -> bool:
    """Whether a ratio at the horizon is known precisely enough."""
    return bool(ratio.upper[-1] <= (1 + NARROW_RATIO_MARGIN) ** 2 * ratio.lower[-1])


def compare(
    folder: str | Path,
    *,
    policies: Sequence[str | Policy] = BEYOND_PAPER,
    groups: Sequence[str] = COMPARISON_GROUPS,
    quick: bool = False,
    trials: int | None = None,
    seed: int = 0,
    resume: bool = False,
    show: OnRunShare = lambda title, share: None,
    note: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Run the comparison and write the leaderboard into `folder`.

    Parameters
    ----------
    policies
        Names of the catalogue, or policies made with `policy(...)` or `Policy(...)`; the paper's five always
        run beside them.
    groups
        "settings", the paper's 36; "domains", its five; "random", 200 drawn problems.
    quick
        Few trials, short horizons and few random problems; marked as such.
    trials
        As many trials on every problem, instead of its own number.
    resume
        Use the finished runs of an earlier comparison in the same folder.
    show, note
        Called with what is running and the share of the work done; with remarks for a person.
    """
    start = time.perf_counter()
    folder = parse_path(folder, "folder")
    entered = parse_policies(policies)
    for entry in entered:
        if entry.needs_means:
            raise InvalidInput(f"{entry.label} knows the true means: nothing to compare")
    chosen = comparison_experiments(entered, quick)
    if trials is not None:
        trials = parse_integer(trials, "trials", 2)
        chosen = {group: with_trials(experiments, trials) for group, experiments in chosen.items()}
    wanted = [
        parse_choice(group, "a group of problems", COMPARISON_GROUPS)
        for group in parse_list(groups, "groups", "groups of problems")
    ]
    if not wanted:
        raise InvalidInput(f"groups is empty: some of {', '.join(COMPARISON_GROUPS)}")
    chosen = {group: chosen[group] for group in COMPARISON_GROUPS if group in wanted}
    check_writable(folder)
    every = [experiment for experiments in chosen.values() for experiment in experiments]
    ran = run_experiments(every, seed, open_store(folder, resume, note), show, enough=is_known)
    results = ran.results
    show("the best possible in tiny worlds", 1.0)
    played = [policy(name) for name in PAPER] + [e for e in entered if e.label not in PAPER]
    found = distances_to_optimum(played, QUICK_TINY_WORLDS if quick else TINY_WORLDS)
    show("drawing", 1.0)
    rows = [
        row
        for group, experiments in chosen.items()
        for experiment in experiments
        for row in judge_policies(
            experiment, group, results[experiment.name], ran.looked[experiment.name]
        )
    ]
    made = Comparison(
        rows,
        speeds_of_policies(results.values()),
        0.0,
        quick,
        folder,
        entered,
        distances=tuple(found),
    )
    with explain_write_errors(folder):
        write_comparison(made, chosen, results, seed)
    return replace(made, seconds=time.perf_counter() - start)


def speeds_of_policies(runs: Iterable[Results]) -> dict[str, float]:
    """Million rounds a second of each policy over all runs."""
    played: dict[str, float] = {}
    spent: dict[str, float] = {}
    for run in runs:
        for name, seconds in zip(run.policies, run.seconds, strict=True):
            played[name] = played.get(name, 0.0) + run.trials * run.horizon
            spent[name] = spent.get(name, 0.0) + seconds
    return {name: played[name] / spent[name] / 1e6 for name in played}


def write_comparison(
    made: Comparison,
    chosen: dict[ComparisonGroup, list[Experiment]],
    results: dict[str, Results],
    seed: int,
) -> None:
    """Figures, tables and the page, each put in place when complete."""
    drawings = made.folder / "figures"
    drawings.mkdir(parents=True, exist_ok=True)
    shown = []
    if made.distances:
        draw = partial(figures.optimum_figure, made.distances, made.quick)
        svg = figures.save_report_figure(draw, drawings, "optimum")
        caption = "Bayes regret over the least possible, exactly, all means being equally likely"
        shown.append(("The best possible in tiny worlds", caption, svg))
    for experiment in chosen.get("domains", []):
        run = results[experiment.name]
        limit = lower_bound(experiment.problem)
        if not is_above_limit(limit, run):
            continue  # the law of the long run says nothing of it
        draw = partial(figures.limit_figure, experiment, run, made.quick)
        svg = figures.save_report_figure(draw, drawings, f"{experiment.name}-limit")
        caption = (
            f"Regret over {limit:.3g} ln t, the least possible in the long run; {run.trials:,} trials"
            if limit > 0
            else f"As many agents as arms: regret can stay bounded; {run.trials:,} trials"
        )
        shown.append((experiment.title, caption, svg))
    write_table(made.folder / "leaderboard.csv", [asdict(row) for row in made.rows])
    write_table(made.folder / "optimum.csv", made.summary()["optimum"])
    provenance = json.dumps(
        {
            "seed": seed,
            "quick": made.quick,
            "versions": versions_in_use(),
            "machine": describe_machine(),
            "runs": {
                group: {
                    "problems": len(experiments),
                    "horizons": sorted({e.horizon for e in experiments}),
                    "trials": sorted({results[e.name].trials for e in experiments}),
                }
                for group, experiments in chosen.items()
            },
        },
        indent=1,
    )
    text = leaderboard.render_leaderboard(made, shown, provenance)
    write_atomic(made.page, lambda aside: aside.write_text(text, encoding="utf-8"))
