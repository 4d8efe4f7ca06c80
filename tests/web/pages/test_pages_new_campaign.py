"""Making a campaign in the browser: what is wrong stands beside its field, nothing typed is lost, nothing is made by halves."""

import asyncio
import difflib
import json
import re
import threading
import time
from html import unescape

import pytest
from scipy.stats import beta

from heterobandits.campaigns import service
from heterobandits.campaigns.files.csv_tables import read_last_season
from heterobandits.campaigns.files.templates import load_template, template_files
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.storage.repository import Author
from heterobandits.policies.policy import CATALOGUE
from heterobandits.web import turns
from heterobandits.web.pages import new_campaign
from markup import Page
from serving import NORTH, OWNER, Visitor, app_on, calling, somebody

FIELDS = ("name", "agents", "arms", "season", "policy", "delta", "seed")
PARK = {"name": "Park", "agents": "Ana\t0.9\nBen\t0.6", "arms": "river\nhill\ngate", "season": "12", "seed": "3"}  # fmt: skip
HOSTILE = "<b>x</b> {{ 7*7 }} & \"two\" 'one' --> </textarea></script>"
RATE_HINT = "a number from 0 to 1 or a percentage, such as 0.85 or 85 %"


class Form(Page):
    """The form of a new campaign, and what is said beside its fields."""

    @property
    def marked(self):
        return [field["name"] for field in self.all("[aria-invalid]")]

    @property
    def said(self):
        lines = self.all("div[id^=told-] :is(li, p)")
        beside = {}
        for line in lines:
            field = line.find_parent("div")["id"].removeprefix("told-")
            beside.setdefault(field, []).append(line.get_text())
        return beside


@pytest.fixture
def world(tmp_path):
    app, log = app_on(tmp_path / "campaigns.db")
    return app, log


@pytest.fixture
def log(world):
    return world[1]


@pytest.fixture
def owner(world):
    with Visitor(world[0], OWNER) as visitor:
        yield visitor


def refused(answer, log):
    """The form shown again; nothing was made."""
    assert answer.status_code == 422
    assert log.store.heads() == []
    return Form(answer.text)


def made(answer, log):
    """The campaign that a form has made, the only one."""
    assert answer.status_code == 303, Form(answer.text).said
    (head,) = log.store.heads()
    assert answer.headers["location"] == f"/campaigns/{head.campaign}"
    return log.state(head.campaign)


class TestTheForm:
    """Empty, or filled from a template."""

    def test_it_is_empty_and_offers_templates_and_policies(self, owner):
        answer = owner.get("/new")
        shown = Form(answer.text)
        assert {shown.fields[name] for name in FIELDS} == {"", "0"}
        assert (shown.fields["low"], shown.fields["high"]) == ("0.05", "0.5")
        assert [f"/new?template={name}" in shown.references for name in ("rangers", "tests", "hotels")] == [True] * 3  # fmt: skip
        options = re.findall(r'<option value="([^"]*)"[^>]*>([^<]*)', answer.text)
        assert options[0][0] == ""
        assert [name for name, _ in options[1:4]] == ["season", "posterior-sorted", "posterior-sorted-window"]  # fmt: skip
        groups = [group["label"] for group in shown.all("optgroup")]
        assert groups == ["Recommended", "For researchers"]
        assert all(": for " in text for _, text in options[1:4])
        plannable = {name for name, entry in CATALOGUE.items() if not entry.simulated_only}
        assert {name for name, _ in options[1:]} == plannable
        assert ("kl-ucb", "KL-UCB") in options
        assert "oracle" not in plannable

    @pytest.mark.parametrize("name", sorted(template_files()))
    def test_a_template_makes_the_campaign_that_it_is(self, owner, log, name):
        answer = owner.get(f"/new?template={name}")
        assert "The numbers are made up." in answer.text
        shown = Form(answer.text)
        state = made(owner.submit("/new", **shown.fields | {"name": "Mine"}), log)
        told = load_template(name)
        other = log.state(service.create(log, Author("x"), name="x", **told).state.campaign)
        assert state.agent_names == other.agent_names
        assert [row.reports for row in state.rows] == [row.reports for row in other.rows]
        assert list(state.arm_names) == told["arms"]
        assert (state.season, state.policy) == (told.get("season"), other.policy)

    def test_a_template_that_is_not_there_is_named(self, owner):
        answer = owner.get("/new?template=ragners")
        assert answer.status_code == 422
        assert "did you mean “rangers”?" in answer.text

    def test_a_page_is_small(self, owner):
        assert len(owner.get("/new?template=tests").content) < 20_000


class TestMaking:
    """What the fields say is what is made."""

    def test_all_fields(self, owner, log):
        more = {"policy": "kl-ucb", "delta": "0,1", "seed": "7"}
        state = made(owner.submit("/new", **PARK | more), log)
        assert (state.name, state.season, state.seed) == ("Park", 12, 7)
        assert list(state.agent_names) == ["Ana", "Ben"]
        assert [row.reports.sensitivity for row in state.rows] == [0.9, 0.6]
        assert list(state.arm_names) == ["river", "hill", "gate"]
        assert (state.policy.name, state.policy.delta) == ("kl-ucb", 0.1)

    def test_the_policy_follows_the_season_unless_it_is_chosen(self, owner, log):
        state = made(owner.submit("/new", **PARK | {"season": " "}), log)
        assert (state.season, state.policy.name) == (None, "posterior-sorted")
        done = owner.submit("/new", **PARK | {"name": "Other"})
        assert log.state(done.headers["location"].rpartition("/")[2]).policy.name == "season"

    @pytest.mark.parametrize(
        ("agents", "sensitivities"),
        [
            ("Ana\t0,9\r\nBen\t0,75", [0.9, 0.75]),
            ("Ana;0,9\nBen;0,75\n", [0.9, 0.75]),
            ("Ana,0.9\nBen,.75", [0.9, 0.75]),
            ("\n\nName;Sensitivity;Tests\nAna;0,9;\n\nBen;0,75;1\n", [0.9, 0.75]),
            ("tests,name,calibration\n1,Ana,17/20\n1,Ben,9 of 10", [18 / 22, 10 / 12]),
        ],
    )
    def test_however_the_agents_were_copied(self, owner, log, agents, sensitivities):
        state = made(owner.submit("/new", **PARK | {"agents": agents}), log)
        assert list(state.agent_names) == ["Ana", "Ben"]
        found = [row.reports.sensitivity for row in state.rows]
        assert found == pytest.approx(sensitivities)

    def test_a_guess_that_is_kept_is_known_beforehand_of_all_arms(self, owner, log):
        assert 'name="keep" value="1">' in owner.get("/new").text
        fields = PARK | {"low": "0,1", "high": "0,3", "keep": "1"}
        state = made(owner.submit("/new", **fields), log)
        # a mean that lies evenly between these has the mean 0.2 and the variance 0.04 / 12; a Beta with a + b = 47 has the same
        for arm in state.arms:
            a, b = arm.prior
            assert a / (a + b) == pytest.approx(0.2)
            assert a * b / ((a + b) ** 2 * (a + b + 1)) == pytest.approx(0.04 / 12)
        plain = owner.submit("/new", **PARK | {"name": "Plain", "low": "0,1"})
        state = log.state(plain.headers["location"].rpartition("/")[2])
        assert [arm.prior for arm in state.arms] == [None] * 3

    def test_a_second_column_says_what_is_known_beforehand(self, owner, log):
        arms = "name;prior\nriver;5 of 120\nhill;2 % to 10 %\ngate;"
        shown = json.loads(owner.submit("/new/check", **PARK | {"arms": arms}).text)["arms"]
        assert shown["lines"][0] == "Known beforehand of 2 of 3:"
        assert shown["lines"][1] == "river: 4.9 %, as if 5 were found in 120 tests"
        state = made(owner.submit("/new", **PARK | {"arms": arms}), log)
        river, hill, gate = (arm.prior for arm in state.arms)
        assert (river, gate) == ((6.0, 116.0), None)
        assert beta(*hill).ppf([0.5, 0.99]) == pytest.approx([0.02, 0.1], abs=1e-6)

    def test_what_last_season_found_is_known_beforehand_of_arms_of_which_nothing_else_is(
        self, owner, log, tmp_path
    ):
        visits = "arm\tsuccesses\ttests\tsensitivity\nriver\t3\t10\t0,5\ngate\t1\t4\t\nriver\t1\t10\t\nhill\t9\t9\t\n\ngate\t\t\t\n"
        fields = PARK | {
            "visits": visits,
            "counts": "50 %",
            "arms": "name;prior\nriver;\nhill;5 of 120\ngate;",
        }
        said = json.loads(owner.submit("/new/check", **fields).text)
        assert said["visits"]["errors"] == said["counts"]["errors"] == []
        assert [line.partition(":")[0] for line in said["arms"]["lines"][1:]] == [
            "river",
            "hill",
            "gate",
        ]
        state = made(owner.submit("/new", **fields), log)
        river, hill, gate = (arm.prior for arm in state.arms)
        # what these visits come to stands in tests/campaigns/test_priors.py
        path = tmp_path / "visits.csv"
        path.write_text(
            "arm,successes,tests,sensitivity\nriver,3,10,0.5\ngate,1,4,\nriver,1,10,\nhill,9,9,\n"
        )
        before = read_last_season(path, [{"name": name} for name in ("river", "hill", "gate")], 0.5)
        assert (river, hill, gate) == (before["river"], (6.0, 116.0), before["gate"])

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"visits": "arm,successes,tests\nriver,1,2\nmoon,1,2\nhill,3,2"}, {"visits": ["line 3: unknown arm “moon”", "line 4: please give a whole number from 0 to 2, not 3"]}),
            ({"visits": "arm,tests\nriver,1"}, {"visits": ["line 1: no column is called “successes”"]}),
            ({"visits": "arm,successes,tests\nriver,1,2", "counts": "150 %"}, {"counts": ["Please give a number from 0, not at all"]}),
            ({"visits": "arm,successes,tests\nriver,1,2", "counts": "half"}, {"counts": ["Please give a number from 0, not at all"]}),
            ({"arms": "name;prior\nriver;often\nhill;\ngate;"}, {"arms": ["line 2: please write it such as “2 % to 10 %”"]}),
        ],
    )  # fmt: skip
    def test_of_what_is_wrong_nothing_is_taken_over_by_half(self, owner, log, fields, said):
        shown = refused(owner.submit("/new", **PARK | fields), log)
        wrong = {field: lines for field, lines in shown.said.items() if field in shown.marked}
        assert wrong.keys() == said.keys()
        for field, lines in said.items():
            assert len(wrong[field]) == len(lines)
            for line, begin in zip(wrong[field], lines, strict=True):
                assert line.startswith(begin)
        assert shown.fields["visits"] == fields.get("visits", "")
        assert len(shown.all("details[open] #visits")) == ("visits" in fields)

    @pytest.mark.parametrize(
        ("low", "high", "field"), [("0.3", "0.3", "low"), ("x", "0.3", "low"), ("0.1", "2", "high")]
    )
    def test_a_guess_that_cannot_be_kept(self, owner, log, low, high, field):
        fields = PARK | {"low": low, "high": high, "keep": "1"}
        shown = refused(owner.submit("/new", **fields), log)
        assert shown.marked == [field]
        assert field in shown.said
        assert shown.all("#keep[checked]")

    def test_a_form_sent_twice_makes_one_campaign(self, owner, log):
        fields = PARK | {"key": "0123456789abcdef"}
        first, second = (owner.submit("/new", **fields) for _ in range(2))
        state = made(first, log)
        assert second.status_code == 303
        assert second.headers["location"] == first.headers["location"]
        assert state.number == 1

    def test_a_name_that_is_taken_is_refused_even_if_it_only_looks_like_it(self, owner, log):
        service.create(log, Author("Vera"), **NORTH)
        before = log.store.heads()
        answer = owner.submit("/new", **PARK | {"name": "North \u200b park "})
        assert answer.status_code == 422
        (said,) = Form(answer.text).said["name"]
        assert said == f"there is a campaign 'North park' ({before[0].campaign}) already: choose another name"  # fmt: skip
        assert log.store.heads() == before


class TestMistakes:
    """Each beside its field, all at once, with all that was typed."""

    @pytest.mark.parametrize(
        ("field", "typed", "said"),
        [
            ("name", "", "Please give a name."),
            ("agents", "", "Please list at least one agent."),
            ("agents", "name,sensitivity", "There is only the first line, which names the columns"),
            ("agents", "\nAna\t0.9\n\nBen\t1.2", f"line 4: please give {RATE_HINT}, not 1.2"),
            ("arms", " \n", "Please list at least one arm."),
            ("arms", "river\n\nriver\nhill", "line 3: “river” is there already: choose another name"),
            ("arms", "river", "There are 2 agents and 1 arm: each agent needs an arm of their own"),
            ("season", "long", "Please give a whole number from 1 to 2,147,483,647, not “long”"),
            ("policy", "luck", "unknown policy “luck”: "),
            ("seed", "-1", "Please give a whole number from 0 to "),
        ],
    )  # fmt: skip
    def test_one_field(self, owner, log, field, typed, said):
        fields = PARK | {"policy": "cucb", "delta": "0.2"} | {field: typed}
        shown = refused(owner.submit("/new", **fields), log)
        (message,) = shown.said[field]
        assert message.startswith(said) if said.endswith(" ") else message == said
        assert shown.marked == [field]
        assert all(said[0][0].isdigit() for name, said in shown.said.items() if name != field)
        del fields["policy"]  # what is no policy cannot be chosen
        assert {name: shown.fields[name] for name in fields} == fields

    def test_all_at_once_and_all_lines(self, owner, log):
        agents = "Ana;0,9\n\nBen;1,2\nCy;x\nAna;0,5"
        fields = {"name": " ", "agents": agents, "arms": "a\na\nagent-1", "season": "-1", "delta": "x", "seed": "y", "policy": "z"}  # fmt: skip
        shown = refused(owner.submit("/new", **fields), log)
        assert shown.marked == list(FIELDS)
        assert shown.said["agents"] == [
            f"line 3: please give {RATE_HINT}, not 1.2",
            f"line 4: please give {RATE_HINT}, not “x”",
            "line 5: “Ana” is there already: choose another name",
        ]
        assert [line.partition(":")[0] for line in shown.said["arms"]] == ["line 2", "line 3"]
        assert [len(shown.said[name]) for name in FIELDS] == [1, 3, 2, 1, 1, 1, 1]

    def test_blank_lines_before_a_table_stay_there(self, owner, log):
        fields = PARK | {"agents": "\n\n\tx\nAna\t2\n\n", "arms": "\n a\n"}
        shown = refused(owner.submit("/new", **fields), log)
        assert (shown.fields["agents"], shown.fields["arms"]) == (fields["agents"], fields["arms"])
        assert shown.said["agents"][0] == "line 3: the name is missing"

    def test_hostile_names_are_text(self, owner, log):
        fields = dict.fromkeys(FIELDS, HOSTILE) | {"arms": f"{HOSTILE}\n{HOSTILE}"}
        answer = owner.submit("/new", **fields)
        shown = refused(answer, log)
        for name in ("name", "agents", "arms", "season", "delta", "seed"):
            assert shown.fields[name] == fields[name]
        assert "<b>" not in answer.text
        assert "</textarea></script>" not in answer.text
        plain = HOSTILE.replace('"', "`")  # in a table a cell with quotes is read as such
        state = made(owner.submit("/new", **PARK | {"name": HOSTILE, "arms": f"{plain}\nb"}), log)
        assert (state.name, state.arm_names[0]) == (HOSTILE, plain)

    def test_of_very_many_wrong_lines_some_are_shown(self, owner, log):
        agents = "\n".join(f"agent number {i}\t7" for i in range(1, 1001))
        shown = refused(owner.submit("/new", **PARK | {"agents": agents}), log)
        assert shown.said["agents"][0].startswith("line 1: ")
        assert shown.said["agents"][19:] == [f"line 20: please give {RATE_HINT}, not 7", "and 80 more, at least"]  # fmt: skip

    def test_what_cannot_be_read_as_text_is_refused(self, owner, log):
        answer = owner.post("/new", content=b"name=%ff", headers={"Origin": "http://127.0.0.1"})
        assert answer.status_code == 400
        assert log.store.heads() == []


class TestSize:
    """Large tables take no time, and too large ones are refused."""

    def test_ten_thousand_lines(self, owner, log):
        arms = "\n".join(f"arm number {i}" for i in range(10_000))
        owner.submit("/new/check", **PARK)
        for path in ("/new/check", "/new"):
            begin = time.process_time()
            answer = owner.submit(path, **PARK | {"arms": arms})
            assert time.process_time() - begin < 10.0  # of every pair of lines it would be minutes
            assert answer.status_code in (200, 303)
        (head,) = log.store.heads()
        assert log.state(head.campaign).arm_names[-1] == "arm number 9999"

    @pytest.mark.parametrize("path", ["/new", "/new/check", "/new/try"])
    def test_over_a_megabyte(self, owner, log, path):
        answer = owner.submit(path, **PARK | {"agents": "Ana\t0.9\n" * 120_000})
        assert answer.status_code == 413
        assert "the body has over 1,000,000 bytes: at most that many" in answer.text
        assert log.store.heads() == []

    @pytest.mark.parametrize("path", ["/new", "/new/check"])
    def test_more_members_than_there_may_be(self, owner, path):
        arms = "\n".join(f"arm {i}" for i in range(10_001))
        answer = owner.submit(path, **PARK | {"arms": arms})
        assert "there would be 10,001 arms: a campaign has at most 10,000" in answer.text

    def test_more_pairs_than_there_may_be(self, owner, log):
        agents, arms = ("\n".join(f"{what}{i}\t0.5" for i in range(1100)) for what in "ab")
        shown = refused(owner.submit("/new", **PARK | {"agents": agents, "arms": arms}), log)
        assert shown.said["arms"] == ["1,100 agents and 1,100 arms are too many: the two numbers multiplied may come to 1,000,000"]  # fmt: skip


class TestLiveCheck:
    """Says the same as the form, and writes nothing."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"name": ""},
            {"name": "", "agents": "Ana;0,9\n\nBen;1,2\nBen;x", "arms": "a\na", "season": "x"},
            {"policy": "season", "season": "", "delta": "0", "seed": "z"},
            {"arms": HOSTILE},
        ],
    )
    def test_the_same_as_the_form(self, owner, log, changes):
        fields = PARK | changes
        answer = owner.submit("/new/check", **fields)
        assert answer.headers["content-type"] == "application/json"
        shown = refused(owner.submit("/new", **fields), log)
        for name in FIELDS:
            told = answer.json()[name]
            said = told["errors"] or ([told["said"]] if told["said"] else [])
            assert said == shown.said.get(name, [])

    @pytest.mark.parametrize("path", ["/new/check", "/new/try", "/new"])
    @pytest.mark.parametrize("large", [False, True])
    def test_to_look_is_in_the_way_of_nobody_who_writes_and_drawn_in_a_thread(
        self, world, path, large, monkeypatch
    ):
        """What is large is not in the way of what is quick, either."""
        app, drawn = world[0], []
        arms = "\n".join(f"a{i}" for i in range(500 if large else 3))
        wrong = {"low": "2"} if path == "/new/try" else {"season": "x"}
        fields = PARK | {"name": "x", "arms": arms} | wrong
        monkeypatch.setattr(turns, "TURN_TIMEOUT_S", 0.2)
        for name in ("notes_of_fields", "render_page", "draft_campaign"):
            done = getattr(new_campaign, name)

            def watched(*given, done=done, **more):
                drawn.append(threading.current_thread() is threading.main_thread())
                return done(*given, **more)

            monkeypatch.setattr(new_campaign, name, watched)

        async def status(busy):
            headers = {"Cookie": f"hb_owner={OWNER}", "Origin": "http://127.0.0.1"}
            async with busy.turn(somebody()), calling(app, OWNER) as client:
                return (await client.post(path, data=fields, headers=headers)).status_code

        expected = 200 if path == "/new/check" else 422
        assert asyncio.run(status(app.state.places.writing)) == expected
        assert drawn
        assert not any(drawn)
        assert asyncio.run(status(app.state.places.large)) == (503 if large else expected)

    def test_of_a_table_of_wrong_names_one_is_looked_for(self, owner, monkeypatch):
        looked = []
        near = difflib.get_close_matches
        monkeypatch.setattr(
            difflib,
            "get_close_matches",
            lambda *given, **more: looked.append(1) or near(*given, **more),
        )
        visits = "arm,successes,tests\n" + "".join(f"rivver{i},1,2\n" for i in range(9))
        told = owner.submit("/new/check", **PARK | {"visits": visits}).json()
        said = told["visits"]["errors"]
        assert said[0].endswith("did you mean “river”?")
        assert said[8] == "line 10: unknown arm “rivver8”"
        assert len(looked) == 1

    def test_what_is_right_is_counted_and_nothing_is_made(self, owner, log):
        told = owner.submit("/new/check", **PARK).json()
        assert told["agents"] == {"errors": [], "said": "2 agents: Ana to Ben", "count": 2}
        assert told["arms"] == {"errors": [], "said": "3 arms: river to gate", "count": 3}
        assert not any(one["errors"] for one in told.values())
        assert log.store.heads() == []

    @pytest.mark.parametrize("arms", [PARK["arms"], ""])
    def test_guesses_are_checked_before_there_is_something_to_try(self, owner, arms):
        told = owner.submit(
            "/new/check", **PARK | {"arms": arms, "low": "0,6", "high": "50"}
        ).json()
        assert len(told["low"]["errors"]) == 1
        assert told["high"]["errors"] == []
        right = owner.submit("/new/check", **PARK | {"arms": arms, "low": "5%", "high": "50 %", "sensitivity": "85"})  # fmt: skip
        assert not any(right.json()[name]["errors"] for name in ("low", "high", "sensitivity"))
        wrong = owner.submit("/new/check", **PARK | {"arms": arms, "low": "2", "sensitivity": "1.2"}).json()  # fmt: skip
        assert wrong["low"]["errors"]
        assert wrong["sensitivity"]["errors"]

    def test_what_is_most_likely_not_meant_is_asked_about(self, owner, log):
        odd = PARK | {"season": "1000000000", "agents": "Ana\t0.9\nANA\t0.6"}
        told = owner.submit("/new/check", **odd).json()
        assert told["sure"]["errors"] == [
            "1,000,000,000 rounds in the season: is that right?",
            "Ana and ANA: are these two?",
        ]
        shown = owner.submit("/new", **odd)
        assert shown.status_code == 422
        assert log.store.heads() == []
        assert Form(shown.text).element("ask-sure").get("hidden") is None
        assert owner.submit("/new", **odd | {"sure": "1"}).status_code == 303
        assert not owner.submit("/new/check", **PARK).json()["sure"]["errors"]
        assert Form(owner.get("/new").text).element("ask-sure").get("hidden") is not None

    def test_a_first_line_that_is_left_out_is_said(self, owner):
        told = owner.submit("/new/check", **PARK | {"agents": "Nom;Sensibilité\nAna;90 %\nBen;75"}).json()  # fmt: skip
        assert told["agents"]["said"] == "2 agents: Ana to Ben"
        assert told["agents"]["lines"] == [
            "The first line, Nom;Sensibilité, is taken as a heading."
        ]


class TestTrying:
    """The campaign on guessed means, before there is one."""

    def test_without_javascript_it_is_a_page_with_all_that_was_typed(self, owner, log):
        fields = PARK | {"name": "", "low": "0,1", "high": "0.6", "sensitivity": "0,7"}
        answer = owner.submit("/new/try", **fields)
        assert answer.status_code == 200
        shown = Form(answer.text)
        assert {name: shown.fields[name] for name in fields} == fields
        text = shown.text
        assert "In the next 12 rounds the team is expected to make" in text
        assert re.search(r"[Oo]ne more agent with sensitivity 0.7 would", text)
        assert "whose means are drawn evenly between 0.1 and 0.6" in text
        assert log.store.heads() == []

    def test_bit_by_bit_it_is_the_same(self, owner, log):
        fields = PARK | {"low": "0.1", "high": "0.6", "sensitivity": "0.7"}
        page = Page(owner.submit("/new/try", **fields).text).text
        answer = owner.submit("/new/try?stream=1", **fields)
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert lines[0] == {"share": 0.0}
        assert Page(lines[-1]["html"]).text in page
        assert log.store.heads() == []

    def test_of_a_season_without_an_end_thirty_rounds_are_tried(self, owner):
        text = Page(owner.submit("/new/try", **PARK | {"season": ""}).text).text
        assert "In the next 30 rounds" in text
        assert "drawn evenly between 0.05 and 0.5" in text

    def test_one_more_agent_is_like_the_middle_of_the_team_unless_it_is_said(self, owner):
        text = Page(owner.submit("/new/try", **PARK | {"sensitivity": " "}).text).text
        assert re.search(r"[Oo]ne more agent with sensitivity 0.75 would", text)

    @pytest.mark.parametrize("stream", ["", "?stream=1"])
    def test_what_is_wrong_stands_beside_its_field(self, owner, log, stream):
        wrong = {"low": "-1", "high": "x", "sensitivity": "1.5"}
        shown = refused(owner.submit(f"/new/try{stream}", **PARK | wrong), log)
        assert shown.marked == ["low", "high", "sensitivity"]
        assert shown.said["low"] == [f"Please give {RATE_HINT}, not -1"]
        assert shown.said["high"] == [f"Please give {RATE_HINT}, not “x”"]
        assert shown.said["sensitivity"] == [f"Please give {RATE_HINT}, not 1.5"]
        assert {name: shown.fields[name] for name in wrong} == wrong
        shown = refused(owner.submit(f"/new/try{stream}", **PARK | {"agents": "Ana\t2"}), log)
        assert shown.said["agents"] == [f"line 1: please give {RATE_HINT}, not 2"]


def test_a_link_of_a_campaign_in_the_place_of_the_servers_makes_no_other(world):
    app, log = world
    app.state.slowing.FIRST = 0.0
    campaign = service.create(log, Author("Vera"), **NORTH).state.campaign
    _, token = issue_link(log, campaign, Author("Vera"), role="owner", name="Mal")
    with Visitor(app) as visitor:
        visitor.cookies.set("hb_owner", token)
        assert visitor.submit("/new", **PARK).status_code == 403
    assert len(log.store.heads()) == 1


def test_texts_are_escaped_once(owner):
    answer = owner.get("/new?template=tests")
    assert "&amp;#" not in answer.text
    assert '"tests" is how many' in unescape(answer.text)
