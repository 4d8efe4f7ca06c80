"""A campus and a park, forecast with every mean as likely, with a learned prior and with a stated one.

`python benchmarks/field_trial.py [--seasons 40]`: the two seasons of a trial in which people who knew the true means looked at what was
promised. The campus has 12 floors at 1 to 5 % and the teams of the template `tests`, for 12 rounds; the park 14 areas at 1 to 35 % and
8 rangers with 5 checks a visit, for 26. Forecasts of the rounds left are made after some rounds and set beside what was then found.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from forecasts import AGENTS

from heterobandits.campaigns.analysis.projection import eighty_percent_range
from heterobandits.campaigns.analysis.projection_lanes import ProjectionLanes
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.files.templates import load_template
from heterobandits.campaigns.reducer import state_after_drafts
from heterobandits.campaigns.rounds import Rounds
from heterobandits.campaigns.state import State
from heterobandits.inference.beliefs import Beliefs
from heterobandits.model.prior import parse_prior, shape_of_words


@dataclass(frozen=True)
class Trial:
    """A season with true means that the planner does not know, and what somebody would state of them."""

    agents: list[dict]
    means: np.ndarray
    rounds: int
    looks: tuple[int, ...]
    stated: tuple[float, float]


TRIALS = {
    "campus": Trial(
        load_template("tests")["agents"], np.linspace(0.01, 0.05, 12), 12, (0, 1, 3), (0.02, 0.1)
    ),
    "park": Trial(
        [{"name": f"ranger {a}", "sensitivity": s, "tests": 5} for a, s in enumerate(AGENTS)],
        np.geomspace(0.01, 0.35, 14),
        26,
        (0, 4, 10),
        (0.05, 0.5),
    ),
}


def begin(trial: Trial) -> State:
    """The campaign before its first round."""
    body = {
        "name": "trial",
        "agents": trial.agents,
        "arms": [f"place {n}" for n in range(len(trial.means))],
        "season": trial.rounds,
        "seed": 0,
        "policy": {"name": "season", "delta": 0.05, "memory": None},
    }
    return state_after_drafts(None, [Draft("created", body)])


def forecast(known: State, prior: object, seed: int, rounds: int) -> tuple[float, float, float]:
    """What is expected of so many rounds, and the ends of the 80 % interval."""
    beliefs = Beliefs.of(known.team, *known.knowledge.tables, parse_prior(prior, len(known.arms)))
    lanes = ProjectionLanes(known, seed, 0, beliefs.draws(60, seed))
    for _ in range(rounds):
        lanes.play()
    return float(lanes.expected.mean()), *eighty_percent_range(lanes.made)


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seasons", type=int, default=40)
    seasons = parser.parse_args().seasons
    print("| season | after round | then found | every mean as likely | learned | stated |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, trial in TRIALS.items():
        state = begin(trial)
        lanes = ProjectionLanes(state, 1, 0, np.repeat(trial.means[:, None], seasons, axis=1))
        priors = {"uniform": None, "learned": "learned", "stated": shape_of_words(*trial.stated)}
        found: dict[int, tuple] = {}
        for number in range(trial.rounds + 1):
            if number in trial.looks:
                made = lanes.made.copy()
                said = {}
                for kind, prior in priors.items():
                    each = []
                    for lane in range(seasons if number else 1):
                        tables = (
                            p[:, :, lane].astype(np.int64) for p in (lanes.pulls, lanes.successes)
                        )
                        known = State(
                            **{
                                **{f: getattr(state, f) for f in state.__dataclass_fields__},
                                **dict(zip(("pulls", "successes"), tables, strict=True)),
                                "rounds": Rounds([None] * number),
                            }
                        )
                        each.append(forecast(known, prior, 7 + lane, trial.rounds - number))
                    said[kind] = np.array(each).mean(axis=0)
                found[number] = (made, said)
            if number < trial.rounds:
                lanes.play()
        for number, (made, said) in found.items():
            came = (lanes.made - made).mean()
            cells = (f"{e:.0f} ({low:.0f} to {high:.0f})" for e, low, high in said.values())
            print(f"| {name} | {number} | {came:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
