"""The pages of what happened: the history with its pages and filters, notes, and the files to take away."""

import csv
import io
import re
from html import unescape
from threading import Lock
from urllib.parse import quote

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.audit.report import check_audit, render_audit
from heterobandits.campaigns.exchange import export_events, import_events
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web import turns
from heterobandits.web.pages import history as module
from heterobandits.web.pages.base import CONTENT_SECURITY_POLICY
from markup import Page
from serving import NORTH, OWNER, Visitor, app_on

ME = Author("Vera")
HOSTILE = "<b>x</b> {{ 7*7 }} & \"two\" 'one' </script>"
MARKUP = re.compile(r"<tr><th[^>]*>(\d+)</th><td[^>]*>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", re.S)  # fmt: skip


class World:
    """A campaign with two rounds, and a note; what it is asked for is asked by a planner."""

    def __init__(self, folder, **changes):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.app.state.slowing.FIRST = 0.0
        self.id = service.create(self.log, ME, **NORTH | changes).state.campaign
        self.where = (self.log, self.id, ME)
        service.plan_round(*self.where)
        report_outcomes(*self.where, 1, {"agent-1": 1, "agent-2": 0})
        service.plan_round(*self.where, absent=["agent-2"])
        report_outcomes(*self.where, 2, {"agent-1": 0})
        correct_outcomes(*self.where, 1, {"agent-1": 0})
        service.add_note(*self.where, f"{HOSTILE}\nof round 2", 2)
        self.home = f"/campaigns/{self.id}"

    def token(self, role):
        return issue_link(*self.where, role=role, name=f"the {role}")[1]

    @property
    def state(self):
        return self.log.state(self.id)

    def history(self, query="", status=200):
        with Visitor(self.app, OWNER) as visitor:
            answer = visitor.get(f"{self.home}/history{query}")
        assert answer.status_code == status
        return answer.text


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def rows(text):
    """The events of a page: number, who, what."""
    return [(int(n), unescape(who), unescape(what)) for n, _, who, what in MARKUP.findall(text)]


def numbers(text):
    return [number for number, _, _ in rows(text)]


def link(text, name):
    """Where the link of this name leads."""
    found = re.search(rf'<a class="button plain" href="([^"]*)">{name}</a>', text)
    return unescape(found[1]) if found else None


class TestHistory:
    """What happened, in words."""

    def test_the_last_first_with_who_and_what(self, world):
        text = world.history()
        last = world.state.number
        assert numbers(text) == list(range(last, 0, -1))
        assert rows(text)[-1][1:] == (
            "Vera",
            "created North park: 3 agents, 4 arms, policy season, delta 0.05, a season of 30 rounds",
        )
        assert rows(text)[0][2] == f"round 2: {HOSTILE} / of round 2"
        assert rows(text)[1][2].endswith(": corrected to 0 of 1, before it was 1 of 1")
        assert world.state.hash in text

    def test_events_have_the_names_of_their_time(self, world):
        service.rename(*world.where, "agent", "Ana", "Anna")
        assert rows(world.history())[0][2] == "renamed the agent Ana to Anna"
        report_outcomes(*world.where, 2, {"agent-3": (3, 12)})
        said = {number: what for number, _, what in rows(world.history())}
        assert said[3].startswith("round 1: Ana at ")
        correct_outcomes(*world.where, 1, {"agent-1": 1})
        assert rows(world.history())[0][2].startswith("round 1: Anna at ")
        assert rows(world.history())[0][2].endswith("corrected to 1 of 1, before it was 0 of 1")

    def test_pages_of_a_hundred(self, world):
        for n in range(240):
            service.add_note(*world.where, f"note {n}")
        last = world.state.number
        first = world.history()
        assert numbers(first) == list(range(last, last - 100, -1))
        assert link(first, "Newer") is None
        second = world.history(link(first, "Older"))
        assert numbers(second) == list(range(last - 100, last - 200, -1))
        third = world.history(link(second, "Older"))
        assert numbers(third) == list(range(last - 200, 0, -1))
        assert link(third, "Older") is None
        assert numbers(world.history(link(third, "Newer"))) == numbers(second)
        assert numbers(world.history(link(second, "Newer"))) == numbers(first)
        assert numbers(world.history("?before=7")) == [6, 5, 4, 3, 2, 1]
        assert "Nothing of that happened" in world.history("?before=1")
        assert numbers(world.history("?before=99999999999999999")) == numbers(first)

    def test_only_what_is_about_a_round_or_an_agent(self, world):
        kinds = [(event.number, event.body) for event in service.history(world.log, world.id)]
        of_two = [number for number, body in kinds if body.get("round") == 2]
        assert numbers(world.history("?round=2&agent=")) == of_two[::-1]
        # the creation, two plans, and what the first agent reported and corrected
        assert numbers(world.history("?agent=agent-1")) == [7, 6, 5, 3, 2, 1]
        assert numbers(world.history("?agent=Ben")) == [5, 4, 2, 1]
        assert numbers(world.history("?round=1&agent=agent-2")) == [4, 2]
        assert 'value="agent-2" selected' in world.history("?agent=agent-2")
        service.add_agents(*world.where, [{"name": "Dan", "sensitivity": 0.7}])
        assert numbers(world.history("?agent=agent-4")) == [9]

    def test_pages_keep_the_filter(self, world):
        for n in range(240):
            service.add_note(*world.where, f"note {n}", 1 + n % 2)
        everything = service.history(world.log, world.id)
        whole = [event.number for event in everything if event.body.get("round") == 1]
        assert 100 < len(whole) < 200
        first = world.history("?round=1")
        older = link(first, "Older")
        assert numbers(first) == whole[:-101:-1]
        assert "round=1" in older
        assert numbers(world.history(older)) == whole[-101::-1]
        assert numbers(world.history(link(world.history(older), "Newer"))) == numbers(first)

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("?round=x", "Please give a whole number, not “x”"),
            ("?round=0", "round 0 is not planned: rounds 1 to 2 are"),
            ("?round=3", "round 3 is not planned"),
            ("?agent=Nobody", "unknown agent “Nobody”"),
            ("?before=x", "Please give a whole number, not “x”"),
            ("?round=%3Cb%3E", "Please give a whole number, not “<b>”"),
        ],
    )
    def test_a_filter_that_cannot_be_is_said_beside_its_field(self, world, query, said):
        text = world.history(query, 422)
        assert said in Page(text).text
        assert numbers(text) == []
        name = query[1:].split("=")[0]
        assert (f'aria-describedby="wrong-{name}"' in text) == (name != "before")

    def test_a_campaign_that_went_another_way_elsewhere(self, world, tmp_path):
        """Words that are at hand are of these very events."""
        text = export_events(world.log, world.id)
        assert "alone here" not in world.history()
        service.add_note(*world.where, "alone here")
        assert "alone here" in world.history()
        other, log = app_on(tmp_path / "other.db")
        import_events(log, ME, text)
        service.add_note(log, world.id, ME, "alone there")
        with Visitor(other, OWNER) as visitor:
            page = visitor.get(f"{world.home}/history").text
            assert rows(page)[0][2] == "alone there"
            assert numbers(page) == numbers(world.history())
            service.add_note(log, world.id, ME, "and more")
            assert rows(visitor.get(f"{world.home}/history").text)[1][2] == "alone there"

    def test_who_looks_at_an_older_state_sees_no_newer_event(self, world):
        before, kept = world.state, module.Chronicles()
        service.add_note(*world.where, "later")
        assert len(kept.told(world.log, world.state)) == before.number + 1
        assert [one.event.hash for one in kept.told(world.log, before)][-1] == before.hash

    def test_so_many_words_are_at_hand_at_most(self, world, monkeypatch):
        monkeypatch.setattr(module, "CHRONICLES_MAX_EVENTS", world.state.number)
        kept = module.Chronicles()
        assert len(kept.told(world.log, world.state)) == world.state.number
        assert set(kept._kept) == {world.id}
        other = service.create(world.log, ME, **NORTH).state
        assert len(kept.told(world.log, other)) == 1
        assert set(kept._kept) == {other.campaign}
        service.add_note(*world.where, "one too many")
        assert len(kept.told(world.log, world.state)) == world.state.number
        assert set(kept._kept) == {world.id}

    def test_what_was_told_is_not_told_again_however_long_it_is(self, world, monkeypatch):
        monkeypatch.setattr(module, "CHRONICLES_MAX_EVENTS", 1)
        kept, told, tell_all = module.Chronicles(), [], module.narrate_events
        monkeypatch.setattr(
            module,
            "narrate_events",
            lambda new, story: told.append(len(new)) or tell_all(new, story),
        )
        kept.told(world.log, world.state)
        service.add_note(*world.where, "one more")
        kept.told(world.log, world.state)
        assert told[1:] == [1]

    def test_a_campaign_that_is_told_is_in_no_others_way(self, world):
        kept, other = module.Chronicles(), service.create(world.log, ME, **NORTH).state
        with kept._telling.setdefault(world.id, Lock()):
            assert len(kept.told(world.log, other)) == 1

    def test_a_long_log_is_told_alone(self, world, monkeypatch):
        whole = world.history()
        monkeypatch.setattr(turns, "LARGE_MIN_EVENTS", 3)
        assert rows(world.history()) == rows(whole)


class TestNotes:
    """A note is written once, and what is wrong with it is said where it was typed."""

    def test_a_note_of_a_round_and_of_none(self, world):
        with Visitor(world.app, world.token("planner")) as visitor:
            answer = visitor.submit(f"{world.home}/notes", text=" Fog.\r\nLate. ", round="2")
            assert answer.status_code == 303
            assert answer.headers["location"] == f"{world.home}/history"
            visitor.submit(f"{world.home}/notes", text="Of all", round="")
            page = visitor.get(f"{world.home}/history").text
        events = service.history(world.log, world.id)
        who = f'the planner <code class="soft">{events[-1].link}</code>'
        assert [row[1:] for row in rows(page)[:2]] == [
            (who, "Of all"),
            (who, "round 2: Fog. / Late."),
        ]
        assert [event.body for event in events[-2:]] == [
            {"text": "Fog.\nLate.", "round": 2},
            {"text": "Of all", "round": None},
        ]

    def test_the_same_form_again_does_nothing_twice(self, world):
        before = world.state.number
        with Visitor(world.app, OWNER) as visitor:
            key = re.search(r'name="key" value="(\w+)"', visitor.get(f"{world.home}/history").text)[1]  # fmt: skip
            for _ in range(2):
                assert (
                    visitor.submit(f"{world.home}/notes", text="once", key=key).status_code == 303
                )
        assert world.state.number == before + 1

    @pytest.mark.parametrize(
        ("fields", "wrong"),
        [
            ({"text": " ", "round": ""}, {"text": "Please write something."}),
            ({"text": "x", "round": "3"}, {"round": "round 3 is not planned: rounds 1 to 2 are"}),
            ({"text": "x", "round": "-1"}, {"round": "Please give a whole number, not “-1”"}),
            (
                {"round": "9"},
                {"text": "Please write something.", "round": "round 9 is not planned"},
            ),
            ({"text": "x" * 10_001}, {"text": "That has 10,001 letters: at most 10,000"}),
            ({"text": "a\x07b"}, {"text": "has signs that nobody sees"}),
        ],
    )
    def test_what_is_wrong_stands_beside_its_field(self, world, fields, wrong):
        before = world.state.number
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.submit(f"{world.home}/notes", **fields)
        assert answer.status_code == 422
        assert world.state.number == before
        text = answer.text
        said = dict(re.findall(r'<p class="wrong" id="wrong-(\w+)">(.*?)</p>', text))
        assert set(said) == set(wrong)
        for name, message in wrong.items():
            assert message in unescape(said[name])
            assert f'aria-describedby="wrong-{name}"' in text
        assert "<details open>" in text
        assert f'value="{fields.get("round", "")}"' in text
        if fields.get("text") == "x":
            assert ">x</textarea>" in text
        assert len(numbers(text)) == before

    def test_what_was_typed_is_shown_again_as_text(self, world):
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.submit(f"{world.home}/notes", text="</textarea><b>x", round="<b>")
        assert not Page(answer.text).tags["b"]
        assert "&lt;/textarea&gt;&lt;b&gt;x</textarea>" in answer.text


class TestFiles:
    """What is taken away."""

    def test_the_audit_is_that_of_the_events(self, world):
        with Visitor(world.app, world.token("planner")) as visitor:
            answer = visitor.get(f"{world.home}/audit.html")
        assert answer.text == render_audit(service.history(world.log, world.id))
        assert check_audit(answer.text).same
        sent = answer.headers
        assert (
            sent["content-disposition"]
            == f"attachment; filename=\"{world.state.name} audit.html\"; filename*=UTF-8''{quote(world.state.name)}%20audit.html"
        )
        assert sent["content-type"] == "text/html; charset=utf-8"
        assert (sent["cache-control"], sent["x-content-type-options"]) == ("no-store", "nosniff")
        policy = sent["content-security-policy"].split("; ")
        assert {"default-src 'none'", "style-src 'unsafe-inline'", "sandbox"} <= set(policy)
        assert not any(part.startswith(("script-src", "img-src", "connect-src")) for part in policy)

    def test_the_audit_ends_before_others_wait_in_vain(self, world, monkeypatch):
        monkeypatch.setattr("heterobandits.web.turns.COMPUTATION_MAX_S", -1.0)
        with Visitor(world.app, world.token("planner")) as visitor:
            answer = visitor.get(f"{world.home}/audit.html")
        assert answer.status_code == 422
        assert "takes longer" in answer.text

    def test_the_audit_tells_how_far_it_is(self, world):
        shares = []
        events = service.history(world.log, world.id)
        assert render_audit(events, shares.append) == render_audit(events)
        assert shares == sorted(shares)
        assert len(shares) > 2 * len(events)
        assert (shares[0], shares[-1]) == (0.0, 1.0)

    def test_the_events_can_be_imported(self, world, tmp_path):
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.get(f"{world.home}/events.ndjson")
        assert answer.headers["content-disposition"].endswith(
            f"{quote(world.state.name)}%20events.ndjson"
        )
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        _, log = app_on(tmp_path / "other.db")
        assert import_events(log, ME, answer.text, keep_links=True).state.hash == world.state.hash

    def test_the_visits_are_a_table_with_a_mark(self, world):
        with Visitor(world.app, world.token("viewer")) as visitor:
            answer = visitor.get(f"{world.home}/visits.csv")
        assert answer.headers["content-disposition"].endswith(
            f"{quote(world.state.name)}%20visits.csv"
        )
        assert answer.content.startswith(b"\xef\xbb\xbfround,")
        table = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
        assert [(row["round"], row["agent"], row["status"]) for row in table] == [
            ("1", "Ana", "reported"),
            ("1", "Ben", "reported"),
            ("1", "Chi", "waiting"),
            ("2", "Ana", "reported"),
            ("2", "Chi", "waiting"),
            ("2", "Ben", "absent"),
        ]

    def test_who_reported_is_for_those_who_may_read_the_log(self, world):
        for role, who in (("planner", {"Vera", ""}), ("viewer", {""})):
            with Visitor(world.app, world.token(role)) as visitor:
                answer = visitor.get(f"{world.home}/visits.csv")
            table = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
            assert {row["reported_by"] for row in table} == who

    def test_the_visits_with_semicolons(self, world):
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.get(f"{world.home}/visits.csv?separator=%3B")
            assert visitor.get(f"{world.home}/visits.csv?separator=x").status_code == 422
            assert "visits.csv?separator=%3B" in visitor.get(f"{world.home}/history").text
        page = io.StringIO(answer.content.decode("utf-8-sig"))
        table = list(csv.DictReader(page, delimiter=";"))
        assert [row["sensitivity"] for row in table][:2] == ["0,9", "0,6"]

    @pytest.mark.parametrize(
        ("name", "plain", "whole"),
        [
            ("Park 2026", "Park 2026", "Park%202026"),
            ("Comoé: été", "Comoe ete", "Como%C3%A9%20%C3%A9t%C3%A9"),
            ('a"b/..\\c', "a b .. c", "a%20b%20..%20c"),
        ],
    )
    def test_files_have_the_name_of_the_campaign(self, tmp_path, name, plain, whole):
        world = World(tmp_path, name=name)
        with Visitor(world.app, OWNER) as visitor:
            sent = visitor.get(f"{world.home}/visits.csv").headers["content-disposition"]
        assert sent == (
            f"attachment; filename=\"{plain} visits.csv\"; filename*=UTF-8''{whole}%20visits.csv"
        )

    def test_a_name_without_any_such_letter(self, tmp_path):
        world = World(tmp_path, name="公园")
        with Visitor(world.app, OWNER) as visitor:
            sent = visitor.get(f"{world.home}/visits.csv").headers["content-disposition"]
        assert f'filename="{world.id} visits.csv"' in sent
        assert "filename*=UTF-8''%E5%85%AC%E5%9B%AD%20visits.csv" in sent
