"""Pages of rounds and reports: what is planned is what was shown, what is changed by hand is recorded as such, what is reported is saved."""

import html
import re
import time
from datetime import UTC, datetime

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.season_summary import summarize_season
from heterobandits.campaigns.audit.verification import replay_events
from heterobandits.campaigns.files.demo import (
    DEMO_FINISHED_ROUNDS,
    DEMO_MEANS,
    DEMO_SEASON_ROUNDS,
    create_demo,
    demo_events,
)
from heterobandits.campaigns.links import hash_of_token, issue_link
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.inference.intervals import Posteriors
from heterobandits.planner import planning
from heterobandits.planner.plans import REASON_SENTENCES, Reason
from heterobandits.web.app import create_app
from heterobandits.web.pages import report
from heterobandits.web.pages.text import explanation_text, why_sentence
from markup import Page
from parks import Watched
from serving import NORTH, OWNER, UNKNOWN, Visitor, app_on

pytestmark = pytest.mark.smoke

ME = Author("Vera")


class Park:
    """A campaign, and a browser that holds the owner's link."""

    def __init__(self, folder):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.id = service.create(self.log, ME, **NORTH).state.campaign
        self.visitor = Visitor(self.app, OWNER).__enter__()

    @property
    def state(self):
        return self.log.state(self.id)

    def get(self, part=""):
        return self.visitor.get(f"/campaigns/{self.id}{part}")

    def submit(self, part, **fields):
        return self.visitor.submit(f"/campaigns/{self.id}{part}", **fields)

    def planned(self, **fields):
        """The number of a round that was planned on its page."""
        meant = str(len(self.state.rounds))  # although nothing is known of the last one yet
        answer = self.submit("/plan", seen=self.state.hash, anyway=meant, **fields)
        assert answer.status_code == 303, answer.text
        return int(answer.headers["location"].rpartition("/")[2])

    def visit(self, number, agent):
        """The address, and the arm, of a visit."""
        which = self.state.agent(agent)
        (arm,) = self.state.round(number).arms_of(which)
        return f"/rounds/{number}/outcomes/agent-{which + 1}", f"arm-{arm + 1}"

    def told(self, number, agent):
        which = self.state.agent(agent)
        round = self.state.round(number)
        (arm,) = round.arms_of(which)
        return round.told.get((which, arm))


@pytest.fixture
def park(tmp_path):
    made = Park(tmp_path)
    yield made
    made.visitor.__exit__()


def text_of(answer):
    return Page(answer.text).text


class TestPlan:
    """A plan is looked at as often as one likes, and recorded as it was shown."""

    def test_before_anything_is_known_it_says_why_there_is_no_price(self, park):
        state = service.create(park.log, ME, **UNKNOWN).state
        page = text_of(park.visitor.get(f"/campaigns/{state.campaign}/plan?absent=agent-2"))
        assert "so nothing can be forecast" in page
        assert "detections" not in page

    def test_a_price_says_what_it_is_of(self, park):
        assert "more than this one" in text_of(park.get("/plan?absent=agent-2"))
        assert "more than this one" not in text_of(park.get("/plan"))

    def test_it_draws_so_many_pairs_and_no_more(self, park):
        fields = {"kind": ["forbidden"] * 101, "agent": ["Ana"] * 101, "arm": ["gate"] * 101}
        answer = park.submit("/plan", look="1", **fields)
        assert answer.status_code == 422
        assert "101 pairs: at most 100" in Page(answer.text).text

    def test_looking_changes_nothing_and_recording_records_what_was_shown(self, park):
        before = park.state.number
        query = "?absent=agent-2&closed=arm-1"
        page = text_of(park.get(f"/plan{query}"))
        assert page == text_of(park.get(f"/plan{query}"))
        assert park.state.number == before
        number = park.planned(absent="agent-2", closed="arm-1")
        round = park.state.round(number)
        assert round.given.absent == {1}
        assert round.given.closed == {0}
        assert round.assignment[1] is None
        assert 0 not in round.assignment
        for agent, arm in round.sent:
            assert f"{park.state.agents[agent].name} {park.state.arms[arm].name}" in page
        assert "Ben stays home Away this round." in page

    def test_it_says_what_each_circumstance_costs(self, park):
        costs = service.preview(park.state, absent=["Ana"], closed=["hill"]).prices
        page = text_of(park.get("/plan?absent=agent-1&closed=arm-2"))
        assert len(costs.constraints) == 2
        for one in costs.constraints:
            assert one.text in page
        assert f"expected to make {costs.expected:.2f} detections" in page

    @pytest.mark.parametrize(
        ("part", "most"),
        [("", 1), ("/wall", 1), ("/plan", 0), ("/plan?absent=agent-1&closed=arm-2", 0), ("/plan?why=agent-1", 1)],
    )  # fmt: skip
    def test_a_page_makes_one_plan_and_one_set_of_posteriors(self, park, part, most, monkeypatch):
        number = park.planned()
        report_outcomes(park.log, park.id, ME, number, {"Ana": 1, "Ben": 0, "Chi": (3, 12)})
        pulls = park.state.knowledge.pulls
        plan, posteriors = planning.plan, Posteriors.of
        plans, sets = [], []

        def counted_plan(*given):
            plans.append(given)
            return plan(*given)

        def counted_posteriors(team, *tables):
            sets.append(tables)
            return posteriors(team, *tables)

        monkeypatch.setattr(planning, "plan", counted_plan)
        monkeypatch.setattr(Posteriors, "of", counted_posteriors)
        assert park.get(part).status_code == 200
        assert len(plans) == 1
        own = [one for one, *_ in sets if one.shape == pulls.shape and (one == pulls).all()]
        assert len(own) == most

    def test_all_of_it_is_said_of_who_is_asked_about(self, park):
        """Of Chi alone, with the place that comes next; nobody else's is worked out, and a strange name is nobody's."""
        park.planned()
        report_outcomes(park.log, park.id, ME, 1, {"Ana": 1, "Ben": 0, "Chi": (3, 12)})
        why = service.preview(park.state).explanations([2])
        assert list(why) == [2]
        assert why[2] == service.preview(park.state).explanations()[2]
        page = park.get("/plan?why=agent-3")
        said = Page(page.text).all("#plan ~ table p.small")
        assert len(said) == 1
        assert why[2].arm in said[0].get_text()
        assert why[2].runner_up in said[0].get_text()
        for word in ("index", "posterior", "exploit", "pulls", "rank"):
            assert word not in said[0].get_text()
        assert park.get("/plan?why=agent-99").status_code == 200

    def test_a_long_plan_comes_in_pages(self, park):
        agents = [{"name": f"Ranger {i}", "sensitivity": 0.8} for i in range(1, 121)]
        arms = [f"area {i}" for i in range(1, 141)]
        made = service.create(park.log, ME, name="large", agents=agents, arms=arms).state
        shown = []
        for start in ("", "51", "101"):
            page = Page(
                park.visitor.get(
                    f"/campaigns/{made.campaign}/plan?from={start}&absent=agent-7"
                ).text
            )
            shown += [one.get_text() for one in page.all("#live tbody th")]
            assert page.all("#live input[name=at]")[0]["value"] == (start or "1")
            assert len(page.all("input[name=absent]")) == 120
        assert shown == [f"Ranger {i}" for i in range(1, 121)]

    def test_pairs_that_are_set(self, park):
        fields = {"kind": ["forced", "forbidden", "forced"], "agent": ["agent-1", "agent-2", ""]}
        fields["arm"] = ["arm-3", "arm-4", ""]
        round = park.state.round if park.state.rounds else None
        assert round is None
        number = park.planned(**fields)
        given = park.state.round(number).given
        assert given.forced == {(0, 2)}
        assert given.forbidden == {(1, 3)}
        assert park.state.round(number).assignment[0] == 2
        page = text_of(park.get(f"/rounds/{number}"))
        assert "Ana had to go to gate." in page
        assert "Ben could not go to lake." in page
        assert "It was set that Ana goes there." in page

    def test_what_cannot_be_is_said_and_the_ticks_stay(self, park):
        answer = park.get("/plan?absent=agent-1&kind=forced&agent=agent-1&arm=arm-1")
        assert answer.status_code == 422
        assert 'value="agent-1" checked' in answer.text
        assert 'role="alert"' in answer.text
        assert not park.state.rounds
        answer = park.submit("/plan", seen=park.state.hash, absent="agent-99")
        assert answer.status_code == 422
        assert "agent-99" in answer.text
        assert not park.state.rounds

    def test_if_something_has_changed_since_it_is_shown_again_instead(self, park):
        (field,) = Page(park.get("/plan").text).all('input[name="seen"]')
        service.add_note(park.log, park.id, ME, "hello")
        answer = park.submit("/plan", seen=field["value"])
        assert answer.status_code == 412
        assert "since you looked" in answer.text
        assert not park.state.rounds

    def test_other_ticks_than_were_shown_are_shown_first(self, park):
        page = park.get("/plan?absent=agent-2").text
        shown = html.unescape(re.search(r'name="shown" value="([^"]*)"', page)[1])
        fields = {"seen": park.state.hash, "shown": shown}
        answer = park.submit("/plan", **fields, absent=["agent-2", "agent-1"])
        assert answer.status_code == 412
        assert "look at it, then record it" in answer.text
        assert not park.state.rounds
        assert park.submit("/plan", **fields, absent=["agent-2"]).status_code == 303
        assert park.state.round(1).given.absent == {1}

    def test_the_ticks_of_a_large_team_are_not_sent_in_an_address(self, park):
        (form,) = Page(park.get("/plan").text).all("form[data-live]")
        assert form["method"] == "get"
        service.add_arms(park.log, park.id, ME, [{"name": f"hut {n}"} for n in range(500)])
        (form,) = Page(park.get("/plan").text).all("form[data-live]")
        assert form["method"] == "post"
        looks = form.find("button")
        assert looks.get_text() == "Show the plan"
        closed = [f"arm-{n}" for n in range(2, 505)]
        before = park.state.number
        answer = park.submit("/plan", **{looks["name"]: looks["value"]}, closed=closed)
        assert answer.status_code == 200
        assert answer.text.count(" checked") == len(closed)
        assert park.state.number == before

    def test_sent_twice_with_one_key_it_is_planned_once(self, park):
        fields = {"seen": park.state.hash, "key": "abc"}
        first, second = (park.submit("/plan", **fields) for _ in range(2))
        assert (first.status_code, second.status_code) == (303, 200)
        page = Page(second.text)
        assert "Round 1 is recorded already" in page.text
        assert first.headers["location"] in page.references
        assert "Record" not in [button.get_text() for button in page.all("main button")]
        assert len(park.state.rounds) == 1

    def test_after_the_season_nothing_is_planned(self, park):
        service.set_season(park.log, park.id, ME, 1)
        park.planned()
        answer = park.submit("/plan", seen=park.state.hash)
        assert answer.status_code == 422
        assert len(park.state.rounds) == 1
        assert "All 1 rounds of the season are planned" in text_of(park.get())

    def test_every_reason_of_a_plan_has_a_sentence(self):
        for code in REASON_SENTENCES:
            said = why_sentence(Reason(code, 0.5, 0.25, 3, 5, 2, 4, 1, 0.9), "Ana")
            assert re.fullmatch(r"[A-Z][^{}]+\.", said)


class TestRound:
    """The sheet of a round."""

    def test_it_says_why_in_a_sentence_and_in_full(self, park):
        number = park.planned()
        page, full = (text_of(park.get(f"/rounds/{number}{more}")) for more in ("", "?why"))
        told = service.explain(park.log, park.id, number)
        assert len(told) == 3
        for one in told.values():
            assert f"{explanation_text(one)}." in full
            assert explanation_text(one) not in page

    def test_a_pair_changed_by_hand_is_recorded_as_such(self, park):
        number = park.planned()
        planned = park.state.round(number).assignment[1]
        other = next(n for n in range(4) if n not in park.state.round(number).assignment)
        answer = park.submit(
            f"/rounds/{number}/override", agent="agent-2", arm=[f"arm-{other + 1}", ""]
        )
        assert answer.status_code == 303
        assert park.state.round(number).arms_of(1) == (other,)
        page = text_of(park.get(f"/rounds/{number}"))
        names = park.state.arm_names
        assert f"{names[other]} by hand planned: {names[planned]}" in page
        assert (
            park.submit(f"/rounds/{number}/override", agent="agent-2", arm="-").status_code == 303
        )
        assert park.state.round(number).arms_of(1) == ()
        assert "stayed home by hand" in text_of(park.get(f"/rounds/{number}"))
        both = ["arm-1", "arm-2"]
        park.submit(f"/rounds/{number}/override", agent="agent-2", arm=both)
        assert park.state.round(number).arms_of(1) == (0, 1)

    def test_somebody_who_came_later_and_went_along_is_on_the_sheet(self, park):
        number = park.planned()
        service.add_agents(park.log, park.id, ME, [{"name": "Gus", "sensitivity": 0.8}])
        free = next(n for n in range(4) if n not in park.state.round(number).assignment)
        park.submit(f"/rounds/{number}/override", agent="agent-4", arm=f"arm-{free + 1}")
        page = text_of(park.get(f"/rounds/{number}"))
        arm = park.state.arm_names[free]
        assert f"Gus {arm} by hand planned: nowhere Sent there by hand." in page
        path, arm = park.visit(number, "Gus")
        assert park.submit(path, do="found", arm=arm).status_code == 303
        assert park.told(number, "Gus").counts == (1, 1)

    def test_what_cannot_be_changed_is_said(self, park):
        number = park.planned()
        answer = park.submit(f"/rounds/{number}/override", agent="agent-9", arm="arm-1")
        assert answer.status_code == 422
        assert "agent-9" in answer.text

    def test_it_is_closed_and_later_reports_are_taken(self, park):
        number = park.planned()
        for _ in range(2):  # who presses it twice wants it once
            assert park.submit(f"/rounds/{number}/close").status_code == 303
        assert park.state.round(number).closed
        assert "Closed, and still taken" in park.get("/report").text
        assert "never reported" in park.get(f"/rounds/{number}").text
        path, arm = park.visit(number, "Ana")
        assert park.submit(path, do="found", arm=arm).status_code == 303
        assert park.told(number, "Ana").counts == (1, 1)

    def test_the_list_goes_back_in_steps(self, park):
        service.set_season(park.log, park.id, ME, 60)
        for _ in range(53):
            service.plan_round(park.log, park.id, ME)
        page = park.get("/rounds")
        assert re.findall(r">Round (\d+)</a>", page.text) == [str(n) for n in range(53, 3, -1)]
        assert "?before=4" in page.text
        assert re.findall(r">Round (\d+)</a>", park.get("/rounds?before=4").text) == ["3", "2", "1"]


class TestReport:
    """Outcomes are reported and corrected, with their history."""

    @pytest.mark.parametrize(
        ("do", "counts"), [("found", (1, 1)), ("not found", (0, 1)), ("not done", None)]
    )
    def test_one_press(self, park, do, counts):
        number = park.planned()
        path, arm = park.visit(number, "Ana")
        assert park.submit(path, do=do, arm=arm).status_code == 303
        assert park.told(number, "Ana").counts == counts
        assert f"round {number}; saved" in text_of(park.get("/report"))

    def test_so_many_of_so_many(self, park):
        number = park.planned()
        path, arm = park.visit(number, "Chi")
        answer = park.submit(path, do="count", arm=arm, successes="3", tests="12")
        assert answer.status_code == 303
        assert park.told(number, "Chi").counts == (3, 12)

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"do": "count", "successes": "13", "tests": "12"}, "13"),
            ({"do": "count", "successes": "", "tests": "12"}, "how many"),
            ({"do": "count", "successes": "three", "tests": "12"}, "three"),
            ({"do": "dance"}, "dance"),
            ({}, "do is"),
        ],
    )
    def test_what_cannot_be_is_said_and_not_saved(self, park, fields, said):
        number = park.planned()
        before = park.state.number
        path, arm = park.visit(number, "Chi")
        answer = park.submit(path, arm=arm, **fields)
        assert answer.status_code == 422
        card = next(part for part in answer.text.split("<article") if f'{path}"' in part)
        assert said in re.search(r'role="alert"[^>]*>(.*?)</div>', card, re.S)[1]
        if fields.get("successes"):  # what was typed is still there
            assert f'value="{fields["successes"]}" aria-invalid="true"' in card
        assert park.state.number == before

    def test_more_tests_than_planned_are_marked_and_too_many_not_taken_of_a_reporter(self, park):
        number = park.planned()
        path, arm = park.visit(number, "Chi")
        _, token = issue_link(park.log, park.id, ME, role="reporter", name="Chi's")
        with Visitor(park.app, token) as chi:
            place = f"/campaigns/{park.id}"
            fields = {"do": "count", "arm": arm, "successes": "3"}
            answer = chi.submit(f"{place}{path}", tests="121", **fields)
            assert answer.status_code == 422
            assert "121, and 12 planned: at most 120" in html.unescape(answer.text)
            assert chi.submit(f"{place}{path}", tests="36", **fields).status_code == 303
            seen = park.told(number, "Chi").event
            answer = chi.submit(f"{place}{path}", tests="121", seen=seen, **fields)
            assert answer.status_code == 422
            assert "3 of 36 (12 planned)" in text_of(chi.get(f"{place}/report"))
        for page in (f"/rounds/{number}", "/history", "/audit.html"):
            assert "3 of 36 (12 planned)" in text_of(park.get(page)), page
        for tests, said in ((12, "3 of 12"), (6, "3 of 6"), (5, "3 of 5 (12 planned)")):
            correct_outcomes(park.log, park.id, ME, number, {"Chi": (3, tests)})
            assert f"{said}" in text_of(park.get(f"/rounds/{number}"))
            assert ("planned)" in said) == ("planned)" in text_of(park.get(f"/rounds/{number}")))

    def test_an_arm_or_an_agent_that_is_not_there(self, park):
        number = park.planned()
        assert park.submit(f"/rounds/{number}/outcomes/agent-7", do="found", arm="arm-1").status_code == 404  # fmt: skip
        assert park.submit(f"/rounds/{number}/outcomes/agent-1", do="found").status_code == 404
        assert park.submit("/rounds/9/outcomes/agent-1", do="found", arm="arm-1").status_code == 404

    def test_somebody_else_was_faster(self, park):
        number = park.planned()
        path, arm = park.visit(number, "Ana")
        report_outcomes(park.log, park.id, Author("Ana"), number, {"Ana": 0})
        answer = park.submit(path, do="found", arm=arm)
        assert answer.status_code == 409
        assert park.told(number, "Ana").counts == (0, 1)
        assert park.submit(path, do="not found", arm=arm).status_code == 303  # which is the same

    def test_a_correction_has_the_history_beside_it(self, park):
        number = park.planned()
        path, arm = park.visit(number, "Ana")
        park.submit(path, do="found", arm=arm)
        seen = park.told(number, "Ana").event
        assert f'name="seen" value="{seen}"' in park.get("/report").text
        assert park.submit(path, do="not found", arm=arm, seen=seen).status_code == 303
        assert park.told(number, "Ana").counts == (0, 1)
        page = text_of(park.get("/report"))
        assert re.search(r"owner: 1 of 1 .* owner: corrected to 0 of 1", page)
        answer = park.submit(path, do="found", arm=arm, seen=seen)  # of what is no longer so
        assert answer.status_code == 412
        assert park.told(number, "Ana").counts == (0, 1)
        last = park.told(number, "Ana").event
        assert park.submit(path, do="withdraw", arm=arm, seen=last).status_code == 303
        assert park.told(number, "Ana") is None

    def test_of_many_corrections_the_last_five_are_shown(self, park):
        number = park.planned()
        report_outcomes(park.log, park.id, ME, number, {"Ana": 1, "Ben": 0, "Chi": (0, 12)})
        for found in range(1, 13):
            correct_outcomes(park.log, park.id, ME, number, {"Chi": (found, 12)})
        for other in range(2, 12):  # rounds whose numbers have this one's in them
            assert park.planned() == other
            report_outcomes(park.log, park.id, ME, other, {"Chi": (other, 12), "Ana": 0})
        query = f"/report?round={number}"
        page = park.get(query)
        told = re.findall(r"<li>(.*?)</li>", re.search(r'class="past">(.*?)</ul>', page.text, re.S)[1], re.S)  # fmt: skip
        assert [re.sub(r"(?s)<.*?>|.*: ", "", one) for one in told] == [
            "8 more before", *(f"corrected to {found} of 12" for found in range(8, 13)),
        ]  # fmt: skip
        more = html.unescape(re.search(r'href="([^"]+)">8 more before', page.text)[1])
        assert text_of(park.visitor.get(more)).count(": corrected to") == 12
        assert page.text.count('class="past"') == 1
        assert text_of(page).count("Vera reported this") == 2  # Ana and Ben, once each
        _, token = issue_link(park.log, park.id, ME, role="reporter", name="Chi's")
        with Visitor(park.app, token) as chi:
            page = chi.get(f"/campaigns/{park.id}{query}")
            assert "8 more before" in text_of(page)
            assert "/history" not in page.text  # which is not for reporters

    def test_sent_twice_with_one_key_it_is_saved_once(self, park):
        number = park.planned()
        path, arm = park.visit(number, "Ana")
        for _ in range(2):
            assert park.submit(path, do="found", arm=arm, key="k").status_code == 303
        assert sum(event.kind == "reported" for event in park.log.store.read(park.id)) == 1
        seen = park.told(number, "Ana").event
        answer = park.submit(path, do="not found", arm=arm, key="k", seen=seen)
        assert answer.status_code == 303  # with other fields it is another request
        assert park.told(number, "Ana").counts == (0, 1)

    def test_a_link_of_one_agent_shows_and_takes_only_its_visits(self, park):
        number = park.planned()
        _, token = issue_link(park.log, park.id, ME, role="reporter", name="A", agent="Ana")
        with Visitor(park.app, token) as ana:
            page = ana.get(f"/campaigns/{park.id}/report").text
            assert page.count("data-queue=") == 1
            assert "Ben" not in page
            path, arm = park.visit(number, "Ben")
            answer = ana.submit(f"/campaigns/{park.id}{path}", do="found", arm=arm)
            assert answer.status_code == 403
            path, arm = park.visit(number, "Ana")
            assert ana.submit(f"/campaigns/{park.id}{path}", do="found", arm=arm).status_code == 303
        assert park.told(number, "Ben") is None
        assert park.told(number, "Ana").counts == (1, 1)

    def test_one_in_two_arms_has_two_visits_each_with_its_own_history(self, park):
        number = park.planned()
        park.submit(f"/rounds/{number}/override", agent="agent-1", arm=["arm-1", "arm-2"])
        path = f"/rounds/{number}/outcomes/agent-1"
        for arm, do in (("arm-1", "found"), ("arm-2", "not found")):
            assert park.submit(path, do=do, arm=arm).status_code == 303
        seen = park.state.round(number).told[0, 0].event
        park.submit(path, do="not done", arm="arm-1", seen=seen)
        cards = park.get("/report").text.split("<article")
        first, second = (next(c for c in cards if f'id="visit-{number}-agent-1-{a}"' in c) for a in ("arm-1", "arm-2"))  # fmt: skip
        assert re.findall(r"owner: ([^<]*)<", first) == ["1 of 1", "corrected to not done"]
        assert "corrected" not in second

    def test_all_visits_of_a_round_can_be_corrected(self, park):
        first = park.planned()
        report_outcomes(park.log, park.id, ME, first, {"Ana": 1, "Ben": 0, "Chi": (3, 12)})
        for _ in range(5):
            number = park.planned()
            report_outcomes(park.log, park.id, ME, number, {"Ana": 1, "Ben": 0, "Chi": (3, 12)})
        assert f'id="visit-{first}-agent-1' not in park.get("/report").text
        page = park.get(f"/report?round={first}").text
        assert page.count(f'id="visit-{first}-') == 3
        path, arm = park.visit(first, "Ana")
        seen = park.told(first, "Ana").event
        answer = park.submit(path, do="not found", arm=arm, seen=seen, only=first)
        assert answer.headers["location"].endswith(f"/report?round={first}")
        assert park.told(first, "Ana").counts == (0, 1)

    def test_no_more_is_read_than_the_visits_shown_need(self, tmp_path):
        log = Repository(Watched(tmp_path / "season.db"))
        campaign = service.create(log, ME, **NORTH).state.campaign
        for number in range(1, 31):
            service.plan_round(log, campaign, ME)
            report_outcomes(log, campaign, ME, number, {"Ana": 1, "Ben": 0, "Chi": (3, 12)})
        correct_outcomes(log, campaign, ME, 2, {"Ana": 0}, None)
        with Visitor(create_app(log, hash_of_token(OWNER)), OWNER) as visitor:
            log.store.counted = 0
            first = visitor.get(f"/campaigns/{campaign}/report?round=1").text
            assert 0 < log.store.counted < 10
            second = visitor.get(f"/campaigns/{campaign}/report?round=2").text
        assert "corrected to 0 of 1" in second
        assert "corrected" not in Page(first).text
        log.store.close()

    def test_the_same_form_after_it_was_taken_back_is_not_called_saved(self, park):
        number = park.planned()
        path, arm = park.visit(number, "Ana")
        park.submit(path, do="found", arm=arm, key="k")
        park.submit(path, do="withdraw", arm=arm, seen=park.told(number, "Ana").event)
        answer = park.submit(path, do="found", arm=arm, key="k")
        assert answer.status_code == 412
        assert "taken back since" in answer.text
        assert park.told(number, "Ana") is None

    def test_of_very_many_that_wait_the_oldest_are_first_and_the_others_at_hand(
        self, park, monkeypatch
    ):
        first, second = park.planned(), park.planned()
        monkeypatch.setattr(report, "REPORT_MAX_WAITING_VISITS", 4)
        page = park.get("/report").text
        order = re.findall(r'<article class="card visit" id="visit-(\d+)-', page)
        assert order == [str(first)] * 3 + [str(second)]
        assert "2 more visits are not reported: of round 2." in text_of(park.get("/report"))
        assert 'id="of-round" name="round"' in page
        page = park.get(f"/report?round={second}").text
        assert page.count('<article class="card visit" id="visit-2-') == 3
        assert "not reported: of" not in page

    def test_a_refused_report_is_shown_while_others_may_write(self, park, monkeypatch):
        drawn, taken = report.render_page, []

        def draw(*given, **data):
            taken.append(park.app.state.places.writing.full)
            return drawn(*given, **data)

        monkeypatch.setattr(report, "render_page", draw)
        path, arm = park.visit(park.planned(), "Ana")
        assert park.submit(path, do="count", arm=arm).status_code == 422
        assert taken == [False]

    def test_nothing_to_report_says_what_comes_next(self, park):
        assert "No round is planned yet" in park.get("/report").text
        number = park.planned()
        for name in ("Ana", "Ben", "Chi"):
            path, arm = park.visit(number, name)
            park.submit(path, do="not done", arm=arm)
        assert "Nothing to report." in text_of(park.get("/report"))


class TestKnown:
    """What is known, in a chart and in words."""

    def test_the_caption_says_for_which_rounds_intervals_hold(self, park):
        report_outcomes(park.log, park.id, ME, park.planned(), {"Ana": 1})
        assert "certainly between, in all rounds at once with 95 %" in text_of(park.get())
        service.set_policy(park.log, park.id, ME, policy="posterior-sorted-window", memory=50)
        page = text_of(park.get())
        assert "in all rounds at once" not in page
        assert "for this round, not for all at once, as posterior-sorted-window forgets" in page

    def test_the_numbers_of_the_chart_are_those_of_the_answers(self, park):
        from heterobandits.campaigns.analysis.answers import answers
        from heterobandits.campaigns.analysis.estimates import estimates
        from heterobandits.campaigns.analysis.probabilities import probable

        number = park.planned()
        report_outcomes(park.log, park.id, ME, number, {"Ana": 1, "Ben": 0, "Chi": (3, 12)})
        page = park.get().text
        scale = float(re.search(r"Scale from 0 to ([\d.]+) %", page)[1]) / 100.0
        for one in estimates(park.state):
            at = [f"{100 * min(x / scale, 1.0):.1f}%" for x in (one.low, one.high, one.estimate)]
            places = (f'x1="{at[0]}"', f'x2="{at[1]}"', f'cx="{at[2]}"')
            line = next(part for part in page.split("<tr") if f'<th scope="row">{one.name}' in part)
            assert all(place in line for place in places)
            assert f"{one.successes} of {one.pulls}" in line
        assert probable(park.state).sentences
        for sentence in (*probable(park.state).sentences, *answers(park.state).sentences):
            assert sentence in text_of(park.get())
        assert probable(park.state).sentences[0] in text_of(park.get("/wall"))

    def test_many_arms_come_in_pages(self, park):
        arms = [f"area {i}" for i in range(1, 131)]
        made = service.create(park.log, ME, **UNKNOWN | {"arms": arms}).state
        service.plan_round(park.log, made.campaign, ME)
        report_outcomes(park.log, made.campaign, ME, 1, {"Ana": 1})
        seen = []
        for start in ("", "?from=51", "?from=101"):
            page = Page(park.visitor.get(f"/campaigns/{made.campaign}{start}").text)
            seen.append([one.get_text().split(" never")[0].split(" hardly")[0] for one in page.all(".forest tbody th")])  # fmt: skip
        assert [len(part) for part in seen] == [50, 50, 30]
        assert sorted(name for part in seen for name in part) == sorted(arms)

    def test_before_the_first_outcome_it_says_what_to_do(self, park):
        page = park.get().text
        assert "Plan round 1" in page
        assert "<table" not in page

    def test_how_it_stands_by_hand(self, park):
        """Of one agent with s = 1/2 on two arms whose means are all as likely, after one find on the first."""
        arms = [{"name": name, "prior": [1, 1]} for name in "xy"]
        made = NORTH | {"agents": [{"name": "A", "sensitivity": 0.5}], "arms": arms}
        state = service.create(park.log, ME, **made).state
        state = service.plan_round(park.log, state.campaign, ME).state
        state = report_outcomes(park.log, state.campaign, ME, 1, {"A": 1}).state
        found = summarize_season(state)
        assert (found.visits, found.tests, found.found, found.true) == (1, 1, 1, None)
        # The mean v of the visited arm has density 2v, that of the other, w, density 1. In turn the test would have found
        # (v + w) / 4 on the average, which has the mean (2/3 + 1/2) / 4 and a standard deviation of 0.093: five standard errors of
        # 4,000 draws are 0.0074.
        assert found.in_turn.expected == pytest.approx((2 / 3 + 1 / 2) / 4, abs=0.0074)
        # and so one test finds something with a chance between 1/10 and 9/10
        assert (found.in_turn.low, found.in_turn.high) == (0, 1)
        arm = service.preview(state).plan.assignment[0]
        mean = 2 / 3 if arm == state.rounds[0].assignment[0] else 1 / 2
        assert found.next_round == pytest.approx(0.5 * mean, abs=1e-5)

    def test_what_goes_by_an_arm_that_has_changed_as_if_it_had_not_says_so(self, park):
        """45 finds of 50 for four rounds, then 2: the price of the arm and what is expected go by all eight."""
        made = NORTH | {
            "agents": [{"name": "A", "sensitivity": 1.0, "tests": 50}],
            "arms": ["x", "y"],
        }
        state = service.create(park.log, ME, **made).state
        said = "x has changed: here, as in plans, what was seen of it before and since counts as of one mean."
        pages = [
            f"/campaigns/{state.campaign}{part}" for part in ("", "/wall", "/plan?closed=arm-1")
        ]
        for n in range(1, 9):
            service.plan_round(park.log, state.campaign, ME, closed=["y"])
            told = {"A": (45 if n <= 4 else 2, 50)}
            report_outcomes(park.log, state.campaign, ME, n, told)
            if n in (4, 8):
                for page in pages:
                    assert (said in text_of(park.visitor.get(page))) == (n == 8)

    def test_an_arm_that_is_retired_counts_in_what_was(self, park):
        number = park.planned()
        state = report_outcomes(park.log, park.id, ME, number, {"Ana": 1, "Ben": 0}).state
        before = summarize_season(state)
        state = service.retire(park.log, park.id, ME, "arm", "arm-1").state
        assert summarize_season(state).in_turn == before.in_turn

    def test_certain_ranks_have_a_column_as_soon_as_one_is_known(self, park):
        assert park.planned(kind="forced", agent="agent-3", arm="arm-1") == 1
        report_outcomes(park.log, park.id, ME, 1, {"Chi": (0, 12)})
        assert "Certain rank" not in park.get().text  # each is 1 to 4
        for number in range(2, 8):
            service.plan_round(park.log, park.id, ME, forced=[("Chi", f"arm-{1 + number % 2}")])
            told = {"Chi": (100 * (number % 2), 100)}
            report_outcomes(park.log, park.id, ME, number, told)
        service.retire(park.log, park.id, ME, "arm", "arm-4")
        page = park.get().text
        assert "Certain rank" in page
        assert "also those that are retired" in page

    def test_arms_that_nobody_visited_are_marked_and_come_last(self, park):
        number = park.planned(closed="arm-2")
        report_outcomes(park.log, park.id, ME, number, {"Ana": 0, "Ben": 0, "Chi": (0, 12)})
        names = re.findall(r'<th scope="row">(\w+)', park.get().text)[:4]
        assert names[-1] == "hill"  # though it is better than the others by what is known
        page = text_of(park.get())
        assert page.count("never visited") == 1
        assert page.count("hardly visited") == 3
        service.revise_arm(park.log, park.id, ME, "hill", "60 % to 90 %")
        assert re.findall(r'<th scope="row">(\w+)', park.get().text)[0] == "hill"

    def test_of_arms_that_are_all_alike_none_is_called_the_best(self, park):
        arms = [{"name": name, "prior": [1, 3]} for name in ("river", "hill", "gate", "lake")]
        state = service.create(park.log, ME, **NORTH | {"arms": arms}).state
        page = f"/campaigns/{state.campaign}"
        assert "Most likely best" not in park.visitor.get(page).text
        service.revise_arm(park.log, state.campaign, ME, "gate", [3, 1])
        assert "Most likely best: gate (" in text_of(park.visitor.get(page))

    def test_false_alarms_are_not_called_finds(self, park):
        """Where each mean is 0 all that is positive is a false alarm; where agents give none all of it is found."""
        assert "positive" not in text_of(park.get()).lower()
        agents = [{"name": "A", "sensitivity": 0.9, "false_positive_rate": 0.1, "tests": 100}]
        arms = [{"name": name, "prior": [1, 1e6]} for name in "xy"]
        state = service.create(park.log, ME, **NORTH | {"agents": agents, "arms": arms}).state
        service.plan_round(park.log, state.campaign, ME)
        state = report_outcomes(park.log, state.campaign, ME, 1, {"A": (10, 100)}).state
        assert summarize_season(state).true < 0.01
        page = text_of(park.visitor.get(f"/campaigns/{state.campaign}"))
        assert "10 positive so far in 100 tests, about 0.0 of them true" in page
        assert "true ones expected of the next round" in page

    def test_of_a_season_that_is_over_and_before_anything_is_known_nothing_is_expected(self, park):
        state = service.create(park.log, ME, **UNKNOWN | {"season": 1}).state
        found = summarize_season(state)
        assert (found.in_turn, found.next_round) == (None, None)
        page = f"/campaigns/{state.campaign}"
        assert "so nothing can be forecast" in park.visitor.get(page).text
        service.plan_round(park.log, state.campaign, ME)
        state = report_outcomes(park.log, state.campaign, ME, 1, {"Ana": 1}).state
        found = summarize_season(state)
        assert (found.found, found.next_round, found.warnings) == (1, None, [])
        assert "of the next round" not in park.visitor.get(page).text

    def test_the_wall_of_a_viewer_changes_nothing(self, park):
        park.planned()
        _, token = issue_link(park.log, park.id, ME, role="viewer", name="the wall")
        before = park.state.number
        with Visitor(park.app, token) as viewer:
            page = viewer.get(f"/campaigns/{park.id}/wall").text
            assert "data-refresh" in page
            assert "<form" not in page
            known = viewer.get(f"/campaigns/{park.id}").text
            assert "/plan" not in known
            assert "/report" not in known
        assert park.state.number == before


@pytest.mark.slow
def test_two_hundred_agents_and_three_hundred_arms_take_less_than_a_second(park):
    """Each page on one core, after a round of them was reported: the plan took five times as long, as it explained everybody."""
    agents = [{"name": f"Ranger {i}", "sensitivity": 0.4 + i / 500} for i in range(200)]
    arms = [f"area {i}" for i in range(300)]
    state = service.create(park.log, ME, name="large", agents=agents, arms=arms, season=30).state
    for number in (1, 2):
        sent = service.plan_round(park.log, state.campaign, ME).state.rounds[-1].sent
        found = {f"agent-{agent + 1}": arm % 3 == 0 for agent, arm in sent}
        report_outcomes(
            park.log, state.campaign, ME, number, {key: int(one) for key, one in found.items()}
        )
        for part in ("/plan?absent=agent-1&closed=arm-2", "", "/wall", "/team"):
            begin = time.process_time()
            answer = park.visitor.get(f"/campaigns/{state.campaign}{part}")
            seconds = time.process_time() - begin
            assert answer.status_code == 200
            assert len(answer.content) < 150_000
            assert number == 1 or seconds < 1.0, (part, seconds)  # the first loads kernels


class TestDemo:
    """The made-up half season."""

    def test_it_is_a_whole_log_with_all_that_happens_in_a_season(self, tmp_path):
        _, log = app_on(tmp_path / "x.db")
        campaign = create_demo(log)
        events = log.store.read(campaign)
        state = replay_events(events)  # every plan made again
        assert len(state.rounds) == DEMO_FINISHED_ROUNDS
        assert state.season == DEMO_SEASON_ROUNDS
        assert state.waiting == {DEMO_FINISHED_ROUNDS}
        assert len(DEMO_MEANS) == len(state.arms)
        kinds = {event.kind for event in events}
        assert {"created", "round planned", "reported", "corrected", "note"} <= kinds
        assert any(one.given.absent for one in state.rounds)
        assert any(told.counts is None for one in state.rounds for told in one.told.values())
        assert state.changed <= datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.999999Z")

    def test_it_is_the_same_every_time_but_for_the_days(self):
        end = datetime(2026, 6, 1, 12, tzinfo=UTC)
        one, other = (demo_events("0" * 12, end) for _ in range(2))
        assert [event.hash for event in one] == [event.hash for event in other]
