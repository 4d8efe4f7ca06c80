"""What everybody reads has the campaign's own words: of a park whose rangers go to areas, week by week, and make checks."""

import re

import pytest
from bs4 import BeautifulSoup

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes, withdraw_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web.auth import PAGE_BASE, ROUTE_ROLES
from serving import NORTH, OWNER, Visitor, app_on

pytestmark = pytest.mark.smoke

ME = Author("Vera")
PARK_WORDS = {"agent": "ranger", "arm": "area", "round": "week", "test": "check"}
LIBRARY_WORD = re.compile(r"\b(agents?|arms?|rounds?|tests?)\b", re.IGNORECASE)
PLACEHOLDER = re.compile(r"{\w+}")  # in a text for the script
READ_ALOUD = ("aria-label", "placeholder", "title", "alt", "data-impossible", "data-queue")
VARIANTS = {  # what else a page shows, by what follows its address
    "": ["?agents=1"],
    "/report": ["?round=1", "?round=3"],
    "/team": ["?agent=agent-1", "?agent=agent-3", "?all=links"],
    "/ahead": ["?rounds=3", "?rounds=3&sensitivity=0.5", "?rounds=x&sensitivity=7"],
    "/ahead/run": ["?rounds=3&sensitivity=0.5"],
    "/compare": ["?policy=min-width", "?policy=thompson"],
    "/history": ["?round=1", "?agent=agent-1", "?round=99"],
}


def default_words_in(source):
    """What a page says in the words of the library, but for researchers."""
    soup = BeautifulSoup(source, "html.parser")
    for one in soup(["script", "style", "code", "pre"]):
        one.decompose()
    for one in soup("details"):
        if one.find("summary").get_text().strip() == "For researchers":
            one.decompose()
    texts = [str(text) for text in soup.find_all(string=True)]
    for name in READ_ALOUD:
        texts += [PLACEHOLDER.sub("", one[name]) for one in soup.find_all(attrs={name: True})]
    said = (" ".join(text.split()) for text in texts)
    return [text for text in said if LIBRARY_WORD.search(text)]


class LivedPark:
    """A park after some weeks in which everything happened once, and browsers of four roles."""

    def __init__(self, folder, **given):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.id = service.create(self.log, ME, **NORTH | given).state.campaign
        where = self.log, self.id, ME
        self.tokens = {
            role: issue_link(*where, role=role, name=f"Z {role}")[1]
            for role in ("owner", "planner", "reporter", "viewer")
        }
        self.tokens["Ana"] = issue_link(*where, role="reporter", name="Ana", agent="Ana")[1]
        self.tokens[None] = OWNER
        self._live(where)

    @property
    def state(self):
        return self.log.state(self.id)

    def _live(self, where):
        service.plan_round(*where, forced=[("Ana", "hill")])
        report_outcomes(*where, 1, {"Ana": 1, "Ben": 0, "Chi": (5, 12)})
        correct_outcomes(*where, 1, {"Chi": (2, 12)})
        withdraw_outcomes(*where, 1, ["Ben"])
        service.close_round(*where, 1)
        service.plan_round(*where, absent=["Ben"], closed=["gate"])
        service.override(*where, 2, "Ana", ["lake", "river"])
        self.send_along(*where)
        report_outcomes(*where, 2, {("Ana", "lake"): 1, "Chi": (1, 3)})
        service.forget_arm(*where, "hill")
        service.remember_arm(*where, "hill")
        service.add_agents(
            *where, [{"name": "Dan", "sensitivity": 0.5, "false_positive_rate": 0.1}]
        )
        service.add_arms(*where, ["ford", "cave"])
        service.revise(*where, "Chi", {"sensitivity": 0.7, "calibration": None}, "now")
        service.retire(*where, "agent", "Ben")
        service.retire(*where, "arm", "cave")
        service.rename(*where, "arm", "river", "river bend")
        service.revise_arm(*where, "gate", "2 % to 10 %")
        service.set_season(*where, 20, "2999-12-31")
        service.set_policy(*where, "thompson", on_change="forget")
        service.set_policy(*where, "posterior-sorted")
        service.set_prior(*where, "stated")
        service.add_note(*where, "fog all day", 1)
        service.plan_round(*where)
        report_outcomes(*where, 3, {"Chi": "not done"})
        service.plan_round(*where)
        service.cancel_round(*where, 4)
        service.forget_arm(*where, "hill")

    def send_along(self, *where):
        """Send Chi to the lake as well, if no plan has."""
        if self.state.round(2).arms_of(2) != (3,):
            service.override(*where, 2, "Chi", ["lake"])

    def pages(self):
        """The addresses of all pages of a campaign."""
        link = next(iter(self.state.links))
        for method, route in ROUTE_ROLES:
            if method == "GET" and route.startswith(PAGE_BASE):
                part = route.removeprefix(PAGE_BASE)
                more = VARIANTS.get(part, [])
                for number in (1, 2, 3) if "{round}" in part else (1,):
                    place = part.format(round=number, link=link)
                    yield from (f"/campaigns/{self.id}{place}{tail}" for tail in ["", *more])


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    return LivedPark(tmp_path_factory.mktemp("park"), words=PARK_WORDS)


def looked_at(answer):
    """What a page has of the library's words, if it is one."""
    kind = answer.headers.get("content-type", "")
    return default_words_in(answer.text) if kind.startswith("text/html") else []


@pytest.mark.parametrize("role", [None, "owner", "planner", "reporter", "viewer", "Ana"])
def test_pages_have_the_words_of_the_campaign(lived, role):
    found, opened = {}, 0
    with Visitor(lived.app, lived.tokens[role]) as browser:
        for address in lived.pages():
            answer = browser.get(address)
            opened += answer.status_code == 200
            if said := looked_at(answer):
                found[address.replace(lived.id, "")] = said
        if role in (None, "owner", "planner"):
            here = f"/campaigns/{lived.id}"
            asked = {"why": "agent-1", "absent": "agent-1", "closed": "arm-3"}
            found["plan"] = looked_at(browser.submit(f"{here}/plan", **asked))
            asked = {"text": "9 9 9\n3 Ana ford 2 1", "key": "k"}
            found["paste"] = looked_at(browser.submit(f"{here}/paste", **asked))
        if role in (None, "owner"):
            sheet = {"agents": "agent-1", "round": "3", "key": "k", "expires": "2999-12-31"}
            found["cards"] = looked_at(browser.submit(f"{here}/cards", **sheet))
        if role is None:
            found["home"] = looked_at(browser.get("/"))
    assert {text: address for address, said in found.items() for text in said} == {}
    assert opened >= (2 if role in ("reporter", "Ana") else 10)


def test_a_campaign_that_begins_has_them_too(tmp_path):
    app, log = app_on(tmp_path / "campaigns.db")
    given = NORTH | {"arms": ["river", "hill", "gate", "lake"], "words": PARK_WORDS}
    campaign = service.create(log, ME, **given).state.campaign
    with Visitor(app, OWNER) as browser:
        for part in (
            "",
            "/plan",
            "/report",
            "/rounds",
            "/ahead",
            "/history",
            "/team",
            "/wall",
            "/compare",
        ):
            assert looked_at(browser.get(f"/campaigns/{campaign}{part}")) == [], part


def test_without_words_pages_have_those_of_the_library(tmp_path):
    app, log = app_on(tmp_path / "campaigns.db")
    campaign = service.create(log, ME, **NORTH).state.campaign
    with Visitor(app, OWNER) as browser:
        seen = browser.get(f"/campaigns/{campaign}/team").text
        assert "Agents" in seen
        browser.submit(
            f"/campaigns/{campaign}/settings",
            do="words",
            agent_word="person/people",
            arm_word="area",
            round_word="",
            test_word="check",
        )
        seen = browser.get(f"/campaigns/{campaign}/team").text
        assert all(word in seen for word in ("People", "person/people", "Areas"))
        answer = browser.submit(
            f"/campaigns/{campaign}/settings", do="words", agent_word="area", arm_word="area"
        )
        assert answer.status_code == 422
        assert "stands for two things" in answer.text


def new_page_words(source):
    """What the page on which a campaign is made has of the library's words, but where these are explained and of templates."""
    soup = BeautifulSoup(source, "html.parser")
    for one in soup.select("fieldset:has(.words), ul.begin, main > .alert"):
        one.decompose()
    return default_words_in(str(soup))


def test_the_page_of_a_new_campaign_takes_the_words_that_are_typed(tmp_path):
    app, _ = app_on(tmp_path / "campaigns.db")
    words = {f"{kind}_word": word for kind, word in PARK_WORDS.items()}
    tables = {"agents": "Ana 0.9\nBen 7\nBen 0.5", "arms": "river\nhill", "season": "20000", "low": "0.9", "high": "0.1"}  # fmt: skip
    with Visitor(app, OWNER) as browser:
        seen = browser.get("/new?template=rangers").text
        assert new_page_words(seen) == []
        assert "Rangers" in BeautifulSoup(seen, "html.parser").find("label", {"for": "agents"}).text
        answer = browser.submit("/new", **words, **tables)
        assert answer.status_code == 422
        assert new_page_words(answer.text) == []
        assert "20,000 weeks in the season" in answer.text
        assert browser.submit("/new/check", **words, **tables).json()["words"]["by_name"]["an_agent"] == "a ranger"  # fmt: skip
        wrong = browser.submit("/new/check", agent_word="7").json()
        assert (wrong["words"]["by_name"]["agents"], len(wrong["agent_word"]["errors"])) == (
            "agents",
            1,
        )
        assert "Agents" in browser.get("/new").text
