"""Running experiments: the trials of all of them in one pool, kept piece by piece in the folder `runs`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heterobandits.errors import InvalidInput, parse_integer
from heterobandits.experiments.catalogue import Experiment
from heterobandits.limits import ADDRESS_MAX
from heterobandits.machine import count_cores
from heterobandits.output.files import write_atomic
from heterobandits.policies.policy import parse_policies
from heterobandits.simulation.arguments import check_memory
from heterobandits.simulation.engine import compile_kernels
from heterobandits.simulation.pool.doubling import Doubling, doubling_numbers
from heterobandits.simulation.pool.pieces import Piece, PieceResult, Point
from heterobandits.simulation.pool.runner import FixedJob, Job, Progress, Runner
from heterobandits.simulation.pool.shards import ShardStore
from heterobandits.simulation.pool.threads import Failure, Threads
from heterobandits.simulation.results import Results

EVEN_CHECKPOINT_COUNT = 50
EARLY_CHECKPOINT_COUNT = 40  # so that the beginning can be seen on a logarithmic axis too

OnRunShare = Callable[[str, float], None]  # what is running, and the share of all work done


class TitledJob(NamedTuple):
    """A job for the runner with its title and its maximum cost."""

    title: str
    job: Job
    cost: float


def job_of_pieces(title: str, pieces: Sequence[Piece]) -> TitledJob:
    """One job that plays all of these pieces."""
    return TitledJob(title, FixedJob(list(pieces)), sum(piece.cost for piece in pieces))


EnoughResults = Callable[[Experiment, Results], bool]


class ExperimentRun(NamedTuple):
    """The results of a run.

    Attributes
    ----------
    results
        Of every experiment. Where it was looked at until there was enough, of the trials after the last look alone: whoever stops
        when a difference is large finds it too large.
    looked
        Of the trials that were looked at; the same where there was one look.
    others
        What came of other works.
    """

    results: dict[str, Results]
    looked: dict[str, Results]
    others: list[list[PieceResult]]


def open_store(folder: Path, resume: bool, note: Callable[[str], None]) -> ShardStore:
    """The store for a run's pieces; emptied first unless `resume`."""
    store = ShardStore(folder / "runs", note)
    if not resume:
        store.clear()
    return store


def experiment_checkpoints(horizon: int) -> list[int]:
    """Evenly spaced rounds, and rounds that grow by a factor from the first on."""
    even = np.linspace(horizon / EVEN_CHECKPOINT_COUNT, horizon, EVEN_CHECKPOINT_COUNT)
    early = np.geomspace(1, horizon, EARLY_CHECKPOINT_COUNT)
    return sorted({max(1, round(t)) for t in (*even, *early)})


def point_of_experiment(experiment: Experiment, seed: int) -> Point:
    """The experiment for the runner: single trials are kept where more than a ranking is made of them."""
    e = experiment
    rounds = tuple(experiment_checkpoints(e.horizon))
    check_memory(len(e.policies), len(rounds), int(not e.ranking), e.trials)
    kept = 0 if e.ranking else 1
    return Point(e.problem, parse_policies(e.policies), e.horizon, rounds, seed, kept)


def run_works(
    works: Sequence[TitledJob],
    store: ShardStore,
    report: OnRunShare = lambda title, share: None,
    threads: int | None = None,
) -> list[list[PieceResult]]:
    """Play or read the pieces of each job and return them; an interrupt keeps what is finished.

    The longest pieces come first, so that in the end no thread is alone with one of them.
    """
    longest = sorted(range(len(works)), key=lambda i: -works[i].cost)
    total = sum(work.cost for work in works) or 1.0
    found: dict[int, list[PieceResult]] = {}
    title = works[longest[0]].title if works else ""

    def finished(number: int, rows: list[PieceResult], failures: list[Failure]) -> None:
        nonlocal title
        i = longest[number]
        title = works[i].title
        if failures:
            raise InvalidInput(f"{title}: {failures[0].error}")
        found[i] = rows

    def tell(progress: Progress) -> None:
        # what is over may have cost less than it might have
        over = sum(works[i].cost for i in found)
        report(title, min(1.0, max(progress.cost, over) / total))

    jobs = (works[i].job for i in longest)
    engine = Threads(count_cores() if threads is None else threads)
    Runner(jobs, len(works), store, engine).run(finished, tell)
    return [found[i] for i in range(len(works))]


def trials_of_looks(experiment: Experiment) -> list[int]:
    """The numbers of trials after which an experiment is checked: doubled from the first one on."""
    first = experiment.trials if experiment.at_first is None else experiment.at_first
    return doubling_numbers(min(first, experiment.trials), experiment.trials)


def job_of_experiment(experiment: Experiment, seed: int, enough: EnoughResults) -> Doubling:
    """An experiment as a job of the runner: twice as many trials until there are enough, and as many again."""
    point = point_of_experiment(experiment, seed)
    numbers = trials_of_looks(experiment)
    return Doubling(point, numbers, lambda rows: enough(experiment, point.totals(rows).results()))


def run_experiments(
    experiments: Iterable[Experiment],
    seed: int,
    store: ShardStore,
    report: OnRunShare = lambda title, share: None,
    others: Sequence[TitledJob] = (),
    enough: EnoughResults = lambda experiment, results: True,
) -> ExperimentRun:
    """The results of every experiment, and of other jobs in the same pool.

    Where an experiment is to be played in parts, `enough` says whether its results so far are.
    """
    experiments = list(experiments)
    seed = parse_integer(seed, "seed", 0, ADDRESS_MAX)
    jobs = [job_of_experiment(experiment, seed, enough) for experiment in experiments]
    policies = {entry.label: entry for job in jobs for entry in job.point.policies}
    compile_kernels(policies.values())
    works = [
        TitledJob(experiment.title, job, job.cost)
        for experiment, job in zip(experiments, jobs, strict=True)
    ]
    rows = run_works([*works, *others], store, report)
    threads = count_cores()
    results, looked = {}, {}
    for experiment, job, all_rows in zip(experiments, jobs, rows, strict=False):
        found, name = job.parts(all_rows), experiment.name
        results[name] = job.point.totals(found.fresh).results(threads)
        looked[name] = results[name]
        if found.looked is not found.fresh:
            looked[name] = job.point.totals(found.looked).results(threads)
    return ExperimentRun(results, looked, rows[len(works) :])


def with_trials(experiments: Iterable[Experiment], trials: int | None) -> list[Experiment]:
    """The same experiments with another number of trials, if one is given."""
    return [e if trials is None else replace(e, trials=trials, at_first=None) for e in experiments]


def write_table(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """A table as CSV; lists within cells are written with spaces between their items."""
    import pandas as pd

    flat = [
        {k: " ".join(map(str, v)) if isinstance(v, list) else v for k, v in row.items()}
        for row in rows
    ]
    text = pd.DataFrame(flat).to_csv(index=False)
    write_atomic(path, lambda aside: aside.write_text(text, "utf-8"))
