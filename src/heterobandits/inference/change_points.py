"""Whether an arm has changed: the evidence for it, valid at any time   docs/model.md (19), (20)

If the mean of an arm stood still, what was seen up to some visit and what was seen since would be explained by one mean. The
evidence is how much likelier all of it is with two, on the average over the visits after which it may have changed and over
all pairs of means, than with the one mean that explains it best. It needs what intervals need.

An arm that has changed has changed for good, even where it changes back and one mean explains most of what was seen again: so
the evidence is looked at as it was after each of the earlier visits, too; beyond a thousand, after some of them.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from heterobandits.arrays import Counts, Floats
from heterobandits.caches import BoundedCache
from heterobandits.inference.intervals import Posteriors, Profiles, mean_threshold, profile_peak
from heterobandits.model.team import Team

# an arm that changes less often than once in so many visits is as good as one that does not
CHANGE_RATE_MIN = 1e-4
EVERY_VISITS = 1_000  # after each of so many it is looked back, and from there on whenever there are a thousandth more
KEPT_STEPS = (
    10  # what was found after each of so many visits stays at hand, and after each tenth more
)
ALARM_MAX_LANES = 2**15  # means that are worked out at a time


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
    """The evidence for a change, seen from one of an arm's visits, and the most likely visit of the change."""

    evidence: float
    visits: int


CHANGE_CACHE: BoundedCache[Change] = BoundedCache(10_000)
# some 30 of an arm that was visited 100 times
SUSPICION_CACHE: BoundedCache[Suspicion] = BoundedCache(100_000)


def change_of_arm(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """Whether one arm has changed, from tables of its visits: agents by visits, with prior knowledge first.

    A visit whose outcome is not known yet has a column of zeros. delta is what the alarm may fail with: where agents are
    only calibrated, half of it is theirs.
    """
    (now,), before, since = _suspicions_at(team, pulls, successes, [pulls.shape[1] - 1], delta)
    return Change(*now, float(before[now.visits]), float(since[now.visits]))


def greatest_change(team: Team, pulls: Counts, successes: Counts, delta: float) -> Change:
    """The change with the greatest evidence after any of the `look_visits` or now, from what is known of them now.

    What is seen later takes back no alarm that there was after one of these visits; an outcome that is corrected may. The
    means are of all that is known. The change stays at hand: an outcome changes one arm, and the evidence before it is not worked
    out again.
    """
    told = hashlib.blake2b(pulls.tobytes(), digest_size=16)
    told.update(successes.tobytes())
    key = (team, delta, told.digest())
    found = CHANGE_CACHE.find(key)
    if found is None:
        found = _greatest_change(team, pulls, successes, delta)
        CHANGE_CACHE.keep(key, found)
    return found


def look_visits(visits: int) -> list[int]:
    """The visits, apart from the last, after which we check for a change: always the same ones.

    >>> look_visits(5), look_visits(2_006)[-3:]
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
    keys = _look_keys(team, pulls, successes, delta)
    done, greatest = 0, None
    for after, key in reversed(keys.items()):
        if (greatest := SUSPICION_CACHE.find(key)) is not None:
            done = after
            break
    ahead = [after for after in look_visits(visits) if after > done]
    (*earlier, now), before, since = _suspicions_at(team, pulls, successes, [*ahead, visits], delta)
    for after, look in zip(ahead, earlier, strict=True):
        greatest = _greater_suspicion(greatest, look)
        if after in keys:
            SUSPICION_CACHE.keep(keys[after], greatest)
    greatest = _greater_suspicion(greatest, now)
    if visits in keys:
        SUSPICION_CACHE.keep(keys[visits], greatest)
    return Change(*greatest, float(before[greatest.visits]), float(since[greatest.visits]))


def _greater_suspicion(one: Suspicion | None, later: Suspicion) -> Suspicion:
    """The suspicion with more evidence."""
    return later if one is None or later.evidence > one.evidence else one


def _look_keys(team: Team, pulls: Counts, successes: Counts, delta: float) -> dict[int, object]:
    """By the visits after which what was found stays at hand, the last three among them: all that it follows from."""
    by_visit = np.ascontiguousarray(np.stack((pulls, successes)).T)
    visits = pulls.shape[1] - 1
    last = range(max(1, visits - 2), visits + 1)
    looked = set(look_visits(visits + 1))
    told, done, keys = hashlib.blake2b(digest_size=16), 0, dict[int, object]()
    for after in sorted({*_steps(visits, KEPT_STEPS), *last} & looked):
        told.update(by_visit[done : after + 1].tobytes())
        done = after + 1
        keys[after] = (team, delta, told.copy().digest())
    return keys


def _suspicions_at(
    team: Team, pulls: Counts, successes: Counts, after: Sequence[int], delta: float
) -> tuple[list[Suspicion], Floats, Floats]:
    """The suspicions after each of these visits, the last one last, with posterior means before and after each visit."""
    c, y = (np.cumsum(table, axis=1, dtype=np.int64) for table in (pulls, successes))
    up_to = Posteriors.of(team, *_narrow_tables((c, y)))
    if team.is_calibrated:
        whole = Profiles.of(team, *_narrow_tables((c[:, after], y[:, after])), delta)
        constant = whole.log_evidence - whole.posteriors.log_evidence
        greatest = profile_peak(whole.seen)[1] - constant
    else:
        greatest = up_to.log_likelihood(np.minimum(1.0, up_to.peak))[after]
    found: list[Suspicion] = []
    for some in _batches(after):
        ends = np.repeat(some, np.array(some) + 1)
        begins = np.concatenate([np.arange(visits + 1) for visits in some])
        since = Posteriors.of(
            team, *_narrow_tables((c[:, ends] - c[:, begins], y[:, ends] - y[:, begins]))
        )
        parts = np.split(since.log_evidence, np.cumsum(np.array(some[:-1], int) + 1))
        for visits, part in zip(some, parts, strict=True):
            terms = (
                change_log_shares(visits)
                + up_to.log_evidence[: visits + 1]
                + part
                - greatest[len(found)]
            )
            highest = float(terms.max())
            evidence = highest + math.log(float(np.exp(terms - highest).sum()))
            found.append(Suspicion(evidence, int(np.argmax(terms[:-1])) if visits else 0))
    return found, up_to.mean, since.mean[-after[-1] - 1 :]


def _batches(after: Sequence[int]) -> Iterator[list[int]]:
    """The looks in batches whose tables fit into memory; at least one look each."""
    some: list[int] = []
    for visits in after:
        if some and sum(some) + len(some) + visits > ALARM_MAX_LANES:
            yield some
            some = []
        some.append(visits)
    yield some


def change_log_shares(visits: int) -> Floats:
    """The log of the prior share of a change after 0, 1, ... visits; the last includes all later ones.

    The logarithmic distribution, which falls hardly faster than any that has a sum must.
    """
    j = np.arange(1.0, visits + 1.0)
    each = np.exp(j * math.log1p(-CHANGE_RATE_MIN)) / (j * -math.log(CHANGE_RATE_MIN))
    rest = max(1.0 - float(each.sum()), np.finfo(float).tiny)
    return np.asarray(np.log(np.append(each, rest)))


def _narrow_tables(tables: Any) -> tuple[Counts, Counts]:
    pulls, successes = (np.ascontiguousarray(table, np.int32) for table in tables)
    return pulls, successes


def alarm_threshold(arms: int, delta: float) -> float:
    """The evidence from which on an arm counts as changed: ln(arms / delta)."""
    return mean_threshold(arms, delta)


def team_threshold(team: Team, arms: int, delta: float) -> float:
    """`alarm_threshold` for a team: calibrated agents use up the other half of delta."""
    return alarm_threshold(arms, 0.5 * delta if team.is_calibrated else delta)
