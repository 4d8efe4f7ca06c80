"""Looking ahead and comparing with another policy: what the pages say is what is computed, bit by bit and at once."""

import asyncio
import json
import math
import re
import threading
import time
from types import SimpleNamespace

import pytest
from starlette.requests import Request as Asked

from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.projection import (
    project,
    state_with_other_team,
    worth_of_team,
)
from heterobandits.campaigns.analysis.projection_lanes import GuessedMeans
from heterobandits.campaigns.analysis.shadows import is_different, shadow
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.campaigns.validation import Reports
from heterobandits.errors import InvalidInput
from heterobandits.policies.policy import CATALOGUE
from heterobandits.web.pages import ahead
from heterobandits.web.pages import outlook as module
from heterobandits.web.pages.outlook import compute_outlook, estimate_seconds, parse_wish
from heterobandits.web.request_fields import Form
from heterobandits.web.stream import stream_lines
from heterobandits.web.turns import ServerPlaces
from markup import Page
from serving import NORTH, OWNER, UNKNOWN, Visitor, app_on
from states import begun

ME = Author("Vera")
HOSTILE = "<b>x</b> {{ 1237*4321 }} & \"two\" 'one' </script>"
ROUNDS = 6


def held(log, rounds=ROUNDS, **changes):
    """The id of a campaign after so many rounds."""
    state = service.create(log, ME, **NORTH | changes).state
    for number in range(1, rounds + 1):
        state = service.plan_round(log, state.campaign, ME).state
        found = {
            state.agents[agent].name: (arm, 12) if agent == 2 else arm % 2
            for agent, arm in state.rounds[-1].sent
        }
        state = report_outcomes(log, state.campaign, ME, number, found).state
    return state.campaign


class World:
    """Two campaigns that have been going on, one of them with names that are markup."""

    def __init__(self, folder):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.id = held(self.log)
        agents = [{"name": HOSTILE + str(i), "sensitivity": 0.5} for i in range(2)]
        self.hostile = service.create(
            self.log, ME, name=HOSTILE, agents=agents, arms=[f"{HOSTILE} {i}" for i in range(3)]
        ).state.campaign
        for number in range(1, 5):
            state = service.plan_round(self.log, self.hostile, ME).state
            if number < 4:
                told = {state.agents[agent].name: arm % 2 for agent, arm in state.rounds[-1].sent}
                report_outcomes(self.log, self.hostile, ME, number, told)

    @property
    def state(self):
        return self.log.state(self.id)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("ahead"))
    yield made
    made.log.store.close()


@pytest.fixture
def look(world):
    """A page of the first campaign, as the server's owner sees it."""
    with Visitor(world.app, OWNER) as visitor:
        yield lambda part: visitor.get(f"/campaigns/{world.id}/{part}")


def form(**fields):
    from urllib.parse import urlencode

    return Form(urlencode(fields).encode())


def without(text):
    """Markup without blanks at the ends of lines, and its outlook alone."""
    inside = text.split('<div id="outlook">')[-1].split("<p><a href=")[0]
    return [
        row.strip() for row in inside.rstrip().removesuffix("</div>").splitlines() if row.strip()
    ]


class TestAhead:
    """The rest of the season on a page."""

    def test_nothing_is_computed_until_somebody_asks(self, look, monkeypatch):
        monkeypatch.setattr(module, "look_ahead", None)
        page = look("ahead")
        assert page.status_code == 200
        assert 'name="rounds"' in page.text
        assert 'value="24"' in page.text  # of 30
        assert f'value="{(17 + 1) / (20 + 2):.3f}"' in page.text  # calibrated, between 0.6 and 0.9
        assert "detections" not in page.text
        Page(page.text)

    @pytest.mark.parametrize(
        "part", ["ahead", "ahead?rounds=x&run=1", "compare", "compare?policy=x"]
    )
    def test_it_is_drawn_where_nobody_waits_for_it(self, look, part, monkeypatch):
        drawn, done = [], ahead.render_page

        def watched(*given, **more):
            drawn.append(threading.current_thread() is threading.main_thread())
            return done(*given, **more)

        monkeypatch.setattr(ahead, "render_page", watched)
        assert look(part).status_code == (422 if "x" in part else 200)
        assert drawn == [False]

    def test_before_anything_is_known_it_says_why_there_is_nothing(self, world):
        new = service.create(world.log, ME, **UNKNOWN | {"name": "Unknown"}).state.campaign
        said = "Nothing was reported yet, and nothing is stated of any arm beforehand"
        with Visitor(world.app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{new}/ahead")
            assert said in Page(page.text).text
            assert 'name="rounds"' not in page.text
            assert said in visitor.get(f"/campaigns/{new}/ahead?run=1&rounds=3").text
            stream = visitor.get(f"/campaigns/{new}/ahead/run?rounds=3")
            assert said in json.loads(stream.text.splitlines()[-1])["error"]
            for arm in ("hill", "gate"):  # half of them
                service.revise_arm(world.log, new, ME, arm, [1, 1])
            page = visitor.get(f"/campaigns/{new}/ahead?run=1&rounds=3")
        assert page.status_code == 200
        assert "In the next 3 rounds" in page.text

    def test_false_alarms_are_not_counted(self, world):
        agents = [{"name": "A", "sensitivity": 0.9, "false_positive_rate": 0.1}]
        state = held(
            world.log, rounds=0, agents=agents, arms=[{"name": "x", "prior": [1, 1]}], name="Alarms"
        )
        with Visitor(world.app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{state}/ahead?run=1&rounds=3&sensitivity=")
        assert "Detections are true ones" in page.text

    def test_what_it_says_is_what_is_projected(self, look, world):
        page = look("ahead?rounds=10&sensitivity=0.7&run=1")
        assert page.status_code == 200
        text = Page(page.text).text
        more = state_with_other_team(world.state, None, Reports(0.7, tests=1))
        found = worth_of_team(world.state, more, rounds=10, draws=200)
        plain = found.plain
        how_sure = f"({plain.low:.0f} to {plain.high:.0f}, 8 times of 10)"
        assert f"expected to make {plain.detections:.0f} detections {how_sure}" in text
        least = math.floor(100 * (plain.gain_low - 1))
        most = math.ceil(100 * (plain.gain_high - 1))
        assert least >= 1
        turn = f"{plain.rotation_low:.0f} to {plain.rotation_high:.0f}"
        assert f"{least} to {most} % more than visits to the arms in turn ({turn})" in text
        assert f"in all rounds that makes {turn}, 8 times of 10" in text
        more, error = (f"{x:.{1 if x >= 1.0 else 2}f}" for x in (found.more, found.more_se))
        assert f"would make {more} detections more (standard error {error})" in text
        assert "in 200 worlds" in text
        assert "Nobody is absent" in text
        assert len(page.content) < 70_000

    def test_bit_by_bit_it_is_the_same(self, look):
        asked = "rounds=8&sensitivity=0.9&run=1"
        answer = look(f"ahead/run?{asked}")
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        assert answer.headers["cache-control"] == "no-store"
        found = [json.loads(line) for line in answer.text.splitlines()]
        assert [set(line) for line in found[:-1]] == [{"share"}] * (len(found) - 1)
        shares = [line["share"] for line in found[:-1]]
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0.0, 1.0)
        assert len(shares) > 8
        assert set(found[-1]) == {"html"}
        assert without(found[-1]["html"]) == without(look(f"ahead?{asked}").text)

    @pytest.mark.parametrize(
        ("asked", "wrong"),
        [
            (
                "rounds=0&sensitivity=0.9",
                {"rounds": "Please give a whole number from 1 to 1,000, not 0"},
            ),
            (
                "rounds=many&sensitivity=",
                {"rounds": "Please give a whole number from 1 to 1,000, not “many”"},
            ),
            (
                "rounds=1001&sensitivity=1.2",
                {
                    "rounds": "Please give a whole number",
                    "sensitivity": "Please give a number from 0 to 1 or a percentage",
                },
            ),
            (
                "sensitivity=nan",
                {"sensitivity": "Please give a number from 0 to 1 or a percentage"},
            ),
            ("sensitivity=-1", {"sensitivity": "Please give a number from 0 to 1 or a percentage"}),
        ],
    )
    def test_what_is_wrong_stands_beside_its_field(self, look, asked, wrong):
        page = look(f"ahead?run=1&{asked}")
        assert page.status_code == 422
        for field in ("rounds", "sensitivity"):
            said = re.search(rf'<p class="wrong" id="wrong-{field}">([^<]*)</p>', page.text)
            assert (said is not None) == (field in wrong)
            if said is not None:
                assert said[1].startswith(wrong[field])
                assert re.search(rf'name="{field}"[^>]*aria-describedby="wrong-{field}"', page.text)
        for typed in re.findall(r"(\w+)=([^&]*)", asked):
            assert re.search(rf'name="{typed[0]}"[^>]*value="{typed[1]}"', page.text)
        assert look(f"ahead/run?run=1&{asked}").status_code == 422

    def test_whether_the_best_arm_is_known_is_drawn_where_it_may_be(self, world):
        """One agent who finds all, 45 of 50 finds here and none of 50 there: it is known already."""
        agents = [{"name": "A", "sensitivity": 1.0, "tests": 50}]
        made = service.create(world.log, Author("Vera"), name="two", agents=agents, arms=["x", "y"])
        campaign = made.state.campaign
        for number in (1, 2):
            service.plan_round(
                world.log, campaign, Author("Vera"), forced=[("A", "xy"[number - 1])]
            )
            told = {"A": (45 if number == 1 else 0, 50)}
            report_outcomes(world.log, campaign, Author("Vera"), number, told)
        with Visitor(world.app, OWNER) as visitor:
            page = Page(visitor.get(f"/campaigns/{campaign}/ahead?rounds=3&run=1").text)
        table = page.all("section[aria-labelledby=learning] tbody tr")
        assert [row.get_text(" ").split()[:2] for row in table] == [["Round", f"{n}"] for n in (3, 4, 5)]  # fmt: skip
        assert "chance that the best arm is known by round 5" in page.text

    def test_the_numbers_of_the_charts_are_those_of_the_tables(self, look):
        page = look("ahead?rounds=9&sensitivity=&run=1").text
        rows = [
            re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row)
            for row in re.findall(r"<tr>(.*?)</tr>", page, re.S)
        ]
        course = [row for row in rows if len(row) == 4 and row[0].startswith("Round ")]
        chances = [row for row in rows if len(row) == 2 and row[0].startswith("Round ")]
        assert [row[0] for row in course] == [f"Round {n}" for n in range(7, 16)]
        assert (
            chances == []
        )  # that the best arm is known by then is most unlikely: a chart of it says nothing
        assert "learning" not in Page(page).ids
        titles = re.findall(r"<title>([^<]*)</title></rect>", page)
        assert titles == [
            f"{name}: {a} detections, in turn {b}, best {c}" for name, a, b, c in course
        ]
        first = page.split("<svg", 1)[1].split("</svg>")[0]
        drawn = [
            [tuple(map(float, point.split(","))) for point in points.split()]
            for points in re.findall(r'points="([^"]*)"', first)
        ]
        # heights, read off the axis: zero stands where its line does, and another number by its distance from there
        axis = {
            float(text): float(y)
            for y, text in re.findall(r'y1="([^"]*)".*?<text[^>]*>([\d.]+)<', first, re.S)
        }
        one = (axis[0.0] - axis[2.0]) / 2.0
        best, turn, planned = drawn[:3]
        heights = [[(axis[0.0] - y) / one for _, y in curve] for curve in (planned, turn, best)]
        assert heights[0][1:-1] == pytest.approx([float(row[1]) for row in course], abs=0.02)
        assert heights[1] == pytest.approx([float(course[0][2])] * 2, abs=0.02)
        assert heights[2] == pytest.approx([float(course[0][3])] * 2, abs=0.02)

    def test_many_rounds_are_drawn_in_few_steps(self, world):
        state = begun([0.9, 0.5], 3, prior=[1, 1])
        found = compute_outlook(state, parse_wish(state, form(rounds="150", sensitivity="")))
        assert [step.rounds for step in found.steps[:2]] == ["Rounds 1 to 3", "Rounds 4 to 6"]
        assert found.steps[-1].rounds == "Rounds 148 to 150"
        assert len(found.steps) == len(found.course.hits) == 50
        assert [hit.text.split(":")[0] for hit in found.course.hits] == [
            s.rounds for s in found.steps
        ]
        assert sum(hit.width for hit in found.course.hits) == pytest.approx(
            found.course.right - found.course.left, abs=0.1
        )

    def test_a_season_without_an_end_and_one_that_is_over(self, look, world):
        with Visitor(world.app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{world.hostile}/ahead")
        assert re.search(r'name="rounds"[^>]*value="20"', page.text)
        assert "no end" in page.text
        over = held(world.log, rounds=2, season=2, name="Short")
        with Visitor(world.app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{over}/ahead?run=1&rounds=3")
        assert "All 2 rounds of the season are planned" in page.text
        assert "In the next 3 rounds" in page.text

    def test_one_more_than_there_are_arms(self, world):
        full = held(world.log, rounds=1, arms=["a", "b", "c"], name="Full")
        with Visitor(world.app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{full}/ahead?run=1&rounds=2")
            assert page.status_code == 200
            assert "Every arm has an agent already" in page.text
            assert "ne more agent with" not in page.text
            page = visitor.get(f"/campaigns/{full}/ahead?run=1&rounds=2&sensitivity=0.5")
        assert page.status_code == 422
        assert 'id="wrong-sensitivity">There are 4 agents and 3 arms' in page.text

    def test_names_are_text(self, world):
        with Visitor(world.app, OWNER) as visitor:
            for part in ("ahead?run=1&rounds=3", "compare?policy=random"):
                page = visitor.get(f"/campaigns/{world.hostile}/{part}")
                assert page.status_code == 200
                assert "<b>x" not in page.text
                assert str(1237 * 4321) not in Page(page.text).text
            assert HOSTILE in Page(page.text).text.split("Where they differ")[1]
            stream = visitor.get(f"/campaigns/{world.hostile}/ahead/run?rounds=3")
        assert "<b>x" not in json.loads(stream.text.splitlines()[-1])["html"]


class TestWishes:
    """How much is played while somebody waits."""

    def test_small_teams_are_played_in_full(self):
        state = begun([0.9] * 6, 10, season=30)
        wish = parse_wish(state, form())
        assert (wish.rounds, wish.played, wish.draws) == (30, 30, 200)
        assert wish.changed.rows[-1].reports == Reports(0.9)

    def test_large_ones_in_fewer_draws_and_then_fewer_rounds(self):
        state = begun([0.9] * 20, 50)
        wish = parse_wish(state, form(rounds="60", sensitivity=""))
        assert wish.played == 60
        assert 20 < wish.draws < 200
        assert wish.draws % 10 == 0
        for draws, fits in ((wish.draws, True), (wish.draws + 10, False)):
            assert (estimate_seconds(state, 60, draws, False) <= module.OUTLOOK_TARGET_S) == fits
        slow = begun([0.9] * 20, 50, season=200)
        short = parse_wish(slow, form())
        assert short.draws == 20
        assert short.rounds == 200 > short.played >= 20
        assert estimate_seconds(slow, short.played, 20, True) <= module.OUTLOOK_MAX_S + 0.1
        assert short.played < parse_wish(slow, form(patient="1")).played < 200

    def test_the_more_cells_a_mean_may_lie_in_the_longer_it_takes(self):
        plain, strong = (
            begun([0.9], 50, season=9, prior=prior) for prior in ((2.0, 9.0), (1e9, 1e9))
        )
        few, many = (estimate_seconds(state, 9, 100, False) for state in (plain, strong))
        assert many > 10.0 * few  # 8,192 cells, and 256

    def test_what_was_not_played_is_said(self, monkeypatch):
        state = begun([0.9, 0.5], 3, season=40, prior=[1, 1])
        monkeypatch.setattr(module, "OUTLOOK_MAX_S", 0.5 * estimate_seconds(state, 40, 20, False))
        found = compute_outlook(state, parse_wish(state, form(sensitivity="")))
        assert re.match(
            r"These are the next (19|20) of 40 rounds: to play all of them takes", found.note
        )
        assert found.sentences[0].startswith(f"In the next {found.note.split()[4]} rounds")
        monkeypatch.undo()
        assert (
            compute_outlook(state, parse_wish(state, form(sensitivity="", rounds="2"))).note is None
        )

    def test_what_is_too_large_is_refused(self, monkeypatch):
        state = begun([0.9] * 30, 200, season=10)
        monkeypatch.setattr(
            module, "PATIENT_OUTLOOK_MAX_S", 0.99 * estimate_seconds(state, 1, 20, False)
        )
        with pytest.raises(InvalidInput, match="with 30 agents and 200 arms a single round"):
            parse_wish(state, form(sensitivity=""))

    def test_guessed_means(self):
        state = begun([0.9, 0.6], 4, season=12)
        wish = parse_wish(state, form(sensitivity="", low="0.1", high="0.4"), guessed=True)
        assert wish.guess == GuessedMeans(0.1, 0.4)
        found = compute_outlook(state, wish)
        assert "whose means are drawn evenly between 0.1 and 0.4" in found.assumes[0]
        plain = project(state, guess=GuessedMeans(0.1, 0.4), draws=200)
        assert found.facts[0][0] == f"{plain.detections:.1f}"
        assert parse_wish(state, form(low="0.1", high="0.4")).guess is None

    def test_every_mistake_of_a_form_at_once(self):
        given = form(rounds="0", sensitivity="2", low="0.6", high="0.2")
        with pytest.raises(InvalidInput) as caught:
            parse_wish(begun([0.9], 4, season=12), given, guessed=True)
        assert [field for field, _ in caught.value.errors] == ["rounds", "sensitivity", "low"]

    def test_the_middle_of_the_team_is_offered(self):
        state = begun(
            [{"sensitivity": s, "tests": t} for s, t in ((0.3, 2), (0.9, 9), (0.5, 4))], 4
        )
        wish = parse_wish(state, form())
        assert wish.changed.rows[-1].reports == Reports(0.5, tests=4)


class TestWords:
    """What is said of numbers."""

    def test_one_arm_is_known_and_nothing_is_lost(self):
        state = begun([0.5], 1, season=8, prior=[1, 1])
        found = compute_outlook(state, parse_wish(state, form()))
        assert "visits to the arms in turn may find as much" in found.sentences[0]
        assert [value for value, _ in found.facts[1:3]] == ["–", "100 %"]
        assert found.looks[-1].known == "over 98 %"

    def test_where_there_is_nothing_to_find(self):
        state = begun([0.5, 0.7], 3, season=8)
        nothing = form(low="0", high="0", sensitivity="0.9")
        found = compute_outlook(state, parse_wish(state, nothing, guessed=True))
        assert [value for value, _ in found.facts[:3]] == ["0.00", "–", "–"]
        assert "not distinguishable from nothing" in found.sentences[-1]

    def test_one_round(self):
        state = begun([0.5, 0.7], 3, season=8, prior=[1, 1])
        found = compute_outlook(state, parse_wish(state, form(rounds="1")))
        assert found.sentences[0].startswith("In the next round the team")
        assert len(found.steps) == len(found.looks) == 1

    def test_outcomes_that_are_waited_for(self, world):
        state = world.log.state(world.hostile)
        found = compute_outlook(state, parse_wish(state, form(rounds="2", sensitivity="")))
        assert "still wait for stay unknown" in found.assumes[-1]


async def silence():
    """What comes from a reader who stays: nothing."""
    await asyncio.Event().wait()


def asking(campaign="", app=None):
    """A request, of a campaign, to a server that computes nothing yet."""
    app = app or SimpleNamespace(state=SimpleNamespace(places=ServerPlaces()))
    scope = {"type": "http", "method": "GET", "app": app, "client": None, "state": {}}
    return Asked(scope | {"path_params": {"campaign": campaign}}, silence)


class TestStreams:
    """What comes while something is computed, and that it ends with whoever asked."""

    def test_it_stops_when_the_reader_has_gone(self):
        ended, request = threading.Event(), asking()

        def compute(tell):
            try:
                for i in range(1, 10_000):
                    tell(i / 10_000 if i < 1000 else 0.5)
                    time.sleep(0.001)
            finally:
                ended.set()
            return "all of it"

        async def read():
            coming = stream_lines(request, compute)
            first = [await anext(coming) for _ in range(2)]
            assert not ended.is_set()
            await coming.aclose()
            async with asyncio.timeout(5):
                while not ended.is_set() or request.app.state.places.long.full:
                    await asyncio.sleep(0.005)
            return first

        assert asyncio.run(read()) == ['{"share": 0.0}\n', '{"share": 0.02}\n']

    def test_one_at_a_time_and_who_waits_is_told(self):
        request, together = asking(), []

        async def read():
            turns = request.app.state.places.long
            async with turns.turn(asking("another", request.app)):
                coming = stream_lines(request, lambda tell: together.append(tell(1.0)) or "done")
                first = json.loads(await anext(coming))
                await asyncio.sleep(0.02)
                assert together == []
            return [first, *[json.loads(line) async for line in coming]]

        assert asyncio.run(read()) == [
            {"share": 0.0, "said": "Others are having something computed: yours is next."},
            {"share": 1.0},
            {"html": "done"},
        ]

    def test_who_has_waited_too_long_is_told(self, monkeypatch):
        monkeypatch.setattr("heterobandits.web.turns.TURN_TIMEOUT_S", 0.01)
        request = asking()

        async def read():
            async with request.app.state.places.long.turn(asking("another", request.app)):
                return [
                    json.loads(line) async for line in stream_lines(request, lambda tell: "never")
                ]

        assert "try again in a moment" in asyncio.run(read())[-1]["error"]

    def test_what_goes_wrong_is_said(self):
        def refuse(tell):
            raise InvalidInput("the moon is closed: another arm")

        async def read():
            return [json.loads(line) async for line in stream_lines(asking(), refuse)]

        assert asyncio.run(read())[-1] == {"error": "the moon is closed: another arm"}

    def test_what_nobody_foresaw_is_not_shown_but_raised(self):
        seen = []

        async def read():
            async for line in stream_lines(asking(), lambda tell: 1 / 0):
                seen.append(json.loads(line))

        with pytest.raises(ZeroDivisionError):
            asyncio.run(read())
        assert set(seen[-1]) == {"error"}
        assert "division" not in seen[-1]["error"]


class TestCompare:
    """Another policy beside what was planned."""

    def test_it_offers_what_can_be_planned_with(self, look, world):
        page = look("compare")
        assert page.status_code == 200
        offered = re.findall(r'<option value="([^"]*)"', page.text)
        assert set(CATALOGUE) - set(offered) == {"ucb", "oracle"}
        assert "for a season with an end (of this campaign)" in page.text
        assert "Where they differ" not in page.text
        with Visitor(world.app, OWNER) as visitor:
            endless = visitor.get(f"/campaigns/{world.hostile}/compare").text
        assert set(CATALOGUE) - set(re.findall(r'<option value="([^"]*)"', endless)) == {
            "ucb", "oracle", "season",
        }  # fmt: skip

    def test_the_table_is_of_the_shadow(self, look, world):
        page = look("compare?policy=cucb")
        found = shadow(world.log, world.id, "cucb")
        text = Page(page.text).text
        assert all(sentence in text for sentence in found.sentences)
        assert re.search(r'<option value="cucb" selected>', page.text)
        names, arms = world.state.agent_names, [*world.state.arm_names, "stays home"]
        wanted = []
        for one in reversed([one for one in found.rounds if is_different(one)]):
            wanted.append(f"Round {one.round}")
            for name, was, other in zip(names, one.planned, one.other, strict=True):
                if was != other:
                    wanted += [name, *(arms[-1 if n is None else n] for n in (was, other))]
        body = page.text.split("Where they differ")[1]
        cells = re.findall(r"<t[dh][^>]*>(?:<a[^>]*>)?([^<]+)<", body)
        assert cells[:3] == ["Agent", "Planned", "Instead"]
        assert cells[3:] == wanted
        assert len(wanted) > 8

    def test_who_would_have_stayed_home(self, world):
        few = held(world.log, rounds=0, name="Few")
        for _ in range(6):
            service.plan_round(world.log, few, ME, closed=["river", "hill"])
        with Visitor(world.app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{few}/compare?policy=cucb").text
        rows = re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td><td>([^<]*)</td></tr>", page)
        assert {place for row in rows for place in row[1:]} == {"gate", "lake", "stays home"}
        for column in (1, 2):
            assert any(row[column] == "stays home" for row in rows)

    def test_the_last_rounds_alone_and_how_many_more(self, look, world, monkeypatch):
        differing = [
            one.round for one in shadow(world.log, world.id, "random").rounds if is_different(one)
        ]
        monkeypatch.setattr(ahead, "COMPARISON_MAX_ROUNDS", 2)
        page = Page(look("compare?policy=random").text).text
        assert f"{len(differing) - 2} earlier rounds differ too" in page
        assert re.findall(r"Round (\d+)", page) == [str(n) for n in reversed(differing[-2:])]

    def test_the_same_policy_differs_nowhere(self, look):
        page = look("compare?policy=season").text
        assert "would have planned the same in 6 rounds" in page
        assert "<table" not in page

    @pytest.mark.parametrize("policy", ["oracle", "ucb", "cucbb", "<b>"])
    def test_what_is_no_policy_is_said_beside_its_field(self, look, policy):
        page = look(f"compare?policy={policy}")
        assert page.status_code == 422
        assert re.search(r'<p class="wrong" id="wrong-policy">[^<]+</p>', page.text)
        assert "<b>" not in page.text

    def test_before_the_first_round(self, world):
        new = service.create(world.log, ME, **NORTH | {"name": "New"}).state.campaign
        with Visitor(world.app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{new}/compare")
        assert page.status_code == 200
        assert "No round has been planned yet" in page.text
