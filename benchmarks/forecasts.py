"""Whether forecasts come true: `python benchmarks/forecasts.py [--seasons 200] [--draws 60] [--prior learned]`.

In each of five kinds of worlds, seasons of 26 rounds are played by 8 agents on 14 arms, with 5 tests a visit. After rounds 1, 4 and
10 the rest of each is forecast from what was seen. The table has the share of seasons in which the 80 % interval of the forecast
holds what was then detected, and the mean of what was forecast over the mean of what was detected.
"""

import argparse
from dataclasses import replace

import numpy as np

from heterobandits.campaigns.analysis.projection import eighty_percent_range
from heterobandits.campaigns.analysis.projection_lanes import ProjectionLanes
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.reducer import state_after_drafts
from heterobandits.campaigns.rounds import Rounds
from heterobandits.campaigns.state import State
from heterobandits.inference.beliefs import Beliefs
from heterobandits.model.prior import parse_prior

AGENTS = [0.9, 0.85, 0.8, 0.8, 0.75, 0.7, 0.6, 0.5]
ARMS, TESTS, ROUNDS = 14, 5, 26
LOOKS = (1, 4, 10)


def hotspots(luck: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Four fifths of the places as rare as Beta(1, 20), one fifth as common as Beta(3, 3)."""
    hot = luck.random(size) < 0.2
    return np.where(hot, luck.beta(3, 3, size), luck.beta(1, 20, size))


WORLDS = {
    "uniform": lambda luck, size: luck.random(size),
    "Beta(1, 9)": lambda luck, size: luck.beta(1, 9, size),
    "Beta(2, 60)": lambda luck, size: luck.beta(2, 60, size),
    "four fifths Beta(1, 20), one fifth Beta(3, 3)": hotspots,
    "Beta(8, 3)": lambda luck, size: luck.beta(8, 3, size),
}


def campaign() -> State:
    """A season that has not begun."""
    agents = [
        {"name": f"ranger {a}", "sensitivity": s, "tests": TESTS} for a, s in enumerate(AGENTS)
    ]
    body = {
        "name": "season",
        "season": ROUNDS,
        "seed": 0,
        "policy": {"name": "season", "delta": 0.05, "memory": None},
        "arms": [f"area {n}" for n in range(ARMS)],
        "agents": agents,
    }
    return state_after_drafts(None, [Draft("created", body)])


def known_after(state: State, lanes: ProjectionLanes, lane: int, rounds: int) -> State:
    """The state of one of the seasons after so many rounds."""
    tables = (part[:, :, lane].astype(np.int64) for part in (lanes.pulls, lanes.successes))
    pulls, successes = tables
    return replace(state, rounds=Rounds([None] * rounds), pulls=pulls, successes=successes)


def forecast(known: State, prior: str | None, seed: int, draws: int) -> tuple[float, float, float]:
    """The detections expected of the rest of the season, and the ends of the 80 % interval."""
    beliefs = Beliefs.of(known.team, *known.knowledge.tables, parse_prior(prior, ARMS))
    lanes = ProjectionLanes(known, seed, 0, beliefs.draws(draws, seed))
    for _ in range(ROUNDS - len(known.rounds)):
        lanes.play()
    return float(lanes.expected.mean()), *eighty_percent_range(lanes.made)


def study(kind: str, prior: str | None, seasons: int, draws: int) -> list[tuple[int, float, float]]:
    """For each look: the round, the share of intervals that held, and forecast over outcome."""
    state = campaign()
    means = WORLDS[kind](np.random.default_rng(list(kind.encode())), (ARMS, seasons))
    lanes = ProjectionLanes(state, 1, 0, means)
    made, forecasts = {}, {}
    for number in range(1, ROUNDS + 1):
        lanes.play()
        if number in LOOKS:
            made[number] = lanes.made.copy()
            forecasts[number] = [
                forecast(known_after(state, lanes, lane, number), prior, 1000 + lane, draws)
                for lane in range(seasons)
            ]
    found = []
    for number in LOOKS:
        came = lanes.made - made[number]
        expected, low, high = np.array(forecasts[number]).T
        held = ((low <= came) & (came <= high)).mean()
        found.append((number, float(held), float(expected.sum() / came.sum())))
    return found


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seasons", type=int, default=200)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--prior", choices=("learned", "uniform"), default="learned")
    given = parser.parse_args()
    prior = None if given.prior == "uniform" else given.prior
    print(f"{given.seasons} seasons, {given.draws} draws, {given.prior} prior")
    print("| means | " + " | ".join(f"held after {n} | forecast / came" for n in LOOKS) + " |")
    print("| --- |" + " ---: |" * 2 * len(LOOKS))
    for kind in WORLDS:
        cells = study(kind, prior, given.seasons, given.draws)
        print(
            f"| {kind} | " + " | ".join(f"{h:.0%} | {q:.2f}" for _, h, q in cells) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
