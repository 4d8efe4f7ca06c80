"""The verdict: chosen policies against the paper's five on the paper's problems and on random ones, and against the best possible.

For every problem the yardstick is the best of the paper's five there. It is picked by the same
trials that give its numbers, which favours it a little. Verdicts do not rest on which it is: a policy is ahead if
it has certainly less regret than each of the five, and behind if one of them has certainly less.
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

from heterobandits.errors import InvalidInput, choice, listed, path_from, whole_number
from heterobandits.experiments import figures, leaderboard
from heterobandits.experiments.catalogue import FIGURES, SYNTHETIC, Experiment
from heterobandits.experiments.runs import (
    Report,
    numbers_of_trials,
    run_all,
    store_in,
    with_trials,
    write_table,
)
from heterobandits.experiments.tiny_worlds import QUICK_WORLDS, WORLDS, Distance, distances
from heterobandits.inference.bounds import lower_bound
from heterobandits.model.problem import Problem
from heterobandits.output.files import writable, write_aside, writing_to
from heterobandits.output.plots import is_long
from heterobandits.policies.catalogue import BEYOND, PAPER
from heterobandits.policies.policy import CATALOGUE, Policy, checked_policies, policy
from heterobandits.provenance import machine, versions
from heterobandits.simulation.results import Ratio, Results, failed_trials, geometric_mean

Group = Literal["settings", "domains", "random"]
Verdict = Literal["ahead", "unclear", "behind"]

GROUPS: tuple[Group, ...] = ("settings", "domains", "random")
LEVEL = 0.99  # of a verdict, and of an interval, however often a problem is looked at
NARROW = 0.05  # a ratio whose interval reaches no further to each side is known well enough
SETTING_TRIALS = 32  # to begin with; where that is not enough, more
DOMAIN_TRIALS = 125
DOMAINS = ("covid", "hotel", "poaching-2", "poaching-3", "poaching-5")

RANDOM_PROBLEMS = 200
RANDOM_SEED = 2024
RANDOM_HORIZON = 2000
RANDOM_TRIALS = 32
MOST_AGENTS = 10
MOST_ARMS = 20
MOST_ASSIGNMENTS = 1000  # beyond, ucb takes longer than all others together

QUICK_TRIALS = 32
QUICK_SHARE = 20  # of the long horizon of the settings, a quick run plays one in so many rounds
QUICK_PROBLEMS = 20


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
        Whether it has certainly less regret than each of the paper's five, or one of them certainly less than it, or neither.
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
    group: Group
    policy: str
    regret: float
    se: float
    best: str
    ratio: float
    lower: float
    upper: float
    verdict: Verdict
    sure: bool
    trials: int
    played: int
    largest: float
    failed: int
    to_min_width: float
    to_limit: float | None


@dataclass(frozen=True)
class Comparison:
    """What came out, and how long it took."""

    rows: list[ComparedPolicy]
    speeds: dict[str, float]  # million rounds a second over all problems
    seconds: float
    quick: bool
    folder: Path
    entered: tuple[Policy, ...] = ()  # beside those of the catalogue
    distances: tuple[Distance, ...] = ()  # from the best possible, in tiny worlds

    def policy_of(self, label: str) -> Policy:
        """The policy of a label in the rows."""
        return next((p for p in self.entered if p.label == label), None) or CATALOGUE[label]

    def of(self, policy: str, group: Group | None = None) -> list[ComparedPolicy]:
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
                    for group in GROUPS
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
            "level": LEVEL,
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
        agents = int(random.integers(1, MOST_AGENTS + 1))
        arms = int(random.integers(max(2, agents), MOST_ARMS + 1))
        means = random.uniform(0.0, 1.0, arms).round(3)
        sensitivities = random.uniform(0.05, 1.0, agents).round(3)
        problems.append(Problem(means.tolist(), sensitivities.tolist()))
    return problems


def contests(policies: Sequence[str | Policy], quick: bool) -> dict[Group, list[Experiment]]:
    """The experiments of the comparison by group, each with these policies beside the paper's five."""
    entries = {policy(p).label: policy(p) for p in (*PAPER, *policies)}
    names = tuple(label if label in CATALOGUE else entry for label, entry in entries.items())
    # more than a ranking is made of them, so single trials are kept
    settings = [replace(e, policies=names, at_first=SETTING_TRIALS, ranking=()) for e in SYNTHETIC]
    domains = [
        replace(e, policies=names, at_first=DOMAIN_TRIALS) for e in FIGURES if e.name in DOMAINS
    ]
    count = QUICK_PROBLEMS if quick else RANDOM_PROBLEMS
    drawn = [
        Experiment(
            f"random-{i}",
            f"random problem {i}: {problem.agents} agent{'s' * (problem.agents > 1)}, {problem.arms} arms",
            problem,
            RANDOM_HORIZON,
            RANDOM_TRIALS,
            "random problems",
            policies=tuple(
                n
                for n in names
                if policy(n).index_per != "assignment"
                or number_of_assignments(problem) <= MOST_ASSIGNMENTS
            ),
        )
        for i, problem in enumerate(random_problems(count), 1)
    ]
    if quick:
        settings = [
            replace(e, horizon=e.horizon // QUICK_SHARE, trials=QUICK_TRIALS, at_first=None)
            for e in settings
        ]
        domains = with_trials(domains, QUICK_TRIALS)
        drawn = [replace(e, trials=QUICK_TRIALS, horizon=e.horizon // 4) for e in drawn]
    return {"settings": settings, "domains": domains, "random": drawn}


def number_of_assignments(problem: Problem) -> int:
    """The number of ways to send the agents to different arms."""
    return math.perm(problem.arms, problem.agents)


def of_the_five(results: Results) -> list[str]:
    """Which of the paper's five were run."""
    return [name for name in PAPER if name in results.policies]


def best_of_five(results: Results) -> str:
    """Which of them has the least mean regret."""
    return min(of_the_five(results), key=lambda name: float(results.mean(name)[-1]))


def verdict_of(experiment: Experiment, looked: Results, name: str) -> tuple[Verdict, bool]:
    """Whether a policy is ahead or behind, and whether that is sure.

    The error that is allowed, half of it for each side, is shared by all the looks there may be, and for "behind" by the five.
    """
    five = of_the_five(looked)
    rivals = [rival for rival in five if rival != name]
    error, looks = 1.0 - LEVEL, len(numbers_of_trials(experiment))
    one, any_ = 1.0 - error / looks, 1.0 - error / (looks * len(five))
    if name not in five and all(looked.difference(name, r, one).upper[-1] < 0 for r in rivals):
        least = min(float(looked.evidence(name, r)[-1]) for r in rivals)
        return "ahead", least >= math.log(2 / error)
    if any(looked.difference(name, r, any_).lower[-1] > 0 for r in rivals):
        most = max(float(looked.evidence(r, name)[-1]) for r in rivals)
        return "behind", most >= math.log(2 * len(five) / error)
    return "unclear", False


def judged(
    experiment: Experiment, group: Group, results: Results, looked: Results | None = None
) -> list[ComparedPolicy]:
    """Every policy on one problem, with the verdicts of the trials that were looked at, if those are others."""
    looked = results if looked is None else looked
    means = {name: float(results.mean(name)[-1]) for name in results.policies}
    best = best_of_five(results)
    limit = lower_bound(experiment.problem) * math.log(experiment.horizon)
    most = experiment.problem.most_regret([experiment.horizon])[0]
    rows = []
    for name, regret in means.items():
        ratio = results.ratio(name, best, LEVEL)
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
                failed=int(failed_trials(every, most)),
                to_min_width=regret / means["min-width"],
                to_limit=regret / limit if limit > 0 else None,
            )
        )
    return rows


def is_known(experiment: Experiment, results: Results) -> bool:
    """Whether all others are told apart from the best of the paper's five, or known to be nearly as good."""
    best, level = best_of_five(results), 1.0 - (1.0 - LEVEL) / len(numbers_of_trials(experiment))
    return all(
        verdict_of(experiment, results, name)[0] != "unclear"
        or is_narrow(results.ratio(name, best, level))
        for name in results.policies
        if name not in PAPER
    )


def is_narrow(ratio: Ratio) -> bool:
    """Whether a ratio is known well enough at the horizon."""
    return bool(ratio.upper[-1] <= (1 + NARROW) ** 2 * ratio.lower[-1])


def compare(
    folder: str | Path,
    *,
    policies: Sequence[str | Policy] = BEYOND,
    groups: Sequence[str] = GROUPS,
    quick: bool = False,
    trials: int | None = None,
    seed: int = 0,
    resume: bool = False,
    show: Report = lambda title, share: None,
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
    folder = path_from(folder, "folder")
    entered = checked_policies(policies)
    for entry in entered:
        if entry.needs_means:
            raise InvalidInput(f"{entry.label} knows the true means: nothing to compare")
    chosen = contests(entered, quick)
    if trials is not None:
        trials = whole_number(trials, "trials", 2)
        chosen = {group: with_trials(experiments, trials) for group, experiments in chosen.items()}
    wanted = [
        choice(group, "a group of problems", GROUPS)
        for group in listed(groups, "groups", "groups of problems")
    ]
    if not wanted:
        raise InvalidInput(f"groups is empty: some of {', '.join(GROUPS)}")
    chosen = {group: chosen[group] for group in GROUPS if group in wanted}
    writable(folder)
    every = [experiment for experiments in chosen.values() for experiment in experiments]
    ran = run_all(every, seed, store_in(folder, resume, note), show, enough=is_known)
    results = ran.results
    show("the best possible in tiny worlds", 1.0)
    played = [policy(name) for name in PAPER] + [e for e in entered if e.label not in PAPER]
    found = distances(played, QUICK_WORLDS if quick else WORLDS)
    show("drawing", 1.0)
    rows = [
        row
        for group, experiments in chosen.items()
        for experiment in experiments
        for row in judged(experiment, group, results[experiment.name], ran.looked[experiment.name])
    ]
    made = Comparison(
        rows, speeds(results.values()), 0.0, quick, folder, entered, distances=tuple(found)
    )
    with writing_to(folder):
        write_comparison(made, chosen, results, seed)
    return replace(made, seconds=time.perf_counter() - start)


def speeds(runs: Iterable[Results]) -> dict[str, float]:
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
    chosen: dict[Group, list[Experiment]],
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
        if not is_long(limit, run):
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
            "versions": versions(),
            "machine": machine(),
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
    write_aside(made.page, lambda aside: aside.write_text(text, encoding="utf-8"))
