"""How processes end that read a finished sweep: `python benchmarks/endings.py [PROCESSES [AT_A_TIME]]`.

Each is a fresh one that finds a sweep finished, reads some rows of it and ends at once, when threads of Arrow may still be
putting away what they read. More at a time than there are cores makes a thread that comes too late likelier. Prints every
end that is not good; the exit status is 1 if there was one.
"""

import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

SPEC = """
horizon = 60
policies = ["min-width", "cucb", "min-ucb"]
trials = 20
draws = 2
[problem]
arms = 4
sensitivities = 0.5
means = {low = 0.1, high = 0.9, drawn = true}
[grid]
agents = [1, 3]
"""
ONE = """
import sys
from heterobandits import read_sweep
from heterobandits.sweeps.sweep import sweep
from heterobandits.sweeps.spec import Spec
where = sys.argv[1] + "/out"
rounds = sweep(Spec.load(sys.argv[1] + "/spec.toml"), where).rounds
read_sweep(where, where=[("round", "==", 60)])
print(rounds)
"""


def ended(folder: str) -> tuple[int, str]:
    """The exit status of a process, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", ONE, folder], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.strip() + done.stderr


if __name__ == "__main__":
    processes, at_a_time = (
        int(text) for text in (sys.argv[1:] + ["1000", "6"][len(sys.argv) - 1 :])
    )
    begin = time.perf_counter()
    with TemporaryDirectory() as folder, ThreadPoolExecutor(at_a_time) as pool:
        (Path(folder) / "spec.toml").write_text(SPEC, "utf-8")
        print("the sweep itself:", *ended(folder), flush=True)
        ends: Counter[int] = Counter()
        for number, (status, said) in enumerate(pool.map(ended, [folder] * processes), 1):
            ends[status] += 1
            if (status, said) != (0, "0"):
                print(f"process {number} ended with {status}: {said}", flush=True)
    seconds = time.perf_counter() - begin
    print(f"{processes} processes in {seconds:.0f} s, {at_a_time} at a time: {dict(ends)}")
    sys.exit(set(ends) != {0})
