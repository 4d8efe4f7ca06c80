"""The page of the team, its settings and links, and cards with QR codes."""

import asyncio
import re
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import numpy as np
import pytest
import zxingcpp

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link, revoke_link
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.state import LINK_ROLES
from heterobandits.campaigns.storage.link_keys import LINK_KEY_VARIABLE
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web.link_uses import LinkUseNotes
from heterobandits.web.pages import links as module
from heterobandits.web.pages.qr import is_unreachable_base, render_qr
from heterobandits.web.pages.team import ROLES_IN_WORDS
from markup import Page, words_of
from serving import NORTH, OWNER, Asker, Visitor, app_on, calling, somebody, until

VERA = Author("Vera")
ORIGIN = {"Origin": "http://127.0.0.1", "Content-Type": "application/x-www-form-urlencoded"}
TOKEN = re.compile(r"hb_[0-9a-f]{12}_[0-9a-f]{12}_[\w-]{43}")
ADDRESS = re.compile(r"http://127\.0\.0\.1/enter/" + TOKEN.pattern)


class Site:
    """The pages of one campaign, in a browser that holds a link."""

    def __init__(self, path, **given):
        self.app, self.log = app_on(path)
        self.id = service.create(self.log, VERA, **(NORTH | given)).state.campaign
        self.home = f"/campaigns/{self.id}"
        self.ask = Asker(self.app, None)
        self.ask.cookies.set("hb_owner", OWNER)
        self.keys = 0

    @property
    def state(self):
        return self.log.state(self.id)

    def get(self, part="/team", status=200):
        answer = self.ask.get(self.home + part)
        assert answer.status_code == status, answer.text
        return Page(answer.text)

    def post(self, part, key=None, **fields):
        """The answer to a form; with a key of its own unless one is given."""
        self.keys += 1
        body = urlencode({"key": key or f"key{self.keys}", **fields}, doseq=True)
        return self.ask.post(self.home + part, content=body, headers=ORIGIN)

    def done(self, part, **fields):
        """What a form did, seen on the page it leads to."""
        answer = self.post(part, **fields)
        assert answer.status_code == 303, answer.text
        return Page(self.ask.get(answer.headers["location"]).text)

    def refused(self, part, **fields):
        """The form again, after nothing was changed."""
        before = self.state.number
        answer = self.post(part, **fields)
        assert answer.status_code == 422, answer.text
        assert self.state.number == before
        seen = Page(answer.text)
        assert seen.all("div[role=alert]")
        return seen

    def shown(self, part, **fields):
        """A page that answers a form at once."""
        answer = self.post(part, **fields)
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return Page(answer.text)


@pytest.fixture
def make(tmp_path):
    """Makes a campaign with its pages, and closes it in the end."""
    with ExitStack() as end:

        def made(**given):
            site = Site(tmp_path / "x.db", **given)
            end.callback(site.ask.close)
            return site

        yield made


@pytest.fixture
def site(make):
    return make()


def raster(svg, size=4):
    """An SVG of horizontal strokes on white, drawn: only the commands M, m, h, v and z are understood."""
    parts = re.fullmatch(
        r'<svg viewBox="0 0 (\d+) \1"><path fill="#fff" d="M0 0h\1v\1h-\1z"/>'
        r'<path stroke="#000" d="([Mmh\d. -]+)"/></svg>',
        svg,
    )
    width = int(parts[1])
    picture = np.full((width, width), 255, np.uint8)
    x = y = 0.0
    for command, numbers in re.findall(r"([Mmh])([-\d. ]+)", parts[2]):
        values = [float(n) for n in numbers.split()]
        if command == "h":
            picture[int(y), int(x) : int(x + values[0])] = 0
            x += values[0]
        else:
            x, y = values if command == "M" else (x + values[0], y + values[1])
    return np.kron(picture, np.ones((size, size), np.uint8))


def read(svg):
    """What a reader of its own makes of a QR code."""
    (found,) = zxingcpp.read_barcodes(raster(svg), formats=zxingcpp.BarcodeFormat.QRCode)
    assert found.format == zxingcpp.BarcodeFormat.QRCode
    return found.text


def codes(seen):
    return re.findall(r"<svg.*?</svg>", seen.source)


class TestCodes:
    @pytest.mark.parametrize("text", ["a", "https://park.example.org/enter/hb_" + "aZ-_9" * 20])
    def test_it_is_read_as_it_was_written(self, text):
        assert read(render_qr(text)) == text

    def test_it_has_a_quiet_zone_and_no_style(self):
        made = render_qr("https://park.example.org/enter/hb_" + "aZ-_9" * 12)
        picture = raster(made, 1)
        assert (picture[:4] == 255).all()
        assert (picture[:, :4] == 255).all()
        assert (picture[-4:] == 255).all()
        assert (picture[:, -4:] == 255).all()
        assert (picture[4:11, 4] == 0).all()  # and there the first of its marks begins
        assert "style" not in made
        assert "class" not in made

    def test_it_is_read_with_some_of_it_gone(self):
        """Level M mends 15 % of the codewords; a twelfth of the modules is painted over."""
        text = "https://park.example.org/enter/hb_" + "aZ-_9" * 12
        picture = raster(render_qr(text), 1)
        side = len(picture) - 8
        hole = int((0.08 * side * side) ** 0.5)
        middle = len(picture) // 2
        picture[middle : middle + hole, middle : middle + hole] = 255
        (found,) = zxingcpp.read_barcodes(np.kron(picture, np.ones((4, 4), np.uint8)))
        assert found.text == text

    @pytest.mark.parametrize(
        ("base", "here"),
        [
            ("http://127.0.0.1:8765", True),
            ("http://127.9.9.9", True),
            ("http://localhost:8765", True),
            ("http://[::1]:8765", True),
            ("http://192.168.1.5:8765", False),
            ("https://localhost.example.org", False),
        ],
    )
    def test_which_addresses_a_phone_cannot_reach(self, base, here):
        assert is_unreachable_base(base) is here


class TestForgotten:
    """An arm that has changed is begun anew, on the page of what is known."""

    def test_it_is_forgotten_and_that_is_taken_back(self, site):
        service.plan_round(site.log, site.id, VERA)
        report_outcomes(site.log, site.id, VERA, 1, {"Ana": 1})
        assert "forgotten" not in site.get("").part("forgotten")
        site.done("/forgotten/arm-1", do="forget")
        assert site.state.gone == {0: 1}
        seen = site.get("").part("forgotten")
        assert "river forgotten up to round 1 Take it back of river" in seen
        site.done("/forgotten/arm-1", do="remember")
        assert site.state.gone == {}

    def test_it_shows_how_sensitive_the_agents_are_if_asked(self, site):
        service.plan_round(site.log, site.id, VERA)
        report_outcomes(site.log, site.id, VERA, 1, {"Ana": 1})
        assert not site.get("").all("#agents")
        seen = site.get("?agents=1").part("agents")
        assert "0.900 to 0.900" in seen
        assert "as believed" in seen

    def test_what_happens_by_itself_is_a_setting(self, site):
        site.done("/settings", do="policy", on_change="forget")
        assert site.state.on_change == "forget"


class TestTeam:
    def test_it_shows_who_and_what_there_is(self, site):
        service.plan_round(site.log, site.id, VERA)
        at = site.state.rounds[0]
        arm_of = {agent: site.state.arms[arm].name for agent, arm in at.sent}
        report_outcomes(site.log, site.id, VERA, 1, {"Ana": 1, "Chi": (3, 12)})
        seen = site.get()
        assert seen.part("agent-1") == "Ana 90 % 0 % 1 as you said 1"
        assert seen.part("agent-2") == "Ben 60 % 0 % 1 as you said 0"
        # (17 + 1) / (20 + 2) = 0.818...
        assert seen.part("agent-3") == "Chi taken as 81.8 % 0 % 12 17 of 20 found 12"
        for n, name in enumerate(("river", "hill", "gate", "lake")):
            visits = sum(arm_of[agent] == name for agent in (0, 2))
            said = f"{name} {visits} visit{'s' * (visits != 1)} Name"
            assert seen.part(f"arm-{n + 1}").startswith(said)
        settings = seen.part("settings")
        assert "30 rounds" in settings
        assert "season" in settings
        assert seen.values["policy-delta"] == "0.05"
        assert seen.opened == set()

    def test_every_field_has_a_label(self, site):
        for part in ("/team", "/team?agent=agent-1"):
            seen = site.get(part)
            assert seen.values.keys() <= {label["for"] for label in seen.all("label[for]")}
            assert "style=" not in seen.source

    def test_headings_are_in_order(self, site):
        for part in ("/team", "/team?agent=agent-1"):
            levels = [heading.name for heading in site.get(part).all("h1, h2, h3, h4, h5, h6")]
            assert levels[0] == "h1"
            assert set(levels[1:]) == {"h2"}

    @pytest.mark.parametrize("agent", ["agent-9", ""])
    def test_an_agent_that_is_not_there(self, site, agent):
        assert "unknown agent" in site.get(f"/team?agent={agent}", 404).source

    def test_there_is_a_season_without_an_end(self, make):
        site = make(season=None)
        assert "without an end" in site.get().part("form-season")


class TestAgents:
    def test_one_is_added(self, site):
        seen = site.done(
            "/agents", name="Dora", sensitivity="0.75", false_positive_rate="0.1", tests="3"
        )
        assert seen.part("agent-4") == "Dora 75 % 10 % 3 as you said 0"
        reports = site.state.rows[3].reports
        assert (reports.sensitivity, reports.false_positive_rate, reports.tests) == (0.75, 0.1, 3)

    def test_trials_stand_in_for_probabilities(self, site):
        site.done(
            "/agents", name="Dora", sensitivity="9/10", false_positive_rate="1 of 40", tests="2"
        )
        reports = site.state.rows[3].reports
        assert reports.calibration == (9, 10)
        assert reports.false_positive_calibration == (1, 40)
        assert reports.sensitivity == 10 / 12
        assert reports.false_positive_rate == 2 / 42

    @pytest.mark.parametrize(
        ("field", "typed", "said"),
        [
            ("name", "", "Please give a name."),
            ("name", "Ana", "“Ana” is there already"),
            (
                "sensitivity",
                "1.2",
                "a number from 0 to 1 or a percentage, such as 0.85 or 85 %, not 1.2",
            ),
            ("sensitivity", "11/10", "no more are found than there were tests"),
            ("false_positive_rate", "often", "not “often”"),
            ("tests", "1.5", "a whole number"),
        ],
    )
    def test_what_is_wrong_stands_beside_its_field(self, site, field, typed, said):
        given = {"name": "Dora", "sensitivity": "0.9", "false_positive_rate": "0.1", "tests": "2"}
        seen = site.refused("/agents", **(given | {field: typed}))
        message = seen.beside("agent", field)
        assert said in message
        assert "agents[" not in message
        assert seen.opened == {"form-agent"}
        for name, value in (given | {field: typed}).items():
            assert seen.values[f"agent-{name}"] == value

    def test_several_mistakes_are_said_at_once(self, site):
        seen = site.refused("/agents", name="Ben", sensitivity="2", tests="x")
        for field in ("name", "sensitivity", "tests"):
            assert seen.beside("agent", field)

    def test_more_agents_than_arms(self, site):
        site.done("/agents", name="Dora", sensitivity="0.9")
        seen = site.refused("/agents", name="Emil", sensitivity="0.9")
        assert "5 agents" in seen.part("form-agent")
        assert seen.values["agent-name"] == "Emil"

    def test_twice_with_the_same_key_is_once(self, site):
        for _ in range(2):
            answer = site.post("/agents", key="again", name="Dora", sensitivity="0.9")
            assert answer.status_code == 303
        assert site.state.agent_names == ("Ana", "Ben", "Chi", "Dora")

    def test_one_is_renamed(self, site):
        seen = site.done("/agents/agent-2", do="rename", name="Benjamin / B")
        assert site.state.agent_names == ("Ana", "Benjamin / B", "Chi")
        assert seen.part("agent-2").startswith("Benjamin / B")

    def test_one_is_retired_and_brought_back(self, site):
        assert "retired" in site.done("/agents/agent-2", do="retire").part("agent-2")
        assert site.state.agents[1].retired
        page = site.get("/team?agent=agent-2")
        assert page.all("button[value=return]")
        assert "retired" not in site.done("/agents/agent-2", do="return").part("agent-2")
        assert not site.state.agents[1].retired

    def test_another_way_to_report_from_now_on(self, site):
        service.plan_round(site.log, site.id, VERA)
        report_outcomes(site.log, site.id, VERA, 1, {"Ana": 1})
        site.done(
            "/agents/agent-1", do="revise", since="now", sensitivity="0.5", tests="4", false_positive_rate="0.1"
        )  # fmt: skip
        mine = [row for row in site.state.rows if row.agent == 0]
        assert [(row.since, row.reports.sensitivity, row.reports.tests) for row in mine] == [
            (1, 0.9, 1), (2, 0.5, 4),
        ]  # fmt: skip
        seen = site.get("/team?agent=agent-1")
        assert seen.values["revise-sensitivity"] == "0.5"
        assert "From round 1 to 1: sensitivity 0.9" in words_of(seen.source)
        assert "Since round 2: sensitivity 0.5" in words_of(seen.source)

    def test_the_form_has_what_stands_and_says_what_differs(self, site):
        seen = site.get("/team?agent=agent-3")
        assert seen.values["revise-sensitivity"] == "17/20"
        assert seen.values["revise-tests"] == "12"
        assert ("since", "now") in seen.checked
        assert "what was found before counts as it was reported then" in seen.source
        assert "everything is worked out anew" in seen.source
        before = site.state.rows[2].reports
        site.done(
            "/agents/agent-3",
            do="revise",
            since="always",
            **{name: seen.values[f"revise-{name}"] for name in ("sensitivity", "false_positive_rate", "tests")},
        )  # fmt: skip
        assert site.state.rows[2].reports == before

    @pytest.mark.parametrize(("field", "typed"), [("tests", "many"), ("since", "then")])
    def test_what_is_wrong_with_another_way_to_report(self, site, field, typed):
        given = {
            "sensitivity": "0.8",
            "false_positive_rate": "0.1",
            "tests": "2",
            "since": "always",
        }
        seen = site.refused("/agents/agent-1", do="revise", **(given | {field: typed}))
        assert typed in seen.part(f"wrong-{field}")
        for name, value in (given | {field: typed}).items():
            if name == "since":
                assert (("since", value) in seen.checked) == (value == "always")
            else:
                assert seen.values[f"revise-{name}"] == value

    def test_what_there_is_not_to_do(self, site):
        assert site.post("/agents/agent-1", do="dismiss").status_code == 422
        assert site.post("/agents/agent-9", do="retire").status_code == 404
        assert site.post("/agents/Ana", do="rename", name="Anna").status_code == 303


class TestArms:
    def test_several_are_added_at_once(self, site):
        seen = site.done("/arms", arms="pond\r\n\r\n  the old mill \r\nford, lower\r\n")
        assert site.state.arm_names[4:] == ("pond", "the old mill", "ford, lower")
        assert "the old mill" in seen.part("arm-6")

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            ("", "at least one"),
            (
                "pond\nhill\nford\nlake",
                ("“hill” is there already", "“lake” is there already"),
            ),
            ("pond\narm-1", "line 2"),
        ],
    )
    def test_what_is_wrong_with_them(self, site, typed, said):
        seen = site.refused("/arms", arms=typed)
        message = seen.beside("arms", "arms")
        for part in [said] if isinstance(said, str) else said:
            assert part in message
        assert seen.values.get("arms-arms", "") == typed
        assert seen.opened == {"form-arms"}

    def test_one_is_renamed_retired_and_brought_back(self, site):
        site.done("/arms/arm-2", do="rename", name="hill/top")
        assert site.state.arms[1].name == "hill/top"
        assert "retired" in site.done("/arms/arm-2", do="retire", name="ignored").part("arm-2")
        assert site.state.arms[1].retired
        assert "retired" not in site.done("/arms/arm-2", do="return").part("arm-2")
        assert site.state.arm_names == ("river", "hill/top", "gate", "lake")

    def test_what_is_known_of_one_beforehand(self, site):
        seen = site.done("/arms/arm-1", do="believe", prior="5 of 120")
        assert site.state.arms[0].prior == (6.0, 116.0)
        stands = "4.9 %, as if 5 were found in 120 tests"
        assert seen.values["arm-1-prior"] == stands
        before = site.state.number
        site.done("/arms/arm-1", do="believe", prior=stands)  # nobody has touched it
        assert site.state.number == before
        site.done("/arms/arm-1", do="believe", prior=stands.replace("120", "140.5"))
        assert site.state.arms[0].prior == (6.0, 136.5)
        site.done("/arms/arm-1", do="believe", prior=" ")
        assert site.state.arms[0].prior is None
        wrong = site.refused("/arms/arm-1", do="believe", prior="often")
        assert wrong.opened == {"form-arm-1"}
        assert "such as “2 % to 10 %”" in wrong.part("arm-1")
        assert wrong.values["arm-1-prior"] == "often"

    def test_what_is_known_of_new_ones_beforehand(self, site):
        site.done("/arms", arms="name;prior\nford;5 of 120\nhut;")
        assert [(arm.name, arm.prior) for arm in site.state.arms[4:]] == [
            ("ford", (6.0, 116.0)),
            ("hut", None),
        ]

    def test_a_name_that_is_taken(self, site):
        seen = site.refused("/arms/arm-2", do="rename", name="lake")
        assert "“lake” is there already" in seen.beside("arm-2", "name")
        assert seen.values["arm-2-name"] == "lake"
        assert seen.values["arm-1-name"] == "river"
        assert seen.opened == {"form-arm-2"}

    def test_the_last_one_stays(self, site):
        for arm in ("arm-1", "arm-2", "arm-3"):
            site.done(f"/arms/{arm}", do="retire")
        assert "the last arm" in site.refused("/arms/arm-4", do="retire").part("form-arm-4")

    def test_what_there_is_not_to_do(self, site):
        assert site.post("/arms/arm-1", do="revise").status_code == 422
        assert site.post("/arms/arm-9", do="retire").status_code == 404


class TestSettings:
    def test_the_campaign_is_renamed(self, site):
        site.done("/settings", do="name", name="South park")
        assert site.state.name == "South park"
        seen = site.refused("/settings", do="name", name=" ")
        assert "Please give a name." in seen.beside("name", "name")
        assert seen.opened == {"form-name"}

    def test_the_season_is_changed(self, site):
        site.done("/settings", do="policy", policy="min-width")
        site.done("/settings", do="season", season="45")
        assert site.state.season == 45
        site.done("/settings", do="season", season="")
        assert site.state.season is None
        assert "without an end" in site.get().part("form-season")

    @pytest.mark.parametrize(
        ("typed", "said"), [("0", "not 0"), ("long", "not “long”"), ("", "length of the season")]
    )
    def test_what_is_wrong_with_a_season(self, site, typed, said):
        """Without an end, the policy that goes by it cannot stay."""
        seen = site.refused("/settings", do="season", season=typed)
        assert said in seen.beside("season", "season")
        assert seen.values["season-season"] == typed
        assert seen.opened == {"form-season"}

    def test_a_season_of_a_million_rounds_is_asked_about(self, site):
        seen = site.refused("/settings", do="season", season="1000000")
        assert seen.beside("season", "season") == "1,000,000 rounds in the season: is that right?"
        assert len(seen.all("#form-season input[name=sure]")) == 1
        assert not site.get().all("input[name=sure]")
        site.done("/settings", do="season", season="1000000", sure="1")
        assert site.state.season == 1_000_000

    def test_what_plans_go_by_where_nothing_is_stated(self, site):
        assert site.state.plans_by == "learned"
        seen = site.done("/settings", do="prior", prior="stated")
        assert site.state.plans_by == "stated"
        assert "Plans go by nothing: every mean is as likely" in seen.part("settings")
        wrong = site.refused("/settings", do="prior", prior="luck")
        assert wrong.opened == {"form-prior"}

    def test_the_policy_is_changed(self, site):
        site.done(
            "/settings", do="policy", policy="posterior-sorted-window", delta="0,1", memory="12"
        )
        policy = site.state.policy
        assert (policy.name, policy.delta, policy.memory) == ("posterior-sorted-window", 0.1, 12)
        assert "memory 12 rounds" in site.get().part("form-policy")
        site.done(
            "/settings", do="policy", policy="posterior-sorted-window", delta="0.2", memory=""
        )
        assert (site.state.policy.delta, site.state.policy.memory) == (0.2, 12)
        site.done("/settings", do="policy", policy="min-width", delta="", memory="")
        assert (site.state.policy.delta, site.state.policy.memory) == (0.2, None)

    @pytest.mark.parametrize(
        ("field", "typed", "said"),
        [
            ("delta", "small", "not “small”"),
            ("memory", "1", "from 2"),
            ("policy", "oracle", "simulated"),
        ],
    )
    def test_what_is_wrong_with_a_policy(self, site, field, typed, said):
        given = {"policy": "min-width-window", "delta": "0.1", "memory": "12"} | {field: typed}
        seen = site.refused("/settings", do="policy", **given)
        assert said in seen.beside("policy", field)
        assert seen.values["policy-delta"] == given["delta"]
        assert seen.values["policy-memory"] == given["memory"]
        if field != "policy":
            assert seen.values["policy-policy"] == "min-width-window"
        assert seen.opened == {"form-policy"} | (
            {"for-researchers"} if field != "policy" else set()
        )

    def test_a_policy_that_needs_a_season(self, make):
        site = make(season=None)
        seen = site.refused("/settings", do="policy", policy="season")
        assert "length of the season" in seen.beside("policy", "policy")

    def test_only_policies_that_can_be_planned_with_are_offered(self, site):
        options = [option["value"] for option in site.get().all("option")]
        assert {"min-width", "season"} <= set(options)
        recommended = site.get().all("#policy-policy optgroup")[0]
        assert [one["value"] for one in recommended.find_all("option")] == ["season", "posterior-sorted", "posterior-sorted-window"]  # fmt: skip
        assert not {"oracle", "ucb"} & set(options)

    def test_what_there_is_not_to_do(self, site):
        assert site.post("/settings", do="seed").status_code == 422


class TestLinks:
    def made(self, site, **fields):
        seen = site.shown("/links", **({"role": "viewer", "name": "Wall"} | fields))
        return seen, ADDRESS.fullmatch(seen.values["url"])[0]

    def opens(self, site, address):
        with Asker(site.app, None) as ask:
            return ask.get(address).status_code == 200

    @pytest.mark.parametrize("role", LINK_ROLES)
    def test_it_opens_what_it_is_for(self, site, role):
        seen, address = self.made(site, role=role, name="Somebody")
        once = "shown this once" in seen.source
        assert once == (role in ("owner", "planner"))
        assert seen.all("#url[readonly]")
        (link,) = site.state.links.values()
        assert (link.role, link.name, link.agent, link.expires) == (role, "Somebody", None, None)
        assert self.opens(site, address)
        assert (
            self.opens(site, address.replace(address[-1], "x" if address[-1] != "x" else "y"))
            is False
        )

    def test_its_code_is_its_address(self, site):
        seen, address = self.made(site)
        (code,) = codes(seen)
        assert read(code) == address

    def test_a_planners_is_shown_once(self, site):
        fields = {"key": "again", "role": "planner", "name": "Pia"}
        first = site.shown("/links", **fields)
        token = TOKEN.search(first.values["url"])[0]
        second = site.shown("/links", **fields)
        (link,) = site.state.links.values()
        third = site.get(f"/links/{link.id}")
        for seen in (second, third):
            assert "made already" in seen.source
            assert "url" not in seen.ids
            assert codes(seen) == []
        assert f"/links/{link.id}" not in [one.get("href", "") for one in site.get().all("a")]
        for seen in (second, third, site.get()):
            for secret in (token, token[-43:], link.token_hash):
                assert secret not in seen.source
        assert len(site.state.links) == 1

    def test_a_reporters_is_shown_as_often_as_it_is_wanted(self, site):
        fields = {"key": "again", "role": "reporter", "name": "Ana", "agent": "agent-1"}
        address = site.shown("/links", **fields).values["url"]
        (link,) = site.state.links.values()
        where = f"/links/{link.id}"
        assert site.shown("/links", **fields).values["url"] == address
        assert f"{site.home}{where}" in [one.get("href") for one in site.get().all("#links a")]
        answer = site.ask.get(site.home + where)
        assert answer.headers["cache-control"] == "no-store"
        seen = Page(answer.text)
        assert seen.values["url"] == read(codes(seen)[0]) == address
        assert self.opens(site, address)
        for secret in (address[-43:], link.token_hash):
            assert secret not in site.get().source
        assert site.ask.get(f"{site.home}/links/0123456789ab").status_code == 404
        site.done(where, do="revoke")
        assert address[-43:] not in site.get(where).source
        assert "opens nothing any more" in site.get(where).source

    def test_without_the_key_it_is_not_shown_again(self, site, tmp_path):
        _, address = self.made(site, role="reporter", name="Ana", agent="agent-1")
        (link,) = site.state.links.values()
        (tmp_path / "x.db.key").unlink()
        seen = site.get(f"/links/{link.id}")
        assert "made without the key" in seen.source
        assert codes(seen) == []
        assert self.opens(site, address)

    def test_what_is_wrong_with_the_key_is_said(self, site, tmp_path):
        key = tmp_path / "x.db.key"
        self.made(site, role="reporter", name="Ana", agent="agent-1")
        assert "Take care" not in site.get().part("links")
        key.chmod(0o644)
        assert "Take care: others can read" in site.get().part("links")
        key.write_text("half")
        assert "cannot be shown or printed again" in site.get().part("links")

    def test_when_it_was_made_and_used(self, site):
        _, address = self.made(site, role="viewer", name="Wall")
        site.app.state.link_uses = LinkUseNotes()
        (link,) = site.state.links.values()
        assert f"{link.made[:10]} {link.made[11:16]} UTC never opened" in site.get().part(link.id)

        async def looked():
            async with calling(site.app, address.rpartition("/")[2]) as wall:
                await wall.get(f"/api{site.home}")
                await site.app.state.link_uses.finish()

        asyncio.run(looked())
        used = site.log.store.uses(site.id)[link.id].last
        assert f"{used[:10]} {used[11:16]} UTC" in site.get().part(link.id)
        assert "never opened" not in site.get().part(link.id)

    def test_it_is_of_one_agent(self, site):
        seen, _ = self.made(site, role="reporter", name="Ben's phone", agent="agent-2")
        assert "for Ben alone" in words_of(seen.source)
        (link,) = site.state.links.values()
        assert link.agent == 1
        assert site.get().part(link.id).startswith("Ben's phone reporter, for Ben alone ")

    def test_it_holds_for_ever_if_the_day_is_blank(self, site):
        self.made(site, expires="")
        (link,) = site.state.links.values()
        assert link.expires is None
        assert "no end" in site.get().part(link.id)

    def test_its_field_has_a_month_after_the_season(self, make):
        site = make(ends="2999-12-05")
        for field in ("link-expires", "cards-expires"):
            assert site.get().values[field] == "3000-01-05"

    def test_it_expires_at_the_end_of_a_day(self, site):
        self.made(site, expires="2999-12-31")
        (link,) = site.state.links.values()
        assert link.expires == "2999-12-31T23:59:59.000000Z"
        assert "2999-12-31" in site.get().part(link.id)

    @pytest.mark.parametrize(
        ("field", "typed", "said"),
        [
            ("name", "", "Please give a name."),
            ("expires", "soon", "is not a day"),
            ("expires", "30", "is not a day"),
            ("expires", "2020-01-01", "a day to come"),
            ("expires", "2999-02-31", "is not a day"),
            ("agent", "agent-9", "unknown agent"),
        ],
    )
    def test_what_is_wrong_stands_beside_its_field(self, site, field, typed, said):
        given = {"role": "reporter", "name": "Ben", "agent": "agent-2", "expires": "2999-12-31"}
        seen = site.refused("/links", **(given | {field: typed}))
        assert said in seen.beside("link", field)
        assert seen.opened == {"form-link"}
        assert ("role", "reporter") in seen.checked
        for name, value in (given | {field: typed}).items():
            if name != "role" and value != "agent-9":
                assert seen.values[f"link-{name}"] == value

    def test_a_role_that_is_none(self, site):
        seen = site.refused("/links", role="spy", name="Ben")
        assert "spy" in seen.part("wrong-role")

    def test_it_is_revoked(self, site):
        _, address = self.made(site)
        (link,) = site.state.links
        seen = site.done(f"/links/{link}", do="revoke")
        assert site.state.links[link].revoked
        assert not self.opens(site, address)
        assert link not in seen.ids
        assert "revoked" in seen.part("links")
        site.done(f"/links/{link}", do="revoke")  # which is so already
        assert site.post("/links/0123456789ab", do="revoke").status_code == 404
        assert site.post(f"/links/{link}", do="show").status_code == 422

    def test_all_roles_are_in_words(self, site):
        assert tuple(ROLES_IN_WORDS) == LINK_ROLES
        seen = site.get()
        for words in ROLES_IN_WORDS.values():
            assert words.format(rounds="rounds", agents="agents") in seen.source

    def test_many_are_shown_when_asked_for(self, site):
        for number in range(33):
            issue_link(site.log, site.id, VERA, role="viewer", name=f"Wall {number}")
        seen = site.get()
        assert sum(link in seen.ids for link in site.state.links) == 30
        assert list(site.state.links)[-1] in seen.ids
        assert "Show 3 older links" in seen.part("links")
        seen = site.get("/team?all=links")
        assert all(link in seen.ids for link in site.state.links)


class TestCards:
    def test_each_agent_has_a_link_of_its_own(self, site):
        service.retire(site.log, site.id, VERA, "agent", "Ben")
        seen = site.shown("/cards")
        links = list(site.state.links.values())
        assert [(link.name, link.role, link.agent) for link in links] == [
            ("Ana", "reporter", 0), ("Chi", "reporter", 2),
        ]  # fmt: skip
        addresses = [read(code) for code in codes(seen)]
        for address, link in zip(addresses, links, strict=True):
            assert ADDRESS.fullmatch(address)[0].split("_")[2] == link.id
            with Asker(site.app, None) as ask:
                answer = ask.get(address)
                assert answer.status_code == 200
                assert f"<b>{link.name}</b>" in answer.text
            assert address not in seen.source  # but as a code
        assert seen.source.count("http://127.0.0.1<") == 2
        assert seen.source.count("<br>North park<br>") == 2

    def test_with_nobody_ticked_nobody_gets_one(self, site):
        answer = site.post("/cards", ticks="shown")
        assert answer.status_code == 422
        assert "tick whom cards are for" in answer.text
        assert not site.state.links

    def test_a_team_of_so_many_at_once_and_no_more(self, make):
        agents = [{"name": f"agent {i}", "sensitivity": 0.5} for i in range(201)]
        site = make(agents=agents, arms=[{"name": f"arm {i}"} for i in range(201)])
        seen = site.refused("/cards")
        assert "201 agents: at most 200 at once" in seen.source
        assert not site.state.links
        site.shown("/cards", agents=[f"agent-{i}" for i in range(1, 201)])
        assert len(site.state.links) == 200

    def test_a_link_that_is_revoked_meanwhile_sees_no_code(self, site, monkeypatch):
        """Nobody could take back what is printed, and the links hold."""
        _, token = issue_link(site.log, site.id, VERA, role="owner", name="Olga")
        issue = module.issue_cards

        def issue_and_revoke(request, asked):
            made = issue(request, asked)
            revoke_link(site.log, site.id, VERA, token.split("_")[2])
            return made

        monkeypatch.setattr(module, "issue_cards", issue_and_revoke)
        with Visitor(site.app, token) as visitor:
            answer = visitor.submit(f"{site.home}/cards", ticks="shown", agents="agent-1", key="k")
        assert answer.status_code == 401
        assert "<svg" not in answer.text

    def test_who_is_ticked_and_how_long(self, site):
        seen = site.shown("/cards", agents=["agent-3", "agent-1"], expires="2999-06-30")
        links = list(site.state.links.values())
        assert [link.agent for link in links] == [0, 2]
        assert {link.expires for link in links} == {"2999-06-30T23:59:59.000000Z"}
        assert seen.source.count("Valid until <time") == 2
        assert seen.source.count(">2999-06-30</time>") == 2

    @pytest.mark.parametrize("season", [26, None, 100_000])
    def test_how_long_has_nothing_to_do_with_the_rounds(self, make, season):
        """A season of 26 weeks outlives 26 days."""
        site = make(season=season)
        service.plan_round(site.log, site.id, VERA)
        year = (datetime.now(UTC) + timedelta(365)).date()
        site.shown("/cards", round="1", agents="agent-1")  # which has no field for it
        (link,) = site.state.links.values()
        assert abs(datetime.fromisoformat(link.expires).date() - year) <= timedelta(1)
        site.shown("/cards", agents="agent-2", expires="")
        assert list(site.state.links.values())[1].expires is None

    def test_the_same_link_is_printed_week_after_week(self, site):
        first = [read(code) for code in codes(site.shown("/cards"))]
        for number in (1, 2, 3):
            service.plan_round(site.log, site.id, VERA)
            assert [read(code) for code in codes(site.shown("/cards", round=str(number)))] == first
        assert len(site.state.links) == 3
        seen = site.shown("/cards")
        assert [read(code) for code in codes(seen)] == first
        assert "Other links" not in seen.source
        service.add_agents(site.log, site.id, VERA, [{"name": "Dora", "sensitivity": 0.5}])
        assert [read(code) for code in codes(site.shown("/cards"))][:3] == first
        assert len(site.state.links) == 4

    def test_new_ones_are_made_if_they_are_wanted(self, site):
        first = site.shown("/cards", agents="agent-1", expires="2999-06-30")
        assert "Make new ones" not in first.source
        second = site.shown("/cards", agents="agent-1", expires="2999-06-30")
        assert "Make new ones" in second.source
        hidden = [
            (field["name"], field["value"])
            for field in second.all("form:has(button[value=new]) input:not([name=key])")
        ]
        assert hidden == [("agents", "agent-1"), ("expires", "2999-06-30")]
        third = site.shown("/cards", do="new", **dict(hidden))
        assert read(codes(third)[0]) != read(codes(first)[0])
        assert len(site.state.links) == 2
        assert "Other links still hold for Ana: 1 in all." in words_of(third.source)

    def test_without_a_key_they_are_shown_once(self, site, tmp_path):
        """As on a server of PostgreSQL that was given none."""
        site.log.store.link_keys.path = None
        first = site.shown("/cards", key="again", agents="agent-1")
        assert "shown this once" in first.source
        assert LINK_KEY_VARIABLE in first.source
        token = TOKEN.search(read(codes(first)[0]))[0]
        second = site.shown("/cards", key="again", agents="agent-1")
        assert "made already" in second.source
        assert codes(second) == []
        assert token not in second.source
        assert len(codes(site.shown("/cards", agents="agent-1"))) == 1
        assert len(site.state.links) == 2
        assert LINK_KEY_VARIABLE in site.get().part("links")

    def test_earlier_links_are_revoked_with_one_press(self, site):
        _, token = issue_link(site.log, site.id, VERA, role="reporter", name="Ana's phone", agent="Ana")  # fmt: skip
        issue_link(site.log, site.id, VERA, role="reporter", name="Gone", agent="Ana", expires="2999-01-01T00:00:00Z")  # fmt: skip
        revoked = list(site.state.links)[1]
        revoke_link(site.log, site.id, VERA, revoked)
        for role, name in (("reporter", "anybody"), ("owner", "Vera")):
            issue_link(site.log, site.id, VERA, role=role, name=name)
        issue_link(site.log, site.id, VERA, role="reporter", name="Chi", agent="Chi")
        seen = site.shown("/cards", agents=["agent-1", "agent-2"], do="new")
        words = words_of(seen.source)
        assert "Other links still hold for Ana: 1 in all." in words
        earlier = [field["value"] for field in seen.all("input[name=link]")]
        assert earlier == list(site.state.links)[:1]
        site.done("/cards", do="revoke", link=earlier)
        with Asker(site.app, None) as ask:
            assert ask.get(f"/enter/{token}").status_code == 404
        held = {link.name for link in site.state.links.values() if not link.revoked}
        assert held == {"anybody", "Vera", "Chi", "Ana", "Ben"}

    def test_several_earlier_links_of_several_agents(self, site):
        for _ in range(2):
            site.shown("/cards", do="new")
        seen = site.shown("/cards", do="new")
        words = words_of(seen.source)
        assert "Other links still hold for Ana, Ben, Chi: 6 in all." in words
        earlier = [field["value"] for field in seen.all("input[name=link]")]
        site.done("/cards", do="revoke", link=earlier)
        held = [link.id for link in site.state.links.values() if not link.revoked]
        assert held == list(site.state.links)[6:]

    def test_a_round_as_a_table(self, site):
        service.plan_round(site.log, site.id, VERA, absent=["Ben"])
        service.plan_round(site.log, site.id, VERA)
        service.override(site.log, site.id, VERA, 1, "Ana", ["lake"])
        report_outcomes(site.log, site.id, VERA, 1, {"Chi": (3, 12)})
        service.add_agents(site.log, site.id, VERA, [{"name": "Dora", "sensitivity": 0.5}])
        service.retire(site.log, site.id, VERA, "agent", "Chi")
        seen = site.shown("/cards", round="1")
        rows = [
            " ".join(re.sub("<svg.*?</svg>|<[^>]*>", " ", row).split())
            for row in re.findall("<tr>(.*?)</tr>", seen.source, re.S)
        ]
        at = site.state.rounds[0]
        assert rows[0] == "Agent Goes to Why Found Report"
        valid = f"Valid until {next(iter(site.state.links.values())).expires[:10]}"
        assert rows[1] == f"Ana {valid} lake Sent there by hand. of 1"
        assert rows[2] == "Ben stays home Away this round."
        chis = site.state.arms[at.assignment[2]].name
        # nothing is stated of river and hill, so that they are as good
        assert rows[3].startswith(
            f"Chi {valid} {chis} Nobody has been there yet; drawn by lot among 2."
        )
        assert rows[3].endswith(" 3 of 12")
        assert rows[4] == "Dora stays home Not in the team when this round was planned."
        assert [link.name for link in site.state.links.values()] == ["Ana", "Chi"]
        assert len(codes(seen)) == 2  # and none for who stays home

    @pytest.mark.parametrize(
        ("field", "typed", "said"),
        [("expires", "x", "is not a day"), ("expires", "2020-01-01", "is over")],
    )
    def test_how_long_is_wrong(self, site, field, typed, said):
        seen = site.refused("/cards", agents=["agent-2"], **{field: typed})
        assert said in seen.beside("cards", field)
        assert seen.values["cards-expires"] == typed
        assert ("agents", "agent-2") in seen.checked
        assert ("agents", "agent-1") not in seen.checked
        assert seen.opened == {"form-cards"}

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"round": "3"}, "round 3 is not planned"),
            ({"round": "x"}, "a whole number"),
            ({"agents": "agent-9"}, "unknown agent"),
        ],
    )
    def test_a_round_or_an_agent_that_is_not_there(self, site, fields, said):
        assert said in site.refused("/cards", **fields).part("form-cards")

    def test_a_phone_cannot_reach_this_machine(self, site):
        for part, fields in (("/cards", {}), ("/links", {"role": "viewer", "name": "Wall"})):
            assert "--host" in site.shown(part, **fields).source
            body = urlencode(fields)
            there = {"Host": "park.example.org", "Origin": "http://park.example.org"}
            site.ask.cookies.set("hb_owner", OWNER)
            answer = site.ask.post(
                site.home + part, content=body, headers=ORIGIN | there | {"Cookie": f"hb_owner={OWNER}"}
            )  # fmt: skip
            assert answer.status_code == 200
            assert "--host" not in answer.text
            for code in re.findall(r"<svg.*?</svg>", answer.text):
                assert read(code).startswith("http://park.example.org/enter/hb_")


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "{{ 1237 * 4321 }}{% raw %}",
    "</textarea></select></svg>&amp;",
    "a/b?c=d#e%2f..",
)


class TestHostileNames:
    def check(self, seen, *names):
        for element in seen.all("*"):
            assert not any(name.startswith("on") for name in element.attrs), element
            assert "style" not in element.attrs
        assert not seen.all("script:not([src])")
        assert all(image["src"].startswith("/static/icon.svg?v=") for image in seen.all("img"))
        for name in names:
            assert name in seen.part("main") or name in seen.values.values(), name
        assert str(1237 * 4321) not in seen.part("main")

    def test_they_are_inert_everywhere(self, make):
        agents = [{"name": name, "sensitivity": 0.9} for name in HOSTILE]
        site = make(name=HOSTILE[0], agents=agents, arms=list(HOSTILE))
        service.plan_round(site.log, site.id, VERA)
        for name in HOSTILE:
            self.check(site.shown("/links", role="viewer", name=name), name)
            self.check(site.shown("/links", role="reporter", name="x", agent="agent-1", key=name))
        self.check(site.get(), *HOSTILE)
        for number, name in enumerate(HOSTILE, 1):
            self.check(site.get(f"/team?agent=agent-{number}"), name)
            self.check(site.refused("/agents", name="", sensitivity=name, tests=name), name)
            self.check(site.refused("/arms", arms=f"{name}\n"), *() if number == 5 else (name,))
            self.check(site.refused(f"/arms/arm-{number}", do="rename", name=HOSTILE[number % 6]))
            self.check(site.refused("/settings", do="season", season=name), name)
            self.check(site.refused("/settings", do="policy", policy=name, delta=name), name)
            self.check(site.refused("/links", role=name, name="", agent=name, expires=name), name)
            self.check(site.refused("/cards", expires=name), name)
        for fields in ({}, {"round": "1"}):
            self.check(site.shown("/cards", **fields), *HOSTILE)
        for number in range(1, 7):
            site.done(f"/agents/agent-{number}", do="rename", name=f"{HOSTILE[number - 1]} 2")


class TestSize:
    def test_a_large_team(self, make):
        """20 agents, 50 arms, 20 rounds, all of them with a link: under 90 kB."""
        agents = [{"name": f"Ranger {i}", "sensitivity": 0.5 + i / 50} for i in range(20)]
        arms = [f"area {i}" for i in range(50)]
        site = make(agents=agents, arms=arms)
        for _ in range(20):
            at = service.plan_round(site.log, site.id, VERA).state.rounds[-1]
            found = {f"agent-{agent + 1}": 1 for agent, _ in at.sent}
            report_outcomes(site.log, site.id, VERA, at.number, found)
        cards = site.shown("/cards")
        assert len(cards.source) < 100_000
        assert len(site.ask.get(f"{site.home}/team").content) < 90_000

    def test_very_many_come_in_pages_and_the_one_that_is_wrong_on_its_own(self, make):
        agents = [{"name": f"Ranger {i}", "sensitivity": 0.8} for i in range(1, 304)]
        site = make(agents=agents, arms=[f"area {i}" for i in range(1, 306)])
        seen = site.get()
        assert {"agent-50", "arm-50"} < seen.ids
        assert not {"agent-51", "arm-51"} & seen.ids
        assert "1 to 50 of 303 agents" in seen.part("agents")
        assert "1 to 50 of 305 arms" in seen.part("arms")
        last = site.get("/team?arms=301&agents=51").ids
        assert {"arm-301", "arm-305", "agent-51", "agent-100"} < last
        assert not {"arm-300", "agent-50", "agent-101"} & last
        refused = site.refused("/arms/arm-305", do="rename", name="area 1")
        assert {"arm-301", "arm-305"} < refused.ids
        assert "arm-50" not in refused.ids
        for choice in ("#form-cards .ticks label", "#link-agent option"):
            assert [one.get_text() for one in seen.all(choice)][-1] == "Ranger 303"

    @pytest.mark.parametrize(
        ("method", "part", "fields"),
        [
            ("GET", "/team", {}),
            ("GET", "/api", {}),
            ("GET", "/api/links", {}),
            ("POST", "/arms/arm-1", {"do": "rename", "name": ""}),
            ("POST", "/arms", {"arms": "area 1"}),
            ("POST", "/agents", {"name": "Ada", "sensitivity": "2"}),
            ("POST", "/settings", {"do": "season", "season": "-1"}),
            ("POST", "/links", {"role": "nobody", "name": "x"}),
            ("POST", "/cards", {"expires": "0"}),
        ],
    )
    def test_while_a_long_list_is_drawn_others_write(self, make, method, part, fields):
        site = make(arms=[f"area {i}" for i in range(1, 601)])
        places, path = site.app.state.places, site.home + part
        if part.startswith("/api"):
            path = f"/api{site.home}{part.removeprefix('/api')}"
        headers = {"Cookie": f"hb_owner={OWNER}", "Origin": "http://127.0.0.1"}

        async def answered():
            async with AsyncExitStack() as end, calling(site.app, OWNER) as client:
                large = await end.enter_async_context(AsyncExitStack())
                await large.enter_async_context(places.large.turn(somebody()))
                drawn = asyncio.create_task(
                    client.request(method, path, data=fields, headers=headers)
                )
                await until(lambda: places.large.waiting == 1)
                assert not places.writing.full
                noted = await client.post(
                    f"{site.home}/notes", data={"text": "meanwhile"}, headers=headers
                )
                await large.aclose()
                return noted.status_code, (await drawn).status_code

        assert asyncio.run(answered()) == (303, 200 if method == "GET" else 422)
