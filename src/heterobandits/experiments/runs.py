"""Running experiments and keeping what is finished: the result files are also the restart log.

A finished experiment lies in `runs/NAME.json`. It is used again if its definition, its seed and
the versions behind its numbers are the same, and run anew otherwise. What is no experiment of the
paper may be kept beside them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from heterobandits.errors import InvalidInput
from heterobandits.experiments.catalogue import Experiment
from heterobandits.files import write_aside, writing_to
from heterobandits.policies import policy
from heterobandits.provenance import versions
from heterobandits.results import Results
from heterobandits.simulation import check_memory, simulate

EVEN_CHECKPOINTS = 50
EARLY_CHECKPOINTS = 40  # so that the beginning can be seen on a logarithmic axis too

Report = Callable[[str, float], None]  # what is running, and the share of all work done
Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Kept:
    """Where finished experiments are kept, and whether to use those that are there."""

    folder: Path
    resume: bool

    def path(self, experiment: Experiment) -> Path:
        """The file of one experiment."""
        return self._file(experiment.name)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def read(self, name: str, parse: Callable[[str], Parsed]) -> Parsed | str | None:
        """What is kept under a name, as `parse` reads it; None if there is none to use; a note if it cannot be read."""
        path = self._file(name)
        if not self.resume or not path.exists():
            return None
        try:
            return parse(path.read_text(encoding="utf-8"))
        except (InvalidInput, OSError, UnicodeDecodeError) as error:
            return f"{path} cannot be used and is run again: {error}"

    def write(self, name: str, text: str) -> None:
        """Keep a text under a name."""
        with writing_to(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_aside(self._file(name), lambda aside: aside.write_text(text, "utf-8"))

    def load(self, experiment: Experiment, seed: int) -> Results | str | None:
        """The finished run; None if there is none to use; a note if the file cannot be read."""
        results = self.read(experiment.name, Results.from_json)
        if not isinstance(results, Results):
            return results
        entries = [policy(given) for given in experiment.policies]
        same = (
            results.problem == experiment.problem
            and results.policies == tuple(entry.label for entry in entries)
            and results.parameters == tuple(entry.parameters for entry in entries)
            and results.horizon == experiment.horizon
            and results.rounds == tuple(checkpoints(experiment.horizon))
            and results.kept_rounds == (() if experiment.ranking else results.rounds[-1:])
            and results.spans == ((0, experiment.trials),)
            and results.seed == seed
            and results.versions == versions()
            and not results.partial
        )
        return results if same else None

    def save(self, experiment: Experiment, results: Results) -> None:
        """Keep a finished run."""
        self.write(experiment.name, results.to_json())


def checkpoints(horizon: int) -> list[int]:
    """Evenly spaced rounds, and rounds that grow by a factor from the first on."""
    even = np.linspace(horizon / EVEN_CHECKPOINTS, horizon, EVEN_CHECKPOINTS)
    early = np.geomspace(1, horizon, EARLY_CHECKPOINTS)
    return sorted({max(1, round(t)) for t in (*even, *early)})


def cost(experiment: Experiment) -> float:
    """About how long an experiment takes, in arbitrary units: rounds times cells of the tables."""
    problem = experiment.problem
    return experiment.trials * experiment.horizon * (10 + problem.agents * problem.arms)


def run_all(
    experiments: Iterable[Experiment],
    seed: int,
    kept: Kept,
    report: Report = lambda title, share: None,
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, Results]:
    """The results of every experiment, run or read; an interrupt leaves the finished ones kept."""
    experiments = list(experiments)
    for e in experiments:
        check_memory(len(e.policies), len(checkpoints(e.horizon)), int(not e.ranking), e.trials)
    total = sum(cost(experiment) for experiment in experiments)
    before = 0.0
    found: dict[str, Results] = {}
    for experiment in experiments:
        share = cost(experiment) / total
        report(experiment.title, before)
        known = kept.load(experiment, seed)
        if isinstance(known, str):
            note(known)
        if isinstance(known, Results):
            found[experiment.name] = known
        else:

            def progress(done: int, whole: int, start: float = before, part: float = share) -> None:
                report(experiment.title, start + part * done / whole)  # noqa: B023

            results = simulate(
                experiment.problem,
                experiment.policies,
                experiment.horizon,
                experiment.trials,
                seed,
                checkpoints=checkpoints(experiment.horizon),
                keep="moments" if experiment.ranking else "final",
                progress=progress,
            )
            if results.partial:
                raise KeyboardInterrupt
            kept.save(experiment, results)
            found[experiment.name] = results
        before += share
    return found


def with_trials(experiments: Iterable[Experiment], trials: int | None) -> list[Experiment]:
    """The same experiments with another number of trials, if one is given."""
    return [e if trials is None else replace(e, trials=trials) for e in experiments]


def write_table(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """A table as CSV; lists within cells are written with spaces between their items."""
    import pandas as pd

    flat = [
        {k: " ".join(map(str, v)) if isinstance(v, list) else v for k, v in row.items()}
        for row in rows
    ]
    text = pd.DataFrame(flat).to_csv(index=False)
    write_aside(path, lambda aside: aside.write_text(text, "utf-8"))
