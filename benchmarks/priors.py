"""What a prior brings to decisions: `python benchmarks/priors.py [--worlds 100] [--policy season]`.

The regret of a policy that learns a common prior, and of one that is told the true one, over that of the same policy with the uniform
prior: on the same worlds and the same luck, for means of five kinds and teams of the sizes of the templates and of two others.
"""

import argparse
import math

import numpy as np
from forecasts import AGENTS, WORLDS

from heterobandits import Problem, policy, simulate

SIZES = {  # arms, sensitivities, tests of a visit, rounds
    "template rangers: 6 of 10 areas, 30 rounds": (
        10,
        [0.9, 0.75, 0.85, 0.6, 0.6, 0.45],
        [1] * 6,
        30,
    ),
    "template tests: 5 of 12 floors, 20 rounds": (
        12,
        [0.95, 0.95, 0.7, 0.7, 0.6],
        [12, 12, 30, 30, 30],
        20,
    ),
    "template hotels: 4 of 8, 60 rounds": (8, [0.3, 0.5, 0.7, 0.95], [5, 4, 6, 1], 60),
    "8 of 14 areas, 26 rounds, 5 tests": (14, AGENTS, [5] * 8, 26),
    "8 of 40 areas, 52 rounds": (40, AGENTS, [1] * 8, 52),
}
TRUE = {"uniform": (1, 1), "Beta(1, 9)": (1, 9), "Beta(2, 60)": (2, 60), "Beta(8, 3)": (8, 3)}


def regrets(kind: str, size: str, prior: object, worlds: int, name: str) -> np.ndarray:
    """The mean regret in each world."""
    arms, team, tests, rounds = SIZES[size]
    means = WORLDS[kind](np.random.default_rng(7), (worlds, arms))
    chosen = policy(name, horizon=rounds) if name == "season" else policy(name)
    runs = (
        simulate(
            Problem(row, team, tests=tests, prior=prior),
            chosen,
            horizon=rounds,
            trials=8,
            seed=world,
            threads=1,
        )
        for world, row in enumerate(means)
    )
    return np.array([run.mean(run.policies[0])[-1] for run in runs])


def ratio(some: np.ndarray, uniform: np.ndarray) -> str:
    """The ratio of two mean regrets with its standard error over the worlds."""
    value = some.mean() / uniform.mean()
    error = (some - value * uniform).std(ddof=1) / uniform.mean() / math.sqrt(len(some))
    return f"{value:.2f} ± {error:.2f}"


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--policy", default="season")
    given = parser.parse_args()
    print(f"{given.policy}, {given.worlds} worlds of 8 trials")
    print("| team | means | uniform | learned / uniform | true / uniform |")
    print("| --- | --- | ---: | ---: | ---: |")
    for size in SIZES:
        for kind in WORLDS:
            how = (kind, size)
            uniform = regrets(*how, None, given.worlds, given.policy)
            learned = regrets(*how, "learned", given.worlds, given.policy)
            told = TRUE.get(kind)
            best = ratio(regrets(*how, told, given.worlds, given.policy), uniform) if told else ""
            cells = (f"{uniform.mean():.2f}", ratio(learned, uniform), best)
            print(f"| {size} | {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
