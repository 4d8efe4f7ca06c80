"""Campaigns on the command line: a season from beginning to end, mistakes, hostile names, two people at once, true docs."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from heterobandits.campaigns import responses_schema, service
from heterobandits.campaigns.analysis.estimates import ArmEstimate
from heterobandits.campaigns.events import GENESIS_HASH, Draft, render_event_line, seal_events
from heterobandits.campaigns.files.csv_tables import read_team
from heterobandits.campaigns.outcomes import correct_outcomes
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store
from heterobandits.cli.campaign.interval_chart import (
    ASCII_MARKS,
    UNICODE_MARKS,
    render_bar,
    render_chart,
)
from heterobandits.cli.campaign.options import open_campaign
from heterobandits.cli.campaign.text import print_change
from paths import ROOT
from processes import COMMAND

VERA = Author("Vera")
PAGE = ROOT / "docs" / "campaigns.md"


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    """A folder of one's own, a name, and a terminal of 80 letters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HETEROBANDITS_WHO", "Vera")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def campaign(called):
    """What a command prints; it must succeed."""

    def call(verb, *arguments):
        code, out, err = called("campaign", verb, "park.db", *arguments)
        assert code == 0, err
        return out

    return call


@pytest.fixture
def told(campaign):
    """The same as an object."""
    return lambda verb, *arguments: json.loads(campaign(verb, *arguments, "--format", "json"))


@pytest.fixture
def refused(called):
    """The one line with which a command refuses."""

    def call(verb, *arguments):
        code, out, err = called("campaign", verb, "park.db", *arguments)
        assert (code, out) == (2, ""), err
        assert err.startswith("heterobandits: ")
        assert err.count("\n") == 1
        return err.removeprefix("heterobandits: ").rstrip("\n")

    return call


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder with a campaign of three rangers and four areas, and the files it is made of."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "agents.csv").write_text("name,sensitivity,tests\nAna,0.9,1\nBen,0.6,1\nChi,0.8,12\n")
    (folder / "arms.csv").write_text("name\nriver\nhill\ngate\nford\n")
    with closing(Store(folder / "park.db")) as store:
        agents, arms = read_team(folder / "agents.csv", folder / "arms.csv")
        service.create(Repository(store), VERA, name="North park", agents=agents, arms=arms, seed=3)
    return folder


@pytest.fixture(scope="module")
def begun_round(begun, tmp_path_factory):
    """The same with a round that waits."""
    folder = tmp_path_factory.mktemp("planned")
    shutil.copytree(begun, folder, dirs_exist_ok=True)
    with open_campaign(str(folder / "park.db"), None) as (log, state):
        service.plan_round(log, state.campaign, VERA)
    return folder


@pytest.fixture
def park(begun, campaign):
    """That campaign, to go on with."""
    shutil.copytree(begun, Path(), dirs_exist_ok=True)
    return campaign


def places(plan):
    """Who goes where, by name."""
    return {one["agent"]: one["arm"] for one in plan["assignments"]}


class TestASeason:
    """Three rounds with an absence, a late result, a correction and a new ranger."""

    def test_from_a_template_to_its_verification(self, campaign, told, refused):
        rangers = (
            "--template",
            "rangers",
            "--stated",
            "0 of 0",
        )  # which says nothing: each mean is as likely
        made = campaign("new", "--name", "North park", *rangers)
        assert "6 rangers, 10 areas" in made
        first = told("plan", "--absent", "Ben")
        assert (first["round"], first["event"]) == (1, 2)
        assert places(first)["Ben"] is None
        assert len(set(places(first).values())) == 6
        (lost,) = first["prices"]["constraints"]
        assert (lost["kind"], lost["agent_id"]) == ("absent", "agent-2")
        assert lost["lost"] == pytest.approx(0.75 / 2)  # all are believed to be 1/2
        campaign("report", "Ana=1", "Chi=0", "Dan=1", "Eva=-")
        second = told("plan")
        assert told("status")["waiting"] == [1, 2]
        assert None not in places(second).values()
        assert "round 1 waits for Femi; round 2 waits for Ana, Ben" in refused("report", "Ana=1")
        campaign("report", "--round", 2, *(f"{name}=0" for name in places(second)))
        late = campaign("report", "Femi=1")  # now round 1 is the only one that waits
        assert late == f"week 1: Femi at {places(first)['Femi']}: 1 of 1\n"
        corrected = campaign("correct", "--round", 1, "Ana=0")
        assert corrected.endswith(": corrected to 0 of 1, before it was 1 of 1\n")
        assert "Gus (sensitivity 0.8)" in campaign("add", "agent", "Gus", "0.8")
        third = told("plan", "--closed", "lake shore")
        assert places(third)["Gus"] is not None
        assert "lake shore" not in places(third).values()
        why = campaign("explain", "Gus")
        assert f"Gus -> {places(third)['Gus']} to " in why
        assert "Ana ->" not in why
        state = told("status")
        assert [one["name"] for one in state["agents"]][-1] == "Gus"
        assert [one["round"] for one in state["visits"]] == [3] * 7
        by_name = {arm["name"]: arm for arm in state["estimates"]}
        ana, dan = places(first)["Ana"], places(first)["Dan"]
        again = [name for name, arm in places(second).items() if arm == dan]
        assert by_name[dan]["pulls"] == 1 + len(again)
        assert by_name[dan]["successes"] == 1
        assert by_name[ana]["successes"] == 0  # it was corrected
        assert sum(arm["pulls"] for arm in by_name.values()) == 4 + 6  # Eva's visit was not done
        shown = campaign("status")
        assert "round 3 waits for Ana, Ben, Chi, Dan, Eva, Femi, Gus" in shown
        assert all(name in shown for name in by_name)
        checked = told("verify")
        assert (checked["events"], checked["rounds"]) == (state["number"], 3)
        assert checked["hash"] == state["hash"]
        # created, 3 plans, 4 + 6 + 1 reports, a correction, a ranger
        assert state["number"] == 1 + 3 + 11 + 1 + 1

    def test_tests_far_from_the_plan_are_marked_and_too_many_are_refused(self, park, told, refused):
        where = places(told("plan"))["Chi"]
        Path("told.csv").write_text("agent,successes,tests\nAna,1,1000001\nChi,3,2000000\n")
        both = refused("report", "--csv", "told.csv")
        assert "'Ana' is 1,000,001, and 1 planned: at most 1,000,000" in both
        assert "'Chi' is 2,000,000, and 12 planned" in both
        Path("told.csv").write_text("agent,successes,tests\nChi,3,1000\n")
        said = f"round 1: Chi at {where}: 3 of 1000 (12 planned)"
        assert said in park("report", "--csv", "told.csv")
        assert said in park("history")
        after = "corrected to 3 of 12, before it was 3 of 1000 (12 planned)"
        assert after in park("correct", "--round", 1, "Chi=3/12")
        assert after in park("history")

    def test_the_history_says_who_when_and_what_was_before(self, park, told):
        where = places(told("plan"))["Ana"]
        park("report", "Ana=1", "--who", "Ana")
        park("correct", "--round", 1, "Ana=0")
        park("withdraw", "--round", 1, "Ana")
        park("report", "Ana=-")
        park("rename", "agent", "Ana", "Anna")
        park("note", "rain\nall day", "--round", 1)
        park("close", "--round", 1)
        shown = park("history").splitlines()
        texts = [row[shown[0].index("what") :] for row in shown[3:]]
        assert shown[3].split()[3] == "Ana"
        assert texts == [
            f"round 1: Ana at {where}: 1 of 1",
            f"round 1: Ana at {where}: corrected to 0 of 1, before it was 1 of 1",
            f"round 1: Ana at {where}: withdrawn, before it was 0 of 1",
            f"round 1: Ana at {where}: not done",
            "renamed the agent Ana to Anna",
            "round 1: rain / all day",
            "closed round 1",
        ]
        events = told("history")["events"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", events[2]["time"])
        assert [one["who"] for one in events] == ["Vera", "Vera", "Ana", *["Vera"] * 6]
        assert len(told("history", "--agent", "Anna")["events"]) == 7
        assert [one["number"] for one in told("history", "--agent", "Ben")["events"]] == [1, 2]
        last = told("history", "--last", 2)
        assert [one["number"] for one in last["events"]] == [8, 9]
        assert last["earlier"] == 7
        assert "and 7 before: --last 9 shows them all" in park("history", "--last", 2)

    def test_the_last_round_is_cancelled_and_what_was_done_last_undone(self, park, told, refused):
        told("plan")
        assert park("cancel", "--round", 1) == "cancelled round 1\n"
        assert refused("cancel", "--round", 1) == "round 1 is not planned: none is yet"
        assert refused("explain") == "no round is planned yet: nothing to explain"
        assert refused("undo").startswith("'round cancelled' cannot be undone: ")
        told("plan")
        park("report", "Ana=1")
        assert "is reported already" in refused("cancel", "--round", 1)
        assert ": withdrawn, before it was 1 of 1" in park("undo")
        assert refused("undo", "--who", "Zoë") == "Vera did that last: nobody else can undo it"
        undone = told("undo")["events"]
        assert [one["kind"] for one in undone] == ["reported"]
        park("verify")

    def test_a_campaign_is_put_away_and_brought_back(self, park, told, refused):
        assert park("archive") == "archived the campaign\n"
        assert told("list")[0]["archived"]
        assert "(archived)" in park("list")
        assert park("status").splitlines()[0].endswith(", archived")
        assert "is archived: bring it back to plan" in refused("plan")
        assert park("unarchive") == "brought the campaign back from the archive\n"
        assert not told("status")["archived"]

    def test_a_price_that_goes_by_an_arm_that_has_changed_says_so(self, called, campaign, told):
        Path("agents.csv").write_text("name,sensitivity,tests\nAna,1,50\n")
        Path("arms.csv").write_text("name\nriver\ngate\n")
        campaign("new", "--name", "North park", "--from", "agents.csv", "arms.csv")
        for n in range(1, 9):
            campaign("plan", "--closed", "gate")
            campaign("report", f"Ana={45 if n <= 4 else 2}/50")
        said = "river has changed: here, as in plans, what was seen of it before and since counts as of one mean."
        closed = ("--preview", "--closed", "river")
        assert told("plan", *closed)["prices"]["warnings"] == [said]
        code, out, err = called("campaign", "plan", "park.db", *closed)
        assert (code, "That river is closed costs" in out) == (0, True)
        assert f"heterobandits: {said}" in err.splitlines()

    def test_a_preview_is_the_plan_and_changes_nothing(self, park, told):
        park("believe", "hill", "2 % to 10 %")
        park("believe", "ford", "2 % to 10 %")
        seen = told("plan", "--preview", "--forbid", "Ana=river", "--force", "Ben=gate")
        assert told("list")[0]["rounds"] == 0
        assert places(seen)["Ben"] == "gate"
        assert places(seen)["Ana"] != "river"
        made = told("plan", "--forbid", "Ana=river", "--force", "Ben=gate")
        assert places(made) == places(seen)
        assert [one["kind"] for one in made["prices"]["constraints"]] in (
            ["forbidden", "forced"],
            ["forced", "forbidden"],
        )
        assert told("list")[0]["rounds"] == 1

    def test_before_anything_is_known_nothing_is_forecast(self, park, told, refused):
        ahead = ("project", "--rounds", 2, "--draws", 20)
        assert refused(*ahead).startswith("Nothing was reported yet, and nothing is stated of any")
        park("believe", "hill", "2 % to 10 %")
        assert "nothing is stated of most" in refused(*ahead)
        park("believe", "ford", "2 % to 10 %")
        assert "went round the arms in turn instead: " in park(*ahead)

    def test_somebody_went_elsewhere(self, park, told, refused):
        told("plan")
        assert "went to river and ford, not as planned" in park(
            "override", "--round", 1, "Ben=river+ford"
        )
        assert refused("report", "Ben=1") == (
            "Ben=1: 'Ben' went to river, ford in round 1: say which arm it is of"
        )
        park("report", "Ben@ford=1", "Ben@river=-")
        state = told("status")
        by_agent = {arm["name"]: arm["by_agent"] for arm in state["estimates"]}
        assert by_agent.pop("ford") == [{"agent": "Ben", "agent_id": "agent-2", "pulls": 1}]
        assert by_agent == {"river": [], "hill": [], "gate": []}
        park("override", "--round", 1, "Ana=-")
        assert "; but stayed home" in park("explain", "Ana")
        assert [one["agent"] for one in told("status")["visits"]] == ["Chi"]

    def test_a_withdrawn_report_is_not_taken_for_one_that_stays(self, park):
        park("plan")
        park("override", "--round", 1, "Ana=river+ford")
        park("report", "Ana@river=1", "Ana@ford=0")
        park("withdraw", "--round", 1, "Ana@river")
        park("override", "--round", 1, "Ana=ford")
        now = park("correct", "--round", 1, "Ana=1")
        assert now == "round 1: Ana at ford: corrected to 1 of 1, before it was 0 of 1\n"
        assert f"{now}and 7 before" in park("history", "--last", 1)

    def test_an_override_says_whether_that_was_the_plan_and_what_goes_with_it(self, park, told):
        there = places(told("plan", "--absent", "Ben"))["Ana"]
        other = next(arm for arm in ("river", "hill") if arm != there)
        park("report", "Ana=1")
        said = [
            park("override", "--round", 1, f"Ana={other}"),
            park("override", "--round", 1, f"Ana={there}"),
            park("override", "--round", 1, "Ben=hill"),
            park("override", "--round", 1, "Ben=-"),
        ]
        assert said == [
            f"round 1: Ana went to {other}, not as planned; its report of 1 of 1 goes with it\n",
            f"round 1: Ana went to {there}, as planned; its report of 1 of 1 goes with it\n",
            "round 1: Ben went to hill, not as planned\n",
            "round 1: Ben stayed home, as planned\n",
        ]
        assert [one["text"] + "\n" for one in told("history", "--last", 4)["events"]] == said
        assert park("withdraw", "--round", 1, "Ana").endswith(": withdrawn, before it was 1 of 1\n")
        assert "goes with it" not in park("override", "--round", 1, f"Ana={other}")
        park("override", "--round", 1, f"Ana={there}")
        assert "; but" not in park("explain")

    def test_one_who_came_later_and_went_along_is_explained(self, park, told, refused):
        park("plan")
        park("add", "agent", "Gus", "0.8")
        assert refused("explain", "Gus") == "'Gus' came after round 1 and was not sent anywhere"
        park("override", "--round", 1, "Gus=hill+gate")
        text = "Gus came after round 1 was planned, and went to hill and gate by hand"
        assert park("explain").splitlines()[-1] == text
        answer = told("explain", "Gus")
        assert answer["explanations"] == []  # nobody planned it
        went = [one["arm"] for one in answer["visits"] if one["agent"] == "Gus"]
        assert went == ["hill", "gate"]

    def test_what_changes_between_rounds(self, park, told, refused):
        park("add", "arm", "lake")
        park("add", "agent", "Dan", "--calibration", "17/20", "--tests", 4)
        park("retire", "agent", "Ben")
        park("revise", "Ana", "--sensitivity", "0.5", "--since", "always")
        park("set", "--season", 12)
        said = park("set", "--policy", "min-width-window", "--delta", "0.01", "--memory", 40)
        assert said == "changed the policy to min-width-window, delta 0.01, memory 40\n"
        park("rename", "campaign", "North park", "South park")
        state = told("status")
        assert (state["name"], state["season"]) == ("South park", 12)
        assert state["policy"] == {"name": "min-width-window", "delta": 0.01, "memory": 40}
        by_name = {one["name"]: one for one in state["agents"]}
        assert by_name["Ana"]["sensitivity"] == 0.5
        assert by_name["Ben"]["retired"]
        assert by_name["Dan"]["sensitivity"] == pytest.approx(18 / 22)  # the posterior mean
        assert (by_name["Dan"]["tests"], by_name["Dan"]["calibration"]) == (4, [17, 20])
        assert places(told("plan"))["Ben"] is None
        assert "  Ben " not in park("plan")
        park("return", "agent", "Ben")
        park("set", "--season", "none")
        assert told("status")["season"] is None
        assert refused("return", "agent", "Ben") == "'Ben' is here already"

    def test_an_arm_is_forgotten_and_who_finds_less(self, park, told, refused):
        names = places(told("plan"))
        park("report", *(f"{name}=1/1" for name in names))
        arm = told("status")["arms"][0]["name"]
        assert park("forget", arm) == f"forgot what was seen of {arm}, up to round 1\n"
        assert told("status")["arms"][0]["forgotten"] == 1
        assert park("remember", arm) == f"took back that {arm} was forgotten\n"
        assert refused("remember", arm) == f"{arm!r} was not forgotten"
        park("set", "--on-change", "forget")
        assert told("status")["on_change"] == "forget"
        found = told("agents")
        assert [one["finds"] for one in found["agents"]] == ["as believed"] * len(found["agents"])
        assert park("agents").splitlines()[0].split()[:2] == ["agent", "sensitivity"]

    def test_shadow_and_project(self, park, told):
        for _ in range(3):
            names = places(told("plan"))
            park("report", *(f"{name}=0/1" for name in names))
        own = told("shadow", "--policy", told("status")["policy"]["name"])
        assert own["differ"] == 0
        other = told("shadow", "--policy", "random")
        assert other["rounds"] == 3
        assert len({one["round"] for one in other["differences"]}) == other["differ"]
        assert all(one["planned"] != one["other"] for one in other["differences"])
        assert "random" in park("shadow", "--policy", "random")
        asked = ("--rounds", 5, "--draws", 30)
        plain = told("project", *asked)
        more = told("project", *asked, "--add-agent", "0.9")
        assert more["plain"].items() <= plain.items()
        assert more["more"] == pytest.approx(more["other"]["detections"] - plain["detections"])
        same = told("project", *asked, "--revise", "Ana=0.9")
        assert same["more"] == pytest.approx(0.0)  # that is what she has
        assert f"expected detections: {plain['detections']:.2f}" in park("project", *asked)


class TestFiles:
    """Where campaigns come from and go to."""

    def test_an_export_is_the_same_campaign_elsewhere(self, park, told, called):
        told("plan")
        park("report", "Ana=1", "Ben=0")
        text = park("export")
        assert len(text.splitlines()) == 4
        Path("park.ndjson").write_text(text, "utf-8")
        code, out, _ = called("campaign", "import", "other.db", "park.ndjson", "--format", "json")
        assert (code, json.loads(out)["new"]) == (0, 4)
        assert json.loads(out)["hash"] == told("verify")["hash"]
        park("report", "Chi=3/12")
        park("export", "--output", "more.ndjson")
        code, out, _ = called("campaign", "import", "other.db", "more.ndjson")
        assert "1 new event of 5" in out
        _, other, _ = called("campaign", "export", "other.db")
        assert other.encode() == Path("more.ndjson").read_bytes()

    def test_a_changed_event_is_found(self, park, refused):
        """SQLite itself refuses to change an event, so one is changed in a file."""
        text = park("export").replace("North park", "South park")
        Path("changed.ndjson").write_text(text)
        Path("park.db").unlink()
        assert "event 1 is not what its hash says" in refused("import", "changed.ndjson")
        assert not Path("park.db").exists()

    def test_several_campaigns_are_told_apart(self, park, told, refused):
        park("new", "--name", "Isle", "--template", "hotels")
        ids = {one["name"]: one["campaign"] for one in told("list")}
        message = refused("plan")
        assert message == (
            f"park.db has 'North park' ({ids['North park']}), 'Isle' ({ids['Isle']}): say which with --campaign"
        )
        assert told("plan", "--campaign", "Isle")["campaign"] == ids["Isle"]
        assert told("status", "--campaign", ids["North park"])["name"] == "North park"
        assert "no campaign in park.db is called 'Island'" in refused(
            "plan", "--campaign", "Island"
        )
        assert "choose another name" in refused("new", "--name", "Isle", "--template", "hotels")
        assert len(told("list")) == 2

    @pytest.mark.parametrize(("name", "agents", "arms"), [("rangers", 6, 10), ("tests", 5, 12), ("hotels", 4, 8)])  # fmt: skip
    def test_templates_plan_and_say_that_they_are_made_up(self, campaign, told, name, agents, arms):
        campaign("new", "--name", "it", "--template", name)
        assert sum(place is not None for place in places(told("plan")).values()) == agents
        assert len(told("status")["arms"]) == arms
        file = ROOT / "src/heterobandits/campaigns/files/examples" / f"{name}.toml"
        assert "The numbers are made up." in file.read_text("utf-8")

    def test_visits_are_inert_in_a_spreadsheet(self, campaign, told):
        names = ["=1+1", "@sum", "'=x", "Ana"]
        Path("agents.csv").write_text("name,sensitivity\n" + "".join(f"{n},0.9\n" for n in names[:3]))  # fmt: skip
        Path("arms.csv").write_text("name\n+1\n-2\nplain\n'quoted\n")
        campaign("new", "--name", "it", "--from", "agents.csv", "arms.csv")
        told("plan")
        campaign("report", "=1+1=1")
        text = campaign("export", "--visits")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == 3
        assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())  # fmt: skip
        assert rows[0]["agent"] == "'=1+1"
        assert (rows[0]["successes"], rows[0]["tests"], rows[0]["status"]) == ("1", "1", "reported")
        assert {row["status"] for row in rows[1:]} == {"waiting"}
        campaign("export", "--visits", "--output", "visits.csv")
        assert Path("visits.csv").read_bytes() == text.encode("utf-8-sig")


def write_past(file, events, *statements):
    """Write events into a database, or change what is there, past all that keeps it whole."""
    names = ("campaign", "number", "time", "who", "kind", "body", "key", "previous", "hash", "version")  # fmt: skip
    connection = sqlite3.connect(file)
    with connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f'DROP TRIGGER "{trigger}"')
        for event in events:
            row = [json.dumps(event.body) if name == "body" else getattr(event, name) for name in names]  # fmt: skip
            connection.execute(
                f"INSERT INTO events ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
                row,
            )
        for statement in statements:
            connection.execute(statement)
    connection.close()


class TestDamage:
    """A log that cannot be read is in nobody's way, is named, and shows what is left of it."""

    WRONG = "event 3 is not what its hash says: it was changed"

    @pytest.fixture
    def damaged(self, park, told):
        """The id of a campaign with a changed report, in a file with one that is whole."""
        told("plan")
        park("report", "Ana=1", "Ben=0")
        park("new", "--name", "Isle", "--template", "hotels")
        write_past(
            "park.db",
            [],
            """UPDATE events SET body = replace(body, '"successes":1', '"successes":0') WHERE number = 3""",
        )
        return told("list")[0]["campaign"]

    def test_the_others_are_listed_used_and_added_to(self, damaged, campaign, told, refused):
        north, isle = told("list")
        assert (north["name"], north["number"], north["rounds"]) == ("North park", 4, None)
        assert north["wrong"] == self.WRONG
        assert (isle["name"], isle["rounds"], isle["wrong"]) == ("Isle", 0, None)
        shown = campaign("list").splitlines()
        assert shown[1].split()[:5] == [damaged, "North", "park", "?", "?"]
        assert shown[-1] == f"campaign 'North park' ({damaged}) cannot be read: {self.WRONG}"
        assert places(told("plan", "--campaign", "Isle"))
        campaign("new", "--name", "Third", "--template", "tests")
        assert "has a campaign 'North park'" in refused(
            "new", "--name", "North park", "--template", "tests"
        )
        message = f"campaign 'North park' ({damaged}) cannot be read: {self.WRONG}"
        assert refused("status", "--campaign", "North park") == message
        assert refused("export", "--visits", "--campaign", damaged) == message

    def test_verify_says_what_when_and_by_whom(self, damaged, refused):
        assert re.fullmatch(
            rf"campaign 'North park' \({damaged}\): event 3, reported, of [\dT:.-]+Z by Vera: "
            "is not what its hash says: it was changed",
            refused("verify", "--campaign", damaged),
        )

    def test_the_history_and_the_export_have_what_can_be_read(self, damaged, called):
        write_past("park.db", [], f"UPDATE events SET body = '{{' WHERE number = 3 AND campaign = '{damaged}'")  # fmt: skip
        code, out, err = called("campaign", "history", "park.db", "--campaign", "North park")
        assert code == 1
        assert "event 3 is not what its hash says: its body is no JSON" in err
        assert [row.split()[0] for row in out.splitlines()] == ["event", "1", "2", "4"]
        assert out.splitlines()[-1].endswith(": 0 of 1")
        code, out, err = called("campaign", "export", "park.db", "--campaign", damaged)
        assert (code, err.count("cannot be read: event 3")) == (1, 1)
        assert [json.loads(row)["number"] for row in out.splitlines()] == [1, 2, 4]
        code, out, _ = called(
            "campaign", "history", "park.db", "--campaign", damaged, "--agent", "Ben", "--format", "json"
        )  # fmt: skip
        answer = json.loads(out)
        assert (code, answer["name"], answer["wrong"][:7]) == (1, "North park", "event 3")
        assert [one["number"] for one in answer["events"]] == [1, 2, 4]

    @pytest.mark.parametrize("body", [[], {"of": [1]}, {"agent": 5, "assignments": 1}])
    def test_an_event_of_a_newer_version_is_shown_as_it_is(self, park, told, called, refused, body):
        (first,) = (json.loads(row) for row in park("export").splitlines())
        (newer,) = seal_events(
            [Draft("tidied", body)], first["campaign"],
            after=1, previous=first["hash"], time=first["time"], who="Vera",
        )  # fmt: skip
        write_past("park.db", [newer])
        park("new", "--name", "Isle", "--template", "hotels")
        assert "newer heterobandits" in refused("verify", "--campaign", "North park")
        code, out, err = called("campaign", "history", "park.db", "--campaign", "North park")
        assert code == 1
        assert out.splitlines()[-1].endswith(f"tidied, which cannot be read: {body!r}")
        assert "newer heterobandits" in err
        about_ana = called("campaign", "history", "park.db", "--campaign", "North park", "--agent", "Ana")  # fmt: skip
        assert (about_ana[0], "created North park" in about_ana[1]) == (1, True)
        _, out, _ = called("campaign", "export", "park.db", "--campaign", "North park")
        assert json.loads(out.splitlines()[1])["body"] == body

    def test_a_damaged_first_event_leaves_ids_for_names(self, damaged, called, told):
        write_past("park.db", [], f"UPDATE events SET body = '[]' WHERE number = 1 AND campaign = '{damaged}'")  # fmt: skip
        assert told("list")[0]["name"] == damaged
        _, out, _ = called("campaign", "history", "park.db", "--campaign", damaged)
        assert re.search(r"round 1: agent-2 at arm-\d: 0 of 1", out)


class TestMistakes:
    """One line each, and nothing is changed."""

    @pytest.fixture
    def planned(self, begun_round):
        """The database of a campaign with a round that waits."""
        shutil.copytree(begun_round, Path(), dirs_exist_ok=True)
        return Path("park.db")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("report", "Ana"), "'Ana' has no outcome: such as Ana=1 or Chi=3/12"),
            (("report", "Ana=2"), "Ana=2: the outcome is '2': 0, 1, successes of tests such as 3/12, or - if it was not done"),
            (("report", "Chi=13/12"), "Chi=13/12: the outcome is '13/12': at most all tests are successes"),
            (("report", "Chi=0/1000001"), "Chi=0/1000001: tests of 'Chi' is 1,000,001, and 12 planned: at most 1,000,000"),
            (("report", "Anna=1"), "Anna=1: unknown agent 'Anna': did you mean 'Ana'?"),
            (("report", "Ana=1", "Ana=0"), "Ana=0: that visit is there twice: once is enough"),
            (("report", "X=1", "Ana=x"), "X=1: unknown agent 'X': known are Ana, Ben, Chi; Ana=x: the outcome is 'x': 0, 1, "),
            (("report", "Ana@sea=1"), "Ana@sea=1: unknown arm 'sea': known are river, hill, gate, ford"),
            (("report",), "outcomes such as Ana=1, or --csv: one of them says what came of it"),
            (("report", "--csv", "none.csv"), "cannot read none.csv: No such file or directory"),
            (("withdraw", "--round", "1", "Ana"), "the visit of 'Ana' to "),
            (("override", "--round", "1", "Ana"), "'Ana' says no arm: such as Ana=ford, or Ana=- for none"),
            (("plan", "--absent", "Zoe"), "unknown agent 'Zoe'"),
            (("plan", "--force", "Ana"), "--force is 'Ana': an agent and an arm, such as Ana=river"),
            (("plan", "--absent", "Ana", "--force", "Ana=hill"), "Ana has to go to hill, but is absent"),
            (("plan", "--who", "a\x1b[31m"), "who is 'a\\x1b[31m'"),
            (("add", "agent", "Dan"), "sensitivity is missing: a probability in (0, 1]"),
            (("add", "agent", "Dan", "--calibration", "much"), "calibration is 'much': how many of how many"),
            (("add", "arm", "sea", "0.5"), "sensitivity: an arm has only a name"),
            (("add", "tree", "sea"), "Invalid value for "),
            (("rename", "agent", "Ana", "a\u202eb"), "name is 'a\\u202eb': a name has no control"),
            (("rename", "campaign", "Mine", "Ours"), "no campaign in park.db is called 'Mine'"),
            (("revise", "Ana", "--since", "now"), "nothing to revise: say what changes, such as --sensitivity 0.8"),
            (("revise", "Ana", "--since", "now", "--sensitivity", "0"), "reports.sensitivity is 0: a sensitivity"),
            (("set",), "--season with --ends, --prior, --words, or --policy, --delta, --memory and --on-change: one change at a time"),
            (("set", "--season", "5", "--memory", "5"), "--season with --ends, --prior, --words, or --policy, --delta, --memory and --on-change: one change at a time"),
            (("set", "--season", "soon"), "season is 'soon': a number of rounds, or none"),
            (("explain", "--round", "3"), "round 3 is not planned"),
            (("history", "--last", "0"), "--last is 0: a whole number at least 1"),
            (("shadow", "--policy", "best"), "unknown policy 'best'"),
            (("project", "--rounds", "2", "--revise", "Ana"), "--revise is 'Ana': an agent and a sensitivity, as Ben=0.9"),
            (("project", "--rounds", "2", "--revise", "Ana=x"), "agent.sensitivity is 'x': "),
            (("project", "--add-agent", "0.5", "--revise", "Ana=1"), "--add-agent and --revise: one or the other"),
            (("note", "bell \x07"), "text is 'bell \\x07': a name has no control"),
            (("import", "agents.csv"), "not an event of a campaign: "),
            (("export", "--output", "no/such/folder"), "cannot write to no/such/folder: No such file or directory"),
            (("new", "--name", "B"), "--from or --template: one of them says who and where"),
            (("new", "--name", "B", "--template", "zoo"), "unknown template 'zoo': known are hotels, rangers, tests"),
            (("new", "--name", "B", "--from", "arms.csv", "arms.csv"), "arms.csv, line 2: sensitivity is missing: "),
        ],
    )  # fmt: skip
    def test_is_said_in_a_line(self, planned, refused, arguments, message):
        before = planned.read_bytes()
        assert refused(arguments[0], *arguments[1:]).startswith(message)
        assert planned.read_bytes() == before

    def test_no_file_no_campaign_and_no_round(self, called, refused, park):
        code, _, err = called("campaign", "status", "none.db")
        assert code == 2
        assert "there is no database none.db" in err
        assert not Path("none.db").exists()
        Path("seasons").mkdir()
        for verb in (("status",), ("new", "--name", "A", "--template", "tests")):
            code, _, err = called("campaign", verb[0], "seasons", *verb[1:])
            assert code == 2
            assert err.startswith(
                "heterobandits: seasons is a folder: campaigns are kept in a file"
            )
        Path("text.db").write_text("This is no database, but a text that is long enough to be one.\n" * 9)  # fmt: skip
        code, _, err = called("campaign", "status", "text.db")
        assert (code, err) == (2, "heterobandits: text.db is not a database of heterobandits\n")
        assert refused("explain") == "no round is planned yet: nothing to explain"
        assert refused("report", "Ana=1") == (
            "no round waits for an outcome: plan one, or say which with --round"
        )

    def test_a_file_is_not_begun_in_vain(self, called):
        for arguments in (("--season", "0"), ("--policy", "best"), ("--delta", "7")):
            code, _, _ = called("campaign", "new", "vain.db", "--name", "A", "--template", "tests", *arguments)  # fmt: skip
            assert code == 2
        assert list(Path().iterdir()) == []

    def test_three_bad_lines_are_all_named(self, refused):
        Path("agents.csv").write_text("name,sensitivity\nAna,0.9\nBen,1.2\n,0.5\nAna,0.8\n")
        Path("arms.csv").write_text("name\nriver\nriver\n")
        assert refused("new", "--name", "A", "--from", "agents.csv", "arms.csv") == (
            "agents.csv, line 3: sensitivity is 1.2: a sensitivity is a probability in (0, 1]; "
            "agents.csv, line 4: name is blank: every agent has a name; "
            "agents.csv, line 5: name is 'Ana': that name is taken; "
            "arms.csv, line 3: name is 'river': that name is taken"
        )
        assert not Path("park.db").exists()

    def test_outcomes_of_a_file_are_all_taken_or_none(self, park, told, refused):
        park("plan")
        Path("bad.csv").write_text("agent,outcome\nAna,1\nZoe,1\nBen,2\n")
        assert refused("report", "--csv", "bad.csv") == (
            "bad.csv, line 3: unknown agent 'Zoe': known are Ana, Ben, Chi; bad.csv, line 4: the outcome is '2': "
            "0, 1, successes of tests such as 3/12, or - if it was not done"
        )
        assert told("status")["number"] == 2
        Path("good.csv").write_text("\ufeffOutcome;Agent\r\n1;Ana\r\n\r\n3/12; Chi \r\n-;Ben\r\n", "utf-8")  # fmt: skip
        park("report", "--csv", "good.csv")
        state = told("status")
        assert state["waiting"] == []
        assert sum(arm["pulls"] for arm in state["estimates"]) == 13
        assert sum(arm["successes"] for arm in state["estimates"]) == 4

    def test_lines_of_a_file_that_the_log_contradicts_are_all_named(self, park, told, refused):
        sent = places(told("plan", "--absent", "Ben"))
        park("report", "Ana=1")
        other = next(arm for arm in ("river", "hill") if arm != sent["Chi"])
        Path("bad.csv").write_text(
            f"agent,arm,outcome\nAna,,0\nChi,{sent['Chi']},3/12\nChi,{other},2/12\nBen,,1\nAna,,1\n"
        )
        assert refused("report", "--csv", "bad.csv") == (
            f"bad.csv, line 2: the visit of 'Ana' to '{sent['Ana']}' in round 1 is reported already: correct it; "
            f"bad.csv, line 4: round 1 did not send 'Chi' to '{other}': if it went there, override the plan first; "
            "bad.csv, line 5: round 1 sent 'Ben' nowhere: if it went somewhere, override the plan first"
        )
        assert told("status")["number"] == 3
        Path("good.csv").write_text(f"agent,arm,outcome\nChi,{sent['Chi']},3/12\nAna,,1\n")
        park("report", "--csv", "good.csv")  # the same again is no mistake
        assert told("status")["number"] == 4

    def test_the_same_report_again_changes_nothing(self, park, told, refused):
        park("plan")
        park("report", "Ana=1")
        assert (
            park("report", "--round", 1, "Ana=1") == "nothing new: that is what is known already\n"
        )
        assert "is reported already: correct it" in refused("report", "--round", 1, "Ana=0")
        assert told("status")["number"] == 3

    def test_without_the_extra_it_says_what_to_install(self):
        code = (
            "import sys; sys.modules['sqlalchemy'] = None\n"
            "import importlib.util; find = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda name: None if name == 'sqlalchemy' else find(name)\n"
            "from heterobandits.cli import main; main(['campaign', 'status', 'park.db'])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 2
        assert done.stderr == (
            "heterobandits: campaigns need a database: pip install 'heterobandits[campaigns]'\n"
        )


class TestNames:
    """Names are data: shown as they are, whatever they mean elsewhere."""

    HOSTILE = ("[red]x[/red]", "<b>", "=1+1", "x" * 200, "ענת", "東京タワー", ":smile:", "a=b@c", "100%{0}", "\\n")  # fmt: skip

    def test_are_shown_as_they_are(self, campaign, told):
        with Path("arms.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["name"], *([name] for name in self.HOSTILE)])
        with Path("agents.csv").open("w", newline="", encoding="utf-8") as file:
            rows = [[name, 0.5] for name in self.HOSTILE]
            csv.writer(file).writerows([["name", "sensitivity"], *rows])
        campaign("new", "--name", "[bold]", "--from", "agents.csv", "arms.csv")
        sent = places(told("plan"))
        assert set(sent) == set(self.HOSTILE) == set(sent.values())
        campaign("report", *(f"{name}=1" for name in self.HOSTILE[:-1]))
        for shown in (campaign("status"), campaign("history"), campaign("explain")):
            assert [name for name in self.HOSTILE if name not in shown] == []
            assert "\x1b" not in shown
        table = campaign("plan")
        assert [name for name in self.HOSTILE if name not in table] == []
        assert len(table.splitlines()) == 2 + len(
            self.HOSTILE
        )  # a line for each, on 80 columns too
        campaign("plan", "--forbid", "a=b@c=a=b@c", "--preview")
        moved = campaign("override", "--round", 1, "\\n=a=b@c+=1+1")
        assert "\\n went to a=b@c and =1+1, not as planned" in moved
        campaign("report", "--round", 1, "\\n@a=b@c=0")
        assert "[bold]" in campaign("list")

    def test_of_a_foreign_history_cannot_reach_the_terminal(self, park, called):
        """An import refuses such events, so they are written into the file past it."""
        first = json.loads(park("export"))
        hostile = {"time": "2026-03\x1b[31m", "who": "x\x1b[31m\u202e"}
        events = seal_events(
            [Draft("created", first["body"] | {"name": "b\x1b[2J"}), Draft("note", {"text": "a\rb\x1cc", "round": None})],
            "0123456789ab", after=0, previous=GENESIS_HASH, **hostile,
        )  # fmt: skip
        write_past("park.db", events)
        for verb, *rest in (("list",), ("history",), ("verify",), ("status",)):
            campaign = () if verb == "list" else ("--campaign", "0123456789ab")
            _, out, err = called("campaign", verb, "park.db", *rest, *campaign)
            assert "\\x1b[" in out + err
            assert all(text.isprintable() for text in (out + err).splitlines())
        _, out, _ = called("campaign", "history", "park.db", "--campaign", "0123456789ab")
        assert "2026-03\\x1b[31m  x\\x1b[31m\\u202e  " in out
        assert "a / b / c" in out

    def test_an_event_from_elsewhere_may_be_terse_and_go_by_names(self, campaign):
        body = {
            "name": "terse", "agents": [{"name": "Ana", "calibration": [9, 10]}], "arms": ["river", "hill"],
            "policy": {}, "seed": 0, "season": None,
        }  # fmt: skip
        drafts = [
            Draft("created", body),
            Draft("agents added", {"agents": [{"name": "Ben", "sensitivity": 1}]}),
            Draft("retired", {"what": "agent", "id": "agent-2"}),
            Draft("policy changed", {"policy": {"name": "cucb"}}),
        ]
        events = seal_events(drafts, "0123456789ab", after=0, previous=GENESIS_HASH, time="2026-03-01T00:00:00.000000Z", who="x")  # fmt: skip
        Path("terse.ndjson").write_text(
            "".join(render_event_line(event) + "\n" for event in events)
        )
        campaign("import", "terse.ndjson")
        rows = campaign("history").splitlines()
        assert [row[rows[0].index("what") :] for row in rows[1:]] == [
            "created terse: 1 agent, 2 arms, policy as recommended, a season without an end",
            "added Ben (sensitivity 1)",
            "retired Ben",
            "changed the policy to cucb",
        ]


def estimate(name, numbers, ranks=(1, 3)):
    """An arm with a lower end, an estimate and an upper end."""
    low, middle, high = numbers
    return ArmEstimate(
        arm=0, name=name, retired=False, estimate=middle, low=low, high=high, best_chance=0.0, among_chance=0.0,
        lower=low, upper=high, best_rank=ranks[0], worst_rank=ranks[1], pulls=9, successes=3, visits=9, by_agent={},
    )  # fmt: skip


class TestChart:
    """The chart of intervals."""

    def test_bars_lie_where_the_numbers_are(self):
        # 41 places from 0 to 1: one for every 0.025
        assert render_bar((0.25, 0.5, 1.0), 1.0, 41, UNICODE_MARKS) == " " * 10 + "├" + "─" * 9 + "●" + "─" * 19 + "┤"  # fmt: skip
        assert render_bar((0.0, 0.0, 0.05), 1.0, 41, ASCII_MARKS) == "o-|" + " " * 38

    def test_lines_are_aligned_by_the_width_of_letters(self):
        found = [estimate("東京", (0.1, 0.2, 0.4)), estimate("abcd", (0.2, 0.3, 0.4), (2, 2))]
        _, first, second = render_chart(found, 60, ASCII_MARKS)
        assert first.startswith("abcd      30 %  ")
        assert second.startswith("東京      20 %  ")  # two letters that are four wide
        # bars begin in column 16 and have 60 - 4 - 6 - 14 = 36 places from 0 to 0.4; a wide letter takes two columns
        assert first.index("|") == 16 + round(0.2 / 0.4 * 35)
        assert second.index("|") == 16 - 2 + round(0.1 / 0.4 * 35)
        assert first.endswith("     2")
        assert second.endswith("1 to 3")
        assert len(first) == 60

    def test_a_long_name_has_a_line_of_its_own(self):
        found = [estimate("n" * 70, (0.1, 0.2, 0.4)), estimate("hill", (0.1, 0.1, 0.2))]
        lines = render_chart(found, 60, ASCII_MARKS)
        assert lines[1] == "n" * 70
        assert lines[2].startswith("          20 %  ")
        assert lines[3].startswith("hill      10 %  ")

    def test_ascii_where_the_terminal_has_no_more(self, park):
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        done = subprocess.run(
            [*COMMAND, "campaign", "status", "park.db"],
            capture_output=True, check=True, env=environment,
        )  # fmt: skip
        assert b"|---" in done.stdout
        assert b"\\u" not in done.stdout

    def test_many_arms_are_cut_and_it_says_how_to_see_all(self, campaign, told):
        Path("agents.csv").write_text("name,sensitivity\nAna,0.9\n")
        Path("arms.csv").write_text("name\n" + "".join(f"area {i:04}\n" for i in range(1000)))
        campaign("new", "--name", "wide", "--from", "agents.csv", "arms.csv")
        where = places(told("plan"))["Ana"]
        campaign("report", "Ana=1")
        shown = campaign("status")
        chart_lines = [text for text in shown.splitlines() if "●" in text]
        assert len(chart_lines) == 30
        assert chart_lines[0].startswith(where)  # the only one with a find
        assert shown.splitlines()[-2] == "and 970 more arms with lower estimates: --all shows them"
        assert campaign("status", "--all").count("●") == 1000


class TestTwoAtOnce:
    """Two people at two terminals."""

    def test_what_was_before_is_what_the_other_one_wrote(self, park, capsys):
        with open_campaign("park.db", None) as (log, state):
            park("plan")
            park("report", "Ana=1")
            done = correct_outcomes(log, state.campaign, Author("Ben"), 1, {"Ana": 0})
            print_change(log, state, done, "table")
        said = capsys.readouterr().out
        assert said.endswith(": corrected to 0 of 1, before it was 1 of 1\n")


class TestPrograms:
    """What a program gets."""

    def test_who_is_the_login_name_if_nobody_says_it(self, called, monkeypatch):
        monkeypatch.delenv("HETEROBANDITS_WHO")
        monkeypatch.setenv("LOGNAME", "moni")
        arguments = ("campaign", "new", "x.db", "--name", "A", "--template", "tests")
        _, out, _ = called(*arguments, "--format", "json")
        (event,) = json.loads(out)["events"]
        assert event["who"] == "moni"
        assert event["body"]["agents"][0]["tests"] == 12

    def test_every_answer_is_one_line_of_json_in_the_shape_of_the_api(self, park, told):
        told("plan")
        told("report", "Ana=1")
        ahead = ("project", "--rounds", 2, "--draws", 5)
        closed = ("plan", "--closed", "river", "--force", "Ana=gate", "--forbid", "Ben=hill")
        for shape, *arguments in (
            (responses_schema.StatusJson, "status"),
            (responses_schema.ExplainedRoundJson, "explain"),
            (responses_schema.HistoryJson, "history"),
            (responses_schema.ShadowJson, "shadow", "--policy", "cucb"),
            (responses_schema.ProjectionJson, *ahead),
            (responses_schema.WorthJson, *ahead, "--add-agent", "0.9"),
            (responses_schema.PreviewJson, *closed, "--preview"),
            (responses_schema.PricedRoundJson, *closed),
            (responses_schema.WrittenJson, "report", "Ben=1", "--round", 1),
            (responses_schema.WrittenJson, "correct", "Ben=0", "--round", 1),
            (responses_schema.WrittenJson, "override", "Chi=ford+hill", "--round", 1),
            (responses_schema.WrittenJson, "add", "agent", "Gus", "--calibration", "17/20"),
            (responses_schema.StatusJson, "status"),
            (responses_schema.ExplainedRoundJson, "explain", "--round", 1),
        ):
            text = park(*arguments, "--format", "json")
            assert text.count("\n") == 1
            answer = json.loads(text)
            assert (len(answer["campaign"]), answer["name"]) == (12, "North park")
            which = {"campaign", "name"} - shape.__annotations__.keys()
            said = {key: value for key, value in answer.items() if key not in which}
            TypeAdapter(shape).validate_python(said, strict=True, extra="forbid")
        assert told("verify")["name"] == "North park"
        (why,) = told("explain", "Ana", "--round", 1)["explanations"]
        assert (why["agent_id"], why["agent"], why["mode"]) == ("agent-1", "Ana", "explore")
        assert why["arm_id"].startswith("arm-")

    def test_a_postgresql_database_in_place_of_a_file(self, postgres, called):
        url = postgres.fresh()
        code, _, err = called("campaign", "new", url, "--name", "A", "--template", "rangers")
        assert code == 0, err
        called("campaign", "plan", url)
        code, out, _ = called("campaign", "verify", url)
        assert (code, out.splitlines()[0]) == (0, "A is whole: 2 events, 1 plan made again")


VARYING = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?"), "TIME"),
)


def steady(text):
    """The text with a word for each id, hash and time, which are never the same twice."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def played(page, called):
    """The page with what its commands print now; a file that it shows is written first. Paste it if it has changed."""

    def play(block):
        made, shown = [], None
        for row in block[1].splitlines():
            if row.startswith("$ cat "):
                shown = Path(row.removeprefix("$ cat "))
                shown.write_text("")
                made.append(row)
            elif row.startswith("$ heterobandits "):
                shown = None
                _, out, err = called(*shlex.split(row)[2:])
                made += [row, *(out + err).splitlines()]
            elif shown is not None:
                shown.write_text(shown.read_text() + row + "\n")
                made.append(row)
        return "```text\n" + "".join(f"{row.rstrip()}\n" for row in made) + "```"

    return re.sub(r"```text\n(.*?)```", play, page, flags=re.S)


class TestDocs:
    """The documentation is true."""

    def test_commands_print_what_the_page_shows(self, called):
        page = PAGE.read_text("utf-8")
        assert page.count("$ heterobandits campaign ") > 15
        assert steady(played(page, called)) == steady(page)
