"""Pages of a season that forgives: rounds that are cancelled, what is undone, what is asked twice, what is put away."""

import re

import pytest

from heterobandits.campaigns import reversal, service
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author
from markup import Page
from serving import NORTH, OWNER, Visitor, app_on

pytestmark = pytest.mark.smoke

ME = Author("Vera")


class Season:
    """A campaign, its links by role, and browsers that hold them."""

    def __init__(self, folder, **changes):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.id = service.create(self.log, ME, **NORTH | changes).state.campaign
        self.browsers = []

    @property
    def state(self):
        return self.log.state(self.id)

    def browser(self, role="planner", name="Zoë", agent=None):
        """A browser of somebody with a new link of this role; the server's owner's without a role."""
        token = OWNER
        if role is not None:
            where = (self.log, self.id, ME)
            _, token = issue_link(*where, role=role, name=name, agent=agent)
        self.browsers.append(Visitor(self.app, token).__enter__())
        return Browser(self, self.browsers[-1])

    def kinds(self, count):
        return [event.kind for event in self.log.store.read(self.id)[-count:]]


class Browser:
    """A browser of somebody."""

    def __init__(self, season, visitor):
        self.season, self.visitor = season, visitor

    def page(self, part=""):
        answer = self.visitor.get(f"/campaigns/{self.season.id}{part}")
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    def submit(self, part, **fields):
        return self.visitor.submit(f"/campaigns/{self.season.id}{part}", **fields)

    def plan_form(self):
        """The fields of the form of the plan as the page has them, and the button that records."""
        page = self.page("/plan")
        fields = {one["name"]: one["value"] for one in page.all("#live input[type=hidden]")}
        (button,) = page.all("#live button[formmethod=post]")
        if "name" in button.attrs:
            fields[button["name"]] = button["value"]
        return fields

    def undo_form(self, part=""):
        """The fields of the bar that offers to undo, and what it says; nothing if it is not there."""
        bars = self.page(part).all("form.undo")
        if not bars:
            return None
        (bar,) = bars
        fields = {one["name"]: one["value"] for one in bar.select("input")}
        return bar.select_one("span").get_text(), fields


@pytest.fixture
def season(tmp_path):
    made = Season(tmp_path)
    yield made
    for browser in made.browsers:
        browser.__exit__()


class TestCancel:
    """A round that was recorded by mistake."""

    def test_the_sheet_leads_to_a_question_and_that_to_no_round(self, season):
        zoe = season.browser()
        service.plan_round(season.log, season.id, ME)
        assert f"/campaigns/{season.id}/rounds/1/cancel" in zoe.page("/rounds/1").references
        page = zoe.page("/rounds/1/cancel")
        assert (
            "The next round that you plan is round 1 again, and the season is as long" in page.text
        )
        (field,) = page.all("input[name=planned]")
        before = season.state.number
        zoe.page("/rounds/1/cancel")
        assert season.state.number == before  # who looks changes nothing
        answer = zoe.submit("/rounds/1/cancel", planned=field["value"])
        assert answer.headers["location"] == f"/campaigns/{season.id}/rounds"
        assert len(season.state.rounds) == 0
        assert zoe.visitor.get(f"/campaigns/{season.id}/rounds/1").status_code == 404
        assert season.kinds(1) == ["round cancelled"]

    def test_pressed_twice_it_cancels_no_other_round(self, season):
        zoe = season.browser()
        service.plan_round(season.log, season.id, ME)
        planned = zoe.page("/rounds/1/cancel").all("input[name=planned]")[0]["value"]
        zoe.submit("/rounds/1/cancel", planned=planned, key="a")
        assert zoe.submit("/rounds/1/cancel", planned=planned, key="b").status_code == 303
        service.plan_round(season.log, season.id, ME)
        answer = zoe.submit("/rounds/1/cancel", planned=planned, key="c")
        assert answer.status_code == 422
        assert "planned anew since you looked" in answer.text
        assert len(season.state.rounds) == 1

    def test_of_a_round_with_an_outcome_it_says_why_not(self, season):
        zoe = season.browser()
        service.plan_round(season.log, season.id, ME)
        report_outcomes(season.log, season.id, ME, 1, {"Ana": 1})
        assert "/rounds/1/cancel" not in str(zoe.page("/rounds/1").references)
        page = zoe.page("/rounds/1/cancel")
        assert "Round 1 cannot be cancelled" in page.text
        assert "is reported already" in page.text
        assert not page.all("main form")
        assert zoe.submit("/rounds/1/cancel").status_code == 422
        assert len(season.state.rounds) == 1

    def test_a_viewer_is_not_offered_it(self, season):
        viewer = season.browser("viewer", "the wall")
        service.plan_round(season.log, season.id, ME)
        assert "cancel" not in viewer.page("/rounds/1").source


class TestTwice:
    """A form of the plan that is sent again, or late."""

    def test_another_tab_is_told_who_was_faster(self, season):
        zoe, ben = season.browser(), season.browser(name="Benoît")
        late = zoe.plan_form()
        ben.submit("/plan", **ben.plan_form())
        answer = zoe.submit("/plan", **late)
        page = Page(answer.text)
        assert answer.status_code == 412
        assert "Nothing was recorded" in page.text
        assert "Round 1 was recorded just now by Benoît." in page.text
        assert "Plan round 2" not in page.text
        assert not page.all("main button")  # the next one is not a press away
        links = {a.get_text(): a["href"] for a in page.all("main a")}
        assert links == {
            "Open round 1": f"/campaigns/{season.id}/rounds/1",
            "Look at round 2": f"/campaigns/{season.id}/plan",
        }
        assert len(season.state.rounds) == 1

    def test_outcomes_that_came_are_counted(self, season):
        zoe = season.browser()
        service.plan_round(season.log, season.id, ME)
        late = zoe.plan_form()
        report_outcomes(season.log, season.id, ME, 1, {"Ana": 1, "Ben": 0})
        service.add_note(season.log, season.id, ME, "rain")
        page = Page(zoe.submit("/plan", **late).text)
        assert "2 outcomes were reported since you looked." in page.text
        assert "Something else was changed since you looked." in page.text

    def test_back_and_once_more_records_nothing(self, season):
        zoe = season.browser()
        fields = zoe.plan_form()
        assert zoe.submit("/plan", **fields).status_code == 303
        page = Page(zoe.submit("/plan", **fields).text)
        assert "Round 1 is recorded already" in page.text
        assert f"/campaigns/{season.id}/rounds/1" in page.references
        service.cancel_round(season.log, season.id, ME, 1)
        page = Page(zoe.submit("/plan", **fields).text)
        assert "Round 1 was recorded, and cancelled since" in page.text
        assert len(season.state.rounds) == 0

    def test_other_ticks_after_back_are_no_plan_of_the_next_round(self, season):
        zoe = season.browser()
        fields = zoe.plan_form()
        zoe.submit("/plan", **fields)
        answer = zoe.submit("/plan", **fields, absent="agent-1")
        assert answer.status_code == 412
        assert "Round 1 was recorded just now by Zoë." in Page(answer.text).text
        assert len(season.state.rounds) == 1

    def test_while_nothing_is_known_of_the_last_round_it_takes_two_presses(self, season):
        zoe = season.browser()
        zoe.submit("/plan", **zoe.plan_form())
        page = zoe.page("/plan")
        assert "There is no outcome of round 1 yet." in page.text
        fields = zoe.plan_form()
        assert "anyway" not in fields
        answer = zoe.submit("/plan", **fields)
        assert answer.status_code == 422
        assert len(season.state.rounds) == 1
        again = Page(answer.text)
        (button,) = again.all("#live button[formmethod=post]")
        assert button.get_text() == "Yes, record round 2 as well"
        fields = {one["name"]: one["value"] for one in again.all("#live input[type=hidden]")}
        assert zoe.submit("/plan", **fields, **{button["name"]: button["value"]}).status_code == 303
        assert len(season.state.rounds) == 2

    def test_with_one_outcome_it_takes_one(self, season):
        zoe = season.browser()
        zoe.submit("/plan", **zoe.plan_form())
        report_outcomes(season.log, season.id, ME, 1, {"Ana": "not done"})
        assert "There is no outcome" not in zoe.page("/plan").text
        assert zoe.submit("/plan", **zoe.plan_form()).status_code == 303

    def test_after_the_last_round_the_season_is_over(self, season):
        zoe = season.browser()
        service.set_season(season.log, season.id, ME, 1)
        service.plan_round(season.log, season.id, ME)
        page = zoe.page("/plan")
        assert [one.get_text() for one in page.all("h1")] == ["The season is over"]
        assert "All 1 rounds of the season are planned." in page.text
        assert not page.all("main form")


class TestUndo:
    """The bar that offers to take back what was done last."""

    def test_it_is_there_until_something_else_happens(self, season):
        zoe = season.browser()
        zoe.submit("/plan", **zoe.plan_form())
        text, fields = zoe.undo_form("/rounds/1")
        assert text == "Round 1 was recorded."
        assert season.browser(name="Benoît").undo_form() is None  # who has a new link
        assert zoe.undo_form() is None  # which is something else
        answer = zoe.submit("/undo", **fields)
        assert answer.status_code == 412
        assert "Something else has happened since." in answer.text
        assert len(season.state.rounds) == 1

    def test_pressed_it_is_undone_and_pressed_twice_once(self, season):
        zoe = season.browser()
        service.plan_round(season.log, season.id, ME)
        zoe.submit("/plan", **zoe.plan_form() | {"anyway": "1"})
        _, fields = zoe.undo_form("/rounds/2")
        for _ in range(2):
            answer = zoe.submit("/undo", **fields)
            assert answer.headers["location"] == f"/campaigns/{season.id}/rounds"
        assert len(season.state.rounds) == 1
        assert zoe.undo_form() is None

    def test_it_is_gone_after_a_while_and_refused(self, season, monkeypatch):
        zoe = season.browser()
        zoe.submit("/plan", **zoe.plan_form())
        _, fields = zoe.undo_form()
        monkeypatch.setattr(reversal, "UNDO_MAX_S", 0.0)
        assert zoe.undo_form() is None
        answer = zoe.submit("/undo", **fields)
        assert answer.status_code == 422
        assert "cannot be undone any more" in answer.text

    def test_nobody_else_sees_it_and_no_reporter(self, season):
        zoe, ana = season.browser(), season.browser("reporter", "Ana", "Ana")
        owner = season.browser(None)
        zoe.submit("/plan", **zoe.plan_form())
        assert owner.undo_form() is None
        (arm,) = season.state.round(1).arms_of(0)
        ana.submit("/rounds/1/outcomes/agent-1", do="found", arm=f"arm-{arm + 1}")
        assert ana.undo_form("/report") is None
        assert ana.submit("/undo", event=season.state.number).status_code == 403

    @pytest.mark.parametrize(
        ("do", "said"),
        [
            (("/rounds/1/close", {}), "Round 1 was closed."),
            (("/rounds/1/override", {"agent": "agent-1", "arm": "-"}), "Where Ana went in round 1 was recorded."),
            (("/rounds/1/outcomes/agent-1", {"do": "found"}), "An outcome was reported in round 1."),
            (("/agents/agent-1", {"do": "rename", "name": "Anna"}), "Anna has a new name."),
            (("/agents/agent-2", {"do": "retire"}), "Ben was retired."),
            (("/arms/arm-4", {"do": "retire"}), "lake was retired."),
            (("/forgotten/arm-1", {"do": "forget"}), "river was forgotten."),
            (("/arms/arm-4", {"do": "believe", "prior": ""}), "What is known of lake beforehand was changed."),
            (("/settings", {"do": "name", "name": "South"}), "South has a new name."),
            (("/settings", {"do": "season", "season": "12"}), "The season was changed."),
            (("/settings", {"do": "prior", "prior": "stated"}), "What plans go by was changed."),
            (("/settings", {"do": "policy", "policy": "thompson"}), "The policy was changed."),
            (("/settings", {"do": "archive"}), "The campaign was archived."),
        ],
    )  # fmt: skip
    def test_it_says_what_was_done(self, season, do, said):
        owner = season.browser(None)
        service.plan_round(season.log, season.id, ME)
        (arm,) = season.state.round(1).arms_of(0)
        part, fields = do
        more = {"arm": f"arm-{arm + 1}"} if "outcomes" in part else {}
        assert owner.submit(part, **fields, **more).status_code == 303
        text, fields = owner.undo_form("/history")
        assert text == said
        answer = owner.submit("/undo", **fields)
        assert answer.headers["location"] == f"/campaigns/{season.id}/history"
        assert season.kinds(1)[0] in (reversal.INVERSE_BY_KIND.keys() | reversal.LASTING_KINDS)

    @pytest.mark.parametrize(
        "to",
        ["https://evil.example/", "//evil.example", "/campaigns/0123456789ab/plan", "/new", ""],
    )
    def test_it_leads_nowhere_else(self, season, to):
        zoe = season.browser()
        zoe.submit("/plan", **zoe.plan_form())
        _, fields = zoe.undo_form()
        answer = zoe.submit("/undo", **fields | {"to": to})
        assert answer.headers["location"] == f"/campaigns/{season.id}"

    def test_the_wall_has_none(self, season):
        zoe = season.browser()
        zoe.submit("/plan", **zoe.plan_form())
        assert zoe.undo_form("/wall") is None


class TestLeave:
    """Who signs out is asked, and told what it means."""

    def test_it_asks_and_then_forgets(self, season):
        zoe = season.browser()
        assert "You are Zoë" in zoe.page().text
        assert "/leave" in zoe.page().references
        page = Page(zoe.visitor.get("/leave").text)
        assert "Sign out in this browser?" in page.text
        assert "owner of this server" not in page.text
        assert zoe.page()  # nothing has happened yet
        answer = zoe.visitor.submit("/leave")
        assert answer.status_code == 303
        assert "clear-site-data" not in answer.headers  # what waits there to be sent stays
        assert zoe.visitor.get(f"/campaigns/{season.id}").status_code == 401

    def test_the_owner_of_the_server_is_told_how_to_come_back(self, season):
        owner = season.browser(None)
        assert "You are the owner of this server" in owner.page().text
        assert "heterobandits serve --new-owner-link" in owner.visitor.get("/leave").text

    def test_it_is_not_offered_to_reporters_who_can_open_it_all_the_same(self, season):
        ana = season.browser("reporter", "Ana", "Ana")
        page = ana.page("/report")
        assert "You are Ana" in page.text
        assert "/leave" not in page.references
        assert "Sign out in this browser?" in ana.visitor.get("/leave").text

    def test_who_holds_nothing_is_not_asked(self, season):
        with Visitor(season.app) as nobody:
            assert nobody.get("/leave").headers["location"] == "/"


class TestArchive:
    """A campaign that is put away."""

    def test_it_is_in_a_list_of_its_own_and_marked(self, season):
        owner = season.browser(None)
        south = service.create(season.log, ME, **NORTH | {"name": "South"}).state.campaign
        assert owner.submit("/settings", do="archive").status_code == 303
        page = Page(owner.visitor.get("/").text)
        (listed,) = page.all("main > .card tbody")
        (away,) = page.all("main > details")
        assert [a["href"] for a in listed.select("a")] == [f"/campaigns/{south}"]
        assert [a["href"] for a in away.select("a")] == [f"/campaigns/{season.id}"]
        assert "Archived: 1 campaign" in away.get_text()
        assert "This campaign is archived" in owner.page().text
        assert "Nothing is planned while the campaign is archived." in owner.page("/plan").text
        answer = owner.submit("/plan", seen=season.state.hash)
        assert (answer.status_code, len(season.state.rounds)) == (422, 0)
        assert owner.submit("/settings", do="archive").status_code == 422
        assert owner.submit("/settings", do="unarchive").status_code == 303
        assert "This campaign is archived" not in owner.page().text

    def test_late_reports_are_taken(self, season):
        ana = season.browser("reporter", "Ana", "Ana")
        service.plan_round(season.log, season.id, ME)
        service.archive(season.log, season.id, ME)
        (arm,) = season.state.round(1).arms_of(0)
        where = "/rounds/1/outcomes/agent-1"
        assert ana.submit(where, do="found", arm=f"arm-{arm + 1}").status_code == 303

    def test_a_planner_cannot(self, season):
        assert season.browser().submit("/settings", do="archive").status_code == 403


class TestRetired:
    """Who leaves the team may hold links."""

    def test_the_links_are_revoked_in_one_press_and_one_write(self, season):
        owner = season.browser(None)
        two = [season.browser("reporter", "Ben", "Ben") for _ in range(2)]
        season.browser("reporter", "Ana", "Ana")
        answer = owner.submit("/agents/agent-2", do="retire")
        assert answer.headers["location"].endswith("/team?agent=agent-2")
        page = owner.page("/team?agent=agent-2")
        assert "Ben leaves the team" in page.text
        assert "Revoke the 2 links of Ben too?" in page.text
        before = season.state.number
        assert owner.submit("/agents/agent-2", do="revoke").status_code == 303
        assert season.kinds(2) == ["link revoked"] * 2
        assert season.state.number == before + 2
        for ben in two:
            assert ben.visitor.get(f"/campaigns/{season.id}/report").status_code == 401
        assert "leaves the team" not in owner.page("/team?agent=agent-2").text
        assert [link.revoked for link in season.state.links.values()] == [True, True, False]

    def test_who_holds_none_is_not_asked_about_them(self, season):
        owner = season.browser(None)
        answer = owner.submit("/agents/agent-2", do="retire")
        assert answer.headers["location"].endswith("/team#agent-2")


class TestElsewhere:
    """The form for who went elsewhere than planned."""

    def test_nothing_is_chosen_beforehand(self, season):
        zoe = season.browser()
        service.plan_round(season.log, season.id, ME)
        (field,) = zoe.page("/rounds/1").all("select#arm")
        assert field.select_one("option").get_text() == "choose"
        assert "required" in field.attrs
        answer = zoe.submit("/rounds/1/override", agent="agent-1", arm="")
        assert answer.status_code == 422
        assert "Choose where they went" in answer.text
        answer = zoe.submit("/rounds/1/override", agent="agent-1", arm=["-", "arm-1"])
        assert "it cannot be both" in answer.text
        assert not season.state.round(1).moved

    def test_it_says_who_is_there_before_and_after(self, season):
        zoe = season.browser()
        service.plan_round(season.log, season.id, ME, forced=[("Ben", "hill")])
        options = [one.get_text() for one in zoe.page("/rounds/1").all("select#arm option")]
        assert "hill (Ben is there)" in options
        zoe.submit("/rounds/1/override", agent="agent-1", arm="arm-2")
        page = zoe.page("/rounds/1")
        rows = {row["id"]: row.get_text(" ") for row in page.all("tbody tr")}
        assert "Ben is there too." in rows["agent-1"]
        assert "Ana is there too." in rows["agent-2"]

    def test_two_who_have_to_go_to_one_arm_are_named(self, season):
        zoe = season.browser()
        pairs = {"kind": ["forced"] * 2, "agent": ["agent-1", "agent-2"], "arm": ["arm-2"] * 2}
        answer = zoe.submit("/plan", seen=season.state.hash, **pairs)
        said = Page(answer.text).text
        assert "Ana has to go to hill, but an arm takes one agent: Ana and Ben are too many" in said
        assert not re.search(r"\('", said)
