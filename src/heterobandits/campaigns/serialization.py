"""What programs are answered, by the server and on the command line: one function for each shape."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from heterobandits.campaigns import responses_schema, service
from heterobandits.campaigns.amounts import planned_tests_of
from heterobandits.campaigns.analysis.answers import answers as answers_of
from heterobandits.campaigns.analysis.answers import shared_arm_warnings
from heterobandits.campaigns.analysis.estimates import estimates as estimates_of
from heterobandits.campaigns.analysis.prices import Prices
from heterobandits.campaigns.analysis.probabilities import probable
from heterobandits.campaigns.analysis.projection import Projection, TeamWorth
from heterobandits.campaigns.analysis.sensitivities import sensitivity_notes
from heterobandits.campaigns.analysis.shadows import Shadow, is_different
from heterobandits.campaigns.audit.history_text import is_far_from_plan
from heterobandits.campaigns.audit.recovery import CampaignEntry
from heterobandits.campaigns.events import Event
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reasons import Assigned, number_to_json
from heterobandits.campaigns.reducer import policy_body
from heterobandits.campaigns.rounds import PlannedRound, RoundGiven
from heterobandits.campaigns.state import Link, MemberKind, State, member_id
from heterobandits.campaigns.storage.repository import Repository, WriteResult
from heterobandits.campaigns.storage.store import LinkUse
from heterobandits.planner.plans import Explanation, NamedAgents
from heterobandits.planner.visits import VisitReport

Shape = TypeVar("Shape")


def state_after(log: Repository, done: WriteResult) -> State:
    """The state right after a write, even an old one, so that the same key gets the same answer."""
    if done.repeated:
        return log.at(done.state.campaign, done.events[-1].number)
    return done.state


def json_of(shape: type[Shape], source: object, **given: Any) -> Shape:
    """An answer of this shape: what is given, and for the rest what the source has under the same names."""
    made = {}
    for name in shape.__annotations__:
        value = given[name] if name in given else getattr(source, name)
        made[name] = number_to_json(value) if isinstance(value, float) else value
    return cast(Shape, made)


def json_of_member(state: State, kind: MemberKind, number: int) -> responses_schema.NamedJson:
    """An agent or arm."""
    members = state.agent_names if kind == "agent" else state.arm_names
    return {"id": member_id(kind, number), "name": members[number]}


def json_of_pair(state: State, agent: int, arm: int) -> responses_schema.PairJson:
    """An agent and an arm."""
    return {
        "agent": state.agents[agent].name,
        "agent_id": member_id("agent", agent),
        "arm": state.arms[arm].name,
        "arm_id": member_id("arm", arm),
    }


def json_of_agent(state: State, number: int) -> responses_schema.AgentJson:
    """An agent, and how it reports now."""
    known = {"id": member_id("agent", number), **state.reports(number).body}
    return json_of(responses_schema.AgentJson, state.agents[number], **known)


def json_of_arm(state: State, number: int) -> responses_schema.ArmJson:
    """An arm."""
    arm = state.arms[number]
    known = {
        "id": member_id("arm", number),
        "forgotten": state.gone.get(number),
        "prior": None if arm.prior is None else list(arm.prior),
    }
    return json_of(responses_schema.ArmJson, arm, **known)


def campaign(state: State) -> responses_schema.CampaignJson:
    """All of a campaign but its rounds and what was learned in them."""
    return json_of(
        responses_schema.CampaignJson,
        state,
        **json_of_entry(state),
        policy=policy_body(state.policy),
        prior=state.plans_by,
        words=state.words.body,
        agents=[json_of_agent(state, a) for a in range(len(state.agents))],
        arms=[json_of_arm(state, n) for n in range(len(state.arms))],
    )


def json_of_entry(state: State) -> responses_schema.EntryJson:
    """A campaign in the list of all."""
    waiting = sorted(state.waiting)
    return json_of(
        responses_schema.EntryJson,
        state,
        id=state.campaign,
        rounds=len(state.rounds),
        waiting=waiting,
    )


def json_of_entries(found: Iterable[CampaignEntry]) -> responses_schema.EntriesJson:
    """The list of all campaigns."""
    made: responses_schema.EntriesJson = {"campaigns": [], "damaged": []}
    for one in found:
        if one.state is not None:
            made["campaigns"].append(json_of_entry(one.state))
        else:
            wrong = one.wrong or ""
            made["damaged"].append({"id": one.campaign, "name": one.name, "wrong": wrong})
    return made


def json_of_circumstances(state: State, given: RoundGiven) -> responses_schema.CircumstancesJson:
    """The circumstances of a plan."""
    return {
        "absent": [json_of_member(state, "agent", a) for a in sorted(given.absent)],
        "closed": [json_of_member(state, "arm", n) for n in sorted(given.closed)],
        "forbidden": [json_of_pair(state, *which) for which in sorted(given.forbidden)],
        "forced": [json_of_pair(state, *which) for which in sorted(given.forced)],
    }


def json_of_assignments(
    state: State, assignments: Iterable[Assigned]
) -> list[responses_schema.AssignmentJson]:
    """Who goes where by a plan."""
    return [
        json_of(
            responses_schema.AssignmentJson,
            reason,
            agent=state.agents[agent].name,
            agent_id=member_id("agent", agent),
            arm=None if arm is None else state.arms[arm].name,
            arm_id=None if arm is None else member_id("arm", arm),
            reason=reason.said_in(state.words),
        )
        for agent, arm, reason in assignments
    ]


def json_of_current(told: VisitReport | None) -> responses_schema.CurrentJson:
    """What is known of a visit."""
    counts = None if told is None else told.counts
    return {
        "waits": told is None,
        "missing": told is not None and counts is None,
        "successes": None if counts is None else counts[0],
        "tests": None if counts is None else counts[1],
        "event": None if told is None else told.event,
        "reported": None if told is None else told.time,
        "entered": None if told is None else told.entered,
        "note": None if told is None else told.note or None,
    }


def json_of_visit(
    state: State, at: PlannedRound, which: tuple[int, int]
) -> responses_schema.VisitJson:
    """A visit of a round."""
    known, planned = json_of_current(at.told.get(which)), planned_tests_of(state, which[0], at)
    return {
        "round": at.number,
        **json_of_pair(state, *which),
        **known,
        "tests_planned": planned,
        "far": is_far_from_plan(known["tests"], planned),
    }


def json_of_round_entry(at: PlannedRound) -> responses_schema.RoundEntryJson:
    """A round in the list of all."""
    counts = {"visits": len(at.sent), "told": len(at.told)}
    return json_of(responses_schema.RoundEntryJson, at, round=at.number, **counts)


def json_of_round(log: Repository, state: State, number: int) -> responses_schema.RoundJson:
    """A round, with its plan from the log."""
    at = state.round(number)
    return json_of(
        responses_schema.RoundJson,
        at,
        round=number,
        circumstances=json_of_circumstances(state, at.given),
        assignments=json_of_assignments(state, service.recorded_plan(log, state, at)),
        visits=[json_of_visit(state, at, which) for which in at.sent],
        warnings=shared_arm_warnings(state, at),
    )


def json_of_preview(made: Preview) -> responses_schema.PreviewJson:
    """The plan of the next round, and what its circumstances cost."""
    return {
        "round": made.plan.round,
        "circumstances": json_of_circumstances(made.state, made.given),
        "assignments": json_of_assignments(made.state, made.assignments),
        "prices": json_of_prices(made.prices),
    }


def json_of_prices(costs: Prices) -> responses_schema.PricesJson:
    """What a round is expected to detect, and what its circumstances cost."""
    constraints = [
        json_of(
            responses_schema.PriceJson,
            one,
            agent_id=None if one.agent is None else member_id("agent", one.agent),
            arm_id=None if one.arm is None else member_id("arm", one.arm),
        )
        for one in costs.constraints
    ]
    return json_of(responses_schema.PricesJson, costs, constraints=constraints)


def json_of_why(
    state: State, number: int, at: PlannedRound, told: Explanation
) -> responses_schema.WhyJson:
    """Why an agent was sent to an arm; the words have the names of that time."""
    place = at.assignment[number]
    assert place is not None, "only those who were sent are explained"
    texts = {"text": str(told), "reason": told.reason.said_in(state.words)}
    return json_of(responses_schema.WhyJson, told, **json_of_pair(state, number, place), **texts)


def json_of_estimates(state: State) -> responses_schema.EstimatesJson:
    """What is known of all arms."""
    made = []
    for one in estimates_of(state):
        by_agent = [
            {"agent": state.agents[a].name, "agent_id": member_id("agent", a), "pulls": pulls}
            for a, pulls in one.by_agent.items()
        ]
        key = member_id("arm", one.arm)
        made.append(json_of(responses_schema.EstimateJson, one, id=key, by_agent=by_agent))
    return {"arms": made}


def json_of_answers(state: State) -> responses_schema.AnswersJson:
    """What can be said of the arms."""
    found = answers_of(state)

    def named(arm: int) -> responses_schema.NamedJson:
        return json_of_member(state, "arm", arm)

    return json_of(
        responses_schema.AnswersJson,
        found,
        probable=probable(state).sentences,
        best=None if found.best is None else named(found.best),
        above=[{"above": named(one), "below": named(other)} for one, other in found.above],
        candidates=[named(arm) for arm in found.candidates],
        changed=[
            json_of(
                responses_schema.ChangeJson,
                one,
                arm=state.arms[one.arm].name,
                arm_id=member_id("arm", one.arm),
            )
            for one in found.changed
        ],
    )


def json_of_sensitivities(state: State, found: NamedAgents) -> responses_schema.SensitivitiesJson:
    """How sensitive the agents are by the visits."""
    verdicts = zip(found.verdict, found.finds, strict=True)
    agents: list[responses_schema.SensitivityJson] = [
        {
            **json_of_member(state, "agent", a),
            "sensitivity": float(found.sensitivity[a]),
            "calibrated": found.calibrated[a].tolist(),
            "estimate": float(found.estimate[a]),
            "lower": float(found.lower[a]),
            "upper": float(found.upper[a]),
            "verdict": verdict,
            "finds": finds,
        }
        for a, (verdict, finds) in enumerate(verdicts)
    ]
    return {"agents": agents, "sentences": sensitivity_notes(found)}


def json_of_shadow(state: State, found: Shadow) -> responses_schema.ShadowJson:
    """What another policy would have planned, where that is something else."""
    differences: list[responses_schema.ShadowedJson] = []
    for one in filter(is_different, found.rounds):
        for number, (planned, other) in enumerate(zip(one.planned, one.other, strict=True)):
            if planned != other:
                differences.append(
                    {
                        "round": one.round,
                        "agent": state.agents[number].name,
                        "agent_id": member_id("agent", number),
                        "planned": None if planned is None else state.arms[planned].name,
                        "planned_id": None if planned is None else member_id("arm", planned),
                        "other": None if other is None else state.arms[other].name,
                        "other_id": None if other is None else member_id("arm", other),
                    }
                )
    shape, rounds = responses_schema.ShadowJson, len(found.rounds)
    return json_of(shape, found, rounds=rounds, differences=differences)


def json_of_projection(found: Projection) -> responses_schema.ProjectionJson:
    """The rest of the season."""
    return json_of(responses_schema.ProjectionJson, found, warnings=list(found.warnings))


def json_of_worth(found: TeamWorth) -> responses_schema.WorthJson:
    """The rest of the season with one more agent, or a better one, and without."""
    plain, other = json_of_projection(found.plain), json_of_projection(found.other)
    return json_of(responses_schema.WorthJson, found, plain=plain, other=other)


def json_of_events(found: Iterable[Event]) -> list[responses_schema.EventJson]:
    """Events as they are."""
    return [json_of(responses_schema.EventJson, event) for event in found]


def json_of_event_with_text(event: Event, text: str) -> responses_schema.NarratedEventJson:
    """An event, and what happened in words."""
    return json_of(responses_schema.NarratedEventJson, event, text=text)


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
    said = {name: event.body[name] for name in ("text", "round")}
    return json_of(responses_schema.NoteJson, event, event=event.number, **said)


def json_of_link(
    state: State, known: Link, uses: Mapping[str, LinkUse] = MappingProxyType({})
) -> responses_schema.LinkJson:
    """A link, without what opens it."""
    used = uses.get(known.id)
    return json_of(
        responses_schema.LinkJson,
        known,
        agent=None if known.agent is None else state.agents[known.agent].name,
        agent_id=None if known.agent is None else member_id("agent", known.agent),
        last_used=None if used is None else used.last,
    )
