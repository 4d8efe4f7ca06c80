"""Whether an arm has changed: the evidence for it, valid at any time   docs/model.md (19), (20)

If the mean of an arm stood still, what was seen up to some visit and what was seen since would be explained by one mean. The
evidence is how much likelier all of it is with two, on the average over the visits after which it may have changed and over
all pairs of means, than with the one mean that explains it best. It needs what intervals need.

An arm that has changed has changed for good, even where it changes back and one mean explains most of what was seen again: so
the evidence is looked at as it was after some of the visits, always the same ones, too.
"""

import hashlib
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

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

Known = TypeVar("Known")

RAREST = 1e-4  # an arm that changes less often than once in so many visits is as good as one that does not
STEPS = 10  # visits are looked back at after each of so many, and from there on whenever there are that part more
MOST_LANES = 2**15  # means that are worked out at a time


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


class Suspicion(NamedTuple):
    """The evidence that an arm had changed, looked at after one of its visits, and after how many visits it most likely had."""

    evidence: float
    visits: int


class AtHand(Generic[Known]):
    """What was worked out, by all that it follows from; so much at most, and the oldest goes first. Threads share it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: dict[object, Known] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: object) -> Known | None:
        """What is at hand under this key."""
        with self._lock:
            return self._known.get(key)

    def keep(self, key: object, known: Known) -> None:
        """Keep it at hand."""
        with self._lock:
            self._known[key] = known
            while len(self._known) > self.most:
                del self._known[next(iter(self._known))]


CHANGES: AtHand[Change] = AtHand(10_000)
LOOKS: AtHand[Suspicion] = AtHand(100_000)  # some 30 of an arm that was visited 100 times


class Alarms(NamedTuple):
    """For each arm whether it has changed, and since when.

    Attributes
    ----------
    changed
        Whether the evidence has reached ln(arms / delta), or ln(2 arms / delta) where agents are only calibrated: if no arm ever
        changes, this is ever so with probability delta at most.
    evidence
        The logarithm of the evidence, the greatest after any of the visits of `visits_looked_back_at`.
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
    (now,), before, since = _looked(team, pulls, successes, [pulls.shape[1] - 1], delta)
    return Change(*now, float(before[now.visits]), float(since[now.visits]))


def greatest_change(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """The change with the greatest evidence after any of the visits of `visits_looked_back_at` or now, from what is known of them now.

    So what is seen later takes back no alarm that there was after one of these visits; an outcome that is corrected does. The
    means are of all that is known. It stays at hand: an outcome changes one arm, and what was seen of it before is not looked
    at again.
    """
    told = hashlib.blake2b(pulls.tobytes(), digest_size=16)
    told.update(successes.tobytes())
    key = (team, delta, told.digest())
    found = CHANGES.find(key)
    if found is None:
        found = _greatest_change(team, pulls, successes, delta)
        CHANGES.keep(key, found)
    return found


def visits_looked_back_at(visits: int) -> list[int]:
    """After which of so many visits, but for the last, it is looked whether an arm has changed: always the same ones.

    >>> visits_looked_back_at(30)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 21, 24, 27]
    """
    found, after = [], 1
    while after < visits:
        found.append(after)
        after += -(-after // STEPS)
    return found


def _greatest_change(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """The same, worked out; what was found after the latest of the looks of which nothing has changed may be at hand."""
    visits = pulls.shape[1] - 1
    keys = list(_keys(team, pulls, successes, delta))
    greatest, first = None, len(keys)
    while first and (greatest := LOOKS.find(keys[first - 1])) is None:
        first -= 1
    after = [*visits_looked_back_at(visits)[first:], visits]
    (*earlier, now), before, since = _looked(team, pulls, successes, after, delta)
    for key, look in zip(keys[first:], earlier, strict=True):
        greatest = _greater(greatest, look)
        LOOKS.keep(key, greatest)
    greatest = _greater(greatest, now)
    return Change(*greatest, float(before[greatest.visits]), float(since[greatest.visits]))


def _greater(one: Suspicion | None, later: Suspicion) -> Suspicion:
    """The look with more evidence."""
    return later if one is None or later.evidence > one.evidence else one


def _keys(team: Team, pulls: Counts, successes: Counts, delta: float) -> Iterator[object]:
    """Of each of the looks all that it follows from."""
    by_visit = np.ascontiguousarray(np.stack((pulls, successes)).T)
    told, done = hashlib.blake2b(digest_size=16), 0
    for after in visits_looked_back_at(pulls.shape[1] - 1):
        told.update(by_visit[done : after + 1].tobytes())
        done = after + 1
        yield team, delta, told.copy().digest()


def _looked(
    team: Team, pulls: Counts, successes: Counts, after: Sequence[int], delta: float
) -> tuple[list[Suspicion], Floats, Floats]:
    """What is seen after each of these visits, the last one last; the posterior means up to each visit, and since then until now."""
    c, y = (np.cumsum(table, axis=1, dtype=np.int64) for table in (pulls, successes))
    up_to = Posteriors.of(team, *_narrow((c, y)))
    if team.is_calibrated:
        whole = Profiles.of(team, *_narrow((c[:, after], y[:, after])), delta)
        constant = whole.log_evidence - whole.posteriors.log_evidence
        greatest = best(whole.seen)[1] - constant
    else:
        greatest = up_to.log_likelihood(np.minimum(1.0, up_to.peak))[after]
    found: list[Suspicion] = []
    for some in _batches(after):
        ends = np.repeat(some, np.array(some) + 1)
        begins = np.concatenate([np.arange(visits + 1) for visits in some])
        since = Posteriors.of(
            team, *_narrow((c[:, ends] - c[:, begins], y[:, ends] - y[:, begins]))
        )
        parts = np.split(since.log_evidence, np.cumsum(np.array(some[:-1], int) + 1))
        for visits, part in zip(some, parts, strict=True):
            terms = shares(visits) + up_to.log_evidence[: visits + 1] + part - greatest[len(found)]
            highest = float(terms.max())
            evidence = highest + math.log(float(np.exp(terms - highest).sum()))
            found.append(Suspicion(evidence, int(np.argmax(terms[:-1])) if visits else 0))
    return found, up_to.mean, since.mean[-after[-1] - 1 :]


def _batches(after: Sequence[int]) -> Iterator[list[int]]:
    """Looks, so many at a time that what they compare fits into little room; at least one."""
    some: list[int] = []
    for visits in after:
        if some and sum(some) + len(some) + visits > MOST_LANES:
            yield some
            some = []
        some.append(visits)
    yield some


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
