"""What pages say of plans, visits and ranks, in words for whoever goes there."""

import math

from heterobandits.campaigns.analysis.probabilities import render_rates
from heterobandits.campaigns.audit.history_text import counts_text
from heterobandits.campaigns.events import utc_now
from heterobandits.campaigns.outcomes import body_of_counts
from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State, parse_time
from heterobandits.planner.plans import AWAITED_CLAUSE, Explanation, Reason, render_count
from heterobandits.planner.visits import VisitReport
from heterobandits.planner.vocabulary import DEFAULT_WORDS, CampaignWords

HOME_SENTENCES: dict[str, str] = {
    "absent": "Away this {round}.",
    "left": "No longer in the team.",
    "forced": "It was set that {agent} goes there.",
    "unseen by it": "{agent} has not been there yet.",
}


def why_sentence(reason: Reason, agent: str, words: CampaignWords = DEFAULT_WORDS) -> str:
    """In sentences why a plan sends an agent where it goes, as `reason.said_in` says it."""
    if reason.code in HOME_SENTENCES:
        coming = f" {AWAITED_CLAUSE.capitalize()}." if reason.awaited else ""
        return HOME_SENTENCES[reason.code].format(agent=agent, round=words.round) + coming
    clauses = [part[0].upper() + part[1:] for part in reason.clauses_in(words)]
    return " ".join(f"{part.replace(': finds ', f': {agent} finds ')}." for part in clauses)


def explanation_text(why: Explanation, words: CampaignWords = DEFAULT_WORDS) -> str:
    """All there is to say of why somebody goes somewhere, in sentences: what is known of the place, why there, and where else."""
    return " ".join([_knowledge_sentence(why, words), *_choice_sentences(why)]).removesuffix(".")


def _knowledge_sentence(why: Explanation, words: CampaignWords) -> str:
    """What is known of the place."""
    if not why.pulls:
        if why.reason.code == "forgotten":
            return f"What was seen at {why.arm} is so long ago that it counts no more."
        coming = f" {' and '.join(why.under_way)} will be there first." if why.under_way else ""
        return f"Nothing is known of {why.arm} yet.{coming}"
    estimate, low, high = render_rates(why.estimate, why.lower, why.upper)
    own = f"{why.own_pulls:,} of them by {why.agent}" if why.own_pulls else f"none by {why.agent}"
    if why.own_pulls == why.pulls:
        own = f"all by {why.agent}"
    tests = f"after {words.count(why.pulls, 'test')}, {own}"
    if why.changed:
        return (
            f"{why.arm} is estimated at {estimate} {tests}, but it has changed since some of them."
        )
    return f"{why.arm} is estimated at {estimate}, certainly between {low} and {high}, {tests}."


def _choice_sentences(why: Explanation) -> list[str]:
    """Why there, and where else."""
    if why.reason.code == "forced":
        return [HOME_SENTENCES["forced"].format(agent=why.agent)]
    said = (
        f"By what is known alone, {why.agent} would go there, too."
        if why.mode == "exploit"
        else f"{why.agent} goes there to learn more about it."
    )
    if why.runner_up is None:
        return [said, "There was nowhere else to go."]
    tied = why.flip_index is not None and math.isclose(
        why.flip_index, why.index, rel_tol=1e-9, abs_tol=0.0
    )
    if tied or why.flip_index == why.index:
        return [said, f"{why.runner_up} was as good, and a lot decided."]
    return [said, f"Next would have come {why.runner_up}."]


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


def ago_text(time: str) -> str:
    """How long ago something happened."""
    minutes = int((parse_time(utc_now()) - parse_time(time)).total_seconds() // 60)
    if minutes < 2:
        return "a minute ago" if minutes == 1 else "just now"
    if minutes < 120:
        return f"{minutes} minutes ago"
    return f"{minutes // 60} hours ago" if minutes < 48 * 60 else f"on {time[:10]}"
