"""Whether an arm has changed: the evidence for it, valid at any time   docs/model.md (19), (20)

If the mean of an arm stood still, what was seen up to some visit and what was seen since would be explained by one mean. The
evidence is how much likelier all of it is with two, on the average over the visits after which it may have changed and over
all pairs of means, than with the one mean that explains it best. It needs what intervals need.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.inference.intervals import (
    Counts,
    Floats,
    Posteriors,
    Profiles,
    best,
    mean_threshold,
)
from heterobandits.model.team import Team

Flags = npt.NDArray[np.bool_]

Found = tuple[bool, float, int, float, float]  # of one arm, in the order of `Alarms`

RAREST = 1e-4  # an arm that changes less often than once in so many visits is as good as one that does not


class Change(NamedTuple):
    """What is known of a change of one arm.

    Attributes
    ----------
    evidence
        The logarithm of the evidence that there was one. Where nobody is only calibrated, exp(-evidence) is a p-value
        valid at any time.
    visits
        After how many visits it most likely was.
    before, since
        The posterior means of what was seen up to that visit, and since.
    """

    evidence: float
    visits: int
    before: float
    since: float


class Alarms(NamedTuple):
    """For each arm whether it has changed, and since when.

    Attributes
    ----------
    changed
        Whether the evidence has reached ln(arms / delta), or ln(2 arms / delta) where agents are only calibrated: if no arm ever
        changes, this is ever so with probability delta at most.
    evidence
        The logarithm of the evidence.
    after
        The last round with a visit before the change, if there was one; 0 if that was before the first.
    before, since
        The posterior means of what was seen up to that round, and since.
    """

    changed: Flags
    evidence: Floats
    after: npt.NDArray[np.int64]
    before: Floats
    since: Floats

    @classmethod
    def of_all(cls, found: Sequence[Found]) -> "Alarms":
        """Those of all arms, from those of each."""
        changed, evidence, after, before, since = zip(*found, strict=True)
        columns = (np.array(column, float) for column in (evidence, before, since))
        evidence_, before_, since_ = columns
        return cls(np.array(changed, bool), evidence_, np.array(after, np.int64), before_, since_)


def change(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """What is known of a change of one arm, from tables of its visits: agents by visits, what is known already first.

    A visit whose outcome is not known yet has a column of zeros. delta is what the alarm may fail with: where agents are
    only calibrated, half of it is theirs.
    """
    c, y = (np.cumsum(table, axis=1, dtype=np.int64) for table in (pulls, successes))
    visits = c.shape[1] - 1
    parts = [(c, y), (c[:, -1:] - c, y[:, -1:] - y)]
    up_to, since = (Posteriors.of(team, *_narrow(part)) for part in parts)
    if team.is_calibrated:
        whole = Profiles.of(team, *_narrow((c[:, -1:], y[:, -1:])), delta)
        constant = whole.log_evidence - whole.posteriors.log_evidence
        greatest = float((best(whole.seen)[1] - constant)[0])
    else:
        greatest = float(up_to.log_likelihood(np.minimum(1.0, up_to.peak))[-1])
    terms = shares(visits) + up_to.log_evidence + since.log_evidence - greatest
    highest = float(terms.max())
    evidence = highest + math.log(float(np.exp(terms - highest).sum()))
    likeliest = int(np.argmax(terms[:-1])) if visits else 0
    return Change(evidence, likeliest, float(up_to.mean[likeliest]), float(since.mean[likeliest]))


def shares(visits: int) -> Floats:
    """ln of the share that a change after 0, 1, ... visits has of all; the last has those still to come as well.

    The logarithmic distribution, which falls hardly faster than any that has a sum must.
    """
    j = np.arange(1.0, visits + 1.0)
    each = np.exp(j * math.log1p(-RAREST)) / (j * -math.log(RAREST))
    rest = max(1.0 - float(each.sum()), np.finfo(float).tiny)
    return np.asarray(np.log(np.append(each, rest)))


def _narrow(tables: Any) -> tuple[Counts, Counts]:
    pulls, successes = (np.ascontiguousarray(table, np.int32) for table in tables)
    return pulls, successes


def alarm_threshold(arms: int, delta: float) -> float:
    """The evidence from which on an arm counts as changed: ln(arms / delta)."""
    return mean_threshold(arms, delta)


def team_threshold(team: Team, arms: int, delta: float) -> float:
    """The same for a team: where agents are only calibrated, the other half of delta is the calibration's."""
    return alarm_threshold(arms, 0.5 * delta if team.is_calibrated else delta)
