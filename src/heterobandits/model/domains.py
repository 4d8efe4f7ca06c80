"""The paper's domains: problems with the horizon its figures show.

COVID tests of two kinds for the floors of a dorm, guests for hotels, rangers for the areas of a
park, and the three cases in which the sensitivities of the tests are not known exactly.
"""

from dataclasses import dataclass

from heterobandits.errors import unknown_name
from heterobandits.model.problem import Problem


@dataclass(frozen=True)
class Domain:
    """A problem of the paper, what it is about, and how many rounds its figure shows."""

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
}


def domain_of_name(name: str) -> Domain:
    """The domain of this name."""
    if name not in DOMAINS:
        raise unknown_name("domain", name, list(DOMAINS))
    return DOMAINS[name]
