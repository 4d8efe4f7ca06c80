"""Mistakes as pages say them: made by the library itself, and without a word of Python."""

import re

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.storage.repository import Author
from heterobandits.errors import InvalidInput
from heterobandits.web.pages.wording import for_people
from serving import NORTH, OWNER, UNKNOWN, Visitor, app_on

pytestmark = pytest.mark.smoke

ME = Author("Vera")
PYTHON = re.compile(
    r"""(?<!\w)['"]\w|\b(None|True|repr|successes|InvalidInput|Reports|in \(0|\w+_\w+)\b|[(\[]0, 1\]|&#39;|&#34;"""
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"name": "x" * 300},
        {"name": "agent-1"},
        {"name": "a\x07b"},
        {"agents": [{"name": "Ana", "sensitivity": 0}]},
        {"agents": [{"name": "Ana", "sensitivity": "high"}]},
        {"agents": [{"name": "Ana"}]},
        {"agents": [{"name": "N'Diaye", "sensitivity": 1}, {"name": "N'Diaye", "sensitivity": 1}]},
        {"agents": [{"name": "Ana", "sensitivity": 0.5, "false_positive_rate": 0.6}]},
        {"agents": [{"name": "Ana", "calibration": [21, 20]}]},
        {"agents": [{"name": "Ana", "sensitivity": 0.5, "tests": 1.5}]},
        {"agents": []},
        {"arms": []},
        {"arms": ["river", "hill", "gate", "gate"]},
        {"season": 0},
        {"delta": 2},
        {"delta": 1e-300},
        {"seed": -1},
        {"policy": "luck"},
        {"season": None, "policy": "season"},
    ],
    ids=str,
)
def test_a_campaign_that_cannot_be_made(wrong):
    with pytest.raises(InvalidInput) as raised:
        service.body_of_creation(**NORTH | wrong)
    for _, message in getattr(raised.value, "errors", [("", str(raised.value))]):
        said = for_people(message)
        assert not PYTHON.search(said), said
        assert said[0] != " "


def test_the_place_stays_in_front():
    assert for_people("line 6: name is 'Ana': that name is taken") == (
        "line 6: “Ana” is there already: choose another name"
    )


def test_names_of_people_and_columns_stay_as_they_are():
    """Only what Python has quoted is: not an apostrophe in a name, nor the name of a column."""
    assert (
        for_people('unknown agent "N\'Di": did you mean "N\'Diaye"?')
        == "unknown agent “N'Di”: did you mean “N'Diaye”?"
    )
    assert "“successes”" in for_people("line 1: no column is called 'successes': the first")
    assert for_people("Ana's visits are Ben's") == "Ana's visits are Ben's"


class TestPages:
    """What a person does wrong on a page."""

    @pytest.fixture
    def park(self, tmp_path):
        app, log = app_on(tmp_path / "x.db")
        made = service.create(log, ME, **UNKNOWN)
        with Visitor(app, OWNER) as visitor:
            yield visitor, f"/campaigns/{made.state.campaign}"

    @pytest.mark.parametrize(
        "query",
        [
            "kind=forced&agent=agent-1&arm=arm-1&kind=forced&agent=agent-2&arm=arm-1",
            "kind=forced&agent=agent-1&arm=arm-1&kind=forced&agent=agent-1&arm=arm-2",
            "kind=forced&agent=agent-1&arm=arm-1&kind=forbidden&agent=agent-1&arm=arm-1",
            "kind=forced&agent=agent-1&arm=arm-1&absent=agent-1",
            "kind=forced&agent=agent-1&arm=arm-1&closed=arm-1",
            "absent=agent-9",
        ],
    )
    def test_a_plan_that_cannot_be(self, park, query):
        visitor, home = park
        answer = visitor.get(f"{home}/plan?{query}")
        assert answer.status_code == 422
        said = re.findall(r'<div class="alert"[^>]*>([^<]+)', answer.text)
        assert said
        for line in said:
            assert not PYTHON.search(line), line

    @pytest.mark.parametrize(
        ("part", "fields"),
        [
            ("/agents", {"name": "", "sensitivity": "1.2", "tests": "x"}),
            ("/agents", {"name": "Ana", "sensitivity": "high", "false_positive_rate": "2"}),
            ("/arms", {"arms": "river\nhill"}),
            ("/settings", {"do": "season", "season": "x"}),
            ("/settings", {"do": "policy", "policy": "luck", "delta": "9"}),
            ("/notes", {"text": "", "round": "9"}),
        ],
    )
    def test_a_form_that_cannot_be(self, park, part, fields):
        visitor, home = park
        answer = visitor.submit(home + part, **fields)
        assert answer.status_code == 422
        said = re.findall(r'class="wrong"[^>]*>([^<]+)', answer.text)
        assert said
        for line in said:
            assert not PYTHON.search(line), line
