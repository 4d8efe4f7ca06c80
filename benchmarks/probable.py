"""Whether what is said with 80 % is true 80 times of 100: `python benchmarks/probable.py [--seasons 200]`.

Seasons as in `forecasts.py`, so many of each kind of world. After rounds 1, 4 and 10: the share of arms whose mean lies in its 80 %
interval; and of all statements that an arm is, or is not, among the best so many that were made with a chance of 75 to 85 %, the share
that is true.
"""

import argparse

import numpy as np
from forecasts import AGENTS, ARMS, LOOKS, ROUNDS, WORLDS, campaign, known_after

from heterobandits.campaigns.analysis.projection_lanes import ProjectionLanes
from heterobandits.inference.beliefs import Beliefs, chances_of_draws
from heterobandits.model.prior import parse_prior

DRAWS = 1000
SAID = (0.75, 0.85)


def study(kind: str, prior: str | None, seasons: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """For each look: whether each interval holds its mean, and whether each statement made with some 80 % is true."""
    state = campaign()
    means = WORLDS[kind](np.random.default_rng([1, *kind.encode()]), (ARMS, seasons))
    best = np.argsort(np.argsort(-means, axis=0), axis=0) < len(AGENTS)
    lanes = ProjectionLanes(state, 2, 0, means)
    found = []
    for number in range(1, max(LOOKS) + 1):
        lanes.play()
        if number not in LOOKS:
            continue
        held, true = [], []
        for lane in range(seasons):
            known = known_after(state, lanes, lane, number)
            beliefs = Beliefs.of(known.team, *known.knowledge.tables, parse_prior(prior, ARMS))
            low, high = (beliefs.quantiles(share) for share in (0.1, 0.9))
            held += ((low <= means[:, lane]) & (means[:, lane] <= high)).tolist()
            chances = chances_of_draws(beliefs.draws(DRAWS, lane), len(AGENTS)).among
            for said, is_so in ((chances, best[:, lane]), (1.0 - chances, ~best[:, lane])):
                some = (said >= SAID[0]) & (said <= SAID[1])
                true += is_so[some].tolist()
        found.append((number, np.array(held), np.array(true)))
    return found


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seasons", type=int, default=200)
    parser.add_argument("--prior", choices=("learned", "uniform"), default="learned")
    given = parser.parse_args()
    prior = None if given.prior == "uniform" else given.prior
    print(f"{given.seasons} seasons of {ROUNDS} rounds of each kind, {given.prior} prior")
    print("| means | " + " | ".join(f"intervals after {n} | among the best" for n in LOOKS) + " |")
    print("| --- |" + " ---: |" * 2 * len(LOOKS))
    every: dict[int, list] = {number: [[], []] for number in LOOKS}
    for kind in WORLDS:
        cells = []
        for number, held, true in study(kind, prior, given.seasons):
            every[number][0].append(held)
            every[number][1].append(true)
            cells += [f"{held.mean():.0%}", f"{true.mean():.0%}" if len(true) else ""]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    shares = [np.concatenate(part).mean() for number in LOOKS for part in every[number]]
    print(f"| all | {' | '.join(f'{share:.1%}' for share in shares)} |")


if __name__ == "__main__":
    main()
