"""What it costs that outcomes come late, and what counting visits under way brings: `python benchmarks/delay.py [--worlds 100] [--prior learned]`.

The mean regret with outcomes that come at once, and 1 and 3 rounds late; beside it the regret with visits under way counted over that with
these ignored, on the same worlds and the same luck. Eight agents, 26 rounds, 14 and 40 areas, means of two kinds.
"""

import argparse
import math

import numpy as np

from heterobandits import Problem, policy, simulate

AGENTS = [0.9, 0.85, 0.8, 0.8, 0.75, 0.7, 0.6, 0.5]
ROUNDS = 26
AREAS = (14, 40)
DELAYS = (1, 3)
KINDS = {"uniform": (1.0, 1.0), "Beta(1, 9)": (1.0, 9.0)}
POLICIES = ("season", "posterior-sorted", "thompson-sorted", "min-width")


def regrets(
    means: np.ndarray, name: str, delay: int, under_way: str, prior: str | None, trials: int
) -> np.ndarray:
    """The mean regret in each world."""
    chosen = policy(name, horizon=ROUNDS) if name == "season" else policy(name)
    runs = (
        simulate(
            Problem(row, AGENTS, prior=prior),
            chosen,
            horizon=ROUNDS,
            trials=trials,
            seed=world,
            checkpoints=1,
            delay=delay,
            under_way=under_way,
            threads=1,
        )
        for world, row in enumerate(means)
    )
    return np.array([run.mean(run.policies[0])[-1] for run in runs])


def ratio(counted: np.ndarray, ignored: np.ndarray) -> str:
    """The ratio of two mean regrets with its standard error over the worlds."""
    value = counted.mean() / ignored.mean()
    error = (counted - value * ignored).std(ddof=1) / ignored.mean() / math.sqrt(len(counted))
    return f"{value:.3f} ± {error:.3f}"


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--prior", choices=["learned"], default=None)
    given = parser.parse_args()
    rest = (given.prior, given.trials)
    print(
        f"{given.worlds} worlds of {given.trials} trials, {ROUNDS} rounds; prior {given.prior or 'uniform'}"
    )
    head = [part for d in DELAYS for part in (f"counted, {d} late", "over ignored")]
    print(f"| areas | means | policy | at once | {' | '.join(head)} |")
    print(f"| ---: | --- | --- | ---: |{' ---: |' * len(head)}")
    for areas in AREAS:
        for kind, shape in KINDS.items():
            means = np.random.default_rng(7).beta(*shape, (given.worlds, areas))
            for name in POLICIES:
                if given.prior and not policy(name).takes_prior:
                    continue
                cells = [f"{regrets(means, name, 0, 'counted', *rest).mean():.2f}"]
                for delay in DELAYS:
                    counted, ignored = (
                        regrets(means, name, delay, how, *rest) for how in ("counted", "ignored")
                    )
                    cells += [f"{counted.mean():.2f}", ratio(counted, ignored)]
                print(f"| {areas} | {kind} | `{name}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
