"""What programs are answered, by the server and on the command line: one function for each shape."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import cast

from heterobandits.campaigns import responses_schema, service
from heterobandits.campaigns.amounts import tests_planned
from heterobandits.campaigns.analysis.answers import answers as answers_of
from heterobandits.campaigns.analysis.answers import estimates as estimates_of
from heterobandits.campaigns.analysis.answers import together
from heterobandits.campaigns.analysis.prices import Prices
from heterobandits.campaigns.analysis.projection import Projection, Worth
from heterobandits.campaigns.analysis.shadows import Shadow, differs
from heterobandits.campaigns.audit.history_text import is_far
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned, number_to_json
from heterobandits.campaigns.reducer import policy_body
from heterobandits.campaigns.rounds import PlannedRound, RoundGiven, VisitReport
from heterobandits.campaigns.state import Link, State, id_of
from heterobandits.campaigns.storage.repository import Done, Log
from heterobandits.planner.plans import Explanation


def state_after(log: Log, done: Done) -> State:
    """The state just after what was written, also if that was a while ago: so the same key has the same answer."""
    if done.repeated:
        return log.at(done.state.campaign, done.events[-1].number)
    return done.state


def json_of_named(state: State, kind: str, number: int) -> responses_schema.NamedJson:
    """An agent or arm."""
    if kind == "agent":
        return {"id": id_of("agent", number), "name": state.agents[number].name}
    return {"id": id_of("arm", number), "name": state.arms[number].name}


def pair(state: State, agent: int, arm: int) -> responses_schema.PairJson:
    """An agent and an arm."""
    return {
        "agent": state.agents[agent].name,
        "agent_id": id_of("agent", agent),
        "arm": state.arms[arm].name,
        "arm_id": id_of("arm", arm),
    }


def agent(state: State, number: int) -> responses_schema.AgentJson:
    """An agent, and how it reports now."""
    one = state.agents[number]
    known = {"id": id_of("agent", number), "name": one.name, "retired": one.retired}
    return cast(responses_schema.AgentJson, known | state.rows[one.row].reports.body)


def arm(state: State, number: int) -> responses_schema.ArmJson:
    """An arm."""
    one = state.arms[number]
    return {"id": id_of("arm", number), "name": one.name, "retired": one.retired}


def campaign(state: State) -> responses_schema.CampaignJson:
    """All of a campaign but its rounds and what was learned in them."""
    return {
        "id": state.campaign,
        "name": state.name,
        "created": state.created,
        "changed": state.changed,
        "number": state.number,
        "policy": cast(responses_schema.PolicyJson, policy_body(state.policy)),
        "seed": state.seed,
        "season": state.season,
        "rounds": len(state.rounds),
        "waiting": sorted(state.waiting),
        "agents": [agent(state, a) for a in range(len(state.agents))],
        "arms": [arm(state, n) for n in range(len(state.arms))],
    }


def json_of_entry(state: State) -> responses_schema.EntryJson:
    """A campaign in the list of all."""
    return {
        "id": state.campaign,
        "name": state.name,
        "created": state.created,
        "changed": state.changed,
        "number": state.number,
        "rounds": len(state.rounds),
        "waiting": sorted(state.waiting),
    }


def circumstances(state: State, given: RoundGiven) -> responses_schema.CircumstancesJson:
    """The circumstances of a plan."""
    return {
        "absent": [json_of_named(state, "agent", a) for a in sorted(given.absent)],
        "closed": [json_of_named(state, "arm", n) for n in sorted(given.closed)],
        "forbidden": [pair(state, *which) for which in sorted(given.forbidden)],
        "forced": [pair(state, *which) for which in sorted(given.forced)],
    }


def json_of_assignments(
    state: State, assignments: Iterable[Assigned]
) -> list[responses_schema.AssignmentJson]:
    """Who goes where by a plan."""
    return [
        {
            "agent": state.agents[agent].name,
            "agent_id": id_of("agent", agent),
            "arm": None if arm is None else state.arms[arm].name,
            "arm_id": None if arm is None else id_of("arm", arm),
            "code": reason.code,
            "reason": str(reason),
            "index": number_of(reason.index),
            "estimate": number_of(reason.estimate),
            "visited": reason.visited,
        }
        for agent, arm, reason in assignments
    ]


def current(told: VisitReport | None) -> responses_schema.CurrentJson:
    """What is known of a visit."""
    counts = None if told is None else told.counts
    return {
        "waits": told is None,
        "missing": told is not None and counts is None,
        "successes": None if counts is None else counts[0],
        "tests": None if counts is None else counts[1],
        "event": None if told is None else told.event,
    }


def json_of_visit(
    state: State, at: PlannedRound, which: tuple[int, int]
) -> responses_schema.VisitJson:
    """A visit of a round."""
    known, planned = current(at.told.get(which)), tests_planned(state, which[0], at)
    return {
        "round": at.number,
        **pair(state, *which),
        **known,
        "tests_planned": planned,
        "far": is_far(known["tests"], planned),
    }


def round_entry(at: PlannedRound) -> responses_schema.RoundEntryJson:
    """A round in the list of all."""
    return {
        "round": at.number,
        "time": at.time,
        "closed": at.closed,
        "waits": at.waits,
        "visits": len(at.sent),
        "told": len(at.told),
    }


def round(log: Log, state: State, number: int) -> responses_schema.RoundJson:
    """A round, with its plan from the log."""
    at = state.round(number)
    return {
        "round": at.number,
        "event": at.event,
        "time": at.time,
        "closed": at.closed,
        "waits": at.waits,
        "circumstances": circumstances(state, at.given),
        "assignments": json_of_assignments(state, service.recorded_plan(log, state, at)),
        "visits": [json_of_visit(state, at, which) for which in at.sent],
        "warnings": together(state, at),
    }


def json_of_preview(made: Preview) -> responses_schema.PreviewJson:
    """The plan of the next round, and what its circumstances cost."""
    return {
        "round": made.plan.round,
        "circumstances": circumstances(made.state, made.given),
        "assignments": json_of_assignments(made.state, made.assignments),
        "prices": json_of_prices(made.prices),
    }


def json_of_prices(costs: Prices) -> responses_schema.PricesJson:
    """What a round is expected to detect, and what its circumstances cost."""
    return {
        "expected": costs.expected,
        "best": costs.best,
        "constraints": [
            {
                "kind": one.kind,
                "agent_id": None if one.agent is None else id_of("agent", one.agent),
                "arm_id": None if one.arm is None else id_of("arm", one.arm),
                "lost": one.lost,
                "text": one.text,
            }
            for one in costs.constraints
        ],
        "warnings": costs.warnings,
    }


def json_of_why(
    state: State, number: int, at: PlannedRound, told: Explanation
) -> responses_schema.WhyJson:
    """Why an agent was sent to an arm; the words have the names of that time."""
    place = at.assignment[number]
    assert place is not None, "only those who were sent are explained"
    return {
        **pair(state, number, place),
        "text": str(told),
        "reason": str(told.reason),
        "mode": told.mode,
        "estimate": told.estimate,
        "lower": told.lower,
        "upper": told.upper,
        "best_rank": told.best_rank,
        "worst_rank": told.worst_rank,
        "pulls": told.pulls,
        "own_pulls": told.own_pulls,
        "runner_up": told.runner_up,
        "index": number_of(told.index),
        "runner_up_index": number_of(told.runner_up_index),
        "flip_index": number_of(told.flip_index),
        "changed": told.changed,
    }


def number_of(value: float | None) -> responses_schema.Number:
    """A number as JSON can hold it."""
    return cast(responses_schema.Number, number_to_json(value))


def json_of_estimates(state: State) -> responses_schema.EstimatesJson:
    """What is known of all arms."""
    made: list[responses_schema.EstimateJson] = [
        {
            "id": id_of("arm", one.arm),
            "name": one.name,
            "retired": one.retired,
            "changed": one.changed,
            "estimate": one.estimate,
            "lower": one.lower,
            "upper": one.upper,
            "best_rank": one.best_rank,
            "worst_rank": one.worst_rank,
            "pulls": one.pulls,
            "successes": one.successes,
            "visits": one.visits,
            "by_agent": [
                {"agent": state.agents[a].name, "agent_id": id_of("agent", a), "pulls": pulls}
                for a, pulls in one.by_agent.items()
            ],
        }
        for one in estimates_of(state)
    ]
    return {"arms": made}


def json_of_answers(state: State) -> responses_schema.AnswersJson:
    """What can be said of the arms."""
    found = answers_of(state)
    return {
        "confidence": found.confidence,
        "best": None if found.best is None else json_of_named(state, "arm", found.best),
        "above": [
            {"above": json_of_named(state, "arm", one), "below": json_of_named(state, "arm", other)}
            for one, other in found.above
        ],
        "candidates": [json_of_named(state, "arm", n) for n in found.candidates],
        "visits_needed": found.visits_needed,
        "changed": [
            {
                "arm": state.arms[one.arm].name,
                "arm_id": id_of("arm", one.arm),
                "after": one.after,
                "before": one.before,
                "since": one.since,
            }
            for one in found.changed
        ],
        "sentences": list(found.sentences),
    }


def json_of_shadow(state: State, found: Shadow) -> responses_schema.ShadowJson:
    """What another policy would have planned, where that is something else."""
    differences: list[responses_schema.ShadowedJson] = []
    for one in filter(differs, found.rounds):
        for number, (planned, other) in enumerate(zip(one.planned, one.other, strict=True)):
            if planned != other:
                differences.append(
                    {
                        "round": one.round,
                        "agent": state.agents[number].name,
                        "agent_id": id_of("agent", number),
                        "planned": None if planned is None else state.arms[planned].name,
                        "planned_id": None if planned is None else id_of("arm", planned),
                        "other": None if other is None else state.arms[other].name,
                        "other_id": None if other is None else id_of("arm", other),
                    }
                )
    return {
        "policy": found.policy,
        "rounds": len(found.rounds),
        "differ": found.differ,
        "tied": found.tied,
        "differences": differences,
        "sentences": list(found.sentences),
    }


def projection(found: Projection) -> responses_schema.ProjectionJson:
    """The rest of the season."""
    names = responses_schema.ProjectionJson.__annotations__
    made = {name: getattr(found, name) for name in names}
    return cast(responses_schema.ProjectionJson, made | {"warnings": list(found.warnings)})


def json_of_worth(found: Worth) -> responses_schema.WorthJson:
    """The rest of the season with one more agent, or a better one, and without."""
    return {
        "plain": projection(found.plain),
        "other": projection(found.other),
        "more": found.more,
        "more_se": found.more_se,
    }


def events(found: Iterable[Event]) -> list[responses_schema.EventJson]:
    """Events as they are."""
    return [cast(responses_schema.EventJson, asdict(event)) for event in found]


def json_of_narrated(event: Event, text: str) -> responses_schema.NarratedEventJson:
    """An event, and what happened in words."""
    return cast(responses_schema.NarratedEventJson, asdict(event) | {"text": text})


def json_of_status(state: State) -> responses_schema.StatusJson:
    """Where a campaign stands."""
    waiting = [state.round(number) for number in sorted(state.waiting)]
    return {
        **campaign(state),
        "hash": state.hash,
        "visits": [json_of_visit(state, at, which) for at in waiting for which in at.missing],
        "estimates": json_of_estimates(state)["arms"],
        "answers": json_of_answers(state),
    }


def json_of_note(event: Event) -> responses_schema.NoteJson:
    """A note as it was written."""
    return {
        "event": event.number,
        "time": event.time,
        "who": event.who,
        "text": event.body["text"],
        "round": event.body["round"],
    }


def link(state: State, known: Link) -> responses_schema.LinkJson:
    """A link, without what opens it."""
    return {
        "id": known.id,
        "role": known.role,
        "name": known.name,
        "agent": None if known.agent is None else state.agents[known.agent].name,
        "agent_id": None if known.agent is None else id_of("agent", known.agent),
        "expires": known.expires,
        "revoked": known.revoked,
    }
