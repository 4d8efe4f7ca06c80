"""What another policy would have planned: from the log as it stood before each round."""

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.shadows import shadow
from heterobandits.campaigns.exchange import export_events
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes, withdraw_outcomes
from heterobandits.campaigns.plan_events import plan_of
from heterobandits.campaigns.storage.store import UnknownCampaign
from heterobandits.campaigns.validation import parse_policy
from heterobandits.errors import InvalidInput
from parks import VERA, opened, park


def eventful(log, **options):
    """A campaign in which much happens: absences, late outcomes, corrections, a new agent, one that has changed."""
    c = park(log, **options)
    service.plan_round(log, c, VERA, absent=["Ben"])
    service.plan_round(log, c, VERA, closed=["river"], forbidden=[("Ana", "hill")])
    report_outcomes(log, c, VERA, 1, {"Ana": 1, "Chi": (3, 12)})
    service.plan_round(log, c, VERA)
    service.override(log, c, VERA, 3, "Ben", ["ford"])
    report_outcomes(log, c, VERA, 3, {"Ana": 0, "Ben": 1})
    correct_outcomes(log, c, VERA, 1, {"Ana": 0})
    service.revise(log, c, VERA, "Ben", {"sensitivity": 0.7}, "now")
    service.add_agents(log, c, VERA, [{"name": "Dan", "sensitivity": 0.8}])
    service.plan_round(log, c, VERA, forced=[("Dan", "lake")])
    report_outcomes(log, c, VERA, 2, {"Ben": 0})
    report_outcomes(log, c, VERA, 4, {"Ana": 1, "Dan": 0, "Ben": 1})
    withdraw_outcomes(log, c, VERA, 3, ["Ana"])
    for number in range(5, 12):
        sent = service.plan_round(log, c, VERA).state.rounds[-1].sent
        report_outcomes(log, c, VERA, number, {log.state(c).agents[a].name: n % 2 for a, n in sent})
    return c


class TestShadow:
    """Every round planned again by a policy, from what was known then."""

    @pytest.mark.parametrize(
        "options",
        [
            {"policy": "posterior-sorted", "delta": 0.2},
            {"season": 30},
            {"policy": "cucb"},
            {"policy": "min-width-window", "memory": 3},
            {"policy": "posterior-sorted-discounted", "memory": 4},
        ],
        ids=lambda options: options.get("policy", "season"),
    )
    def test_that_of_the_policy_itself_is_what_was_planned(self, options, tmp_path):
        log = opened(tmp_path)
        c = eventful(log, **options)
        state = log.state(c)
        found = shadow(log, c, state.policy.name)
        assert found.differ == 0
        assert [one.round for one in found.rounds] == list(range(1, 12))
        assert all(one.planned == one.other for one in found.rounds)
        assert [one.planned for one in found.rounds] == [r.assignment for r in state.rounds]
        assert found.sentences == [f"{state.policy.name} would have planned the same in 11 rounds."]

    @pytest.mark.parametrize("name", ["min-width", "thompson", "no-sharing"])
    def test_that_of_another_is_planned_from_the_state_before_each_round(self, name, tmp_path):
        log = opened(tmp_path)
        c = eventful(log, policy="posterior-sorted", delta=0.2)
        found = shadow(log, c, name)
        differ = 0
        for one, made in zip(found.rounds, log.state(c).rounds, strict=True):
            before = log.at(c, made.event - 1)
            plan = plan_of(before, made.given, parse_policy(name, 0.2))
            other = tuple(plan.assignment[agent.row] for agent in before.agents)
            assert (one.planned, one.other) == (made.assignment, other)
            differ += other != made.assignment
        assert found.differ + found.tied == differ > 0
        differ -= found.tied
        moved = sum(
            a != b
            for one in found.rounds
            if not one.tied
            for a, b in zip(one.planned, one.other, strict=True)
        )
        assert found.sentences[0].startswith(f"{name} would have planned {differ} of 11 rounds")
        assert f"{moved} times" in found.sentences[0]

    def test_a_delta_of_its_own(self, tmp_path):
        log = opened(tmp_path)
        c = eventful(log, policy="min-width")
        careful = shadow(log, c, "min-width", 1e-9)
        for one, made in zip(careful.rounds, log.state(c).rounds, strict=True):
            before = log.at(c, made.event - 1)
            plan = plan_of(before, made.given, parse_policy("min-width", 1e-9))
            assert one.other == tuple(plan.assignment[agent.row] for agent in before.agents)
        assert careful.differ > 0

    @pytest.mark.parametrize(
        ("own", "name"),
        [("min-width", "cucb"), ("cucb", "min-width"), ("no-sharing", "posterior-sorted")],
    )
    def test_a_round_that_differs_only_in_ties_is_counted_apart(self, own, name, tmp_path):
        """Of three agents of one kind nothing is known: all arms tie, and each policy draws in its own way."""
        log = opened(tmp_path)
        agents = [{"name": who, "sensitivity": 0.8} for who in ("Ana", "Ben", "Chi")]
        given = [{}, {"forbidden": [("Ana", "hill")]}, {"absent": ["Ben"]}, {"closed": ["ford"]}]
        c = park(log, policy=own, agents=agents, seed=5)
        for circumstances in given * 3:
            made = service.plan_round(log, c, VERA, **circumstances)
            service.close_round(
                log, c, VERA, len(made.state.rounds)
            )  # or somebody would be on the way
        found = shadow(log, c, name)
        assert found.differ == 0
        assert found.tied == sum(one.planned != one.other for one in found.rounds) > 0
        assert found.sentences[0] == (
            f"{name} would have planned the same in 12 rounds, but for ties."
        )
        assert found.sentences[1].startswith(f"In {found.tied} rounds they differ only")

    def test_a_round_that_differs_by_what_is_known_is_no_tie(self, tmp_path):
        """Two arms were seen: no draw sends the one agent to the one that greedy does not like."""
        log = opened(tmp_path)
        c = park(
            log, policy="min-width", agents=[{"name": "Ana", "sensitivity": 0.9}], arms=["a", "b"]
        )
        for number in range(1, 40):
            (((_, arm)),) = service.plan_round(log, c, VERA).state.rounds[-1].sent
            report_outcomes(log, c, VERA, number, {"Ana": 1 - arm})
        found = shadow(log, c, "greedy")
        away = [one for one in found.rounds[2:] if one.planned != one.other]
        assert away
        assert not any(one.tied for one in away)
        assert found.differ >= len(away)

    def test_nothing_is_written(self, tmp_path):
        log = opened(tmp_path)
        c = eventful(log)
        before = export_events(log, c)
        shadow(log, c, "min-width")
        assert export_events(log, c) == before

    def test_no_rounds_yet(self, tmp_path):
        log = opened(tmp_path)
        found = shadow(log, park(log), "min-width")
        assert (found.rounds, found.differ) == ([], 0)
        assert found.sentences == ["No round has been planned yet."]

    def test_what_cannot_be_is_refused(self, tmp_path):
        log = opened(tmp_path)
        c = park(log)
        with pytest.raises(InvalidInput, match="unknown policy 'min-with'"):
            shadow(log, c, "min-with")
        with pytest.raises(InvalidInput, match="season goes by the length of the season"):
            shadow(log, c, "season")
        with pytest.raises(UnknownCampaign):
            shadow(log, "0123456789ab", "min-width")
