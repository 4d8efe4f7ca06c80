"""Runs the nightly tests, and the core's own tests without the compiler, and writes what came of them to `nightly.md`.

    make nightly

The exit code is 1 if a test failed.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from heterobandits.provenance import describe_machine, versions_in_use

ROOT = Path(__file__).parent.parent
PAGE = Path(__file__).with_suffix(".md")
CORE = ("core/test_assignment", "core/test_randomness", "core/test_indices", "model/test_team")
COVERAGE = ["--cov=heterobandits.core", "--cov-report=term"]
RUNS = {  # what each is called: its arguments for pytest, and its environment
    "marked `nightly`": (["-m", "nightly"], {}),
    "the core without the compiler": (
        [*COVERAGE, *(f"tests/{name}.py" for name in CORE)], {"NUMBA_DISABLE_JIT": "1"},
    ),
}  # fmt: skip
HEAD = """# The last nightly run

`make nightly` writes this file.

- date: {date}
- commit: {commit}
- machine: {processor}, {cores} cores, {system}
- versions: {versions}

| tests | passed | failed | skipped | seconds |
| --- | --- | --- | --- | --- |
"""


def commit_of_sources() -> str:
    """The commit, and whether files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip().replace("-dirty", ", with changes") or "unknown"


def run_tests(
    arguments: list[str], environment: dict[str, str]
) -> tuple[Counter[str], list[str], float]:
    """How many tests passed, failed and were skipped, the names of those that failed, and the seconds of it all."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        code = subprocess.run(
            command, cwd=ROOT, env=os.environ | environment, check=False
        ).returncode
        cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()
        counts: Counter[str] = Counter()
        failures = []
        for case in cases:
            found = {child.tag for child in case} & {"failure", "error", "skipped"}
            kind = "passed" if not found else "skipped" if found == {"skipped"} else "failed"
            counts[kind] += 1
            if kind == "failed":
                failures.append(f"{case.get('classname')}.{case.get('name')}")
    if code != 0 and not failures:
        counts["failed"] += 1
        failures.append(f"pytest ended with code {code}")
    return counts, failures, time.monotonic() - start


def main() -> None:
    """Run all and write the page; arguments go to pytest."""
    versions = ", ".join(f"{name} {version}" for name, version in versions_in_use().items())
    page = HEAD.format(
        date=datetime.now(UTC).strftime("%Y-%m-%d"), commit=commit_of_sources(),
        versions=versions, **describe_machine(),
    )  # fmt: skip
    failed = []
    for name, (arguments, environment) in RUNS.items():
        counts, failures, seconds = run_tests([*sys.argv[1:], *arguments], environment)
        numbers = [counts["passed"], counts["failed"], counts["skipped"], round(seconds)]
        page += f"| {name} | {' | '.join(map(str, numbers))} |\n"
        failed += failures
    page += "\nFailed:\n\n" + "".join(f"- `{name}`\n" for name in failed) if failed else ""
    PAGE.write_text(page, "utf-8")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
