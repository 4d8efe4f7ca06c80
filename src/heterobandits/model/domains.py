"""Problems with a name and a horizon: the paper's domains, and one of those who rank.

Of the paper, with the horizons its figures show: COVID tests of two kinds for the floors of a dorm, guests for hotels, rangers for the
areas of a park, and the three cases in which the sensitivities of the tests are not known exactly. Beside them the slots of a page with
ads: there a sensitivity is the chance that a visitor looks at the slot, and a mean the chance that one who looks at the ad clicks.
"""

from dataclasses import dataclass

from heterobandits.errors import unknown_name
from heterobandits.model.problem import Problem


@dataclass(frozen=True)
class Domain:
    """A problem, what it is about, and how many rounds are played: of the paper's as many as its figure shows."""

    title: str
    problem: Problem
    horizon: int


def _covid(believed: list[float] | None = None) -> Problem:
    return Problem(
        means=[0.05, 0.1, 0.12, 0.15, 0.25, 0.3],
        sensitivities=[0.8, 0.8, 0.8, 0.95, 0.95],
        believed=believed,
        arm_names=[f"floor {i}" for i in range(1, 7)],
        agent_names=["antigen 1", "antigen 2", "antigen 3", "PCR 1", "PCR 2"],
    )


def _poaching(sensitivities: list[float]) -> Problem:
    return Problem(
        means=[0.1, 0.3, 0.5, 0.7, 0.9],
        sensitivities=sensitivities,
        arm_names=[f"area {i}" for i in range(1, 6)],
        agent_names=[f"ranger {i}" for i in range(1, len(sensitivities) + 1)],
    )


HOTEL_PROBLEM = Problem(
    means=[0.72, 0.74, 0.93, 0.61],
    sensitivities=[0.3, 0.5, 0.7, 0.9],
    arm_names=[f"hotel {i}" for i in range(1, 5)],
    agent_names=[f"guest {i}" for i in range(1, 5)],
)

# What Gauthier, Gaudel and Fromont (IDA 2021, ICML 2021) fitted the position-based model to in a log of search advertising, rounded
# to four digits: query "1" of data/param_KDD.txt in github.com/gaudel/ranking_bandits, commit 0dd7831 (MIT licence), which they use in
# `param.py` as KDD. Examination is relative to that of the first slot; a mean is the chance of a click there.
SLOTS_PROBLEM = Problem(
    means=[
        0.0267, 0.1494, 0.0517, 0.0702, 0.0792, 0.0887, 0.0499, 0.1033, 0.0217, 0.0291, 0.0283,
    ],
    sensitivities=[1.0, 0.4735, 0.3278],
    arm_names=[f"ad {i}" for i in range(1, 12)],
    agent_names=[f"slot {i}" for i in range(1, 4)],
)  # fmt: skip

DOMAINS = {
    "covid": Domain("COVID tests", _covid(), 300),
    "covid-over": Domain(
        "COVID tests, sensitivities overestimated", _covid([0.85, 0.85, 0.85, 0.98, 0.98]), 300
    ),
    "covid-under": Domain(
        "COVID tests, sensitivities underestimated", _covid([0.75, 0.75, 0.75, 0.9, 0.9]), 300
    ),
    "covid-mix": Domain(
        "COVID tests, some over- and some underestimated",
        _covid([0.75, 0.75, 0.75, 0.98, 0.98]),
        300,
    ),
    "hotel": Domain("hotel recommendation", HOTEL_PROBLEM, 5000),
    "poaching-2": Domain("poaching prevention, 2 rangers", _poaching([0.2, 0.3]), 5000),
    "poaching-3": Domain("poaching prevention, 3 rangers", _poaching([0.1, 0.2, 0.3]), 5000),
    "poaching-5": Domain(
        "poaching prevention, 5 rangers", _poaching([0.1, 0.1, 0.1, 0.2, 0.3]), 5000
    ),
    "slots": Domain("ads in the slots of a page", SLOTS_PROBLEM, 5000),
}


def domain_of_name(name: str) -> Domain:
    """The domain of this name."""
    if name not in DOMAINS:
        raise unknown_name("domain", name, list(DOMAINS))
    return DOMAINS[name]
