"""COVID tests that give false alarms: what it costs to know of them, and what it costs not to.

    python benchmarks/false_positives.py [TRIALS]

Prints the tables of docs/model.md: the regret at the end of the paper's 300 rounds (± 2 standard errors), and the share
of trials in which an interval for a mean fails, by the specificities of antigen and PCR tests.
"""

import sys

from heterobandits import Problem, simulate
from heterobandits.model.domains import domain_of_name
from heterobandits.simulation.coverage import coverage

SPECIFICITIES = ((1.0, 1.0), (0.99, 0.99), (0.97, 0.97), (0.9, 0.9), (0.9, 0.99))
POLICIES = ("min-width", "min-ucb", "no-sharing", "cucb", "ucb", "posterior-sorted", "bayes-ucb")
trials = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
covid = domain_of_name("covid")


def with_alarms(specificities: tuple[float, float], known: bool) -> Problem:
    """COVID tests of these specificities, and a planner that knows them or believes in no false alarms."""
    antigen, pcr = specificities
    rates = [1 - (pcr if s > 0.9 else antigen) for s in covid.problem.sensitivities]
    return Problem.from_dict(
        covid.problem.to_dict()
        | {
            "false_positive_rates": rates,
            "believed_false_positive_rates": rates if known else [0.0] * len(rates),
        }
    )


def row(title: str, cells: list[str]) -> None:
    """A row of a table in Markdown."""
    print(f"| {title} | {' | '.join(cells)} |")


columns = [
    (x, known) for x in SPECIFICITIES for known in ((True, False) if min(x) < 1 else (True,))
]
heads = [
    " / ".join(f"{x:g}" for x in dict.fromkeys(both)) + (", known" if known else ", ignored")
    for both, known in columns
]
row("specificity", heads)
row("---", ["---:"] * len(heads))
runs = [simulate(with_alarms(*column), list(POLICIES), covid.horizon, trials) for column in columns]
for name in POLICIES:
    row(f"`{name}`", [f"{run.mean(name)[-1]:.1f} ± {2 * run.se(name)[-1]:.1f}" for run in runs])
studies = [
    coverage(with_alarms(*column), covid.horizon, trials, watched=["min-width", "posterior-ratio"])
    for column in columns
]
for name, what in (("min-width", "the paper's"), ("posterior-ratio", "our")):
    row(f"{what} intervals fail", [f"{100 * study.failed[name]:.1f} %" for study in studies])
