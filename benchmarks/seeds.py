"""Runs the stochastic tests with every seed, as they must pass: `python benchmarks/seeds.py [FIRST [LAST]]`.

A seed takes about a minute on two cores. Prints a line for each; the exit status is the number of
seeds with which a test failed.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
last = int(sys.argv[2]) if len(sys.argv) > 2 else 99

failed = 0
for seed in range(first, last + 1):
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--seeded", "tests"],
        cwd=ROOT, env={**os.environ, "HETEROBANDITS_TEST_SEED": str(seed)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    failed += done.returncode != 0
    *_, summary = done.stdout.strip().splitlines()
    print(f"seed {seed}: {summary} ({time.perf_counter() - begin:.0f} s)", flush=True)
    if done.returncode != 0:
        print(done.stdout, flush=True)
sys.exit(failed)
