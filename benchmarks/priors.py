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
    "5 of 8 areas, 60 rounds": (8, [0.9, 0.8, 0.75, 0.6, 0.5], 1, 60),
    "8 of 14 areas, 26 rounds, 5 tests": (14, AGENTS, 5, 26),
    "8 of 30 areas, 26 rounds": (30, AGENTS, 1, 26),
    "8 of 40 areas, 52 rounds": (40, AGENTS, 1, 52),
}
TRUE = {"uniform": (1, 1), "Beta(1, 9)": (1, 9), "Beta(2, 60)": (2, 60), "Beta(8, 3)": (8, 3)}


def regrets(kind: str, size: str, prior: object, worlds: int, name: str) -> np.ndarray:
    """The mean regret in each world."""
    arms, team, tests, rounds = SIZES[size]
    means = WORLDS[kind](np.random.default_rng(7), (worlds, arms))
    chosen = policy(name, horizon=rounds) if name == "season" else policy(name)
    runs = (
        simulate(
            Problem(row, team, tests=[tests] * len(team), prior=prior),
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
