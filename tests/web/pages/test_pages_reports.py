"""Reports as a phone sends them: by a script, for the plan they are of, with where somebody was instead; and as lines that were handed over."""

import asyncio
import json
import re
import zlib
from urllib.parse import quote

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web import turns
from heterobandits.web.pages.base import static_files, static_path
from markup import Page
from serving import NORTH, OWNER, Visitor, app_on, calling, somebody, until

pytestmark = pytest.mark.smoke

ME = Author("Vera")


class Field:
    """A campaign with a round that waits, and browsers that hold links."""

    def __init__(self, folder):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.id = service.create(self.log, ME, **NORTH).state.campaign
        self.event = service.plan_round(self.log, self.id, ME).events[0].number
        self.home = f"/campaigns/{self.id}"

    @property
    def state(self):
        return self.log.state(self.id)

    def holder(self, role, agent=None):
        _, token = issue_link(self.log, self.id, ME, role=role, name=agent or role, agent=agent)
        return Visitor(self.app, token)

    def arm(self, agent=0):
        (arm,) = self.state.round(1).arms_of(agent)
        return f"arm-{arm + 1}"

    def other(self, agent=0):
        return next(f"arm-{n}" for n in range(1, 5) if f"arm-{n}" != self.arm(agent))

    def fields(self, agent=0, **more):
        return {"arm": self.arm(agent), "planned": self.event, "do": "found"} | more

    def line(self, who=0, **more):
        """A line as a phone makes it."""
        given = {
            "campaign": self.id, "agent": f"agent-{who + 1}", "round": 1, "planned": self.event, "arm": self.arm(who),
            "outcome": "1/1", "seen": "", "entered": "", "elsewhere": "", "note": "",
        } | more  # fmt: skip
        body = ";".join(["HB1", *(quote(str(part), safe="/:") for part in given.values())])
        return f"{body};{zlib.crc32(body.encode()):08x}"


@pytest.fixture
def field(tmp_path):
    return Field(tmp_path)


def scripted(visitor, path, fields, **headers):
    """What a script of the page is answered."""
    said = {"Origin": "http://127.0.0.1", "Accept": "application/json", **headers}
    return visitor.post(path, data=fields, headers=said)


def words(answer):
    return Page(answer.text).text


class TestScript:
    """A page's own script reads no page."""

    def test_it_is_told_that_it_is_saved_and_why_not(self, field):
        path = f"{field.home}/rounds/1/outcomes/agent-1"
        with field.holder("reporter", "Ana") as ana:
            answer = scripted(ana, path, field.fields(key="k"))
            assert answer.json() == {"saved": field.state.number}
            assert answer.headers["cache-control"] == "no-store"
            number = field.state.number
            assert scripted(ana, path, field.fields(key="k")).json() == {"saved": number}
            refused = scripted(ana, path, field.fields(do="not found"))
            assert (refused.status_code, refused.json()["type"]) == (
                409,
                "/problems/already-reported",
            )
            stale = scripted(ana, path, field.fields(planned=field.event + 1))
            assert (stale.status_code, stale.json()["type"]) == (412, "/problems/changed-since")
            assert stale.json()["detail"].startswith("Round 1 was planned anew since")
            gone = scripted(ana, path.replace("rounds/1", "rounds/2"), field.fields())
            assert (gone.status_code, gone.json()["detail"]) == (
                412,
                "Round 2 was cancelled since.",
            )
            other = scripted(ana, f"{field.home}/rounds/1/outcomes/agent-2", field.fields(1))
            assert (other.status_code, other.json()["type"]) == (403, "/problems/forbidden")
        with Visitor(field.app) as nobody:
            answer = scripted(nobody, path, field.fields())
            assert (answer.status_code, answer.json()["type"]) == (401, "/problems/not-admitted")

    def test_its_clock_is_heeded(self, field):
        path = f"{field.home}/rounds/1/outcomes/agent-1"
        with field.holder("reporter", "Ana") as ana:
            clock = {"Heterobandits-Clock": "1999-01-01T00:02:00.000Z"}
            said = field.fields(entered="1999-01-01T00:00:00.000Z")
            assert "saved" in scripted(ana, path, said, **clock).json()
        (told,) = field.state.round(1).told.values()
        assert told.entered < told.time
        assert told.entered[:4] == told.time[:4]

    def test_the_worker_changes_with_every_file(self, field, monkeypatch):
        from heterobandits.web.pages import base, offline

        with Visitor(field.app) as nobody:
            answer = nobody.get("/worker.js")
        assert answer.headers["content-type"].startswith("text/javascript")
        assert answer.headers["cache-control"] == "no-store"
        for name in offline.SHELL_FILES:
            assert static_path(name) in answer.text
        site = json.loads(re.search(r"self\.SITE = (.*);\n", answer.text)[1])
        assert "hb_" not in answer.text
        assert "<h1>No network</h1>" in site["away"]
        changed = dict(static_files()) | {"ahead.js": b"// another"}
        monkeypatch.setattr(base, "static_files", lambda: changed)
        monkeypatch.setattr(base, "static_path", base.static_path.__wrapped__)
        monkeypatch.setattr(offline, "static_path", base.static_path)
        assert offline.render_worker.__wrapped__(False) != answer.text

    def test_what_can_be_installed_is_there(self, field):
        with Visitor(field.app) as nobody:
            page = nobody.get("/")
            manifest = re.search(r'<link rel="manifest" href="([^"]+)">', page.text)[1]
            answer = nobody.get(manifest)
            assert answer.headers["content-type"].startswith("application/manifest+json")
            said = answer.json()
            assert (said["start_url"], said["scope"], said["display"]) == ("/", "/", "standalone")
            for icon in said["icons"]:
                drawn = nobody.get(f"/static/{icon['src']}")
                assert drawn.status_code == 200
                if icon["type"] == "image/png":
                    size = int.from_bytes(drawn.content[16:20], "big")
                    assert icon["sizes"] == f"{size}x{size}"
        policy = page.headers["content-security-policy"]
        assert "worker-src 'self'; manifest-src 'self'" in policy


class TestPageOfReports:
    """Without a script, too."""

    def test_more_finds_than_checks_is_said_in_a_sentence(self, field):
        with Visitor(field.app, OWNER) as owner:
            path = f"{field.home}/rounds/1/outcomes/agent-3"
            fields = field.fields(2, do="count", successes=9, tests=5, note="fog <b>")
            answer = owner.submit(path, **fields)
            assert answer.status_code == 422
            text = "9 of 5 cannot be. How many of the 5 tests found something?"
            assert text in words(answer)
            assert "fog &lt;b&gt;</textarea>" in answer.text  # as it was typed

    def test_only_who_reports_for_themselves_was_somewhere_else(self, field):
        path = f"{field.home}/rounds/1/outcomes/agent-1"
        with Visitor(field.app, OWNER) as owner, field.holder("reporter", "Ana") as ana:
            assert "I was somewhere else" not in owner.get(f"{field.home}/report").text
            assert "I was somewhere else" in ana.get(f"{field.home}/report").text
            answer = ana.submit(
                path, **field.fields(elsewhere=field.other(), note="the bridge is out")
            )
            assert answer.status_code == 303
            page = words(ana.get(f"{field.home}/report"))
        assert "the bridge is out" in page
        assert "Delete my report" in page
        kinds = [event.kind for event in field.log.store.read(field.id)][-2:]
        assert kinds == ["overridden", "reported"]

    def test_of_another_it_is_refused(self, field):
        before = field.state.number
        with field.holder("reporter") as hut:
            before = field.state.number
            answer = hut.submit(
                f"{field.home}/rounds/1/outcomes/agent-1", **field.fields(elsewhere=field.other())
            )
            assert answer.status_code == 422
        assert field.state.number == before


class TestHandedOver:
    """Lines from a phone: looked at, then saved; each comes to something or is refused with the reason."""

    def handed(self, visitor, field, text, do="save"):
        return visitor.submit(f"{field.home}/report/handover", lines=text, do=do, key="k")

    def test_they_are_looked_at_first(self, field):
        line = field.line(note="fog; 5 %\nrain")
        before = field.state.number
        with Visitor(field.app, OWNER) as owner:
            looked = self.handed(owner, field, f"[12:03] Ana: {line}\nthanks", "look")
            assert "will be saved" in looked.text
            assert field.state.number == before
            saved = self.handed(owner, field, line)
            assert "1 of 1 line saved." in words(saved)
            (told,) = field.state.round(1).told.values()
            assert (told.counts, told.note) == ((1, 1), "fog; 5 %\nrain")
            number = field.state.number
            assert "known already" in self.handed(owner, field, line).text
            assert field.state.number == number

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            ({"campaign": "0" * 12}, "It is of another campaign."),
            ({"agent": "agent-9"}, "unknown agent"),
            ({"arm": "arm-9"}, "unknown arm"),
            ({"planned": 1}, "was planned anew since"),
            ({"round": 7}, "was cancelled since"),
            ({"round": "x"}, "a number that is none"),
            ({"outcome": "many"}, "says no outcome"),
            ({"outcome": "9/5"}, "at most all of them"),
            ({"outcome": "x"}, "is not reported"),
            ({"entered": "noon"}, "entered is"),
            ({"note": "x" * 501}, "at most 500"),
            ({"elsewhere": "arm-9"}, "unknown arm"),
            ({"seen": 99}, "is not reported yet"),
        ],
        ids=str,
    )
    def test_what_cannot_be_is_refused_and_the_others_are_saved(self, field, more, why):
        with Visitor(field.app, OWNER) as owner:
            answer = self.handed(owner, field, f"{field.line(**more)} {field.line(1)}")
        assert why in words(answer)
        assert "1 of 2 lines saved." in words(answer)
        assert [agent for agent, _ in field.state.round(1).told] == [1]

    def test_a_line_that_was_changed_or_cut(self, field):
        line = field.line()
        wrong = [line[:-3], line.replace("1/1", "0/1"), "HB1;%ff;00000000", "HB1;x"]
        with Visitor(field.app, OWNER) as owner:
            answer = self.handed(owner, field, "\n".join(wrong))
        assert words(answer).count("cut off or was changed") == len(wrong)
        assert field.state.round(1).told == {}

    def test_one_after_the_other(self, field):
        lines = [field.line(), field.line(outcome="0/1"), field.line(1, elsewhere=field.other(1))]
        with Visitor(field.app, OWNER) as owner:
            answer = self.handed(owner, field, "\n".join(lines))
        assert "is reported already" in words(answer)
        assert "2 of 3 lines saved." in words(answer)
        assert sorted(told.counts for told in field.state.round(1).told.values()) == [(1, 1)] * 2

    def test_nothing_and_too_much(self, field):
        with Visitor(field.app, OWNER) as owner:
            assert self.handed(owner, field, "hello").status_code == 422
            many = " ".join(field.line(note=str(number)) for number in range(201))
            answer = self.handed(owner, field, many)
            assert answer.status_code == 422
            assert "at most 200" in answer.text
        assert field.state.round(1).told == {}

    def test_what_is_in_a_line_is_text(self, field):
        with Visitor(field.app, OWNER) as owner:
            answer = self.handed(owner, field, field.line(note="<b>x</b>"), "look")
        assert "<b>x</b>" not in answer.text


FORM_HEADERS = {"Cookie": f"hb_owner={OWNER}", "Origin": "http://127.0.0.1"}


class TestInNobodysWay:
    """Lines are judged before others wait for them to be written."""

    def answer(self, field, lines, do, meanwhile=None):
        """What comes of lines while somebody else has the turn to write; who has it does `meanwhile` and gives it back."""

        async def asked():
            writing = field.app.state.places.writing
            form = {"lines": "\n".join(lines), "do": do, "key": "k"}
            async with calling(field.app, None) as client:
                post = client.post(f"{field.home}/report/handover", data=form, headers=FORM_HEADERS)
                async with writing.turn(somebody()):
                    if meanwhile is None:
                        return await post
                    waits = asyncio.create_task(post)
                    await until(lambda: writing.waiting == 1)
                    meanwhile()
                return await waits

        return asyncio.run(asked())

    @pytest.mark.parametrize("do", ["look", "save"])
    def test_what_is_not_written_does_not_wait_for_those_who_write(self, field, do, monkeypatch):
        monkeypatch.setattr(turns, "TURN_TIMEOUT_S", 0.05)
        line = field.line() if do == "look" else field.line(outcome="9/5")
        answer = self.answer(field, [line], do)
        assert answer.status_code == 200
        said = "will be saved" if do == "look" else "at most all of them"
        assert said in words(answer)
        assert self.answer(field, [field.line()], "save").status_code == 503

    def test_what_was_overtaken_is_judged_once_more(self, field):
        def report():
            report_outcomes(field.log, field.id, ME, 1, {"Ana": 0})

        answer = self.answer(field, [field.line(), field.line(1)], "save", report)
        assert "is reported already" in words(answer)
        assert "1 of 2 lines saved." in words(answer)
        assert {agent: told.counts for (agent, _), told in field.state.round(1).told.items()} == {
            0: (0, 1), 1: (1, 1),
        }  # fmt: skip

    @pytest.mark.parametrize("overtaken", [False, True])
    def test_an_arm_that_all_of_them_show_to_have_changed_is_forgotten_once_at_their_end(
        self, field, overtaken
    ):
        team = [{"name": "Ana", "sensitivity": 0.9}]
        field.id = service.create(
            field.log, ME, name="x", agents=team, arms=["ford"], on_change="forget"
        ).state.campaign
        field.home = f"/campaigns/{field.id}"
        planned = {}
        for number in range(1, 61):
            done = service.plan_round(field.log, field.id, ME)
            planned[number] = done.events[0].number
            if number <= 30:
                report_outcomes(field.log, field.id, ME, number, {"Ana": 0})
        before = field.state.number
        lines = [
            field.line(campaign=field.id, round=number, planned=planned[number], arm="arm-1")
            for number in range(31, 61)
        ]

        def note():
            service.add_note(field.log, field.id, ME, "fog")

        if overtaken:
            answer = self.answer(field, lines, "save", note)
        else:
            with Visitor(field.app, OWNER) as owner:
                answer = owner.submit(f"{field.home}/report/handover", lines="\n".join(lines), do="save", key="k")  # fmt: skip
        assert "30 of 30 lines saved." in words(answer)
        kinds = [event.kind for event in service.history(field.log, field.id, before)]
        assert kinds == ["note"] * overtaken + ["reported"] * 30 + ["arm forgotten"]
