"""The reproduction: run, judge, draw and report everything the paper shows, with one call.

Beside the robustness tables stands one of our own, `calibrating`: it is judged by nobody.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from heterobandits.errors import parse_integer, parse_list, parse_path, unknown_name
from heterobandits.experiments import calibration_study, figures, report
from heterobandits.experiments.catalogue import FIGURES, LONG, MISJUDGED, SYNTHETIC, Experiment
from heterobandits.experiments.claims import RANGERS, THEORY, Evidence, JudgedClaim, judge_claims
from heterobandits.experiments.runs import (
    OnRunShare,
    open_store,
    run_experiments,
    with_trials,
    write_table,
)
from heterobandits.experiments.tables import (
    PercentCell,
    PublishedRanking,
    RegretCell,
    rankings_table,
    robustness_percent_table,
    robustness_regret_table,
)
from heterobandits.experiments.theory import COVERAGE_TRIALS, TheoryCheck, check_theory
from heterobandits.inference.bounds import lower_bound
from heterobandits.output.files import (
    FIGURE_FORMATS,
    check_writable,
    explain_write_errors,
    write_atomic,
)
from heterobandits.policies.catalogue import PAPER
from heterobandits.provenance import describe_machine, versions_in_use
from heterobandits.simulation.results import Results

QUICK_REPRODUCTION_TRIALS = 64
# of the long horizon of the rankings, a quick run plays one in so many rounds
QUICK_RANKING_DIVISOR = 5
QUICK_COVERAGE_TRIALS = 500

REPORT_TABLES = ("robustness_regret", "robustness_percent", "synthetic_rankings")
# tables of our own, with which nothing published is compared
OWN_TABLES = (calibration_study.CALIBRATION_STUDY_NAME,)

EXPERIMENT_GROUPS: dict[str, tuple[str, ...]] = {
    "covid": ("covid",),
    "hotel": ("hotel",),
    "poaching": RANGERS,
    "two-by-two": ("two-by-two",),
    "robustness": ("covid", *MISJUDGED),
    "synthetic": tuple(experiment.name for experiment in SYNTHETIC),
    "theory": THEORY,
    "long": tuple(experiment.name for experiment in LONG),
}


@dataclass(frozen=True)
class Reproduction:
    """What came out: verdicts, tables, and how long it took; `calibrated` is our own and no part of the verdict."""

    claims: list[JudgedClaim]
    regret: list[RegretCell]
    percent: list[PercentCell]
    rankings: list[PublishedRanking]
    seconds: float
    quick: bool
    folder: Path
    calibrated: list[calibration_study.StudyRow] = field(default_factory=list)

    @property
    def contradicted(self) -> bool:
        """Whether anything contradicts the paper beyond its error bars."""
        return (
            any(c.verdict == "fail" for c in self.claims)
            or any(r.verdict == "mismatch" for r in self.rankings)
            or not all(cell.agrees for cell in (*self.regret, *self.percent))
        )

    @property
    def page(self) -> Path:
        """The report."""
        return self.folder / "report.html"

    def summary(self) -> dict[str, Any]:
        """What `heterobandits reproduce --format json` prints."""
        return {
            "claims": report.claims_rows(self.claims),
            "tables": {
                "robustness_regret": [{**asdict(c), "agrees": c.agrees} for c in self.regret],
                "robustness_percent": [{**asdict(c), "agrees": c.agrees} for c in self.percent],
                "synthetic_rankings": [row.to_dict() for row in self.rankings],
            },
            "beyond": {"calibration": [asdict(row) for row in self.calibrated]},
            "quick": self.quick,
            "report": str(self.page),
            "seconds": self.seconds,
        }


def chosen_experiments(only: Sequence[str], long: bool) -> list[Experiment]:
    """The experiments of these groups or names; all of the figures and tables if none is given."""
    every = {e.name: e for e in (*FIGURES, *SYNTHETIC, *LONG)}
    if not only:
        names = {e.name for e in (*FIGURES, *SYNTHETIC, *(LONG if long else ()))}
    else:
        names = set(EXPERIMENT_GROUPS["long"]) if long else set()
        for name in parse_list(only, "only", "names of experiments"):
            if name not in EXPERIMENT_GROUPS and name not in every:
                raise unknown_name(
                    "experiment", name, list(dict.fromkeys([*EXPERIMENT_GROUPS, *every]))
                )
            names |= set(EXPERIMENT_GROUPS.get(name, (name,)))
    return [experiment for experiment in every.values() if experiment.name in names]


def has_robustness(experiments: Sequence[Experiment]) -> bool:
    """Whether these experiments include everything that the robustness tables need."""
    return {"covid", *MISJUDGED} <= {experiment.name for experiment in experiments}


def chosen_policies(only: Sequence[str], long: bool) -> tuple[str, ...]:
    """The policies that these groups or names need."""
    robust = has_robustness(chosen_experiments(only, long))
    return (*PAPER, *calibration_study.STUDY_POLICIES) if robust else PAPER


def reproduce(
    folder: str | Path,
    *,
    only: Sequence[str] = (),
    quick: bool = False,
    long: bool = False,
    trials: int | None = None,
    seed: int = 0,
    resume: bool = False,
    show: OnRunShare = lambda title, share: None,
    note: Callable[[str], None] = lambda text: None,
) -> Reproduction:
    """Run the paper's experiments and write the report into `folder`.

    Parameters
    ----------
    only
        Groups or names of experiments, as `EXPERIMENT_GROUPS` and the catalogue have them; all by default.
    quick
        Few trials, marked as such everywhere.
    long
        Also the longer runs the authors looked at.
    trials
        As many trials in every experiment, instead of its own number; fewer, but never more, for what is our own.
    resume
        Use the finished experiments of an earlier run in the same folder.
    show, note
        Called with what is running and the share of the work done; with remarks for a person.
    """
    start = time.perf_counter()
    folder = parse_path(folder, "folder")
    if trials is not None:
        trials = parse_integer(trials, "trials", 2)
    elif quick:
        trials = QUICK_REPRODUCTION_TRIALS
    experiments = with_trials(chosen_experiments(only, long), trials)
    if quick:
        experiments = [
            replace(e, horizon=e.horizon // QUICK_RANKING_DIVISOR) if e.ranking else e
            for e in experiments
        ]
    check_writable(folder)
    store = open_store(folder, resume, note)
    study = calibration_study.Study.of(trials, seed) if has_robustness(experiments) else None
    others = [] if study is None else [calibration_study.study_job(study)]
    results, _, rest = run_experiments(experiments, seed, store, show, others)
    calibrated = [] if study is None else calibration_study.study_rows(study, rest[0])
    show("checking the theory", 1.0)
    theory = {
        e.name: check_theory(
            e.problem, e.horizon, QUICK_COVERAGE_TRIALS if quick else COVERAGE_TRIALS, seed
        )
        for e in experiments
        if e.name in THEORY
    }
    show("drawing", 1.0)
    robust = study is not None
    made = Reproduction(
        claims=judge_claims(Evidence(results, theory)),
        regret=robustness_regret_table(results) if robust else [],
        percent=robustness_percent_table(results) if robust else [],
        rankings=rankings_table(results),
        seconds=0.0,
        quick=quick,
        folder=folder,
        calibrated=calibrated,
    )
    with explain_write_errors(folder):
        write_reproduction(made, experiments, results, theory, seed)
    return replace(made, seconds=time.perf_counter() - start)


def write_reproduction(
    made: Reproduction,
    experiments: Sequence[Experiment],
    results: dict[str, Results],
    theory: dict[str, TheoryCheck],
    seed: int,
) -> None:
    """Figures, tables, numbers and provenance; the report last, each put in place when complete."""
    import pandas as pd

    folder = made.folder
    drawings = folder / "figures"
    tables = folder / "tables"
    for place in (drawings, tables):
        place.mkdir(parents=True, exist_ok=True)
    remove_earlier_files(drawings, tables)
    shown = []
    for experiment in experiments:
        run = results[experiment.name]
        if not experiment.ranking:
            svg = figures.save_report_figure(
                partial(figures.regret_figure, experiment, run, made.quick),
                drawings,
                experiment.name,
            )
            shown.append((experiment.title, caption_of(experiment, run), svg))
        if experiment.name in theory:
            svg = figures.save_report_figure(
                partial(figures.theory_figure, experiment, run, made.quick),
                drawings,
                f"{experiment.name}-theory",
            )
            shown.append(
                (
                    f"{experiment.title}: theory",
                    "Regret measured, and the theorem's bound on Min-Width's",
                    svg,
                )
            )
    summary = made.summary()
    studies = []
    for name, found in theory.items():
        study = found.coverage._asdict()
        needed = {f"{promise} needed": share for promise, share in study.pop("needed").items()}
        studies.append({"domain": name, **study.pop("failed"), **needed, **study})
    for name, rows in {
        "claims": summary["claims"],
        **summary["tables"],
        **summary["beyond"],
        "coverage": studies,
    }.items():
        if rows:
            write_table(tables / f"{name}.csv", [{**row, "quick": made.quick} for row in rows])
    curves = pd.concat(
        [run.to_frame().assign(experiment=name, quick=made.quick) for name, run in results.items()],
        ignore_index=True,
    )
    numbers = curves.to_parquet(index=False)  # in memory: pyarrow takes no path that is not UTF-8
    write_atomic(folder / "numbers.parquet", lambda aside: aside.write_bytes(numbers))
    provenance = json.dumps(
        {
            "seed": seed,
            "quick": made.quick,
            "versions": versions_in_use(),
            "machine": describe_machine(),
            "trials": {name: run.trials for name, run in results.items()},
            "seconds": {name: round(sum(run.seconds), 3) for name, run in results.items()},
        },
        indent=1,
    )
    write_atomic(folder / "provenance.json", lambda aside: aside.write_text(provenance, "utf-8"))
    page = report.render_report(
        made.claims,
        made.regret,
        made.percent,
        made.rankings,
        shown,
        provenance,
        made.quick,
        made.calibrated,
    )
    write_atomic(made.page, lambda aside: aside.write_text(page, "utf-8"))


def caption_of(experiment: Experiment, run: Results) -> str:
    """What stands below a figure: where the paper shows it, and how it was made."""
    shown = experiment.shown_in[:1].upper() + experiment.shown_in[1:]
    shown += " of the paper" if shown.startswith("Figure") else ""
    said = (
        f"{shown}: {run.trials:,} trials (the paper: {experiment.published_trials}), "
        "bands of two standard errors"
    )
    bounded = lower_bound(experiment.problem) <= 0
    return f"{said}; with as many agents as arms regret can stay bounded" if bounded else said


def remove_earlier_files(drawings: Path, tables: Path) -> None:
    """Remove figures and tables of an earlier run that this one may not replace."""
    names = [e.name + kind for e in (*FIGURES, *LONG) for kind in ("", "-theory")]
    for path in (drawings / f"{name}.{kind}" for name in names for kind in FIGURE_FORMATS):
        path.unlink(missing_ok=True)
    for name in ("claims", "coverage", *REPORT_TABLES, *OWN_TABLES):
        (tables / f"{name}.csv").unlink(missing_ok=True)
