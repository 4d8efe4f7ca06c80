"""What pages say of plans, visits and ranks, in words for whoever goes there."""

from heterobandits.campaigns.audit.history_text import counts_text
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.service import body_of_counts
from heterobandits.campaigns.state import State
from heterobandits.planner.plans import Reason, ReasonCode, render_count, render_number
from heterobandits.planner.visits import VisitReport

WHY_SENTENCES: dict[ReasonCode, str] = {
    "absent": "Away this round.",
    "left": "No longer in the team.",
    "no arm": "No open arm is left.",
    "forced": "It was set that {agent} goes there.",
    "unseen": "Nobody has been there yet.",
    "unseen by it": "{agent} has not been there yet.",
    "forgotten": "Nobody has been there for so long that it is forgotten.",
    "random": "Drawn at random.",
    "highest": "The most promising arm (index {index}); estimated at {estimate}.",
    "among the highest": "One of the {visited} most promising arms (index {index}); estimated at {estimate}.",
    "best to be had": "One of the most promising arms that the set pairs allow (index {index}); estimated at {estimate}.",
    "best allowed": "Part of the best assignment that the set pairs allow (index {index}).",
    "highest left": "The most promising arm left at the turn of {agent} (index {index}).",
}


def why_sentence(reason: Reason, agent: str) -> str:
    """In a sentence why a plan sends an agent where it goes."""
    sentence = WHY_SENTENCES[reason.code].format(
        agent=agent,
        index=render_number(reason.index),
        estimate=render_number(reason.estimate),
        visited=reason.visited,
    )
    return f"{sentence} Somebody is on the way there." if reason.awaited else sentence


def outcome_text(told: VisitReport, tests: int) -> str:
    """What came of a visit in which so many tests were planned; of a single test whether something was found."""
    if told.counts in ((0, 1), (1, 1)) and tests == 1:
        return "found" if told.counts[0] else "not found"
    return counts_text(body_of_counts(told.counts), tests)


def rank_text(best: int, worst: int) -> str:
    """The ranks that an arm can have.

    >>> rank_text(1, 1), rank_text(2, 2), rank_text(3, 9)
    ('certainly best', 'certainly rank 2', '3 to 9')
    """
    if best == worst:
        return "certainly best" if best == 1 else f"certainly rank {best}"
    return f"{best} to {worst}"


def waiting_text(state: State, round: PlannedRound) -> str:
    """For whom a round waits."""
    who = [state.agents[agent].name for agent, _ in round.missing]
    most = 6
    more = [f"{render_count(len(who) - most, 'other')}"] if len(who) > most else []
    return ", ".join(who[:most] + more)
