"""Plants faults, one at a time, and counts those that no test of their room sees.

    python benchmarks/mutants.py [--sample 150] [--seed 0] [--keep FOLDER] [ROOM ...]

mutmut makes the faults in a clone of the last commit, in a folder of its own with its own environment. A sample
is drawn at random from the faults of each room; the same seed draws the same ones. The script prints survivors
as they differ from the source: look at each, and catch it or know why it is harmless. A fault with "no tests"
stands in a function that no test of its room calls, so a file is missing from `ROOMS`. The last scores stand in
`mutants.md` beside this file.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = {  # and the tests that must see what is wrong there
    "inference.bounds": ("inference/test_bounds", "inference/test_lower_bound"),
    "inference.intervals": (
        "inference/test_intervals", "model/test_calibration", "simulation/test_coverage", "planner/test_explanation",
    ),
    "planner.matching": (
        "planner/test_circumstances", "planner/test_planning", "planner/test_explanation", "planner/test_file_format",
    ),
    "planner.explanation": (
        "planner/test_circumstances", "planner/test_planning", "planner/test_explanation", "planner/test_file_format",
    ),
    "planner.planner": (
        "planner/test_planner", "planner/test_history", "planner/test_team_changes", "planner/test_file_format",
        "planner/test_explanation", "inference/test_change_points", "model/test_calibration",
    ),
    "simulation.results": (
        "simulation/test_results", "output/test_files", "output/test_plots", "simulation/test_rare_failures",
        "experiments/test_comparison",
    ),
    "experiments.claims": ("experiments/test_claims",),
    "experiments.comparison": ("experiments/test_comparison",),
    "campaigns.service": ("campaigns/test_service",),
    "campaigns.outcomes": ("campaigns/test_service", "campaigns/test_many_outcomes", "campaigns/test_late_reports"),
    "campaigns.links": ("campaigns/test_service",),
    "campaigns.exchange": ("campaigns/test_service",),
    "campaigns.reducer": ("campaigns/test_reducer", "campaigns/test_service"),
}  # fmt: skip
TOOLS = ("mutmut>=3.8", "pytest<9")  # which reads a field of pytest that newer versions have not
SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/heterobandits/{path}.py"]
also_copy = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "benchmarks"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "-x"]
pytest_add_cli_args_test_selection = [{tests}]
use_git_change_detection = false
timeout_constant = 10.0
"""
SEEN = ("killed", "timeout", "suspicious", "segfault", "caught by type check")


def run(*command: str | Path, folder: Path, check: bool = True) -> str:
    """What a command prints."""
    environment = {**os.environ, "CI": "true"}  # hypothesis tries the same examples every time
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    if check and done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def statuses(mutmut: Path, clone: Path) -> dict[str, str]:
    """What became of each fault."""
    lines = run(mutmut, "results", "--all", "true", folder=clone).splitlines()
    pairs = (line.strip().rsplit(": ", 1) for line in lines if "__mutmut_" in line)
    return dict(tuple(pair) for pair in pairs)


def survey(room: str, sample: int | None, seed: int, mutmut: Path, clone: Path) -> None:
    """Plant the faults of a room and print what was not seen."""
    tests = ", ".join(f'"tests/{name}.py"' for name in ROOMS[room])
    plain = run("git", "show", "HEAD:pyproject.toml", folder=clone)

    def begin(selection: str) -> None:
        run("rm", "-rf", "mutants", folder=clone)
        settings = SETTINGS.format(path=room.replace(".", "/"), tests=selection)
        (clone / "pyproject.toml").write_text(plain + settings)

    begin('"tests/test_errors.py"')  # mutmut runs the tests before it says what it has planted
    run(mutmut, "run", "nothing", folder=clone, check=False)
    planted = sorted(statuses(mutmut, clone))
    begin(tests)
    chosen = planted
    if sample is not None and sample < len(planted):
        chosen = random.Random(seed).sample(planted, sample)
    run(mutmut, "run", "--max-children", "2", *chosen, folder=clone, check=False)
    found = {name: status for name, status in statuses(mutmut, clone).items() if name in chosen}
    if "not checked" in found.values():
        sys.exit(f"{room}: mutmut did not try all faults; see what `mutmut run` says in {clone}")
    seen = sum(status in SEEN for status in found.values())
    print(
        f"{room}: {seen} of {len(found)} seen, {seen / len(found):.1%}, of {len(planted)} planted;"
        f" {dict(Counter(found.values()))}"
    )
    for name, status in found.items():
        if status not in SEEN:
            difference = run(mutmut, "show", name, folder=clone, check=False).splitlines()
            changed = [
                line for line in difference if line[:1] in "+-" and line[:3] not in ("+++", "---")
            ]
            print(f"  {status}: {name}", *changed, sep="\n    ", flush=True)


def main() -> None:
    """Survey the rooms that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], default=[])
    parser.add_argument("--sample", type=int, help="so many faults of each room; all if not given")
    parser.add_argument("--seed", type=int, default=0, help="determines which faults are drawn")
    parser.add_argument(
        "--keep", type=Path, help="a folder to work in, instead of one that is removed"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = (given.keep or Path(temporary)).absolute()
        place.mkdir(parents=True, exist_ok=True)
        python, clone = place / "venv" / "bin" / "python", place / "repository"
        if not clone.exists():
            run("git", "clone", "--quiet", ROOT, clone, folder=place)
        run("git", "fetch", "--quiet", "origin", folder=clone)
        run("git", "reset", "--quiet", "--hard", "origin/HEAD", folder=clone)
        if not python.exists():
            run(sys.executable, "-m", "venv", place / "venv", folder=place)
            run(
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--editable",
                f"{clone}[test]",
                *TOOLS,
                folder=place,
            )
        for room in given.rooms or ROOMS:
            survey(room, given.sample, given.seed, python.parent / "mutmut", clone)


if __name__ == "__main__":
    main()
