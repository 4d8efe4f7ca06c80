"""Whether an arm has changed: the evidence for it, valid at any time   docs/model.md (19), (20)

If the mean of an arm stood still, what was seen up to some visit and what was seen since would be explained by one mean. The
evidence is how much likelier all of it is with two, on the average over the visits after which it may have changed and over
all pairs of means, than with the one mean that explains it best. It needs what intervals need.

An arm that has changed has changed for good, even where it changes back and one mean explains most of what was seen again: so
the evidence is looked at as it was after each of the earlier visits, too; beyond a thousand, after some of them.
"""

import hashlib
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from heterobandits.inference.intervals import (
    Counts,
    Floats,
    Posteriors,
    Profiles,
    best,
    mean_threshold,
)
from heterobandits.model.team import Team

Known = TypeVar("Known")

RAREST = 1e-4  # an arm that changes less often than once in so many visits is as good as one that does not
EVERY_VISITS = 1_000  # after each of so many it is looked back, and from there on whenever there are a thousandth more
KEPT_STEPS = (
    10  # what was found after each of so many visits stays at hand, and after each tenth more
)
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


def change(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """What is known of a change of one arm, from tables of its visits: agents by visits, what is known already first.

    A visit whose outcome is not known yet has a column of zeros. delta is what the alarm may fail with: where agents are
    only calibrated, half of it is theirs.
    """
    (now,), before, since = _looked(team, pulls, successes, [pulls.shape[1] - 1], delta)
    return Change(*now, float(before[now.visits]), float(since[now.visits]))


def greatest_change(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """The change with the greatest evidence after any of the `visits_looked_back_at` or now, from what is known of them now.

    What is seen later takes back no alarm that there was after one of these visits; an outcome that is corrected may. The
    means are of all that is known. The change stays at hand: an outcome changes one arm, and the evidence before it is not worked
    out again.
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

    >>> visits_looked_back_at(5), visits_looked_back_at(2_006)[-3:]
    ([1, 2, 3, 4], [1999, 2001, 2004])
    """
    return _steps(visits, EVERY_VISITS)


def _steps(visits: int, every: int) -> list[int]:
    """Each of the first so many visits, and from there on one whenever there is that part more."""
    found, after = [], 1
    while after < visits:
        found.append(after)
        after += -(-after // every)
    return found


def _greatest_change(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """The same, worked out from the last visit after which what was found is at hand."""
    visits = pulls.shape[1] - 1
    keys = _keys(team, pulls, successes, delta)
    done, greatest = 0, None
    for after, key in reversed(keys.items()):
        if (greatest := LOOKS.find(key)) is not None:
            done = after
            break
    ahead = [after for after in visits_looked_back_at(visits) if after > done]
    (*earlier, now), before, since = _looked(team, pulls, successes, [*ahead, visits], delta)
    for after, look in zip(ahead, earlier, strict=True):
        greatest = _greater(greatest, look)
        if after in keys:
            LOOKS.keep(keys[after], greatest)
    greatest = _greater(greatest, now)
    if visits in keys:
        LOOKS.keep(keys[visits], greatest)
    return Change(*greatest, float(before[greatest.visits]), float(since[greatest.visits]))


def _greater(one: Suspicion | None, later: Suspicion) -> Suspicion:
    """The look with more evidence."""
    return later if one is None or later.evidence > one.evidence else one


def _keys(team: Team, pulls: Counts, successes: Counts, delta: float) -> dict[int, object]:
    """By the visits after which what was found stays at hand, the last three among them: all that it follows from."""
    by_visit = np.ascontiguousarray(np.stack((pulls, successes)).T)
    visits = pulls.shape[1] - 1
    last = range(max(1, visits - 2), visits + 1)
    looked = set(visits_looked_back_at(visits + 1))
    told, done, keys = hashlib.blake2b(digest_size=16), 0, dict[int, object]()
    for after in sorted({*_steps(visits, KEPT_STEPS), *last} & looked):
        told.update(by_visit[done : after + 1].tobytes())
        done = after + 1
        keys[after] = (team, delta, told.copy().digest())
    return keys


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
