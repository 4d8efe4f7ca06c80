"""Outcomes of many visits in one write: of several rounds, all or none, reported or corrected."""

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link, revoke_link
from heterobandits.campaigns.outcomes import VisitOutcome, outcomes_ahead, report_outcomes
from heterobandits.campaigns.reducer import LinkEnded
from heterobandits.campaigns.storage.repository import Author
from heterobandits.campaigns.validation import InvalidFields
from parks import VERA, opened, park


@pytest.fixture
def log(tmp_path):
    made = opened(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def campaign(log):
    """Two rounds, of which nothing is told but what Ana found in the first."""
    made = park(log)
    for _ in range(2):
        service.plan_round(log, made, VERA)
    report_outcomes(log, made, VERA, 1, {"Ana": 1})
    return made


def entry(round, agent, outcome, arm=None, place=None, seen=None):
    return VisitOutcome(place or f"{round} {agent}", round, agent, arm, outcome, seen)


def report_many(log, campaign, request, entries, role="owner"):
    """Report or correct outcomes of visits of any rounds, all or none."""
    make = outcomes_ahead(log.state(campaign), entries, role)
    return log.write(campaign, request, make)


def told(log, campaign, round):
    state = log.state(campaign)
    return {state.agents[a].name: known.counts for (a, _), known in state.round(round).told.items()}


def test_of_several_rounds_in_one_write(log, campaign):
    before = log.state(campaign).number
    done = report_many(
        log,
        campaign,
        Author("Vera", key="k"),
        [
            entry(1, "Ben", 0), entry(1, "Ana", 0), entry(2, "agent-1", "not done"),
            entry(2, "Chi", (3, 12)),
        ],
    )  # fmt: skip
    assert [event.kind for event in done.events] == [
        "reported",
        "corrected",
        "reported",
        "reported",
    ]
    assert told(log, campaign, 1) == {"Ana": (0, 1), "Ben": (0, 1)}
    assert told(log, campaign, 2) == {"Ana": None, "Chi": (3, 12)}
    again = report_many(log, campaign, Author("Vera", key="k"), [entry(1, "Ben", 0)])
    assert again.repeated
    assert log.state(campaign).number == before + 4


def test_what_is_known_already_writes_nothing(log, campaign):
    before = log.state(campaign).number
    assert report_many(log, campaign, VERA, [entry(1, "Ana", 1)]).events == []
    assert log.state(campaign).number == before


def test_all_that_is_wrong_is_named_and_nothing_is_written(log, campaign):
    before = log.state(campaign)
    with pytest.raises(InvalidFields) as refused:
        report_many(
            log,
            campaign,
            VERA,
            [
                entry(1, "Ben", 1, place="a"),
                entry(1, "agent-2", 1, place="b"),
                entry(7, "Ana", 1, place="c"),
                entry(1, "Nobody", 1, place="d"),
                entry(2, "Chi", (13, 12), place="e"),
                entry(1, "Chi", (1, 2_000_000), place="g"),
                entry("x", "Chi", 1, place="h"),
            ],
        )
    wrong = dict(refused.value.errors)
    assert "a" not in wrong
    assert "stands in a already" in wrong["b"]
    assert "round 7 is not planned" in wrong["c"]
    assert "unknown agent" in wrong["d"]
    assert "at most all" in wrong["e"]
    assert "at most" in wrong["g"]
    assert "h" in wrong
    assert log.state(campaign).hash == before.hash


def test_a_place_where_nobody_was_sent(log, campaign):
    state = log.state(campaign)
    (there,) = state.round(1).arms_of(1)
    other = next(arm.name for n, arm in enumerate(state.arms) if n != there)
    with pytest.raises(InvalidFields, match=r"round 1 sent 'Ben' to .*, and not to"):
        report_many(log, campaign, VERA, [entry(1, "Ben", 1, arm=other)])


def test_what_was_told_meanwhile_is_not_written_over(log, campaign):
    seen = log.state(campaign).number
    report_outcomes(log, campaign, VERA, 2, {"Ben": 1})
    with pytest.raises(InvalidFields, match="has changed since event"):
        report_many(log, campaign, VERA, [entry(2, "Ben", 0, seen=seen)])
    same = report_many(log, campaign, VERA, [entry(2, "Ben", 1, seen=seen)])
    assert same.events == []


def test_an_arm_that_has_changed_is_forgotten_once(log):
    """What is reported of several rounds shows that an arm has changed, which the campaign heeds after all of it."""
    made = park(log, arms=["river", "hill", "gate"], on_change="forget")
    rounds = 24
    for _ in range(rounds):
        service.plan_round(log, made, VERA)
    state = log.state(made)
    entries = []
    for number in range(1, rounds + 1):
        for agent, arm in state.round(number).sent:
            tests = state.reports(agent).tests
            found = tests if arm == 0 and number <= rounds // 2 else 0
            entries.append(entry(number, f"agent-{agent + 1}", (found, tests)))
    done = report_many(log, made, VERA, entries)
    kinds = [event.kind for event in done.events]
    assert kinds.count("reported") == len(entries)
    assert kinds[len(entries) :] == ["arm forgotten"]
    assert done.events[-1].body["arm"] == "arm-1"


def test_a_link_that_has_ended_writes_nothing(log, campaign):
    done, _ = issue_link(log, campaign, VERA, role="planner", name="Pia")
    pia = Author("Pia", link=done.events[0].body["link"])
    revoke_link(log, campaign, VERA, pia.link)
    with pytest.raises(LinkEnded):
        report_many(log, campaign, pia, [entry(1, "Ben", 1)])
