"""The audit: the same events make the same page, every letter of it is checked, and it tells people without the software all."""

import hashlib
import html
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from scipy.stats import beta

from heterobandits import InvalidInput
from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.beliefs import true_finds
from heterobandits.campaigns.audit import report
from heterobandits.campaigns.audit.report import (
    EVENTS_CLOSING_TAG,
    EVENTS_OPENING_TAG,
    audit_maker,
    check_audit,
    render_audit,
)
from heterobandits.campaigns.audit.verification import VERIFICATION_CAVEAT
from heterobandits.campaigns.events import Draft, render_event_line
from heterobandits.campaigns.exchange import import_events
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes
from logs import events_of, of_first_version
from markup import Page
from parks import VERA, opened, park

HOSTILE = '<b>x</b> {{7*7}} & "two" &amp;'
NOTE = f"{HOSTILE}\n</pre></style><script>x</script> {{% raw %}} <!-- '"


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """A season with an absence, two who went elsewhere, a correction, a round that was closed, a link, and hostile names."""
    log = opened(tmp_path_factory.mktemp("log"))
    campaign = park(log, arms=["river", "hill", "gate", "lake", HOSTILE])
    service.plan_round(log, campaign, VERA, absent=["Ben"])
    report_outcomes(log, campaign, VERA, 1, {"Ana": 1, "Chi": (3, 12)})
    state = service.plan_round(log, campaign, VERA).state
    free = set(range(5)) - set(state.rounds[1].assignment)
    service.override(log, campaign, VERA, 2, "Ana", [f"arm-{min(free) + 1}"])
    service.override(log, campaign, VERA, 2, "Ben", [])
    report_outcomes(log, campaign, VERA, 2, {"Ana": "not done"})
    correct_outcomes(log, campaign, VERA, 1, {"Ana": 0})
    service.close_round(log, campaign, VERA, 2)
    service.rename(log, campaign, VERA, "agent", "Ben", f"Ben {HOSTILE}")
    service.add_note(log, campaign, VERA, NOTE, 2)
    issue_link(log, campaign, VERA, role="viewer", name="the wall")
    service.plan_round(log, campaign, VERA)
    made = log.store.read(campaign)
    log.store.close()
    return made


def by_a_link(events):
    """The same events and two more: a link of an owner, and a note written with it."""
    body = {"link": "a" * 12, "role": "owner", "name": "Zoë", "agent": None, "expires": None}
    made = list(events)
    for draft, link in (
        (Draft("link issued", body | {"token_hash": "0" * 64}), None),
        (Draft("note", {"text": "Grüße", "round": None}), "a" * 12),
    ):
        made += events_of([draft], made[-1], time=made[-1].time, who="Zoë", link=link)
    return made


@pytest.fixture(scope="module")
def page(events):
    return render_audit(events)


def rows_of(page, title):
    """The rows of the table below a heading, as lists of texts."""
    part = page.split(f">{title}</h2>")[1].split("</section>")[0].split("<tbody>", 1)[1]
    cells = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.S)
    return [[Page(cell).text for cell in cells.findall(row)] for row in part.split("<tr>")[1:]]


class TestPage:
    """What stands in it."""

    def test_the_same_events_make_the_same_bytes(self, events, page):
        assert render_audit(list(events)) == page

    def test_also_in_another_process_with_other_hashes_of_texts(self, events, page, tmp_path):
        (tmp_path / "events").write_text("\n".join(map(render_event_line, events)), "utf-8")
        code = """
import hashlib, pathlib, sys
from heterobandits.campaigns.audit.report import render_audit
from heterobandits.campaigns.events import parse_event_line
rows = pathlib.Path(sys.argv[1]).read_text("utf-8").split("\\n")
print(hashlib.sha256(render_audit([parse_event_line(row) for row in rows]).encode()).hexdigest())
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, str(tmp_path / "events")],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"},
        )  # fmt: skip
        assert done.stdout.strip() == hashlib.sha256(page.encode()).hexdigest()

    def test_imported_elsewhere_they_make_the_same_page(self, events, page, tmp_path):
        log = opened(tmp_path)
        state = import_events(
            log, VERA, "".join(f"{render_event_line(e)}\n" for e in events), keep_links=True
        ).state
        assert render_audit(log.store.read(state.campaign)) == page

    def test_it_says_how_many_and_has_the_hash(self, events, page):
        facts = re.findall(r"<li><b>([\d,]+)</b>(\w+)</li>", page)
        # Ana and Chi, Ana and Chi again as Ben stayed home, and three; one of the three told of was not done
        assert facts == [("14", "events"), ("3", "rounds"), ("7", "visits"), ("2", "outcomes")]
        assert page.count(events[-1].hash) == 2  # large, and in its event
        assert f"Made with {audit_maker()}." in page
        assert events[0].campaign in Page(page).text

    @pytest.mark.parametrize("version", [1, 2])
    def test_whoever_has_no_heterobandits_computes_the_hashes_as_it_says(self, events, version):
        page = render_audit(of_first_version(events) if version == 1 else by_a_link(events))
        names = re.findall(r"\[(previous, campaign, [\w, ]+)\]", page)
        recipe = names[0 if version == 2 else 1].split(", ")
        told = html.unescape(page.split('<pre id="events">')[1].split("</pre>")[0])
        found = [json.loads(row) for row in told.splitlines() if row.strip()]
        assert {one["version"] for one in found} == {version}
        for one in found:
            parts = [one[name] for name in recipe]
            text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            assert hashlib.sha256(text.encode()).hexdigest() == one["hash"]

    def test_every_event_in_order_with_its_words_and_hash(self, events, page):
        rows = rows_of(page, "Events")
        assert [row[0] for row in rows] == [str(event.number) for event in events]
        assert [row[1] for row in rows] == [e.time[:19].replace("T", " ") for e in events]
        assert [row[4] for row in rows] == [event.hash[:12] for event in events]
        assert {row[2] for row in rows} == {"Vera"}
        said = [row[3] for row in rows]
        assert said[0].startswith("created North park: 3 agents, 5 arms")
        assert said[8].endswith("corrected to 0 of 1, before it was 1 of 1")
        assert said[11] == f"round 2: {' / '.join(NOTE.splitlines())}"

    def test_every_round_with_who_went_where_and_what_came_of_it(self, events, page):
        plans = [event.body for event in events if event.kind == "round planned"]
        names = {f"arm-{i}": n for i, n in enumerate(("river", "hill", "gate", "lake", HOSTILE), 1)}
        went = [[names.get(one["arm"]) for one in plan["assignments"]] for plan in plans]
        (moved,) = (names[e.body["arms"][0]] for e in events if e.kind == "overridden" and e.body["arms"])  # fmt: skip
        ben = f"Ben {HOSTILE}"
        rows = [row[-3:] for row in rows_of(page, "Rounds")]
        assert rows == [
            ["Ana", went[0][0], "0 of 1"],
            ["Chi", went[0][2], "3 of 12"],
            ["Ana", f"{moved} by hand; planned: {went[1][0]}", "not done"],
            [ben, f"stayed home by hand; planned: {went[1][1]}", ""],
            ["Chi", went[1][2], "missing"],
            ["Ana", went[2][0], "waiting"],
            [ben, went[2][1], "waiting"],
            ["Chi", went[2][2], "waiting"],
        ]

    def test_one_who_came_later_and_went_by_hand_was_planned_nowhere(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        planned = service.plan_round(log, campaign, VERA).state.rounds[0].assignment
        service.add_agents(log, campaign, VERA, [{"name": "Dan", "sensitivity": 0.7}])
        free = min(set(range(5)) - set(planned))
        service.override(log, campaign, VERA, 1, "Dan", [f"arm-{free + 1}"])
        (*_, last) = rows_of(render_audit(log.store.read(campaign)), "Rounds")
        arms = ("river", "hill", "gate", "lake", "ford")
        assert last == ["Dan", f"{arms[free]} by hand; planned: nowhere", "waiting"]

    def test_what_is_known_of_an_arm(self, tmp_path):
        """Where each mean is as likely beforehand, it is Beta(k + 1, n - k + 1) after k successes in n perfect tests."""
        log = opened(tmp_path)
        one = [{"name": "Ana", "sensitivity": 1.0, "tests": 12}]
        arms = [{"name": name, "prior": [1, 1]} for name in ("river", "hill")]
        campaign = park(log, agents=one, arms=arms)
        place = service.plan_round(log, campaign, VERA).state.rounds[0].assignment[0]
        report_outcomes(log, campaign, VERA, 1, {"Ana": (3, 12)})
        page = render_audit(log.store.read(campaign))
        there, elsewhere = (("river", "hill")[n] for n in (place, 1 - place))
        low, high = (100 * end for end in beta(4, 10).ppf([0.1, 0.9]))
        assert rows_of(page, "Arms") == [
            [f"{elsewhere} never visited", "50 %", "10 to 90 %", "", "0 of 0", "0"],
            [f"{there} hardly visited", "29 %", f"{low:.0f} to {high:.0f} %", "", "3 of 12", "1"],
        ]
        certain = rows_of(page, "What is certain about the arms")
        assert certain[0] == [elsewhere, "0 % to 100 %", "1 to 2"]
        assert f"Nothing is known of {elsewhere} yet." in Page(page).text
        assert rows_of(page, "Agents") == [["Ana", "sensitivity 1, 12 tests a visit"]]

    def test_it_begins_with_what_was_found_and_ends_with_the_hash(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        service.plan_round(log, campaign, VERA, forced=[("Chi", "river"), ("Ana", "hill")])
        report_outcomes(log, campaign, VERA, 1, {"Chi": (3, 12), "Ana": 1})
        state = log.state(campaign)
        page = render_audit(log.store.read(campaign))
        parts = re.findall(r"<h2[^>]*>([^<]*)", page)
        assert parts[:3] == ["What was found", "Arms", "What is certain about the arms"]
        assert parts[-2:] == ["What is in it", "How to check it"]
        first, last = page.split("<h2")[1], page.split("<h2")[-2]
        # Ben may give false alarms, and nobody else: what he has not reported is true
        assert "<b>4</b>positive in 13 tests, about 4.0 of them true" in first
        assert "Most likely best: " in first
        assert state.hash in last
        rows = {row[0]: row[1:] for row in rows_of(page, "Arms")}
        # of places that nobody visited, and of which nothing is stated, nothing is estimated; they come last
        assert [name for name, row in rows.items() if row[0] == "–"] == list(rows)[2:]
        assert len(rows) == 5
        assert all(name.endswith("never visited") for name in list(rows)[2:])
        assert rows["hill hardly visited"][-2:] == ["1 of 1", "1"]
        assert check_audit(page).same
        report_outcomes(log, campaign, VERA, 1, {"Ben": 1})
        state = log.state(campaign)
        page = render_audit(log.store.read(campaign))
        assert 4.0 < true_finds(state) < 5.0
        assert f"<b>5</b>positive in 14 tests, about {true_finds(state):.1f} of them true" in page
        sure = park(log, name="Sure", agents=[{"name": "Ana", "sensitivity": 0.9}])
        service.plan_round(log, sure, VERA)
        report_outcomes(log, sure, VERA, 1, {"Ana": 1})
        assert "<b>1</b>found in 1 test</li>" in render_audit(log.store.read(sure))

    def test_before_anything_is_known_it_says_so(self, tmp_path):
        log = opened(tmp_path)
        page = render_audit(log.store.read(park(log)))
        assert "so nothing can be forecast" in page
        assert " would be expected" not in page
        assert [row[1] for row in rows_of(page, "Arms")] == ["–"] * 5

    def test_a_campaign_without_a_round(self, tmp_path):
        log = opened(tmp_path)
        page = render_audit(log.store.read(park(log)))
        assert "No round is planned yet." in page
        assert ">Links</h2>" not in page
        assert check_audit(page).same

    def test_nothing_of_a_name_or_a_note_is_markup(self, page):
        found = Page(page)
        assert (found.tags["b"], found.tags["script"], found.tags["style"]) == (7, 0, 1)
        assert found.tags["pre"] == 1
        assert found.text.count(HOSTILE) >= 4
        assert " / ".join(NOTE.splitlines()) in found.text
        assert found.references == ["#check"]  # it opens offline

    def test_tokens_are_not_in_it(self, tmp_path):
        log = opened(tmp_path)
        campaign = park(log)
        _, token, *_ = issue_link(log, campaign, VERA, role="owner", name="Ana's phone")
        page = render_audit(log.store.read(campaign))
        assert token.split("_", 3)[3] not in page
        (row,) = rows_of(page, "Links")
        assert row == [f"Ana's phone {token.split('_')[2]}", "owner", "no end"]

    def test_events_that_do_not_fit_make_none(self, events):
        with pytest.raises(InvalidInput, match="event 3 is missing"):
            render_audit([*events[:2], *events[3:]])
        with pytest.raises(InvalidInput, match="without events"):
            render_audit([])


def parts_of(page):
    """Where in the page the events begin and end."""
    begin = page.index(EVENTS_OPENING_TAG) + len(EVENTS_OPENING_TAG)
    return begin, page.index(EVENTS_CLOSING_TAG, begin)


def changed(page, place):
    """The page with another letter in its place."""
    return page[:place] + ("Y" if page[place] == "X" else "X") + page[place + 1 :]


class TestChecked:
    """What is found out."""

    def test_a_page_that_was_not_changed(self, events, page):
        shares = []
        found = check_audit(page, shares.append)
        assert (found.same, found.maker) == (True, audit_maker())
        assert (found.state.number, found.state.hash) == (len(events), events[-1].hash)
        assert shares[-1] == 1.0

    def test_ends_of_lines_may_be_those_of_mail(self, page):
        assert check_audit(page.replace("\n", "\r\n")).same

    def test_any_letter_that_is_another_is_found(self, page, seed):
        begin, end = parts_of(page)
        marks = re.search(re.escape(audit_maker()), page).span()
        random = Random(seed)
        places = [*random.sample(range(begin), 30), *random.sample(range(end, len(page)), 6)]
        for place in places:
            if marks[0] <= place < marks[1]:
                continue  # said to be of another version: below
            with pytest.raises(InvalidInput, match=r"line \d+ has|no events|which version"):
                check_audit(changed(page, place))

    def test_any_letter_of_the_hash(self, events, page):
        first = page.index(events[-1].hash)
        line_ = page[:first].count("\n") + 1
        for place in range(first, first + 64, 9):
            with pytest.raises(
                InvalidInput, match=f"does not say what its events say: line {line_} has "
            ):
                check_audit(changed(page, place))

    def test_any_letter_of_an_event_is_found_at_its_event(self, page, seed):
        begin, end = parts_of(page)
        for place in Random(seed).sample(range(begin, end), 40):
            number = page[begin:place].count("\n") + 1
            with pytest.raises(InvalidInput, match=rf"^event {number}\b"):
                check_audit(changed(page, place))

    @pytest.mark.parametrize("more", ["\n", " ", "<p>And Ana found gold.</p>"])
    def test_what_was_added(self, page, more):
        with pytest.raises(InvalidInput, match="does not say what its events say"):
            check_audit(page + more)
        with pytest.raises(InvalidInput, match="does not say what its events say"):
            check_audit(page.replace("<main>", f"<main>{more}"))

    def test_what_was_left_out(self, page):
        for part in ("<main>\n", "</html>", "0 of 1", "by hand"):
            assert part in page
            with pytest.raises(InvalidInput, match="does not say what its events say"):
                check_audit(page.replace(part, "", 1))

    def test_an_event_that_was_left_out(self, page):
        begin, end = parts_of(page)
        lines = page[begin:end].split("\n")
        fewer = "\n".join(lines[:4] + lines[5:])
        with pytest.raises(InvalidInput, match=r"^event 5, .*: is missing"):
            check_audit(page[:begin] + fewer + page[end:])
        shorter = "\n".join(lines[:-1])  # whole as such, but not what the page tells of
        with pytest.raises(InvalidInput, match="does not say what its events say"):
            check_audit(page[:begin] + shorter + page[end:])

    def test_a_plan_that_does_not_follow_is_named_even_with_good_hashes(self, events):
        drafts = [Draft(e.kind, e.body) for e in events]
        number = next(e.number for e in events if e.kind == "round planned")
        drafts[number - 1] = Draft("round planned", drafts[number - 1].body | {"index": "0" * 64})
        forged = events_of(drafts, None, events[0].campaign, events[0].time, "Mal")
        with pytest.raises(InvalidInput, match=rf"^event {number}, round planned, .*does not follow"):  # fmt: skip
            check_audit(render_audit(forged))

    def test_the_first_difference_is_shown(self, page):
        with pytest.raises(InvalidInput, match=r"line \d+ has '.*4 of 12.*', they make '.*3 of 12"):
            check_audit(page.replace("3 of 12", "4 of 12", 1))
        last = page.count("\n") + 2
        with pytest.raises(InvalidInput, match=f"line {last} has 'more', they make nothing"):
            check_audit(f"{page}\nmore")

    def test_a_page_of_another_version(self, events, page):
        other = page.replace(audit_maker(), "heterobandits 9.9, sources 0123456789abcdef")
        found = check_audit(other)  # which has other sources, but says the same
        assert found.maker == "heterobandits 9.9, sources 0123456789abcdef"
        assert found.same
        found = check_audit(other.replace("3 of 12", "4 of 12"))
        assert (found.same, found.state.hash) == (False, events[-1].hash)
        begin, _ = parts_of(other)
        with pytest.raises(InvalidInput, match=r"^event 1\b"):
            check_audit(changed(other, begin + 200))

    @pytest.mark.parametrize("made", ["", "heterobandits", "heterobandits 1 and all is well, sources 0123456789abcdef"])  # fmt: skip
    def test_a_page_that_does_not_say_what_made_it(self, page, made):
        with pytest.raises(InvalidInput, match="which version made it"):
            check_audit(page.replace(audit_maker(), made))


class TestCommands:
    """`campaign export --audit` and `campaign verify` of what it wrote."""

    @pytest.fixture
    def written(self, events, tmp_path, monkeypatch, called):
        """The audit of a campaign, written here; the campaign lies in park.db."""
        monkeypatch.chdir(tmp_path)
        Path("events").write_text("\n".join(map(render_event_line, events)), "utf-8")
        assert (
            called("campaign", "import", "park.db", "events", "--keep-links", "--who", "Vera")[0]
            == 0
        )
        code, out, err = called("campaign", "export", "park.db", "--audit", "--output", "a.html")
        assert (code, out, err) == (0, "", "heterobandits: North park is in a.html\n")
        return Path("a.html")

    def test_what_was_written_is_whole(self, written, events, page, called):
        assert written.read_bytes() == page.encode()
        code, out, err = called("campaign", "verify", "a.html")
        assert (code, err) == (0, "")
        assert out.splitlines() == [
            "North park is whole: 14 events, 3 plans made again",
            f"hash {events[-1].hash}",
            VERIFICATION_CAVEAT,
            "the page says what its events say, to the letter",
        ]
        code, out, _ = called("campaign", "verify", "a.html", "--format", "json")
        assert (code, json.loads(out)) == (
            0,
            {
                "campaign": events[0].campaign,
                "name": "North park",
                "events": 14,
                "rounds": 3,
                "hash": events[-1].hash,
                "made_with": audit_maker(),
                "same_page": True,
            },
        )
        assert called("campaign", "verify", "park.db")[1] == "\n".join(
            [
                "North park is whole: 14 events, 3 plans made again",
                f"hash {events[-1].hash}",
                VERIFICATION_CAVEAT,
                "",
            ]
        )

    @pytest.mark.parametrize("file", ["a.html", "park.db"])
    def test_it_is_compared_with_what_was_written_down(self, written, events, called, file):
        short = events[4].hash[:12]
        code, out, _ = called("campaign", "verify", file, "--hash", short.upper(), "--least", 14)
        assert code == 0
        assert "event 5 has the hash given" in out
        assert VERIFICATION_CAVEAT not in out
        out = called("campaign", "verify", file, "--hash", short, "--format", "json")[1]
        assert json.loads(out)["anchored"] == 5
        for options, says in (
            (("--least", 15), "there are 14 events, and there were at least 15"),
            (("--hash", "0" * 12), "no event has the hash 000000000000"),
            (("--hash", events[4].hash[:11]), "the first 12 or more of the 64 digits"),
            (("--hash", "g" * 12), "the first 12 or more of the 64 digits"),
            (("--least", 0), "least is 0"),
        ):
            code, out, err = called("campaign", "verify", file, *options)
            assert (code, out) == (2, "")
            assert says in err

    def test_a_log_without_its_end_is_whole_only_if_nobody_wrote_it_down(
        self, written, events, called
    ):
        with sqlite3.connect("park.db") as connection:
            for number in ("changed", "deleted"):
                connection.execute(f"DROP TRIGGER events_are_not_{number}")
            for table in ("snapshots", "keys"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute("DELETE FROM events WHERE number > 11")
        connection.close()
        assert called("campaign", "verify", "park.db")[0] == 0
        assert called("campaign", "verify", "park.db", "--hash", events[10].hash)[0] == 0
        for options in (("--hash", events[13].hash[:12]), ("--least", 14)):
            assert called("campaign", "verify", "park.db", *options)[0] == 2
        code, out, _ = called("db", "check", "--database", "park.db")
        assert code == 1
        assert "events_are_not_changed is missing, events_are_not_deleted is missing: " in out
        assert f"11 events, whole, the last with hash {events[10].hash[:12]}" in out

    def test_it_can_be_printed_as_well(self, written, page, called):
        assert called("campaign", "export", "park.db", "--audit") == (0, page, "")

    def test_a_mark_before_it_and_capital_letters_are_no_other_page(self, written, page, called):
        written.write_bytes(page.encode("utf-8-sig"))
        assert called("campaign", "verify", "a.html")[0] == 0
        written.write_text(page.replace("<!doctype html>", "<!DOCTYPE html>"), "utf-8")
        code, _, err = called("campaign", "verify", "a.html")
        assert code == 2
        assert "line 1 has" in err

    def test_a_changed_one_is_refused(self, written, page, called):
        written.write_text(page.replace("3 of 12", "4 of 12", 1), "utf-8")
        code, out, err = called("campaign", "verify", "a.html")
        assert (code, out) == (2, "")
        assert err.startswith("heterobandits: a.html: the page does not say what its events say: line ")  # fmt: skip
        begin, end = parts_of(page)
        forged = page[begin:end].replace('"successes":3', '"successes":4', 1)
        written.write_text(page[:begin] + forged + page[end:], "utf-8")
        code, out, err = called("campaign", "verify", "a.html")
        assert (code, out) == (2, "")
        assert re.search(r"a\.html: event 4, reported, of \S+ by Vera: is not what its hash says", err)  # fmt: skip

    def test_one_of_another_version_whose_text_differs_is_not_to_be_relied_on(
        self, written, page, called
    ):
        other = page.replace(audit_maker(), "heterobandits 9.9, sources 0123456789abcdef")
        written.write_text(other.replace("3 of 12", "4 of 12"), "utf-8")
        code, out, _ = called("campaign", "verify", "a.html")
        assert code == 1
        first, _, _, last = out.splitlines()
        assert first == "North park is whole: 14 events, 3 plans made again"
        assert last.startswith(
            "THE TEXT OF THE PAGE IS NOT WHAT THIS VERSION MAKES OF ITS EVENTS: line "
        )
        assert re.search(r"has '.*4 of 12.*', they make '.*3 of 12.*'", last)
        assert (
            f"9.9, sources 0123456789abcdef has made it, and this is {audit_maker()}: do not rely"
            in last
        )
        code, out, _ = called("campaign", "verify", "a.html", "--format", "json")
        assert (code, json.loads(out)["same_page"]) == (1, False)

    def test_which_campaign_it_is_of(self, written, events, called):
        for name in ("North park", events[0].campaign):
            assert called("campaign", "verify", "a.html", "--campaign", name)[0] == 0
        code, _, err = called("campaign", "verify", "a.html", "--campaign", "Isle")
        assert code == 2
        assert f"is the audit of 'North park' ({events[0].campaign}), not of 'Isle'" in err

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"<!doctype html>\xff\xfe", "save it as UTF-8"),
            (b"<!DOCTYPE html><title>Bank</title>", "no events are in it: it is no audit"),
            (b"<!doctype html>" + b"<" * 3_000_000, "no events are in it"),
            (b'<!doctype html><pre id="events">', "or was cut off"),
            (b'<!doctype html><pre id="events"></pre>', "event 1: not an event of a campaign: ''"),
            (b'<!doctype html><pre id="events">' + b"[" * 3_000_000 + b"</pre>", "event 1: not an event"),
            (b'<!doctype html><pre id="events">{"campaign": 1}</pre>', "event 1: not an event"),
            (b'<!doctype html><pre id="events">\x1b[31m</pre>', "event 1: not an event of a campaign: '\\x1b["),
        ],
    )  # fmt: skip
    def test_what_is_no_audit(self, called, tmp_path, monkeypatch, content, said):
        monkeypatch.chdir(tmp_path)
        Path("x.html").write_bytes(content)
        code, out, err = called("campaign", "verify", "x.html")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err
        assert "x.html" in err
        assert len(err) < 300

    def test_what_is_too_long_is_not_read(self, called, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("x.html").write_bytes(b"<!doctype html>")
        os.truncate("x.html", report.AUDIT_MAX_BYTES + 1)
        code, _, err = called("campaign", "verify", "x.html")
        assert (code, err) == (2, "heterobandits: x.html has over 256 MB: no audit is that long\n")

    def test_what_is_no_file(self, ends, called, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        os.mkfifo("pipe")  # which would be waited for
        for name in ("pipe", "nowhere.html", str(tmp_path)):
            code, _, err = called("campaign", "verify", name)
            assert (code, err.count("\n")) == (2, 1)

    def test_visits_and_audit_at_once(self, written, called):
        code, _, err = called("campaign", "export", "park.db", "--audit", "--visits")
        assert (code, err) == (2, "heterobandits: --visits and --audit: one or the other\n")

    def test_of_a_damaged_campaign_there_is_none(self, written, called):
        connection = sqlite3.connect("park.db")
        with connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in names.fetchall():
                connection.execute(f'DROP TRIGGER "{name}"')
            connection.execute("UPDATE events SET who = 'Mallory' WHERE number = 3")
        connection.close()
        code, out, err = called("campaign", "export", "park.db", "--audit")
        assert (code, out) == (2, "")
        assert "event 3 is not what its hash says" in err
