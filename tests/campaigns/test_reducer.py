"""The fold: what stands follows from the events alone, and what cannot be is refused whoever says so."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterobandits import InvalidInput, Planner
from heterobandits.campaigns import service
from heterobandits.campaigns.events import EVENT_KINDS, GENESIS_HASH, Draft, seal_events
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes, withdraw_outcomes
from heterobandits.campaigns.plan_events import plan_of
from heterobandits.campaigns.reducer import REDUCER_BY_KIND, fold_events
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.campaigns.storage import snapshots
from heterobandits.errors import UnsupportedVersion
from parks import AGENTS, ARMS, VERA, opened, park

FIRST = {
    "name": "North park",
    "agents": [{"name": "Ana", "sensitivity": 0.9}, {"name": "Ben", "sensitivity": 0.6}],
    "arms": [{"name": "river"}, {"name": "hill"}, {"name": "gate"}],
    "policy": {"name": "posterior-sorted", "delta": 0.05, "memory": None},
    "seed": 3,
    "season": None,
}


def log_of(*drafts, first=FIRST, campaign="0123456789ab"):
    drafts = [Draft("created", first), *drafts]
    time = "2026-03-01T09:30:00.000000Z"
    return seal_events(drafts, campaign, after=0, previous=GENESIS_HASH, time=time, who="Vera")


def planned(number, ana="arm-1", ben="arm-2", **circumstances):
    nothing = {"absent": [], "closed": [], "forbidden": [], "forced": []}
    sent = [("agent-1", ana), ("agent-2", ben)]
    why = {"code": "random", "index": "infinite", "estimate": None, "visited": 2}
    assignments = [{"agent": agent, "arm": arm} | why for agent, arm in sent]
    made = {"policy": {}, "seed": 3, "index": "", "made_with": {}}
    body = {"round": number, "assignments": assignments, **made, **nothing, **circumstances}
    return Draft("round planned", body)


def forgotten(round):
    return Draft("arm forgotten", {"arm": "arm-1", "round": round, "because": "asked"})


LINK, HASH = "0123456789ab", "f" * 64


def told(kind, number, agent, arm, successes=1, tests=1):
    body = {"round": number, "agent": agent, "arm": arm, "successes": successes, "tests": tests}
    return Draft(kind, body)


class TestTables:
    """The two tables of learning, counted by hand."""

    def test_a_report_a_correction_and_a_withdrawal(self):
        drafts = [
            planned(1),
            told("reported", 1, "agent-1", "arm-1", 3, 12),
            told("reported", 1, "agent-2", "arm-2", 1, 1),
            told("corrected", 1, "agent-1", "arm-1", 2, 10),
        ]
        state = fold_events(log_of(*drafts))
        assert state.pulls.tolist() == [[10, 0, 0], [0, 1, 0]]
        assert state.successes.tolist() == [[2, 0, 0], [0, 1, 0]]
        assert not state.waiting
        body = {"round": 1, "agent": "agent-2", "arm": "arm-2"}
        state = fold_events(log_of(*drafts, Draft("withdrawn", body)))
        assert state.pulls.tolist() == [[10, 0, 0], [0, 0, 0]]
        assert state.waiting == {1}

    def test_what_was_not_done_counts_nothing_and_waits_for_nobody(self):
        missing = {"round": 1, "agent": "agent-1", "arm": "arm-1", "missing": True}
        state = fold_events(log_of(planned(1, ben=None), Draft("reported", missing)))
        assert state.pulls.sum() == 0
        assert not state.waiting

    def test_who_went_elsewhere_takes_the_report_along(self):
        moved = Draft("overridden", {"round": 1, "agent": "agent-1", "arms": ["arm-3"]})
        before = fold_events(log_of(planned(1), moved, told("reported", 1, "agent-1", "arm-3", 0)))
        after = fold_events(log_of(planned(1), told("reported", 1, "agent-1", "arm-1", 0), moved))
        assert before.pulls.tolist() == after.pulls.tolist() == [[0, 0, 1], [0, 0, 0]]
        assert before.rounds[0].told.keys() == after.rounds[0].told.keys() == {(0, 2)}

    def test_two_in_one_arm_and_one_in_two(self):
        drafts = [
            planned(1),
            Draft("overridden", {"round": 1, "agent": "agent-2", "arms": ["arm-1", "arm-3"]}),
            told("reported", 1, "agent-1", "arm-1"),
            told("reported", 1, "agent-2", "arm-1"),
        ]
        state = fold_events(log_of(*drafts))
        assert state.rounds[0].missing == [(1, 2)]
        assert state.waiting == {1}
        state = fold_events(log_of(*drafts, told("reported", 1, "agent-2", "arm-3", 0)))
        assert state.pulls.tolist() == [[1, 0, 0], [1, 0, 1]]
        assert state.successes.tolist() == [[1, 0, 0], [1, 0, 0]]

    @pytest.mark.parametrize(
        ("since", "rows"),
        [("now", [[1, 0, 0], [0, 0, 0], [0, 1, 0]]), ("always", [[1, 1, 0], [0, 0, 0]])],
    )
    def test_a_revised_agent_counts_as_it_reported_then(self, since, rows):
        revised = {"id": "agent-1", "since": since, "reports": {"sensitivity": 0.5}}
        drafts = [
            planned(1),
            Draft("agent revised", revised),
            told("reported", 1, "agent-1", "arm-1"),  # late: it was made before
            planned(2, "arm-2", "arm-1"),
            told("reported", 2, "agent-1", "arm-2"),
        ]
        state = fold_events(log_of(*drafts))
        assert state.pulls.tolist() == rows
        was = 0.9 if since == "now" else 0.5
        assert state.team.sensitivities[0] == was
        assert state.team.sensitivities[state.agents[0].row] == 0.5

    def test_stated_wrongly_means_from_the_beginning(self):
        revised = [{"id": "agent-1", "reports": {"sensitivity": s}} for s in (0.6, 0.5)]
        drafts = [
            planned(1),
            Draft("agent revised", revised[0] | {"since": "now"}),
            planned(2),
            Draft("agent revised", revised[1] | {"since": "always"}),
        ]
        state = fold_events(log_of(*drafts))
        assert state.team.sensitivities == (0.5, 0.6, 0.5)  # Ana then, Ben, Ana since round 2

    def test_from_now_on_leaves_what_a_newcomer_did_in_earlier_rounds(self):
        drafts = [
            planned(1),
            Draft("agents added", {"agents": [{"name": "Chi", "sensitivity": 0.9}]}),
            Draft("overridden", {"round": 1, "agent": "agent-3", "arms": ["arm-3"]}),
            told("reported", 1, "agent-3", "arm-3", 5, 10),
            Draft(
                "agent revised", {"id": "agent-3", "since": "now", "reports": {"sensitivity": 0.5}}
            ),
        ]
        state = fold_events(log_of(*drafts))
        assert state.team.sensitivities == (0.9, 0.6, 0.9, 0.5)
        assert state.pulls[2, 2] == 10
        assert state.agents[2].row == 3
        early = fold_events(log_of(drafts[1], drafts[4]))  # who was nowhere yet needs no second row
        assert early.team.sensitivities == (0.9, 0.6, 0.5)

    def test_closing_ends_the_wait_and_takes_what_comes_late(self):
        closed = fold_events(log_of(planned(1), Draft("round closed", {"round": 1})))
        assert not closed.waiting
        late = [
            planned(1),
            Draft("round closed", {"round": 1}),
            told("reported", 1, "agent-1", "arm-1"),
        ]
        assert fold_events(log_of(*late)).pulls.sum() == 1


class TestTeam:
    """Who and what there is."""

    def test_new_ones_get_the_next_numbers(self):
        drafts = [
            Draft("arms added", {"arms": [{"name": "lake"}, {"name": "ford"}]}),
            Draft("agents added", {"agents": [{"name": "Chi", "sensitivity": 0.7, "tests": 3}]}),
        ]
        state = fold_events(log_of(*drafts))
        assert state.arm("ford") == state.arm("arm-5") == 4
        assert state.agent("Chi") == state.agent("agent-3") == 2
        assert state.pulls.shape == (3, 5)

    def test_a_name_is_free_again_when_it_was_given_up(self):
        drafts = [
            Draft("renamed", {"what": "agent", "id": "agent-1", "name": "Anna"}),
            Draft("renamed", {"what": "agent", "id": "agent-2", "name": "Ana"}),
            Draft("renamed", {"what": "campaign", "name": "South park"}),
        ]
        state = fold_events(log_of(*drafts))
        assert (state.agent_names, state.name) == (("Anna", "Ana"), "South park")
        assert state.agent("agent-1") == state.agent("Anna") == 0

    def test_who_is_retired_stays_home_and_what_it_found_counts(self):
        drafts = [
            planned(1),
            told("reported", 1, "agent-2", "arm-2"),
            Draft("retired", {"what": "agent", "id": "agent-2"}),
            Draft("retired", {"what": "arm", "id": "arm-1"}),
        ]
        state = fold_events(log_of(*drafts))
        plan = plan_of(state, RoundGiven())
        assert plan.assignment[1] is None
        assert plan.assignment[0] in (1, 2)
        assert state.pulls.sum() == 1
        back = [Draft("returned", {"what": "agent", "id": "agent-2"})]
        assert plan_of(fold_events(log_of(*drafts, *back)), RoundGiven()).assignment[1] is not None


def link(**changes):
    body = {"link": LINK, "role": "viewer", "name": "K", "agent": None, "expires": None}
    return Draft("link issued", body | {"token_hash": HASH} | changes)


WRONG = {
    "a round out of turn": [planned(2)],
    "a round twice": [planned(1), planned(1)],
    "two on an arm": [planned(1, "arm-1", "arm-1")],
    "an agent there is not": [planned(1), told("reported", 1, "agent-3", "arm-1")],
    "an arm there is not": [planned(1, "arm-9")],
    "a plan of one agent": [
        Draft(
            "round planned", planned(1).body | {"assignments": [{"agent": "agent-1", "arm": None}]}
        )
    ],
    "a plan without a seed": [planned(1, seed=None)],
    "a plan without reasons": [
        planned(1, assignments=[{"agent": f"agent-{i}", "arm": f"arm-{i}"} for i in (1, 2)])
    ],
    "a plan with a reason of another kind": [
        planned(1, assignments=[a | {"index": "x"} for a in planned(1).body["assignments"]])
    ],
    "an index that is no number of JSON": [
        planned(1, assignments=[a | {"index": "nan"} for a in planned(1).body["assignments"]])
    ],
    "an absent agent that is sent": [planned(1, absent=["agent-1"])],
    "a closed arm": [planned(1, closed=["arm-1"])],
    "a report from elsewhere": [planned(1), told("reported", 1, "agent-1", "arm-2")],
    "a report of no round": [told("reported", 1, "agent-1", "arm-1")],
    "a report twice": [planned(1), *[told("reported", 1, "agent-1", "arm-1")] * 2],
    "more found than tested": [planned(1), told("reported", 1, "agent-1", "arm-1", 2, 1)],
    "less than nothing": [planned(1), told("reported", 1, "agent-1", "arm-1", -1, 1)],
    "a correction of nothing": [planned(1), told("corrected", 1, "agent-1", "arm-1")],
    "more than can be counted": [planned(1), told("reported", 1, "agent-1", "arm-1", 1, 2**31)],
    "a withdrawal of nothing": [
        planned(1),
        Draft("withdrawn", {"round": 1, "agent": "agent-1", "arm": "arm-1"}),
    ],
    "the same place again": [
        planned(1),
        Draft("overridden", {"round": 1, "agent": "agent-1", "arms": ["arm-1"]}),
    ],
    "a reported visit that is split": [
        planned(1),
        told("reported", 1, "agent-1", "arm-1"),
        Draft("overridden", {"round": 1, "agent": "agent-1", "arms": ["arm-2", "arm-3"]}),
    ],
    "closed twice": [planned(1), *[Draft("round closed", {"round": 1})] * 2],
    "created twice": [Draft("created", FIRST)],
    "a name that is taken": [Draft("renamed", {"what": "arm", "id": "arm-1", "name": "hill"})],
    "a name that looks like one": [Draft("arms added", {"arms": [{"name": "ri\u200bver"}]})],
    "a name like an id": [Draft("arms added", {"arms": [{"name": "arm-1"}]})],
    "a turning name": [Draft("arms added", {"arms": [{"name": "a\u202eb"}]})],
    "more agents than arms": [
        Draft("agents added", {"agents": [{"name": f"x{i}", "sensitivity": 0.5} for i in range(2)]})
    ],
    "retired twice": [*[Draft("retired", {"what": "arm", "id": "arm-1"})] * 2],
    "nobody left": [Draft("retired", {"what": "agent", "id": f"agent-{i}"}) for i in (1, 2)],
    "here already": [Draft("returned", {"what": "arm", "id": "arm-1"})],
    "an impossible sensitivity": [
        Draft("agent revised", {"id": "agent-1", "since": "now", "reports": {"sensitivity": 2}})
    ],
    "since some day": [
        Draft("agent revised", {"id": "agent-1", "since": "then", "reports": {"sensitivity": 0.5}})
    ],
    "no such policy": [
        Draft("policy changed", {"policy": {"name": "luck", "delta": 0.05, "memory": None}})
    ],
    "a season without an end for one that needs it": [
        Draft("policy changed", {"policy": {"name": "season", "delta": 0.05, "memory": None}})
    ],
    "a season that is over": [planned(1), planned(2), Draft("season changed", {"season": 1})],
    "a round after the end": [Draft("season changed", {"season": 1}), planned(1), planned(2)],
    "an empty note": [Draft("note", {"text": " ", "round": None})],
    "a role there is not": [
        Draft(
            "link issued",
            {
                "link": LINK,
                "role": "king",
                "name": "K",
                "agent": None,
                "expires": None,
                "token_hash": HASH,
            },
        )
    ],
    "a planner of one agent": [
        Draft(
            "link issued",
            {
                "link": LINK,
                "role": "planner",
                "name": "K",
                "agent": "agent-1",
                "expires": None,
                "token_hash": HASH,
            },
        )
    ],
    "a link without an id": [link(link="\x1b[31m")],
    "a link whose hash is none": [link(token_hash="é")],
    "a link that ends beyond all time": [link(expires="9999-12-31T23:59:59-14:00")],
    "a link that ends at a time that is none": [link(expires="2026-11-16\u202e22:22:58")],
    "the same link twice": [link(), link()],
    "a note that nobody could have written": [Draft("note", {"text": "a\rb", "round": None})],
    "no such link": [Draft("link revoked", {"link": LINK})],
    "a round that is true": [planned(True)],
    "a forgotten round that is true": [planned(1), forgotten(True)],
    "a forgotten round that is real": [planned(1), forgotten(1.0)],
    "an import up to a real number": [Draft("imported", {"first": 1, "last": 1.0})],
    "an import up to true": [Draft("imported", {"first": 1, "last": True})],
    "a prior that is none of those that plans go by": [Draft("prior changed", {"prior": None})],
    "a prior in words": [Draft("arms added", {"arms": [{"name": "x", "prior": "2 % to 10 %"}]})],
    "a prior of what was found": [
        Draft("arms added", {"arms": [{"name": "x", "prior": {"found": 1, "tests": 9}}]})
    ],
    "a body that lacks something": [Draft("reported", {"round": 1})],
    "a body of another kind": [Draft("agents added", {"agents": 3})],
}


class TestRefused:
    """Whoever wrote it."""

    @pytest.mark.parametrize("drafts", WRONG.values(), ids=WRONG)
    def test_what_cannot_be(self, drafts):
        fold_events(log_of(*drafts[:-1]))
        with pytest.raises(InvalidInput) as refused:
            fold_events(log_of(*drafts))
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize(
        ("draft", "message"),
        [
            (planned(1, absent=3), "absent is 3: a list of agents"),
            (planned(1, closed="arm-1"), "closed is 'arm-1': a list of arms"),
            (planned(1, forbidden=3), "forbidden is 3: a list of pairs"),
            (planned(1, forbidden=[["agent-1"]]), "forbidden has ['agent-1']: pairs"),
            (planned(1, forced=[3]), "forced has 3: pairs"),
            (Draft("overridden", {"round": 1, "agent": "agent-1", "arms": "x"}), "arms is 'x': a"),
            (link(link="x"), "link is 'x': an id of 12 letters"),
            (link(role="king"), "role is 'king': 'owner' or"),
            (Draft("created", FIRST), "a campaign is created once"),
            (planned(3), "round 3 is after the end of the season, which has 2: make it longer, or"),
        ],
    )
    def test_it_says_what_cannot_be(self, draft, message):
        begun = [Draft("season changed", {"season": 2}), planned(1), planned(2)]
        if draft.body.get("round") == 1 and draft.kind == "round planned":
            begun = []
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}"):
            fold_events(log_of(*begun, draft))

    def test_an_event_of_a_newer_version(self):
        events = log_of(planned(1))
        with pytest.raises(UnsupportedVersion, match="event 2"):
            fold_events([events[0], replace(events[1], version=3)])

    def test_every_kind_has_its_function(self):
        assert set(REDUCER_BY_KIND) == set(EVENT_KINDS)

    def test_an_id_that_is_none(self):
        with pytest.raises(InvalidInput, match=r"campaign is '\.\./x'"):
            fold_events(log_of(campaign="../x"))

    def test_nothing(self):
        with pytest.raises(InvalidInput, match="without events"):
            fold_events([])

    def test_the_state_before_stays_as_it_was(self):
        before = fold_events(log_of(planned(1)))
        events = log_of(planned(1), told("reported", 1, "agent-1", "arm-1"), planned(2))
        fold_events(events[2:], before)
        assert (before.number, before.pulls.sum(), len(before.rounds)) == (2, 0, 1)
        assert before.rounds[0].told == {}
        with pytest.raises(InvalidInput, match="does not follow"):
            fold_events(events[3:], before)


def equal(one, other):
    """Whether two states are the same, down to every visit."""
    fields = ("campaign", "number", "hash", "created", "changed", "name", "agents", "rows", "arms")
    more = ("policy", "seed", "season", "links", "waiting")
    return (
        all(getattr(one, f) == getattr(other, f) for f in fields + more)
        and list(one.rounds) == list(other.rounds)
        and np.array_equal(one.pulls, other.pulls)
        and np.array_equal(one.successes, other.successes)
    )


def recounted(state):
    """The tables from the visits of all rounds, one by one."""
    pulls, successes = np.zeros_like(state.pulls), np.zeros_like(state.successes)
    for round in state.rounds:
        for visit in state.visits(round):
            pulls[visit.agent, visit.arm] += visit.tests
            successes[visit.agent, visit.arm] += visit.successes
    return pulls, successes


@st.composite
def seasons(draw):
    """What may happen in a season: steps that fit or do not."""
    agent, arm = st.sampled_from(["Ana", "Ben", "Chi", "Dan"]), st.sampled_from([*ARMS, "pass"])
    outcome = st.sampled_from([0, 1, (3, 12), "not done"])
    number = st.integers(1, 4)
    step = st.one_of(
        st.tuples(st.just("plan"), st.lists(agent, max_size=1), st.lists(arm, max_size=1)),
        st.tuples(st.just("plan"), st.just([]), st.just([])),
        st.tuples(st.just("report"), number, st.dictionaries(agent, outcome, min_size=1)),
        st.tuples(st.just("correct"), number, st.dictionaries(agent, outcome, min_size=1)),
        st.tuples(st.just("withdraw"), number, st.lists(agent, min_size=1, max_size=1)),
        st.tuples(st.just("override"), number, agent, st.lists(arm, max_size=2)),
        st.tuples(st.just("close"), number),
        st.tuples(st.just("join")),
        st.tuples(st.just("place")),
        st.tuples(st.just("revise"), agent, st.sampled_from(["now", "always"])),
        st.tuples(st.just("retire"), agent),
        st.tuples(st.just("return"), agent),
    )
    return draw(st.lists(step, min_size=4, max_size=14))


def act(log, campaign, step):
    """Do a step, if it can be done."""
    kind, *rest = step
    do = {
        "plan": lambda absent, closed: service.plan_round(
            log, campaign, VERA, absent=absent, closed=closed
        ),
        "report": lambda n, o: report_outcomes(log, campaign, VERA, n, o),
        "correct": lambda n, o: correct_outcomes(log, campaign, VERA, n, o),
        "withdraw": lambda n, a: withdraw_outcomes(log, campaign, VERA, n, a),
        "override": lambda n, a, arms: service.override(log, campaign, VERA, n, a, arms),
        "close": lambda n: service.close_round(log, campaign, VERA, n),
        "join": lambda: service.add_agents(
            log, campaign, VERA, [{"name": "Dan", "sensitivity": 0.7}]
        ),
        "place": lambda: service.add_arms(log, campaign, VERA, ["pass"]),
        "revise": lambda a, since: service.revise(
            log, campaign, VERA, a, {"sensitivity": 0.8}, since
        ),
        "retire": lambda a: service.retire(log, campaign, VERA, "agent", a),
        "return": lambda a: service.bring_back(log, campaign, VERA, "agent", a),
    }
    try:
        do[kind](*rest)
    except InvalidInput:
        return False
    return True


class TestAnySeason:
    """Laws that hold whatever happens."""

    @settings(max_examples=25)
    @given(steps=seasons())
    def test_the_state_is_that_of_the_log_and_nothing_else(self, steps, tmp_path_factory):
        log = opened(tmp_path_factory.mktemp("log"))
        campaign = park(log)
        for step in steps:
            act(log, campaign, step)
        events = log.store.read(campaign)
        state = log.state(campaign)
        assert equal(fold_events(events), state)
        one_by_one = None
        for event in events:
            one_by_one = fold_events([event], one_by_one)
        assert equal(one_by_one, state)
        assert all(
            np.array_equal(a, b)
            for a, b in zip(recounted(state), (state.pulls, state.successes), strict=True)
        )
        assert state.waiting == {r.number for r in state.rounds if r.missing and not r.closed}
        again = snapshots.unpack_state(snapshots.pack_state(state))
        assert equal(again, state)
        assert plan_of(again, RoundGiven()) == plan_of(state, RoundGiven())
        assert json.loads(json.dumps([e.body for e in events])) == [e.body for e in events]


class TestPlanner:
    """The campaign plans as the planner does."""

    @pytest.mark.parametrize(
        "policy",
        ["posterior-sorted", "min-width", "cucb", "thompson-sorted", "posterior-sorted-window"],
    )
    def test_the_same_plans_from_the_same_outcomes(self, policy, tmp_path):
        log = opened(tmp_path)
        campaign = park(log, policy=policy)
        planner = Planner(
            [0.9, 0.6, 18 / 22],
            ARMS,
            policy,
            3,
            agent_names=["Ana", "Ben", "Chi"],
            false_positive_rates=[0, 0.05, 0],
            tests=[1, 1, 12],
            calibration=[None, None, (17, 20)],
            prior="learned",
        )
        luck = np.random.default_rng(5)
        for number in range(1, 13):
            away = ["Ben"] if number == 4 else []
            plan = planner.ask(absent=away)
            done = service.plan_round(log, campaign, VERA, absent=away)
            assert done.state.rounds[-1].assignment == plan.assignment
            recorded = [a["index"] for a in done.events[0].body["assignments"]]
            indices = [reason.index for reason in plan.reasons]
            assert recorded == ["infinite" if i == np.inf else i for i in indices]
            planner.accept(plan)
            outcomes = {
                name: (int(luck.integers(0, 13)), 12) if name == "Chi" else int(luck.integers(0, 2))
                for name, arm in zip(planner.agent_names, plan.assignment, strict=True)
                if arm is not None and (number != 6 or name != "Ana")  # one waits for ever
            }
            planner.tell(number, outcomes)
            report_outcomes(log, campaign, VERA, number, outcomes)
            if number == 9:
                planner.correct(2, {"Ana": 0})
                correct_outcomes(log, campaign, VERA, 2, {"Ana": 0})
        assert np.array_equal(log.state(campaign).pulls, planner.pulls)

    def test_every_policy_that_can_be_planned_with_can_be_used(self, tmp_path):
        from heterobandits.policies.policy import CATALOGUE

        log = opened(tmp_path)
        for name, entry in CATALOGUE.items():
            if entry.simulated_only:
                with pytest.raises(InvalidInput, match="simulated"):
                    park(log, policy=name)
                continue
            campaign = park(log, policy=name, delta=0.1, season=9, agents=AGENTS[:2])
            assert log.state(campaign).policy.delta == 0.1
            state = snapshots.unpack_state(
                snapshots.pack_state(service.plan_round(log, campaign, VERA).state)
            )
            assert state.policy == log.state(campaign).policy
