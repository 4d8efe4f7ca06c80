"""COVID tests whose sensitivities are only calibrated: plugged in, or carried along.

    python benchmarks/calibration.py [DRAWS [TRIALS]]

Prints the table of docs/model.md, with more calibrations and trials than `heterobandits reproduce` plays: regret at the end of the
paper's 300 rounds, the share of trials in which an interval for a mean fails in any tenth round, and the mean width of these
intervals at the end. What is stated needs no tests, and stands in the first column.
"""

import sys

from heterobandits.experiments.calibration_study import (
    STATED_PLANNERS,
    STUDY_TESTS,
    Study,
    StudyRow,
    play_study,
)


def cell(row: StudyRow) -> str:
    """The figures of a planner after some number of tests."""
    error = 2 * row.regret_se
    return f"{row.regret:.1f} ± {error:.1f}, {100 * row.failed:.1f} %, {row.width:.2f}"


draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
trials = int(sys.argv[2]) if len(sys.argv) > 2 else 32
table: dict[str, list[str]] = {}
for row in play_study(Study(draws, trials)):
    table.setdefault(row.planner, []).append(cell(row))
print(f"| tests for each agent | {' | '.join(map(str, STUDY_TESTS))} |")
print(f"| --- | {' | '.join('---:' for _ in STUDY_TESTS)} |")
for planner, cells in table.items():
    blank = [""] * (len(STUDY_TESTS) - 1) if planner in STATED_PLANNERS else []
    print(f"| {planner} | {' | '.join(cells + blank)} |")
