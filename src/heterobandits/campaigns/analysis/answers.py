"""What is certain of a campaign's arms, in numbers and in words, with its confidence.

All numbers are of the tables that the policy looks at   docs/campaigns-answers.md
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heterobandits.campaigns.analysis.beliefs import beliefs_of
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, once_for_state
from heterobandits.inference.intervals import RANKING_MAX_ARMS, exact_posteriors, order_threshold
from heterobandits.model.prior import Prior
from heterobandits.planner.certainty import Certainty
from heterobandits.planner.changes import (
    ArmAlarm,
    ArmVisits,
    ChangeDetector,
    visits_by_arm,
)
from heterobandits.planner.knowledge import Forgetting, Knowledge
from heterobandits.planner.plans import render_change, render_count
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords
from heterobandits.policies.policy import REPORT_ASSUMPTIONS_FORM

FORECAST_MAX_VISITS = 1_000_000  # to come, that are looked ahead to
SENTENCE_MAX_ARMS = 8  # arms in a sentence
SAME_FIND_WARNING = (
    "if they may find the same thing, their outcomes are not independent, and what is certain of it fails more often "
    "than is said"
)


@dataclass(frozen=True)
class Answers:
    """What is certain about the arms in use, and what is still open.

    Arms that are left out, as `mixed_arms` has them, are in `changed` alone.

    Attributes
    ----------
    confidence
        All that is said of the order is right with this probability, and so is all that is said of changes, and of intervals.
    best
        The arm that certainly is the best, if it is known.
    above
        Arms that are certainly above others, without what follows from two of these.
    candidates
        The arms that may still be the best.
    visits_needed
        About how many further visits it takes to know the best, as `forecast_visits` counts them; None if it is known,
        if that is more than `FORECAST_MAX_VISITS`, if some of them were never visited, or if the policy forgets.
    changed
        The arms that have changed.
    sentences
        All of it in words, the most important first.
    """

    confidence: float
    best: int | None
    above: list[tuple[int, int]]
    candidates: list[int]
    visits_needed: int | None
    changed: list[ArmAlarm]
    sentences: list[str]


@once_for_state
def certainty(state: State) -> Certainty:
    """What is known of all arms, by the tables that the policy looks at; of those that are left out nothing is certain."""
    tables, left = state.knowledge.tables, tuple(mixed_arms(state))
    return Certainty(state.team, tables, state.policy.delta, left, state.fixed_prior)


def mixed_arms(state: State) -> list[int]:
    """The arms that have changed since the first visit to them that the policy recalls."""
    begun = len(state.rounds) - state.policy.window if state.policy.window else -1
    changes = changed_arms(state)
    visits = visits_of_arms(state, [one.arm for one in changes if one.after <= begun])
    return detector_of(state).mixed_arms(changes, visits, begun)


def mixed_arms_text(state: State) -> str:
    """A warning that plans and projections pool outcomes of some arms from before and after a change; empty if there are none."""
    left = [n for n in mixed_arms(state) if not state.arms[n].retired]
    if not left:
        return ""
    has, it = ("has", "it") if len(left) == 1 else ("have", "them")
    return (
        f"{render_arms(state, left, 'and')} {has} changed: here, as in plans, what was seen of {it} before and since counts as of "
        "one mean."
    )


@once_for_state
def answers(state: State) -> Answers:
    """What the campaign can say about the arms in use."""
    left = mixed_arms(state)
    here = [n for n, arm in enumerate(state.arms) if not arm.retired and n not in left]
    order = certainty(state).order
    candidates, pairs = here, []
    if order is not None:
        above = order.above[np.ix_(here, here)]
        candidates = [n for n, higher in zip(here, above.T, strict=True) if not higher.any()]
        through = above.astype(np.float32)  # products of floats are fast, and these are counts
        steps = above & ~(through @ through > 0)
        pairs = [(here[i], here[j]) for i, j in zip(*steps.nonzero(), strict=True)]
    others_left = any(not state.arms[n].retired for n in left)
    alone = len(here) == 1 and others_left  # of those that are left out nothing is known
    best = candidates[0] if len(candidates) == 1 and not alone else None
    needed = None
    if len(candidates) > 1 and order is not None and not state.policy.forgets:
        needed = None if unseen_arms(state, candidates) else forecast_visits(state, candidates)
    alarms = [one for one in changed_arms(state) if not state.arms[one.arm].retired]
    known = Answers(confidence_of(state), best, pairs, candidates, needed, alarms, [])
    known.sentences.extend(answer_sentences(state, known))
    return known


def confidence_of(state: State) -> float:
    """The probability, at least, that every interval, ranking and change ever shown is right.

    1 - delta, less what those who came later may fail with: delta is shared among the pairs of arms, and its half among the agents
    that are calibrated, that there are at a time; the interval of an arm that is alone has all of it. An arm that was forgotten begins
    anew, and counts as one that came later, even if that was taken back   docs/campaigns-answers.md
    """
    delta, spent = state.policy.delta, 0.0
    calibrated = [
        row.since
        for row in state.rows
        for trial in (row.reports.calibration, row.reports.false_positive_calibration)
        if trial is not None
    ]
    arms = [arm.since for arm in state.arms]
    there = had = 0
    for number in sorted({*arms, *calibrated}):
        now, known = (sum(since <= number for since in those) for those in (arms, calibrated))
        spent += (0.5 * delta if known else delta) * share_of_new_pairs(now, there)
        spent += 0.5 * delta * (1.0 - had / known) if known else 0.0
        there, had = now, known
    for forgotten in state.forgotten:  # whose pairs are begun anew, as if it were new
        now, known = (
            sum(since <= forgotten.last for since in those) for those in (arms, calibrated)
        )
        spent += (0.5 * delta if known else delta) * share_of_new_pairs(now, now - 1)
    return max(0.0, 1.0 - spent)


def share_of_new_pairs(arms: int, before: int) -> float:
    """The share of all pairs of arms that are new; at least the share of arms that are new.

    >>> share_of_new_pairs(3, 0), share_of_new_pairs(4, 3), share_of_new_pairs(2, 1), share_of_new_pairs(1, 1)
    (1.0, 0.5, 1.0, 0.0)
    """
    return 0.0 if arms == before else 1.0 - math.comb(before, 2) / max(1, math.comb(arms, 2))


def unseen_arms(state: State, arms: Sequence[int]) -> list[int]:
    """Those of these arms of which no outcome counts: none was ever reported, or all were forgotten."""
    return [n for n in arms if not state.knowledge.pulls[:, n].any()]


def forecast_visits(state: State, contested: Sequence[int]) -> int | None:
    """Roughly how many more visits will show which of these arms is best; None if more than `FORECAST_MAX_VISITS`.

    The least number n of visits, dealt evenly to the contested arms, after which the arm with the highest estimate has enough
    evidence to be above each of the others; if each agent that is not retired makes the same share of the visits to every
    arm, with the tests it makes in a visit, and what they find is what the estimates expect, fractions of a success included.
    It is found by doubling and bisection, which is right as long as the evidence grows with the visits.
    """
    team, delta = state.team, state.policy.delta
    pulls, successes = (t[:, list(contested)].astype(np.float64) for t in state.knowledge.tables)
    mean = beliefs_of(state).mean[list(contested)]
    fixed = Prior(tuple(state.fixed_prior.shapes[n] for n in contested))
    going = [agent.row for agent in state.agents if not agent.retired]
    tests = np.zeros((len(team), 1))
    tests[going, 0] = np.array(team.tests)[going] / len(going)
    found = tests * (team.offset[:, None] + team.slope[:, None] * mean)
    others = np.delete(np.arange(len(contested)), mean.argmax())
    first = np.full(len(others), mean.argmax())

    def is_known(visits: int) -> bool:
        each = visits / len(contested)
        tables = (pulls + each * tests, successes + each * found)
        known, share = exact_posteriors(team, *tables, delta, prior=fixed)
        needed = order_threshold(len(state.arms), share)
        return bool((known.evidence(first, others) >= needed).all())

    if not is_known(FORECAST_MAX_VISITS):
        return None
    enough = 1
    while not is_known(enough):
        enough = min(2 * enough, FORECAST_MAX_VISITS)
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if is_known(middle) else (middle, enough)
    return enough


def detector_of(state: State) -> ChangeDetector:
    """What says whether an arm of the campaign has changed."""
    return ChangeDetector(state.team, len(state.arms), state.policy.delta)


@once_for_state
def changed_arms(state: State) -> list[ArmAlarm]:
    """The arms that have changed."""
    seen = [n for n in range(len(state.arms)) if state.knowledge.pulls[:, n].any()]
    found = detector_of(state).changes(visits_of_arms(state, seen))
    return [one for one in found if one.changed]


def arms_to_forget(state: State, arms: Sequence[int]) -> list[int]:
    """Those of these arms that have changed, and are not forgotten since the last round."""
    found = detector_of(state).changed_arms(visits_of_arms(state, arms))
    return [n for n in found if Forgetting(n, len(state.rounds)) not in state.forgotten]


def visits_of_arms(state: State, arms: Sequence[int]) -> dict[int, ArmVisits]:
    """The visits to each of these arms."""
    start = Knowledge.of(len(state.rows), len(state.arms))
    return visits_by_arm(state.rounds if arms else (), arms, start, state.gone, state.row_in)


def answer_sentences(state: State, known: Answers) -> list[str]:
    """The answers as sentences, the most important first."""
    sure = f"with {render_percent_floor(known.confidence)} % confidence"
    sentences = [
        f"{render_change(state.arms[one.arm].name, one, f' ({sure})', state.words)}."
        for one in known.changed
    ]
    left = [n for n in mixed_arms(state) if not state.arms[n].retired]
    if left:
        sentences.append(
            f"What follows leaves out {render_arms(state, left, 'and')}: what was seen of {'it' if len(left) == 1 else 'them'} "
            "before and since is not of one mean."
        )
    if not state.pulls.any():
        return [*sentences, "Nothing is known yet: no outcome has been reported."]
    for arm, last in state.gone.items():
        if not state.arms[arm].retired:
            name = state.arms[arm].name
            sentences.append(
                f"{name} was forgotten: what was seen there up to {state.words.round} {last} does not count."
            )
    order = [*best_arm_sentences(state, known, sure), *order_sentences(state, known, sure)]
    sentences += order
    never = unseen_arms(state, known.candidates)
    if never:
        sentences.append(f"Nothing is known of {render_arms(state, never, 'and')} yet.")
    for arm, numbers in shared_rounds_by_arm(state).items():
        if not state.arms[arm].retired:
            sentences.append(
                f"{state.words.Agents} were together at {state.arms[arm].name} in {render_rounds(numbers, state.words)}: {SAME_FIND_WARNING}."
            )
    if any(sure in sentence for sentence in order):
        sentences.append(assumptions_text(state))
    if known.changed:
        sentences.append(change_assumptions_text(state))
    return sentences


def shared_rounds_by_arm(state: State) -> dict[int, list[int]]:
    """For each arm, the rounds in which several agents reported outcomes that count."""
    found: dict[int, list[int]] = {}
    for round in state.rounds:
        arms = Counter(arm for (_, arm), told in round.told.items() if told.counts is not None)
        for arm in sorted(arm for arm, agents in arms.items() if agents > 1):
            found.setdefault(arm, []).append(round.number)
    return found


def shared_arm_warnings(state: State, round: PlannedRound) -> list[str]:
    """A warning for each arm to which this round sends several agents."""
    arms: dict[int, list[str]] = {}
    for agent, arm in round.sent:
        arms.setdefault(arm, []).append(state.agents[agent].name)
    return [
        f"{', '.join(names[:-1])} and {names[-1]} are {'both' if len(names) == 2 else 'all'} sent to "
        f"{state.arms[arm].name} in {state.words.round} {round.number}: {SAME_FIND_WARNING}."
        for arm, names in arms.items()
        if len(names) > 1
    ]


def render_rounds(numbers: Sequence[int], words: CampaignWords = DEFAULT_WORDS) -> str:
    """Round numbers as people list them.

    >>> render_rounds([3]), render_rounds([3, 5]), render_rounds(range(1, 12))
    ('round 3', 'rounds 3 and 5', 'rounds 1, 2, 3, 4, 5, 6, 7, 8 and 3 more')
    """
    names = [f"{number}" for number in numbers[:SENTENCE_MAX_ARMS]]
    if len(numbers) == 1:
        return f"{words.round} {names[0]}"
    if len(numbers) > SENTENCE_MAX_ARMS:
        names.append(f"{len(numbers) - SENTENCE_MAX_ARMS:,} more")
    return f"{words.rounds} {', '.join(names[:-1])} and {names[-1]}"


def best_arm_sentences(state: State, known: Answers, sure: str) -> list[str]:
    """Sentences on the best arm: which it is, or which it may be and how many visits would tell."""
    left = [n for n in mixed_arms(state) if not state.arms[n].retired]
    arms = sum(not arm.retired and n not in left for n, arm in enumerate(state.arms))
    other, w = "other " if left else "", state.words
    if not arms:
        return []
    if arms == 1:
        return [f"{state.arms[known.candidates[0]].name} is the only {other}{w.arm}."]
    if known.best is not None:
        name = state.arms[known.best].name
        return [f"{name} is certainly the best of the {arms} {other}{w.arms} ({sure})."]
    if len(state.arms) > RANKING_MAX_ARMS:
        return [
            f"The order of {arms:,} {w.arms} is not worked out: of up to {RANKING_MAX_ARMS:,} it is."
        ]
    places = render_arms(state, known.candidates, "or")
    if len(known.candidates) == arms:
        sentences = [
            f"The best {other}{w.arm} is not known yet: it may be any of the {arms}, {places}."
        ]
    else:
        sentences = [
            f"The best {other}{w.arm} is not known yet: it is one of {len(known.candidates)}, {places} ({sure})."
        ]
    if (known.visits_needed or FORECAST_MAX_VISITS) > count_remaining_visits(state):
        pass  # the season ends before
    elif known.visits_needed is not None:
        visits = render_count(known.visits_needed, "more visit")
        sentences.append(
            f"About {visits} would tell, dealt evenly to these {w.arms}, if the estimates are right."
        )
    elif unseen_arms(state, known.candidates):
        pass  # what is not known of them says nothing of how many visits it takes
    elif state.policy.forgets:
        sentences.append(
            f"How many visits would tell is not said: {state.policy.name} forgets while they are made."
        )
    else:
        sentences.append(
            f"Even {FORECAST_MAX_VISITS:,} more visits would not tell, if the estimates are right: the highest are too close"
            f"{f' for {w.agents} that are only calibrated' if state.team.is_calibrated else ''}."
        )
    return sentences


def count_remaining_visits(state: State) -> float:
    """The visits that the rounds left of the season have, if everybody goes."""
    going = sum(not agent.retired for agent in state.agents)
    return math.inf if state.rounds_left is None else state.rounds_left * going


def order_sentences(state: State, known: Answers, sure: str) -> list[str]:
    """Sentences on the order: for each arm, the arms that are certainly below it."""
    below: dict[int, list[int]] = {}
    for high, low in known.above:
        below.setdefault(high, []).append(low)
    return [
        f"{state.arms[high].name} is certainly above {render_arms(state, lower, 'and')} ({sure})."
        for high, lower in below.items()
    ]


def assumptions_text(state: State) -> str:
    """What must hold for the certain statements to be true."""
    w = state.words
    return (
        f"What is certain holds {validity_text(state)}; it needs that means stand still, {report_assumptions_text(w)}, and that outcomes of different {w.arms} in one "
        f"{w.round} are independent given the past."
    )


def change_assumptions_text(state: State) -> str:
    """What must hold for a change to be certain."""
    w = state.words
    return (
        f"That {w.an_arm} has changed holds in all {w.rounds} at once if its outcomes are reported in the order of its visits, and "
        f"otherwise at any one time; it needs that {report_assumptions_text(w)}."
    )


def report_assumptions_text(words: CampaignWords) -> str:
    """What every guarantee assumes of agents and outcomes, in the words of a campaign."""
    return REPORT_ASSUMPTIONS_FORM.format(**words.body)


def validity_text(state: State) -> str:
    """For which rounds the certain statements hold together."""
    if state.policy.forgets:
        return f"for this {state.words.round}, not for all at once, as {state.policy.name} forgets"
    return f"in all {state.words.rounds} at once"


def render_percent_floor(confidence: float) -> str:
    """A probability in percent, always rounded down.

    >>> render_percent_floor(0.95), render_percent_floor(1 - 0.05 * (1 + 2 / 3)), render_percent_floor(0.9999)
    ('95', '91.6', '99.99')
    """
    digits = 1 if confidence < 0.999 else 4
    return f"{math.floor(100 * confidence * 10**digits + 1e-6) / 10**digits:g}"


def render_arms(state: State, arms: Sequence[int], word: str) -> str:
    """The names of some arms, listed as people list them."""
    names = [state.arms[n].name for n in arms[:SENTENCE_MAX_ARMS]]
    more = len(arms) - len(names)
    if more:
        names.append(f"{more:,} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
