"""The paper's experiments as data: what to run, and what was published about it.

Adding an experiment is adding an entry. Percent changes and regrets are the paper's Tables 1 and
2, rankings its Table B1. Figures and tables have the numbers that the paper's own source gives them.
"""

from dataclasses import dataclass

from heterobandits.model.domains import DOMAINS
from heterobandits.model.problem import Problem
from heterobandits.policies.catalogue import PAPER
from heterobandits.policies.policy import Policy

FIGURE_TRIALS = 2000
RANKING_HORIZON = 100_000
RANKING_TRIALS = 256


@dataclass(frozen=True)
class Experiment:
    """Policies on a problem, and where the paper shows them.

    `published_trials` is how many trials the paper used; `trials` how many we run by default. With `at_first`, these
    are played first, and more, up to `trials`, only where they are needed.
    """

    name: str
    title: str
    problem: Problem
    horizon: int
    trials: int
    shown_in: str
    published_trials: int = 90
    policies: tuple[str | Policy, ...] = PAPER
    ranking: tuple[str, ...] = ()
    at_first: int | None = None


def _experiment_of_domain(name: str, shown_in: str, published_trials: int = 90) -> Experiment:
    domain = DOMAINS[name]
    return Experiment(
        name,
        domain.title,
        domain.problem,
        domain.horizon,
        FIGURE_TRIALS,
        shown_in,
        published_trials,
    )


FIGURES = (
    _experiment_of_domain("covid", "Figure 1a"),
    _experiment_of_domain("hotel", "Figure 1b"),
    _experiment_of_domain("poaching-2", "Figure 2a"),
    _experiment_of_domain("poaching-3", "Figure 2b"),
    _experiment_of_domain("poaching-5", "Figure 2c"),
    Experiment(
        "two-by-two",
        "two agents, two arms",
        Problem([0.1, 0.5], [0.1, 0.9]),
        500,  # the paper does not say
        FIGURE_TRIALS,
        "Figure B1",
        300,
    ),
    _experiment_of_domain("covid-over", "Figure B2", 500),
    _experiment_of_domain("covid-under", "Figure B3", 500),
    _experiment_of_domain("covid-mix", "Figure B4", 500),
)

MIN_WIDTH_FIRST = ("min-width", "min-ucb", "no-sharing", "ucb", "cucb")
MIN_UCB_FIRST = ("min-ucb", "no-sharing", "min-width", "ucb", "cucb")
CUCB_FIRST = ("cucb", "min-ucb", "no-sharing", "min-width", "ucb")

# means of the arms; sensitivities of the agents, and the order in which the policies came out
PUBLISHED_RANKINGS = (
    ("0.1,0.9", (("0.1,0.9", MIN_WIDTH_FIRST), ("0.5,0.9", MIN_WIDTH_FIRST),
                 ("0.1,0.5", MIN_WIDTH_FIRST), ("0.4,0.6", MIN_WIDTH_FIRST))),
    ("0.5,0.9", (("0.1,0.9", MIN_WIDTH_FIRST), ("0.5,0.9", MIN_WIDTH_FIRST),
                 ("0.1,0.5", MIN_WIDTH_FIRST), ("0.4,0.6", MIN_WIDTH_FIRST))),
    ("0.1,0.5", (("0.1,0.9", MIN_WIDTH_FIRST), ("0.5,0.9", MIN_WIDTH_FIRST),
                 ("0.1,0.5", MIN_WIDTH_FIRST), ("0.4,0.6", MIN_WIDTH_FIRST))),
    ("0.4,0.6", (("0.1,0.9", MIN_WIDTH_FIRST), ("0.5,0.9", MIN_WIDTH_FIRST),
                 ("0.1,0.5", MIN_WIDTH_FIRST), ("0.4,0.6", MIN_WIDTH_FIRST))),
    ("0.1,0.4,0.6", (("0.1,0.9", MIN_WIDTH_FIRST), ("0.1,0.5,0.9", MIN_WIDTH_FIRST))),
    ("0.1,0.2,0.9", (("0.1,0.9", MIN_UCB_FIRST), ("0.5,0.9", MIN_UCB_FIRST),
                     ("0.1,0.5", MIN_UCB_FIRST), ("0.4,0.6", MIN_UCB_FIRST),
                     ("0.7,0.9", MIN_UCB_FIRST))),
    ("0.1,0.5,0.9", (("0.1,0.9", MIN_UCB_FIRST), ("0.5,0.9", MIN_UCB_FIRST),
                     ("0.5,0.5", CUCB_FIRST), ("0.1,0.5,0.9", MIN_WIDTH_FIRST),
                     ("0.1,0.2,0.9", MIN_WIDTH_FIRST))),
    ("0.1,0.8,0.9", (("0.1,0.9", MIN_WIDTH_FIRST), ("0.1,0.5", MIN_WIDTH_FIRST),
                     ("0.1,0.5,0.9", MIN_WIDTH_FIRST))),
    ("0.4,0.6,0.9", (("0.5,0.9", MIN_UCB_FIRST), ("0.4,0.6", MIN_UCB_FIRST),
                     ("0.7,0.9", MIN_UCB_FIRST), ("0.1,0.5,0.9", MIN_WIDTH_FIRST))),
    ("0.1,0.4,0.6,0.9", (("0.7,0.9", MIN_UCB_FIRST),)),
)  # fmt: skip


def _parse_numbers(text: str) -> list[float]:
    return [float(item) for item in text.split(",")]


SYNTHETIC = tuple(
    Experiment(
        f"synthetic-{means}-by-{sensitivities}".replace(",", "_").replace("0.", ""),
        f"means {means}; sensitivities {sensitivities}",
        Problem(_parse_numbers(means), _parse_numbers(sensitivities)),
        RANKING_HORIZON,
        RANKING_TRIALS,
        "Table B1",
        90,
        ranking=ranking,
    )
    for means, rows in PUBLISHED_RANKINGS
    for sensitivities, ranking in rows
)

# horizons the authors looked at beyond their figures
LONG = tuple(
    Experiment(
        f"{name}-long",
        f"{DOMAINS[name].title}, long run",
        DOMAINS[name].problem,
        horizon,
        trials,
        "the authors' longer runs",
    )
    for name, horizon, trials in (
        ("covid", 45_000, 90),
        ("poaching-2", 90_000, 256),
        ("poaching-3", 60_000, 256),
        ("poaching-5", 30_000, 256),
    )
)

MISJUDGED = ("covid-over", "covid-under", "covid-mix")

# mean and standard error, in the order of CASES
PUBLISHED_REGRET = {
    "min-width": ((10.8, 0.1), (11.0, 0.1), (11.7, 0.1)),
    "min-ucb": ((14.0, 0.1), (15.2, 0.2), (18.0, 0.2)),
    "no-sharing": ((17.5, 0.1), (17.6, 0.1), (17.5, 0.1)),
}
PUBLISHED_PERCENT_CHANGES = {
    "min-width": ((0.7, 0.9), (2.5, 1.0), (9.5, 1.0)),
    "min-ucb": ((0.7, 1.6), (9.1, 1.8), (28.9, 1.9)),
    "no-sharing": ((0.9, 0.5), (1.5, 0.5), (1.0, 0.5)),
}
