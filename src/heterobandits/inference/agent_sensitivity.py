"""What the visits say about the agents: how sensitive each is, judged by what the others report from the same arms.

Of agent a alone nothing follows: a sensitivity half as large and means twice as large give the same reports. Beside others whose
sensitivities are known, or calibrated, its own is identified by the arms that both visited. All of it is about the sensitivity,
the false positive rates being what calibration allows   docs/model.md (12), (13).
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from heterobandits.arrays import Floats
from heterobandits.core import seen
from heterobandits.errors import parse_delta, parse_tables
from heterobandits.inference.intervals import Profiles, profile_peak
from heterobandits.interrupts import end_abandoned_work
from heterobandits.limits import DEFAULT_DELTA
from heterobandits.model.team import Team

CalibrationVerdict = Literal["agrees", "worse", "better"]
SensitivityFinding = Literal["as believed", "less", "more"]

SENSITIVITY_GRID_STEPS = 100  # of the sensitivities that are tried
LIKELIEST_MAX_SWEEPS = 500
LIKELIEST_HALVINGS = 50
LIKELIEST_TOLERANCE = 1e-12


class AgentSensitivities(NamedTuple):
    """Of each agent, what was stated, what calibration allows and what the visits allow.

    Attributes
    ----------
    sensitivity
        What is planned with.
    calibrated
        Between what it lies by calibration, two columns; both the same where it is taken to be known.
    estimate
        The likeliest one with everything that is known, calibration included.
    lower, upper
        Between what it lies by the visits and the other agents alone.
    verdict
        Whether the two agree, or the visits show it to be worse or better than stated.
    """

    sensitivity: Floats
    calibrated: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    verdict: tuple[CalibrationVerdict, ...]

    @property
    def finds(self) -> tuple[SensitivityFinding, ...]:
        """Whether each finds less or more than is planned with, by the visits; calibration may leave room for that."""
        both = zip(self.sensitivity, self.lower, self.upper, strict=True)
        return tuple(
            "less" if s > high else "more" if s < low else "as believed" for s, low, high in both
        )


def agent_intervals(
    pulls: Any, successes: Any, team: Any, *, delta: float = DEFAULT_DELTA
) -> AgentSensitivities:
    """What the two tables say of the sensitivities; all statements right with probability 1 - delta, in all rounds at once.

    Each agent is judged beside the others, of whom no more is assumed than their calibration allows: those without one are
    taken at their word. If two disagree, one of them is not as stated, and both may be named. Like statements about the
    order of arms, it needs different arms' outcomes of one round to be independent given the past.

    Examples
    --------
    The second agent was said to find nine of ten, and finds a third of what the first finds on the same arms:

    >>> known = agent_intervals([[200, 200], [200, 200]], [[90, 140], [29, 45]], [0.9, 0.9])
    >>> known.verdict
    ('agrees', 'worse')
    >>> calibrated = Team(None, calibration=[(900, 1000), (190, 200)])
    >>> agent_intervals([[200, 200], [200, 200]], [[90, 140], [29, 45]], calibrated).verdict
    ('agrees', 'worse')
    """
    team, delta = Team.of(team), parse_delta(delta)
    c, y = parse_tables(pulls, successes, len(team))
    sets = team.box(0.5 * delta)
    lower, upper = np.array(
        [_allowed_sensitivities(team, c, y, a, delta) for a in range(len(team))]
    ).T
    below, above = upper < sets.s_low, lower > sets.s_high
    return AgentSensitivities(
        np.array(team.sensitivities),
        np.stack([sets.s_low, sets.s_high], axis=1),
        likeliest_sensitivities(team, c, y),
        lower,
        upper,
        tuple(
            "worse" if b else "better" if o else "agrees" for b, o in zip(below, above, strict=True)
        ),
    )


def _allowed_sensitivities(
    team: Team, c: Any, y: Any, agent: int, delta: float
) -> tuple[float, float]:
    """The range of an agent's sensitivity by the visits alone   docs/model.md (12)

    The evidence is averaged over its sensitivities; against it stands the greatest likelihood with each of them.
    """
    least = team.false_positive_rates[agent]
    tried = (
        least + (1.0 - least) * (np.arange(SENSITIVITY_GRID_STEPS) + 0.5) / SENSITIVITY_GRID_STEPS
    )
    evidence, greatest = np.empty((2, SENSITIVITY_GRID_STEPS))
    for k, s in enumerate(tried.tolist()):
        end_abandoned_work()
        known = _replace_sensitivity(team, agent, s)
        profiles = Profiles.of(known, c, y, delta)
        seen = profiles.seen._replace(agents=_fix_sensitivity(team.boxed(0.5 * delta), agent, s))
        evidence[k] = profiles.log_evidence.sum()
        greatest[k] = profile_peak(seen)[1].sum()
    top = evidence.max()
    average = top + math.log(np.exp(evidence - top).mean())
    inside = np.flatnonzero(greatest >= average - math.log(2 * len(team) / delta))
    if not len(inside):  # none that was tried: the likeliest of them, and its neighbours
        inside = np.array([greatest.argmax()])
    low, high = inside[0] - 1, inside[-1] + 1
    return (0.0 if low < 0 else float(tried[low])), (
        1.0 if high >= SENSITIVITY_GRID_STEPS else float(tried[high])
    )


def _replace_sensitivity(team: Team, agent: int, s: float) -> Team:
    """The team, with another sensitivity for one agent."""
    changed = list(team.sensitivities)
    changed[agent] = s
    return Team(**{**team.columns, "sensitivities": changed})


def _fix_sensitivity(arrays: seen.Agents, agent: int, s: float) -> seen.Agents:
    """The arrays, with one agent's sensitivity taken as known."""
    low, high = arrays.s_low.copy(), arrays.s_high.copy()
    low[agent] = high[agent] = s
    return arrays._replace(s_low=low, s_high=high)


def likeliest_sensitivities(team: Team, pulls: Any, successes: Any) -> Floats:
    """The sensitivities with the greatest likelihood of all reports and calibrations, means free   docs/model.md (13)

    By turns the means given the sensitivities, and the sensitivities given the means: each is a concave
    problem of one number. Who is taken to be known keeps what is stated.
    """
    c, y = np.asarray(pulls, np.float64), np.asarray(successes, np.float64)
    s, phi = np.array(team.sensitivities), team.offset
    free = np.array([trial is not None for trial in team.calibration])
    tried = np.array([(0, 0) if trial is None else trial for trial in team.calibration], np.float64)
    for _ in range(LIKELIEST_MAX_SWEEPS):
        end_abandoned_work()
        mu = _likeliest_means(c, y, s[:, None], phi[:, None])
        found = _likeliest_given_means(c, y, mu, phi[:, None], *tried.T)
        before, s = s, np.where(free, np.maximum(found, phi), s)
        if np.abs(s - before).max() < LIKELIEST_TOLERANCE:
            break
    return s


def _likeliest_means(c: Floats, y: Floats, s: Floats, phi: Floats) -> Floats:
    """The likeliest means, given the sensitivities."""
    return _peaks_of(
        lambda mu: _likelihood_slopes(c, y, s, phi, mu, s - phi).sum(axis=0), c.shape[1]
    )


def _likeliest_given_means(
    c: Floats, y: Floats, mu: Floats, phi: Floats, found: Floats, planted: Floats
) -> Floats:
    """The likeliest sensitivities, given the means."""

    def slope(s: Floats) -> Floats:
        visits = _likelihood_slopes(c, y, s[:, None], phi, mu, mu).sum(axis=1)
        return np.asarray(visits + _likelihood_slopes(planted, found, s, 0.0, 1.0, 1.0))

    return _peaks_of(slope, len(c))


def _likelihood_slopes(c: Any, y: Any, s: Any, phi: Any, mu: Any, gain: Any) -> Floats:
    """The derivatives of y ln p + (c - y) ln(1 - p), with p = phi + (s - phi) mu changing at the rate `gain`."""
    p = phi + (s - phi) * mu
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = np.where(y > 0, y / p, 0.0), np.where(c > y, (c - y) / (1.0 - p), 0.0)
    return np.asarray(gain * (up - down))


def _peaks_of(slope: Callable[[Floats], Floats], count: int) -> Floats:
    """The peaks of so many concave functions on [0, 1], from their slopes."""
    low, high = np.zeros(count), np.ones(count)
    for _ in range(LIKELIEST_HALVINGS):
        middle = 0.5 * (low + high)
        up = slope(middle) > 0.0
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return 0.5 * (low + high)
