"""What constraints cost: the plans with and without each, and every assignment there is, in small rounds."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterobandits.campaigns.analysis import prices as module
from heterobandits.campaigns.analysis.prices import render_detections
from heterobandits.campaigns.analysis.season_summary import summarize_season
from heterobandits.campaigns.plan_events import plan_of
from heterobandits.campaigns.preview import Preview
from heterobandits.campaigns.reducer import parse_circumstances
from heterobandits.campaigns.rounds import RoundGiven
from heterobandits.errors import InvalidInput
from heterobandits.planner import planning
from states import after, begun, lived

AGENTS = [
    {"sensitivity": 0.9},
    {"sensitivity": 0.6, "false_positive_rate": 0.2},
    {"sensitivity": 0.3, "tests": 4},
]
MEANS = (0.8, 0.1, 0.5, 0.4)
LIVED = lived(begun(AGENTS, 4, policy="posterior-sorted", prior=(1, 1)), MEANS, 12)
PAIRS = st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=4)


def prices(state, given):
    """What the plan under these circumstances is expected to detect, and what they cost."""
    return Preview.of(state, given).prices


def test_so_many_constraints_are_priced_and_of_the_rest_it_is_said(monkeypatch):
    asked = []
    assignments_under = planning.assignments_under

    def watched(circumstances):
        for one in circumstances:
            asked.append(one)
            yield one

    def counted(*arguments):
        *rest, circumstances = arguments
        return assignments_under(*rest, watched(circumstances))

    monkeypatch.setattr(planning, "assignments_under", counted)
    state = begun([{"sensitivity": 0.9}, {"sensitivity": 0.5}], 40, prior=(1, 1))
    forbidden = frozenset((0, n) for n in range(35))
    found = prices(state, RoundGiven(forbidden=forbidden, closed=frozenset({39})))
    assert len(asked) == len(found.constraints) == 30
    said = "Not priced: 6 of 36 constraints, as each takes a plan of its own."
    assert found.warnings == [said]
    monkeypatch.setattr(module, "PRICED_PAIRS", 7 * 2 * 40 + 1)
    assert len(prices(state, RoundGiven(forbidden=forbidden)).constraints) == 7
    monkeypatch.setattr(module, "PRICED_PAIRS", 1)  # a few are priced however large it is
    assert len(prices(state, RoundGiven(forbidden=forbidden)).constraints) == 5


def posterior_means(state):
    """By summing over a fine grid of means."""
    mean = (np.arange(20_000) + 0.5) / 20_000
    heights = np.zeros((len(state.arms), len(mean)))
    for (row, arm), pulls in np.ndenumerate(state.pulls):
        r = state.rows[row].reports
        chance = r.false_positive_rate + (r.sensitivity - r.false_positive_rate) * mean
        found = state.successes[row, arm]
        heights[arm] += found * np.log(chance) + (pulls - found) * np.log1p(-chance)
    weight = np.exp(heights - heights.max(axis=1, keepdims=True))
    return (weight * mean).sum(axis=1) / weight.sum(axis=1)


MEAN = posterior_means(LIVED)
FOUND = [
    row.reports.tests * row.reports.sensitivity for row in LIVED.rows
]  # where there is something


def detections(assignment):
    """What is expected of an assignment by number of the agent."""
    return sum(s * MEAN[n] for s, n in zip(FOUND, assignment, strict=True) if n is not None)


def most_of_all(given):
    """The best of all assignments that are allowed, one by one."""
    best = 0.0
    for assignment in itertools.product([None, *range(len(MEAN))], repeat=len(FOUND)):
        sent = [(a, n) for a, n in enumerate(assignment) if n is not None]
        arms = [n for _, n in sent]
        if (
            len(set(arms)) == len(arms)
            and given.forced <= set(sent)
            and not any(
                a in given.absent or n in given.closed or (a, n) in given.forbidden for a, n in sent
            )
        ):
            best = max(best, detections(assignment))
    return best


class TestPrices:
    """What a round is expected to detect, and what each of its constraints costs."""

    def test_an_arm_that_has_changed_is_named_as_it_is_priced_by_all_that_was_seen(self):
        park = lived(begun([{"sensitivity": 1.0, "tests": 50}], ["a", "b"]), (0.9, 0.1), 6)
        closed = RoundGiven(closed=frozenset({0}))
        assert prices(park, closed).warnings == []
        park = lived(park, (0.05, 0.1), 4, closed=["b"])
        (warning,) = prices(park, closed).warnings
        assert warning == (
            "a has changed: here, as in plans, what was seen of it before and since counts as of one mean."
        )
        assert summarize_season(park).warnings == [warning]
        retired = after(park, ("retired", {"what": "arm", "id": "arm-1"}))
        assert prices(retired, RoundGiven()).warnings == summarize_season(retired).warnings == []

    @settings(max_examples=25, deadline=None)
    @given(
        absent=st.frozensets(st.integers(0, 2), max_size=2),
        closed=st.frozensets(st.integers(0, 3), max_size=2),
        forbidden=PAIRS,
        forced=PAIRS,
    )
    def test_the_best_of_all_assignments_and_the_plans_without_each_constraint(
        self, absent, closed, forbidden, forced
    ):
        circumstances = RoundGiven(absent, closed, forbidden, forced)
        try:
            plan = plan_of(LIVED, circumstances)
        except InvalidInput:
            with pytest.raises(InvalidInput):
                prices(LIVED, circumstances)
            return
        known = prices(LIVED, circumstances)
        best = most_of_all(circumstances)
        assert known.best == pytest.approx(best, abs=1e-5)
        assert known.expected == pytest.approx(detections(plan.assignment), abs=1e-5)
        assert known.expected <= known.best + 1e-9
        assert len(known.constraints) == sum(map(len, (absent, closed, forbidden, forced)))
        for price in known.constraints:
            one = {"absent": price.agent, "closed": price.arm}.get(
                price.kind, (price.agent, price.arm)
            )
            without = replace(
                circumstances, **{price.kind: getattr(circumstances, price.kind) - {one}}
            )
            try:
                other = detections(plan_of(LIVED, without).assignment)
            except InvalidInput:  # without it there is no plan to be compared with
                other = known.expected
            assert price.lost == pytest.approx(other - known.expected, abs=1e-5)

    def test_a_plan_that_would_explore_more_costs_nothing_to_forgo(self):
        state = lived(begun([0.9], 2, policy="posterior-sorted", prior=(1, 1)), (0.8, 0.1), 8)
        (explored,) = plan_of(state, RoundGiven()).assignment
        (price,) = prices(state, RoundGiven(closed=frozenset({explored}))).constraints
        means = posterior_means(state)
        assert price.lost == pytest.approx(0.9 * (means[explored] - means[1 - explored]), abs=1e-5)
        assert price.lost < -0.001
        assert price.text == (
            f"That place {explored} is closed costs nothing: the plan without it is worth "
            f"{-price.lost:.2g} expected detections less."
        )

    def test_who_could_go_nowhere_costs_nothing(self):
        given = parse_circumstances(
            LIVED, absent=["agent A"], forbidden=[("agent A", f"place {n}") for n in range(4)]
        )
        (absent,) = [one for one in prices(LIVED, given).constraints if one.kind == "absent"]
        assert absent.lost == 0.0

    def test_the_dearest_comes_first_and_is_said_in_words(self):
        given = parse_circumstances(LIVED, absent=["agent B"], closed=["place 0", "place 1"])
        known = prices(LIVED, given)
        lost = [price.lost for price in known.constraints]
        assert lost == sorted(lost, reverse=True)
        assert [price.text.split(" costs ")[0] for price in known.constraints] == [
            "That place 0 is closed",
            "That agent B is absent",
            "That place 1 is closed",
        ]
        assert 0.001 < lost[0] < 1
        assert known.constraints[0].text.endswith(f"{lost[0]:.2g} expected detections.")

    @pytest.mark.parametrize(
        ("lost", "words"),
        [
            (0.0, "nothing"),
            (0.375, "0.38 expected detections"),
            (1.0, "1 expected detection"),
            (0.9999, "1 expected detection"),
            (1.5, "1.5 expected detections"),
            (99.6, "100 expected detections"),
            (500.0, "500 expected detections"),
            (12_345.6, "12,346 expected detections"),
            (1e-7, "less than 0.001 expected detections"),
        ],
    )
    def test_numbers_are_written_out(self, lost, words):
        assert render_detections(lost) == words

    def test_a_pair_that_nobody_wants_costs_nothing(self):
        known = prices(LIVED, parse_circumstances(LIVED, forbidden=[("agent A", "place 1")]))
        (price,) = known.constraints
        assert (price.kind, price.agent, price.arm, price.lost) == ("forbidden", 0, 1, 0.0)
        assert price.text == "That agent A may not go to place 1 costs nothing."

    def test_what_is_retired_is_no_constraint_of_the_round(self):
        state = after(
            LIVED,
            ("retired", {"what": "arm", "id": "arm-1"}),
            ("retired", {"what": "agent", "id": "agent-1"}),
        )
        given = parse_circumstances(
            state, absent=["agent A"], closed=["place 0"], forbidden=[("agent B", "place 0")]
        )
        known = prices(state, given)
        assert known.constraints == []
        assert known.best == pytest.approx(prices(state, RoundGiven()).best)
        assert known.best < prices(LIVED, RoundGiven()).best
