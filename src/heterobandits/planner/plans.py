"""What a planner hands to people: the plan of a round, and why each agent is sent where it is."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Flags, Floats
from heterobandits.inference.agent_sensitivity import AgentSensitivities
from heterobandits.inference.intervals import Intervals, Ranking
from heterobandits.planner.changes import ArmAlarm
from heterobandits.planner.matching import Circumstances
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords

TABLE_MAX_LINES = 20  # of a table that is printed
LONG_NUMBER = 1e9  # from which on people read the first figures and the power of ten

CHANGED_ARM_NOTE = "but it has changed, and these are from before and since"

ReasonCode = Literal[
    "absent",
    "left",
    "no arm",
    "forced",
    "unseen",
    "unseen by it",
    "forgotten",
    "random",
    "highest",
    "among the highest",
    "best to be had",
    "best allowed",
    "highest left",
    "beginning",
    "leading",
    "challenger",
]
# of codes for which a plan has nothing but this to say, and of others what decided, in plain words
REASON_SENTENCES: dict[ReasonCode, str] = {
    "absent": "absent",
    "left": "left the team",
    "no arm": "no open {arm} is left",
    "forced": "forced",
    "unseen": "nobody has been there yet",
    "unseen by it": "its first visit there",
    "forgotten": "nobody has been there for so long that it is forgotten",
    "random": "drawn at random",
    "highest": "the most promising {arm}",
    "among the highest": "one of the {visited} most promising {arms}",
    "best to be had": "one of the most promising {arms} that the set pairs allow",
    "best allowed": "in the best assignment that the set pairs allow",
    "highest left": "the most promising {arm} left",
    "beginning": "to begin with everybody goes everywhere once",
    "leading": "among the best so far",
    "challenger": "drawn to be tried in place of the last of the best so far, which it may be as good as",
}
# the same for whoever wants the numbers
REASONS_IN_NUMBERS: dict[ReasonCode, str] = {
    "absent": "absent",
    "left": "left the team",
    "no arm": "no open {arm} is left",
    "forced": "forced",
    "unseen": "never pulled",
    "unseen by it": "never pulled by it",
    "forgotten": "not pulled for so long that it is forgotten",
    "random": "drawn at random",
    "highest": "index {index}, the highest; posterior mean {estimate}",
    "among the highest": "index {index}, among the highest {visited}; posterior mean {estimate}",
    "best to be had": "index {index}, among the highest that these pairs allow; posterior mean {estimate}",
    "best allowed": "index {index}, in the best allowed assignment",
    "highest left": "index {index}, the highest left at its turn",
    "beginning": "to begin with everybody goes everywhere once",
    "leading": "estimate {estimate}, among the highest {visited}",
    "challenger": "drawn to challenge the last leader: at most {index}, estimate {estimate}",
}


JUDGED_CODES = (
    "highest",
    "among the highest",
    "best to be had",
    "best allowed",
    "highest left",
    "leading",
    "challenger",
)

AWAITED_CLAUSE = "somebody is on the way there"


@dataclass(frozen=True)
class Reason:
    """Why an agent goes where it goes, or nowhere: a code, and the numbers of its sentence.

    Attributes
    ----------
    code
        What decided; `str(reason)` says it in words.
    index
        The index of the agent's arm; None for an agent that stays home.
    estimate
        What the agents are sorted by, the posterior mean of the arm or the policy's own estimate; None where they are not.
    visited
        How many arms are visited in the round.
    awaited
        Whether somebody was on the way to the arm when the plan was made, and counted with what was expected of the visit.
    pulls, successes
        The tests that were made of the arm and how many found something, as far as the policy recalls them; None for an agent that
        stays home, and in plans of versions that did not note it.
    lot
        Among how many arms, that are as good to the policy, the arm was drawn by lot; None if there was no other.
    place, finds
        Where who finds most goes to the best place: the agent, of a sensitivity of `finds`, finds as many'th most as its arm is the
        `place`'th best of those that are visited; or where agents choose in turn, which turn this was. None where that says nothing.
    """

    code: ReasonCode
    index: float | None = None
    estimate: float | None = None
    visited: int | None = None
    awaited: bool = False
    pulls: int | None = None
    successes: int | None = None
    lot: int | None = None
    place: int | None = None
    finds: float | None = None

    @property
    def clauses(self) -> list[str]:
        """What is to be said: what decided, then why this agent goes there."""
        return self.clauses_in(DEFAULT_WORDS)

    def clauses_in(self, words: CampaignWords) -> list[str]:
        """The same in the words of a campaign."""
        names = {"arm": words.arm, "arms": words.arms}
        said = REASON_SENTENCES[self.code].format(visited=self.visited, **names)
        if self.code in JUDGED_CODES and self.pulls is not None:
            nobody = (
                "nothing was reported of it yet" if self.awaited else "nobody has been there yet"
            )
            seen = self._finds_so_far(words) if self.pulls else nobody
            lucky = not self.pulls and self.lot is not None
            said = seen if lucky else f"{seen}, {said}" if not self.pulls else f"{said}: {seen}"
        if self.lot is not None:
            alike = "" if not self.pulls else " that are as good"
            said += f"{',' if self.pulls else ';'} drawn by lot among {self.lot:,}{alike}"
        return [said, *self._fit(), *[AWAITED_CLAUSE] * self.awaited]

    def _finds_so_far(self, words: CampaignWords) -> str:
        return f"{self.successes:,} found in {words.count(self.pulls or 0, 'test')}"

    def _fit(self) -> list[str]:
        """Why this agent and no other, if there is a reason."""
        if self.place is None or self.finds is None:
            return []
        best = render_ordinal(self.place, "best")
        who = f"{best} eyes to the {best} place"
        if self.code == "highest left":
            who = f"{render_ordinal(self.place)} to choose, by how much it finds"
        return [f"{who}: finds {10.0 * self.finds:.2g} of 10"]

    def __str__(self) -> str:
        return self.said_in(DEFAULT_WORDS)

    def said_in(self, words: CampaignWords) -> str:
        """All of it in the words of a campaign."""
        return "; ".join(self.clauses_in(words))

    @property
    def in_numbers(self) -> str:
        """What decided, with the numbers that the policy goes by."""
        numbers = {"index": render_number(self.index), "estimate": render_number(self.estimate)}
        return REASONS_IN_NUMBERS[self.code].format(
            **numbers, visited=self.visited, arm=DEFAULT_WORDS.arm
        )


ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)


def render_ordinal(number: int, of: str = "") -> str:
    """Which one in a row it is, or the second-best and so on.

    >>> render_ordinal(2), render_ordinal(1, "best"), render_ordinal(3, "best"), render_ordinal(12)
    ('second', 'best', 'third-best', '12th')
    """
    if of and number == 1:
        return of
    ends = {1: "st", 2: "nd", 3: "rd"} if number % 100 not in (11, 12, 13) else {}
    word = (
        ORDINALS[number - 1]
        if number <= len(ORDINALS)
        else f"{number}{ends.get(number % 10, 'th')}"
    )
    return f"{word}-{of}" if of else word


def render_number(number: float | None) -> str:
    """A number as people read it.

    >>> render_number(0.8671), render_number(1e308), render_number(None)
    ('0.867', '1e+308', 'unknown')
    """
    if number is None:
        return "unknown"
    text = f"{number:.3f}" if abs(number) < LONG_NUMBER else f"{number:.4g}"
    return text.replace("inf", "infinite")


@dataclass(frozen=True)
class Plan:
    """Who goes where in a round, and the index table behind it.

    Attributes
    ----------
    round
        The number of the round, from 1 on.
    assignment
        The arm of each agent; None for an agent that stays home.
    index
        The index of every agent (row) for every arm (column).
    reasons
        Of each agent.
    circumstances
        Who was absent or had left, what was closed, forbidden or forced, by number.
    """

    round: int
    assignment: tuple[int | None, ...]
    index: tuple[tuple[float, ...], ...]
    reasons: tuple[Reason, ...]
    agent_names: tuple[str, ...]
    arm_names: tuple[str, ...]
    circumstances: Circumstances

    def __str__(self) -> str:
        lines = [f"round {self.round}"]
        for agent, arm, reason in zip(self.agent_names, self.assignment, self.reasons, strict=True):
            place = "stays home" if arm is None else self.arm_names[arm]
            lines.append(f"  {agent} -> {place}: {reason}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """Why an agent is sent to an arm.

    Attributes
    ----------
    reason
        The plan's reason for this agent.
    estimate, lower, upper
        The posterior mean of the arm and an interval for its mean that holds in all rounds at once; if the policy forgets, in
        this round alone.
    best_rank, worst_rank
        The best and the worst rank the arm can have among all arms, counted from 1; this holds
        as the interval does.
    index
        The number the policy ranks by.
    pulls, own_pulls
        How often the arm was pulled, by all agents and by this one, as far as the policy recalls it.
    mode
        "exploit" if the estimates alone would send the agent to the same arm, else "explore".
    runner_up, runner_up_index
        The arm this agent would go to beyond the flip index or, where there is none, if its own were
        not to be had; None if there is no other.
    flip_index
        What the index of the agent's arm would have to fall below (or, if it is higher than the
        index, rise above), all else as it is, for the agent to go to the runner-up instead.
    changed
        Whether the arm has changed, and the policy recalls what was seen before. The estimate and the index go by all of it, as
        the plan does; the interval is 0 to 1 and the rank is open.
    under_way
        The agents who are on the way to the arm since an earlier round. The index counts what is expected of their visits; all else is by
        what is known.
    """

    agent: str
    arm: str
    reason: Reason
    estimate: float
    lower: float
    upper: float
    best_rank: int
    worst_rank: int
    index: float
    pulls: int
    own_pulls: int
    mode: Literal["explore", "exploit"]
    runner_up: str | None
    runner_up_index: float | None
    flip_index: float | None
    changed: bool = False
    under_way: tuple[str, ...] = ()

    def _rank(self) -> str:
        if self.best_rank == self.worst_rank:
            return f"certainly rank {self.best_rank}"
        return f"rank {self.best_rank} to {self.worst_rank}"

    def __str__(self) -> str:
        times = "1 pull" if self.pulls == 1 else f"{self.pulls} pulls"
        within = "" if self.changed else " in [{}, {}]".format(*render_ends(self.lower, self.upper))
        known = CHANGED_ARM_NOTE if self.changed else self._rank()
        seen = (
            f"estimated {self.estimate:.3f}{within} from {times}, {self.own_pulls} its own, {known}"
            if self.pulls
            else "no outcome yet"
            if self.under_way
            else f"no pulls {'left' if self.reason.code == 'forgotten' else 'yet'}"
        )
        if self.under_way:
            seen += f", {render_under_way(self.under_way)}"
        if self.reason.code == "forced":
            return f"{self.agent} -> {self.arm}: {seen}; {self.reason.in_numbers}"
        text = f"{self.agent} -> {self.arm} to {self.mode}: {seen}; {self.reason.in_numbers}"
        if self.runner_up is None or self.runner_up_index is None:
            return f"{text}; it could go nowhere else"
        if self.flip_index is None:
            return f"{text}; after it {self.runner_up} ({render_number(self.runner_up_index)})"
        if self.flip_index == self.index or math.isclose(self.flip_index, self.index, rel_tol=1e-9):
            return f"{text}; tied with {self.runner_up}, chance decided"
        moves = "fell below" if self.flip_index < self.index else "rose above"
        return (
            f"{text}; would go to {self.runner_up} ({render_number(self.runner_up_index)}) "
            f"if {self.arm} {moves} {render_number(self.flip_index)}"
        )


class NamedIntervals(Intervals):
    """Intervals that know whose they are: `arm_names`."""

    arm_names: tuple[str, ...]

    @classmethod
    def of(cls, known: Intervals, arm_names: tuple[str, ...]) -> Self:
        """The same, with names."""
        made = cls(*known)
        made.arm_names = arm_names
        return made

    def _rows(self) -> list[tuple[str, ...]]:
        columns = zip(self.arm_names, *self, strict=True)
        return [(arm, f"{mean:.3f}", *render_ends(*ends)) for arm, mean, *ends in columns]

    def __str__(self) -> str:
        return render_table(("arm", "estimate", "lower", "upper"), self._rows())

    def __repr__(self) -> str:
        each = (f"{arm}: {middle} in [{low}, {high}]" for arm, middle, low, high in self._rows())
        return f"<Intervals: {', '.join(each)}>"


class NamedAgents(AgentSensitivities):
    """What is known of agents that have names, `agent_names`, without what was seen of the arms that are `left_out`, by name."""

    agent_names: tuple[str, ...]
    left_out: tuple[str, ...]

    @classmethod
    def of(
        cls, known: AgentSensitivities, agent_names: tuple[str, ...], left_out: tuple[str, ...] = ()
    ) -> Self:
        """The same, with names."""
        made = cls(*known)
        made.agent_names, made.left_out = agent_names, left_out
        return made

    def __str__(self) -> str:
        """A table, and a line for each agent that is not as stated."""
        head = ("agent", "sensitivity", "by calibration", "likeliest", "by the visits", "verdict")
        return "\n".join([render_table(head, self._rows), *(f"  {note}" for note in self.notes)])

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        columns = (self.sensitivity, *self.calibrated.T, self.estimate, self.lower, self.upper)
        return [
            (
                name,
                f"{s:.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{likeliest:.3f}",
                f"{least:.3f} to {most:.3f}",
                verdict,
            )
            for name, verdict, s, low, high, likeliest, least, most in zip(
                self.agent_names, self.verdict, *columns, strict=True
            )
        ]

    @property
    def notes(self) -> list[str]:
        """What is to be said of each agent that is not as stated, or not as believed."""
        rows = self._rows
        notes = [
            f"{name} is {verdict} than stated: by the visits {found}, by calibration {stated}"
            for name, _, stated, _, found, verdict in rows
            if verdict != "agrees"
        ]
        notes += [
            f"{name} finds {finds} than believed: by the visits {found}, planned with {s}"
            for (name, s, _, _, found, verdict), finds in zip(rows, self.finds, strict=True)
            if verdict == "agrees" and finds != "as believed"
        ]
        return notes + [
            f"{arm} has changed: what was seen of it is left out" for arm in self.left_out
        ]


class NamedChances(NamedTuple):
    """What is probable of each arm, on the average over the prior.

    Attributes
    ----------
    estimate, lower, upper
        The posterior mean, and the mean lies between the two others with a probability of 80 %.
    best, among
        The chance that it is the best arm, and that it is among the best so many as there are agents, counted in draws.
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    best: Floats
    among: Floats
    arm_names: tuple[str, ...]

    def __str__(self) -> str:
        """A table, the likeliest best first."""
        head = ("arm", "estimate", "80 %", "best", "among the best")
        order = np.argsort(-self.best, kind="stable")
        return render_table(
            head,
            [
                (
                    self.arm_names[n],
                    f"{self.estimate[n]:.3f}",
                    f"{self.lower[n]:.3f} to {self.upper[n]:.3f}",
                    f"{self.best[n]:.0%}",
                    f"{self.among[n]:.0%}",
                )
                for n in order
            ],
        )


class NamedAlarms(NamedTuple):
    """For each arm whether it has changed, and since when.

    Attributes
    ----------
    changed
        Whether the evidence has reached ln(arms / delta), or ln(2 arms / delta) where agents are only calibrated: if no arm ever
        changes, this is ever so with probability delta at most.
    evidence
        The logarithm of the evidence, the greatest after any of the visits of (20).
    after
        The last round with a visit before the change; if there was none, the one in which the planner began or the arm was forgotten.
    before, since
        The posterior means of what was seen up to that round, and since.
    again
        Whether what was seen since then is not of one mean either.
    arm_names
        Of all arms.
    """

    changed: Flags
    evidence: Floats
    after: npt.NDArray[np.int64]
    before: Floats
    since: Floats
    again: Flags
    arm_names: tuple[str, ...]

    @classmethod
    def of(cls, found: Sequence[ArmAlarm], arm_names: tuple[str, ...]) -> Self:
        """The alarms of all arms, from what is known of each."""
        _, changed, evidence, after, before, since, again = map(np.array, zip(*found, strict=True))
        return cls(changed, evidence, after, before, since, again, arm_names)

    @property
    def warnings(self) -> list[str]:
        """A sentence for each arm that has changed."""
        found = (ArmAlarm(*one) for one in zip(range(len(self.arm_names)), *self[:-1], strict=True))
        return [render_change(self.arm_names[one.arm], one) for one in found if one.changed]

    def __str__(self) -> str:
        """A table, and a line for each arm that has changed."""
        numbers = (
            [f"{x:.{d}f}" for x in column]
            for d, column in (
                (1, self.evidence),
                (0, self.after),
                (3, self.before),
                (3, self.since),
            )
        )
        verdicts = ["changed" if changed else "-" for changed in self.changed]
        head = ("arm", "evidence", "after round", "before", "since", "verdict")
        rows = zip(self.arm_names, *numbers, verdicts, strict=True)
        return "\n".join([render_table(head, rows), *(f"  {line}" for line in self.warnings)])


class NamedRanking(Ranking):
    """A ranking that knows whose it is: `arm_names`."""

    arm_names: tuple[str, ...]

    @classmethod
    def of(cls, known: Ranking, arm_names: tuple[str, ...]) -> Self:
        """The same, with names."""
        made = cls(*known)
        made.arm_names = arm_names
        return made

    def _ranks(self) -> list[str]:
        ends = zip(self.best.tolist(), self.worst.tolist(), strict=True)
        return [f"{best}" if best == worst else f"{best} to {worst}" for best, worst in ends]

    def __str__(self) -> str:
        names = self.arm_names
        below = (", ".join(names[m] for m in row.nonzero()[0]) or "-" for row in self.above)
        return render_table(
            ("arm", "rank", "certainly above"), zip(names, self._ranks(), below, strict=True)
        )

    def __repr__(self) -> str:
        each = (f"{arm} {rank}" for arm, rank in zip(self.arm_names, self._ranks(), strict=True))
        return f"<Ranking: {', '.join(each)}>"


def render_change(
    arm: str, one: ArmAlarm, sure: str = "", words: CampaignWords = DEFAULT_WORDS
) -> str:
    """That an arm has changed, in words without a full stop; `sure` says how sure that is, and of nothing else."""
    when, since = (" and again since", "") if one.again else ("", f", {one.since:.3f} since")
    return f"{arm} has changed{sure}, most likely after {words.round} {one.after}{when}: on the average {one.before:.3f} before{since}"


def render_under_way(agents: Sequence[str]) -> str:
    """Who is on the way to an arm.

    >>> render_under_way(["Zoë"]), render_under_way(["Zoë", "Max", "Ana"])
    ('Zoë is on the way there', 'Zoë, Max and Ana are on the way there')
    """
    if len(agents) == 1:
        return f"{agents[0]} is on the way there"
    return f"{', '.join(agents[:-1])} and {agents[-1]} are on the way there"


def render_ends(low: float, high: float, digits: int = 3) -> tuple[str, str]:
    """The ends of an interval, rounded so that all of it lies between them.

    >>> render_ends(0.7326, 0.99927), render_ends(0.4199, 0.07, 2)
    (('0.732', '1.000'), ('0.41', '0.07'))
    """
    unit = 10**digits
    low, high = math.floor(unit * low + 1e-9) / unit, math.ceil(unit * high - 1e-9) / unit
    return f"{low:.{digits}f}", f"{high:.{digits}f}"


def render_count(number: int, what: str) -> str:
    """So many of these, in words."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text under a head, the first column to the left and the others to the right; a long one is cut."""
    everything = list(rows)
    shown = [head, *islice(everything, TABLE_MAX_LINES)]
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]
    lines = [
        "  ".join(["", row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in shown
    ]
    more = len(everything) - TABLE_MAX_LINES
    return "\n".join([*lines, *([f"  ... and {more:,} more"] if more > 0 else [])])
