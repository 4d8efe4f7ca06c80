"""Every page in a real browser, from a phone to a wall, with names of forty letters: nothing stands beside the screen, and axe finds nothing."""

import json
import re

import httpx
import pytest

from browsers import DESKTOP, LOOKS, PHONE, browser, person, violations  # noqa: F401 - fixture
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.storage.store import Store
from heterobandits.web.auth import PAGE_ROUTE_ROLES
from heterobandits.web.certificates import certificate_for
from heterobandits.web.networks import parse_address
from heterobandits.web.trust import TrustAnswers
from long_names import long_named_season, name_of
from serving import OWNER, served

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.browser,
    pytest.mark.slow,
]  # of the driver's own pipes

BEARER = {"Authorization": f"Bearer {OWNER}"}
WIDTHS = (360, 768, 1280, 1920, 3840)
PLAIN = {"round": "4", "agent": "agent-1", "arm": "arm-1", "token": OWNER, "name": "site.css"}  # fmt: skip
# what a page shows only where it is asked for
MORE = (
    "?agents=1", "/plan?absent=agent-2&closed=arm-1&kind=forced&agent=agent-1&arm=arm-3", "/plan?why=agent-1", "/rounds/1?why",
    "/ahead?run=1&rounds=5", "/compare?policy=cucb", "/team?agent=agent-1", "/rounds/1/table", "/rounds/1/cancel", "/report?round=1",
    "/history?round=1&agent=agent-1", "/nowhere",
)  # fmt: skip


SIZES = {"few": (6, 13), "ten": (4, 10), "thirty": (20, 30)}  # agents and arms of a campaign


@pytest.fixture(scope="module")
def parks(tmp_path_factory):
    """The address of a server, and of campaigns there by size."""
    database = tmp_path_factory.mktemp("fit") / "park.db"
    with Store(database) as store:
        made = {name: long_named_season(Repository(store), *size) for name, size in SIZES.items()}
    with served(database) as server:
        for campaign in made.values():
            body = {"role": "reporter", "name": name_of(4), "agent": "agent-5"}
            httpx.post(f"{server.url}/api/campaigns/{campaign}/links", json=body, headers=BEARER)
        yield server.url, made


@pytest.fixture(scope="module")
def park(parks):
    """The address of a server, and of a campaign there."""
    return parks[0], parks[1]["few"]


def addresses(url, campaign):
    """All pages that can be opened, each with what stands in its address; of links one that can be shown again, and one that is revoked."""
    routes = [route for method, route in PAGE_ROUTE_ROLES if method == "GET"]
    answer = httpx.get(f"{url}/api/campaigns/{campaign}/links", headers=BEARER)
    revoked, *_, shown = (link["id"] for link in answer.json()["links"])
    stay = [
        route for route in routes if not route.startswith("/enter/")
    ]  # which leads on by itself
    plain = [route.format_map(PLAIN | {"campaign": campaign, "link": shown}) for route in stay]
    more = (*MORE, f"/links/{revoked}")
    return [*plain, "/new?template=rangers", *(f"/campaigns/{campaign}{part}" for part in more)]


def walk(who, url, campaign):
    """Open one page after the other, but for files."""
    who.go(f"{url}/enter/{OWNER}")
    who.page.wait_for_url(f"{url}/")
    for address in addresses(url, campaign):
        answer = who.page.request.get(url + address)
        assert answer.status == (404 if address.endswith("/nowhere") else 200), address
        kind = answer.headers.get("content-type", "")
        if not kind.startswith("text/html") or "content-disposition" in answer.headers:
            continue
        who.go(url + address)
        who.page.evaluate(
            "for (const one of [...document.querySelectorAll('details')].slice(0, 12)) one.open = true"
        )
        yield address


# How far beside the screen a page reaches, and the names of what is cut or stands over the edge of what holds it.
BESIDE = """() => {
  const wide = document.documentElement.clientWidth;
  const beside = [...document.querySelectorAll("body *")].filter((one) => {
    if (one.closest(".wide, .pasted, .hidden, .skip, svg, .menu, option")) return false;
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.right > wide + 1 || box.left < -1);
  });
  return [document.documentElement.scrollWidth > wide ? document.documentElement.scrollWidth : 0,
          ...beside.slice(0, 3).map((one) => one.tagName + "." + one.className + " " + one.textContent.trim().slice(0, 30))];
}"""


@pytest.mark.parametrize(
    "width",
    [w if w in (360, 1920) else pytest.param(w, marks=pytest.mark.nightly) for w in WIDTHS],
)
def test_every_page_fits(browser, park, width):  # noqa: F811
    phone = PHONE if width < 700 else {}
    with person(browser, {**phone, "viewport": {"width": width, "height": 740}}) as who:
        found = {}
        for address in walk(who, *park):
            wide = who.page.evaluate(BESIDE)
            if wide != [0]:
                found[address] = wide
        assert found == {}


@pytest.mark.parametrize(("kind", "scheme"), LOOKS)
def test_axe_finds_nothing_on_any_page(browser, park, kind, scheme):  # noqa: F811
    with person(browser, kind, color_scheme=scheme) as who:
        found = {}
        for address in walk(who, *park):
            if wrong := violations(who.page):
                found[address] = wrong
        assert found == {}


# The letters of the smallest name on the wall, in pixels, and the names of rows that are not wholly on the screen.
ROWS = """() => {
  const rows = [...document.querySelectorAll(".board-rows li")];
  const inside = (one, other) => one.top >= other.top - 1 && one.bottom <= other.bottom + 1 && one.right <= other.right + 1;
  const screen = {top: 0, bottom: innerHeight, right: innerWidth};
  const hidden = rows.filter((row) => {
    const box = row.getBoundingClientRect();
    return !inside(box, screen) || !inside(box, row.closest("section").getBoundingClientRect()) || box.height < 8;
  });
  return {
    rows: rows.length,
    hidden: hidden.map((row) => row.textContent.trim().slice(0, 30)),
    letters: Math.min(...rows.map((row) => parseFloat(getComputedStyle(row.querySelector(".name")).fontSize))),
    scrolls: document.documentElement.scrollHeight > innerHeight || document.documentElement.scrollWidth > innerWidth,
  };
}"""


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (3840, 2160)])
@pytest.mark.parametrize("name", ["ten", "thirty"])
def test_the_wall_fits_one_screen(browser, parks, name, size):  # noqa: F811
    """Nobody scrolls a screen on the wall: all places and all who are under way are on it, in letters that grow with it."""
    url, made = parks
    agents, arms = SIZES[name]
    with person(browser, {"viewport": dict(zip(("width", "height"), size, strict=True))}) as who:
        who.go(f"{url}/enter/{OWNER}")
        who.page.wait_for_url(f"{url}/")
        who.go(f"{url}/campaigns/{made[name]}/wall")
        found = who.page.evaluate(ROWS)
        assert found["hidden"] == []
        assert not found["scrolls"]
        assert found["letters"] >= 7 * size[1] / 720
        assert who.page.locator(".places li").count() == arms
        # first what is to do today: all but the one who is away and the one who went by hand to where somebody else is
        today = who.page.locator(".today ul").first.locator("li").all_inner_texts()
        assert len(today) >= min(agents - 1, 10)
        assert all("→" in line for line in today)


@pytest.mark.parametrize("kind", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_axe_finds_nothing_on_pages_that_no_owner_opens(browser, park, kind, tmp_path):  # noqa: F811
    """What somebody without a link sees, and a reporter; the worker's own page; and the page on how a phone comes to trust a server."""
    url, campaign = park
    home, found = f"{url}/campaigns/{campaign}", {}

    def look(who, name):
        who.fits()
        if wrong := violations(who.page):
            found[name] = wrong

    with person(browser, kind) as who:
        for address in (url, f"{url}/leave", f"{home}/report", f"{url}/enter/hb_nothing"):
            who.go(address)
            look(who, address)
        worker = who.page.request.get(f"{url}/worker.js").text()
        site = re.search(r"self\.SITE = (.*);\n", worker)[1]
        who.page.route(f"{home}/report", lambda route: route.fulfill(content_type="text/html", body=json.loads(site)["away"]))  # fmt: skip
        who.go(f"{home}/report")
        who.says("No network")
        look(who, "away")
        authority = certificate_for(
            parse_address("192.168.1.17"), ("park.local",), tmp_path
        ).authority
        who.page.set_content(TrustAnswers(authority, "https://park.local").files["/"][0].decode())
        who.says("Trust this server")
        look(who, "trust")
    links = httpx.get(f"{url}/api/campaigns/{campaign}/links", headers=BEARER).json()["links"]
    assert links[-1]["role"] == "reporter"
    with person(browser, kind) as who:
        who.go(f"{url}/enter/{OWNER}")
        who.page.wait_for_url(f"{url}/")
        who.go(f"{home}/links/{links[-1]['id']}")
        ranger = who.page.locator("#url").input_value()
        who.go(f"{home}/rounds/4")
        who.page.locator("form[action$='/cards'] button").click()
        who.page.locator(".qr svg").first.wait_for()
        look(who, "cards")
    with person(browser, kind) as who:
        who.page.goto(ranger)
        who.page.wait_for_url(f"{home}/report")
        look(who, "a reporter's page")
        who.go(f"{home}/plan")
        look(who, "what a reporter may not open")
    assert found == {}
