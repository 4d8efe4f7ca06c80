"""A pile of paper: the table of a round, and outcomes pasted from a spreadsheet."""

import asyncio
import re
from urllib.parse import urlencode

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web import turns
from heterobandits.web.pages.paper import digest_of_text
from markup import Page, words_of
from serving import NORTH, OWNER, Asker, app_on, calling, somebody, until

VERA = Author("Vera")
ORIGIN = {"Origin": "http://127.0.0.1", "Content-Type": "application/x-www-form-urlencoded"}


class Site:
    """The pages of a campaign whose first round waits for everybody but Ana, who found something."""

    def __init__(self, folder, **given):
        self.app, self.log = app_on(folder / "x.db")
        self.id = service.create(self.log, VERA, **(NORTH | given)).state.campaign
        for _ in range(2):
            service.plan_round(self.log, self.id, VERA)
        report_outcomes(self.log, self.id, VERA, 1, {"Ana": 1})
        self.home = f"/campaigns/{self.id}"
        self.ask = Asker(self.app, None)
        self.ask.cookies.set("hb_owner", OWNER)
        self.keys = 0

    @property
    def state(self):
        return self.log.state(self.id)

    def told(self, round):
        at = self.state.round(round)
        return {self.state.agents[a].name: known.counts for (a, _), known in at.told.items()}

    def table(self, round=1):
        """The rows of the table as a browser would send them, by agent, and the fields of the form."""
        return rows_of(Page(self.ask.get(f"{self.home}/rounds/{round}/table").text))

    def post(self, part, key=None, **fields):
        self.keys += 1
        body = urlencode({"key": key or f"key{self.keys}", **fields}, doseq=True)
        return self.ask.post(self.home + part, content=body, headers=ORIGIN)

    def save(self, rows, round=1, seen=None, key=None):
        """The answer to the form with these rows."""
        columns = {name: [row[name] for row in rows] for name in ("visit", "was", "found", "of")}
        missing = [row["visit"] for row in rows if row["missing"]]
        seen = self.state.number if seen is None else seen
        return self.post(f"/rounds/{round}/table", key, seen=seen, missing=missing, **columns)


def rows_of(page):
    made = []
    for row in page.all("form[data-table] tbody tr"):
        (name,) = (th.find(string=True) for th in row.select("th"))
        fields = {field["name"]: field for field in row.select("input")}
        one = {key: fields[key]["value"] for key in ("visit", "was", "found", "of")}
        made.append({"name": str(name), **one, "missing": fields["missing"].has_attr("checked")})
    return made


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.ask.close()


class TestTable:
    def test_it_has_a_row_for_each_visit(self, site):
        ana, ben, chi = site.table()
        assert [row["name"] for row in (ana, ben, chi)] == ["Ana", "Ben", "Chi"]
        assert (ana["found"], ana["of"], ana["was"]) == ("1", "1", "1/1")
        assert (ben["found"], ben["of"], ben["was"]) == ("", "1", "")
        assert (chi["found"], chi["of"], chi["missing"]) == ("", "12", False)

    def test_all_rows_are_saved_in_one_write(self, site):
        ana, ben, chi = site.table()
        before = site.state.number
        ana["found"], ben["missing"], chi["found"] = "0", True, "3"
        answer = site.save([ana, ben, chi])
        assert answer.headers["location"] == f"{site.home}/rounds/1/table?saved=3"
        assert "Saved: 3 visits" in site.ask.get(answer.headers["location"]).text
        assert site.told(1) == {"Ana": (0, 1), "Ben": None, "Chi": (3, 12)}
        events = service.history(site.log, site.id, before)
        assert [event.kind for event in events] == ["corrected", "reported", "reported"]
        assert len({event.key for event in events}) == 1

    def test_a_row_that_nobody_touched_is_left_alone(self, site):
        """Also if somebody else has corrected it meanwhile."""
        ana, ben, chi = site.table()
        seen = site.state.number
        correct_outcomes(site.log, site.id, VERA, 1, {"Ana": 0})
        ben["found"] = "1"
        assert site.save([ana, ben, chi], seen=seen).status_code == 303
        assert site.told(1) == {"Ana": (0, 1), "Ben": (1, 1)}
        before = site.state.number
        assert "saved=0" in site.save(site.table()).headers["location"]
        assert site.state.number == before

    def test_what_is_wrong_stands_beside_its_row_and_nothing_is_saved(self, site):
        ana, ben, chi = site.table()
        before = site.state.number
        ana["found"], ben["found"], chi["found"] = "", "1", "13"
        answer = site.save([ana, ben, chi])
        assert answer.status_code == 422
        page = Page(answer.text)
        assert site.state.number == before
        wrong = [row.get_text(" ", strip=True) for row in page.all("tr.bad")]
        assert [text.split()[0] for text in wrong] == ["Ana", "Chi"]
        assert "take it back on the page Report" in wrong[0]
        assert [row["found"] for row in rows_of(page)] == ["", "1", "13"]
        mended = rows_of(page)
        mended[0]["found"], mended[2]["found"] = "1", "12"
        assert site.save(mended).status_code == 303
        assert site.told(1) == {"Ana": (1, 1), "Ben": (1, 1), "Chi": (12, 12)}

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            ({"found": "x"}, "a whole number"),
            ({"found": "1", "of": ""}, "a whole number"),
            ({"found": "2,5"}, "a whole number"),
            ({"found": "1", "missing": True}, "either how many were found, or not done"),
            ({"found": "1", "of": "2000000"}, "at most"),
        ],
    )
    def test_what_cannot_be(self, site, typed, said):
        rows = site.table()
        rows[2] |= typed
        answer = site.save(rows)
        assert answer.status_code == 422
        (row,) = Page(answer.text).all("tr.bad")
        assert said in row.get_text()

    def test_a_dash_is_a_visit_that_was_not_done(self, site):
        rows = site.table()
        rows[1]["found"] = "-"
        assert site.save(rows).status_code == 303
        assert site.told(1)["Ben"] is None
        assert site.table()[1]["missing"]

    def test_what_somebody_else_reported_meanwhile_is_not_written_over(self, site):
        rows = site.table()
        seen = site.state.number
        report_outcomes(site.log, site.id, VERA, 1, {"Ben": 1})
        rows[1]["found"] = "0"
        answer = site.save(rows, seen=seen)
        assert answer.status_code == 422
        assert "has changed since" in words_of(answer.text)
        assert site.told(1)["Ben"] == (1, 1)

    def test_sent_twice_it_is_saved_once(self, site):
        rows = site.table()
        rows[1]["found"] = "1"
        seen = site.state.number
        first = site.save(rows, seen=seen, key="again")
        after = site.state.number
        second = site.save(rows, seen=seen, key="again")
        assert first.headers["location"] == second.headers["location"]
        assert site.state.number == after == seen + 1

    def test_a_round_that_is_not_there(self, site):
        assert site.ask.get(f"{site.home}/rounds/9/table").status_code == 404
        assert site.save([], round=9).status_code == 404

    def test_a_visit_of_another_round_or_of_nobody(self, site):
        rows = site.table()
        rows[1] |= {"visit": "agent-2 arm-99", "found": "1"}
        answer = site.save(rows)
        assert answer.status_code == 422
        assert "unknown arm" in answer.text


class TestPaste:
    def look(self, site, text):
        page = Page(site.post("/paste", do="look", text=text).text)
        return page, [row.get_text(" ", strip=True) for row in page.all("section tbody tr")]

    def save(self, site, page, text, **more):
        hidden = {field["name"]: field["value"] for field in page.all("main input[type=hidden]")}
        fields = {name: hidden[name] for name in ("seen", "looked")}
        return site.post("/paste", do="save", text=text, **(fields | more))

    def test_every_line_says_what_it_would_do(self, site):
        text = "round;agent;found;of\n1;Ana;1;1\n1;Ben;-;\n2;Chi;3,0;12\n1;Chi;13;12\n1;Nobody;1;1\n9;Ana;1;1\n2;Chi;1;12"
        before = site.state.number
        page, lines = self.look(site, text)
        assert "4 lines are wrong" in page.source
        chis = site.state.arms[site.state.round(2).assignment[2]].name
        assert lines[0] == "2 1, Ana, 1, 1 stands already"
        assert re.search("3 1, Ben, - reports not done at ", lines[1])
        assert lines[2] == f"4 2, Chi, 3,0, 12 reports 3 of 12 at {chis}"
        assert "at most" in lines[3]
        assert "unknown agent" in lines[4]
        assert "round 9 is not planned" in lines[5]
        assert "stands in line 4 already" in lines[6]
        assert not page.all("button[value=save]")
        assert site.state.number == before
        assert self.save(site, page, text).status_code == 422
        assert site.state.number == before

    def test_all_of_it_is_saved_in_one_write(self, site):
        text = "1\tAna\t\t0\t1\n1\tBen\t\tnot done\n2\tChi\t\t3\t12"
        page, lines = self.look(site, text)
        assert "corrects found at" in lines[0]
        assert "Save all 3" in page.source
        before = site.state.number
        answer = self.save(site, page, text)
        assert answer.headers["location"] == f"{site.home}/paste?saved=3"
        assert "Saved: 3 visits" in site.ask.get(answer.headers["location"]).text
        assert site.told(1) == {"Ana": (0, 1), "Ben": None}
        assert site.told(2) == {"Chi": (3, 12)}
        events = service.history(site.log, site.id, before)
        assert len({event.key for event in events}) == 1
        page, lines = self.look(site, text)
        assert "All of this stands already" in page.source

    def test_what_was_not_looked_at_is_not_saved(self, site):
        text = "1,Ben,,1,1"
        page, _ = self.look(site, text)
        before = site.state.number
        answer = self.save(site, page, "1,Ben,,0,1")
        assert answer.status_code == 422
        assert "not the text that you looked at" in words_of(answer.text)
        report_outcomes(site.log, site.id, VERA, 1, {"Ben": 0})
        answer = self.save(site, page, text)
        assert answer.status_code == 422
        assert site.told(1)["Ben"] == (0, 1)
        assert site.state.number == before + 1

    def test_a_text_that_is_no_table(self, site):
        page, lines = self.look(site, 'agent;found\n"Ana')
        assert "no column is called" in page.source or "no CSV" in page.source
        assert lines == []
        assert page.values["text"].strip().startswith("agent;found")

    def test_too_many_lines(self, site):
        page, _ = self.look(site, "1,Ana,,1,1\n" * 2001)
        assert "2,001 lines: at most 2,000 at once" in page.source

    def test_what_is_pasted_is_shown_as_text(self, site):
        page, _ = self.look(site, "1;<script>alert(1)</script>;x;1;1")
        assert not page.all("script:not([src])")
        assert "<script>alert(1)</script>" in page.part("main")


def test_the_round_and_the_reports_lead_there(site):
    for part in ("/rounds/1", "/report?round=1"):
        links = [one.get("href") for one in Page(site.ask.get(site.home + part).text).all("a")]
        assert f"{site.home}/rounds/1/table" in links
    _, token = issue_link(site.log, site.id, VERA, role="reporter", name="Ana", agent="Ana")
    with Asker(site.app, None) as ask:
        ask.cookies.set(f"hb_{site.id}", token)
        assert "/table" not in ask.get(f"{site.home}/report").text


class TestInNobodysWay:
    """What is wrong is found before others wait for anything to be written."""

    def post(self, site, part, meanwhile=None, **fields):
        """The answer to a form while somebody else has the turn to write; who has it does `meanwhile` and gives it back."""
        body, headers = (
            urlencode({"key": "k", **fields}, doseq=True),
            {"Cookie": f"hb_owner={OWNER}", **ORIGIN},
        )

        async def asked():
            writing = site.app.state.places.writing
            async with calling(site.app, None) as client:
                post = client.post(site.home + part, content=body, headers=headers)
                async with writing.turn(somebody()):
                    if meanwhile is None:
                        return await post
                    waits = asyncio.create_task(post)
                    await until(lambda: writing.waiting == 1)
                    meanwhile()
                return await waits

        return asyncio.run(asked())

    def form(self, site, where, found):
        """The fields of a form that reports what Ben found, and of which page."""
        if where == "table":
            (row,) = (row for row in site.table() if row["name"] == "Ben")
            row["found"] = found
            fields = {name: row[name] for name in ("visit", "was", "found", "of")}
            return "/rounds/1/table", fields | {"seen": site.state.number}
        text = f"1,Ben,,{found},1"
        return "/paste", {
            "do": "save", "text": text, "seen": site.state.number, "looked": digest_of_text(text),
        }  # fmt: skip

    @pytest.mark.parametrize("where", ["table", "paste"])
    def test_what_is_wrong_does_not_wait_for_those_who_write(self, site, where, monkeypatch):
        monkeypatch.setattr(turns, "TURN_TIMEOUT_S", 0.05)
        part, fields = self.form(site, where, "2")
        answer = self.post(site, part, **fields)
        assert answer.status_code == 422
        said = {"table": "at most all of them", "paste": "Nothing was saved"}[where]
        assert said in words_of(answer.text)
        part, fields = self.form(site, where, "1")
        assert self.post(site, part, **fields).status_code == 503
        assert site.told(1) == {"Ana": (1, 1)}

    def test_to_look_does_not_wait_either(self, site, monkeypatch):
        monkeypatch.setattr(turns, "TURN_TIMEOUT_S", 0.05)
        answer = self.post(site, "/paste", do="look", text="1,Ben,,1,1")
        assert "reports found at" in words_of(answer.text)

    @pytest.mark.parametrize("where", ["table", "paste"])
    def test_what_was_overtaken_is_not_written_over(self, site, where):
        part, fields = self.form(site, where, "1")

        def report():
            report_outcomes(site.log, site.id, VERA, 1, {"Ben": 0})

        answer = self.post(site, part, report, **fields)
        assert answer.status_code == 422
        if where == "table":
            assert "has changed since" in words_of(answer.text)
        assert site.told(1)["Ben"] == (0, 1)

    @pytest.mark.parametrize("where", ["table", "paste"])
    def test_sent_again_after_others_have_changed_it_it_was_saved(self, site, where):
        part, fields = self.form(site, where, "1")
        first = site.post(part, "again", **fields)
        correct_outcomes(site.log, site.id, VERA, 1, {"Ben": 0})
        after = site.state.number
        second = site.post(part, "again", **fields)
        assert first.headers["location"] == second.headers["location"]
        assert site.state.number == after
