"""A season in a real browser: from the first link to the audit, on phones and a laptop, by several people at once, with the network and
the server going away in the middle; what axe finds; the keyboard alone; and without JavaScript."""

import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from browsers import DESKTOP, LOOKS, PHONE, TABLET, browser, person, violations  # noqa: F401 - fixture
from heterobandits.campaigns import service
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store
from serving import NORTH, OWNER, SERVE, Server

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.browser,
]  # of the driver's own pipes


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


class Site:
    """A server that can be killed and comes back at the same address, and its log as it is on disk."""

    def __init__(self, folder):
        self.database, self.port = folder / "park.db", free_port()
        self.start()

    def start(self):
        self.server = Server(self.database, "--port", str(self.port))
        self.url = self.server.url

    def kill(self):
        self.server.end(9)

    def events(self, campaign):
        with Store(self.database) as store:
            return store.read(campaign)

    def state(self, campaign):
        with Store(self.database) as store:
            return Repository(store).state(campaign)


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.server.end()


def in_plain_words(who):
    """Agents, arms, rounds and tests, and no words of the template's."""
    for kind in ("agent", "arm", "round", "test"):
        who.page.locator(f"#{kind}_word").fill("")


def opened(who, link, part, instead=None):
    """Somebody opens a link, whose token leaves the address bar, and comes to a page; after a question, if it takes another's place."""
    who.page.goto(link)
    if instead:
        who.press(f"Go on as {instead}")
    who.page.wait_for_url(re.compile(f"{re.escape(part)}$"))
    assert "hb_" not in who.page.url
    assert who.page.evaluate("document.cookie") == ""


def made_link(owner, role, name, agent=None):
    """A link that the owner makes on the page of the team."""
    owner.follow("Team")
    owner.page.locator("#form-link summary").click()
    form = owner.page.locator("#form-link")
    form.get_by_role("radio", name=role).check()
    form.get_by_label("For whom").fill(name)
    if agent:
        form.get_by_label("A reporter of one agent").select_option(label=agent)
    form.get_by_role("button", name="Make it").click()
    return owner.page.get_by_label("Address").input_value()


@pytest.mark.slow
def test_the_whole_story(browser, site, tmp_path):  # noqa: F811
    with person(browser, DESKTOP, accept_downloads=True) as owner:
        # starts: a template, a line that is wrong and mended, a look at guessed numbers
        opened(owner, f"{site.url}/enter/{OWNER}", "/")
        owner.says("There is no campaign yet")
        owner.follow("New campaign")
        owner.follow("Rangers")
        in_plain_words(owner)
        owner.page.get_by_label("Name", exact=True).fill("North park")
        agents = owner.page.get_by_label("Agents", exact=True)
        right = agents.input_value()
        agents.fill(right.replace("0.75", "1.75"))
        owner.says("a number from 0 to 1 or a percentage, such as 0.85 or 85 %, not 1.75")
        agents.fill(right)
        owner.says("6 agents")
        owner.page.get_by_label("Rounds in the season").fill("12")
        owner.press("Try it first")
        owner.page.locator("#outlook .chart").first.wait_for(timeout=60_000)
        assert site_is_empty(site)
        owner.page.get_by_label("Keep this as what is known beforehand").check()
        owner.press("Make the campaign")
        owner.page.wait_for_url(re.compile(r"/campaigns/[0-9a-f]{12}$"))
        campaign = owner.page.url.rpartition("/")[2]

        # plans: somebody is away, something is closed, and what that costs is said at once
        owner.follow("Plan round 1")
        owner.page.get_by_label("Ben", exact=True).check()
        owner.says("That Ben is absent costs")
        owner.page.get_by_label("river bend").check()
        owner.says("That river bend is closed costs")
        assert site.state(campaign).number == 1  # looking changes nothing
        owner.press("Record round 1")
        owner.says("Ben was away.")
        round_ = site.state(campaign).round(1)
        assert round_.given.absent == {1}
        assert round_.given.closed == {0}

        # changes a pair by hand, which is recorded as such
        owner.page.get_by_text("Somebody went elsewhere than planned").click()
        owner.page.get_by_label("Who", exact=True).select_option(label="Femi")
        owner.page.get_by_label("went to").select_option(label="burnt hill")
        owner.press("Record it")
        owner.says("by hand")
        assert site.state(campaign).round(1).arms_of(5) == (9,)

        # one A4 page, with a QR code for each agent who goes somewhere
        owner.press("Print with QR codes")
        owner.says("Print the page now")
        codes = owner.page.locator(".qr svg")
        assert codes.count() == 5
        assert pages_of(owner.page.pdf(prefer_css_page_size=True)) == 1
        ana_link = made_link(owner, "reporter", "Ana's phone", "Ana")
        chi_link = made_link(owner, "reporter", "Chi's phone", "Chi")

        with person(browser, PHONE) as ana, person(browser, PHONE) as chi:
            # two people report with their thumbs, one of them without a network
            for who, link in ((ana, ana_link), (chi, chi_link)):
                opened(who, link, "/report")
                who.fits()
                assert who.page.locator("form[data-queue]").count() == 1
            for button in ana.page.locator(".choices button").all():
                assert button.bounding_box()["height"] >= 44
            chi.context.set_offline(True)
            chi.press("Not found")
            chi.says("this waits here")
            ana.press("Found")
            ana.says("saved")
            assert told(site, campaign, 1, 0) == (1, 1)
            assert told(site, campaign, 1, 2) == "waits"
            chi.page.wait_for_timeout(300)
            chi.context.set_offline(False)
            chi.says("saved")
            assert told(site, campaign, 1, 2) == (0, 1)

            # the server is killed, somebody reports all the same, and it comes once when the server is back
            owner.go(f"{site.url}/campaigns/{campaign}/plan")
            owner.press("Record round 2")
            owner.says("waits for outcomes")
            ana.page.reload()
            site.kill()
            ana.press("Not found")
            ana.says("this waits here")
            ana.page.wait_for_timeout(300)
            site.start()
            ana.says("Sent: 2")
            assert told(site, campaign, 2, 0) == (0, 1)
            ana.page.reload()  # and nothing is sent again
            reports = [
                one.who
                for one in site.events(campaign)
                if one.kind in ("reported", "corrected") and one.body["round"] == 2
            ]
            assert reports == ["Ana's phone"]

            # a correction of one's own, with the history beside it
            first = ana.page.locator("article", has_text="round 1;")
            first.get_by_text("Correct it").click()
            first.get_by_role("button", name="Not found").click()
            ana.says("corrected to 0 of 1")
            assert told(site, campaign, 1, 0) == (0, 1)

            # a late result by the owner, of a round that is closed
            owner.go(f"{site.url}/campaigns/{campaign}/rounds/1")
            owner.press("Wait no longer")
            owner.says("closed")
            ana.wrong.clear()  # the network that went away
            chi.wrong.clear()

        # sees what is known; a viewer in another browser sees it by itself, and changes nothing
        wall_link = made_link(owner, "viewer", "the wall")
        with person(browser, TABLET) as viewer:
            viewer.page.clock.install()
            opened(viewer, wall_link, "/wall")
            before = viewer.page.locator("[data-refresh]").inner_text()
            owner.go(f"{site.url}/campaigns/{campaign}/report")
            owner.page.locator("article", has_text="Dan").get_by_role(
                "button", name="Found", exact=True
            ).first.click()
            owner.says("saved")
            viewer.page.clock.fast_forward(16_000)
            viewer.page.wait_for_function(
                "text => document.querySelector('[data-refresh]').innerText !== text", arg=before
            )
            answer = viewer.page.goto(f"{site.url}/campaigns/{campaign}/plan")
            assert answer.status == 403
            viewer.go(f"{site.url}/campaigns/{campaign}/rounds/2")
            assert viewer.page.locator("main form").count() == 0

        owner.go(f"{site.url}/campaigns/{campaign}")
        owner.says("The best arm is not known yet")
        assert owner.page.locator(".forest tbody tr").count() == 10
        owner.follow("What would another policy have planned?")
        owner.page.get_by_label("Policy").select_option("cucb")
        owner.press("Compare", exact=False)
        owner.says("would have planned")
        owner.follow("Ahead")
        owner.press("Play them")
        owner.page.locator("#outlook .chart").first.wait_for(timeout=60_000)

        # shows and proves: the history, and an audit that the command line accepts
        owner.follow("History")
        owner.says("Ana's phone")
        owner.says("corrected to 0 of 1, before it was 1 of 1")
        with owner.page.expect_download() as begun:
            owner.page.get_by_role("link", name="Audit").click()
        audit = tmp_path / "audit.html"
        begun.value.save_as(audit)
        events = site.events(campaign)
        assert events[-1].hash in audit.read_text("utf-8")
        done = subprocess.run(
            [sys.executable, "-c", SERVE, "campaign", "verify", str(audit)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"{len(events)} events" in done.stdout
        assert owner.hosts == {f"127.0.0.1:{site.port}"}  # no request to another host


def site_is_empty(site):
    with Store(site.database) as store:
        return not store.heads()


def told(site, campaign, number, agent):
    """What is known of an agent's visit: "waits", or its counts."""
    round_ = site.state(campaign).round(number)
    (arm,) = round_.arms_of(agent)
    known = round_.told.get((agent, arm))
    return "waits" if known is None else known.counts


def pages_of(pdf):
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type\s*/Page[^s]", pdf))


@pytest.fixture(scope="module")
def demo():
    made = Server(
        "", env={"HETEROBANDITS_OWNER_TOKEN": ""},
        code=SERVE.replace("sys.argv[1:]", '["serve", "--demo", "--port", "0"]'),
    )  # fmt: skip
    links = [made.process.stdout.readline().split()[-1] for _ in range(3)]
    yield made.url, links
    made.end()


PARTS = (
    "", "/wall", "/plan?absent=agent-2&closed=arm-1&kind=forced&agent=agent-1&arm=arm-3", "/report", "/rounds",
    "/rounds/30", "/rounds/4?why", "/ahead", "/compare?policy=cucb", "/history", "/team", "/team?agent=agent-1",
    "/rounds/30/cancel",
)  # fmt: skip
ALONE = ("/", "/new", "/new?template=tests", "/nowhere", "/leave")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "scheme"), LOOKS)
def test_axe_finds_nothing(browser, demo, kind, scheme):  # noqa: F811
    url, (link, *_) = demo
    with person(browser, kind, color_scheme=scheme) as who:
        opened(who, link, "/")
        campaign = who.page.locator("table a").first.get_attribute("href")
        found = {}
        for place in (*ALONE, *(campaign + part for part in PARTS)):
            who.go(url + place)
            who.says("A demo")
            who.fits()
            for shut in who.page.locator("details:not([open]) > summary").all()[:3]:
                if shut.is_visible():
                    shut.click()
            if wrong := violations(who.page):
                found[place] = wrong
        assert found == {}


@pytest.mark.slow
def test_a_first_visit_takes_little(browser, demo):  # noqa: F811
    _, (owner, femi, wall) = demo
    for link, part in ((owner, "/"), (femi, "/report"), (wall, "/wall")):
        with person(browser, PHONE) as who:
            sizes = []
            who.page.on("response", lambda answer, sizes=sizes: sizes.append(len(answer.body())))
            opened(who, link, part)
            who.page.wait_for_load_state("networkidle")
            assert len(sizes) >= 3
            assert sum(sizes) < 150_000


@pytest.mark.slow
def test_by_the_keyboard_alone(browser, site):  # noqa: F811
    with person(browser, DESKTOP) as who:
        opened(who, f"{site.url}/enter/{OWNER}", "/")

        def to(name):
            """Tab until something of this name has the focus."""
            for _ in range(80):
                who.page.keyboard.press("Tab")
                text = who.page.evaluate(
                    "(e => (e.labels?.[0]?.innerText || e.innerText || '').trim())(document.activeElement)"
                )
                if text == name:
                    outline = who.page.evaluate(
                        "getComputedStyle(document.activeElement).outlineStyle"
                    )
                    assert outline != "none", name  # it shows
                    return
            raise AssertionError(f"{name} is not reached")

        def enter(name):
            """Tab to it and press Enter, which opens another page."""
            to(name)
            with who.page.expect_navigation():
                who.page.keyboard.press("Enter")

        enter("New campaign")
        to("Name")
        who.page.keyboard.type("Keys")
        to("Agents")
        who.page.keyboard.type("Ana\t0.9")  # a tab goes on to the next field
        who.page.get_by_label("Agents", exact=True).fill("Ana;0,9\nBen;0,5")
        who.page.get_by_label("Arms", exact=True).fill(
            "name;prior\neast;5 of 20\nwest;5 of 20\nnorth;5 of 20"
        )
        enter("Make the campaign")
        enter("Plan round 1")
        to("Ben")
        who.page.keyboard.press("Space")
        who.says("That Ben is absent costs")
        enter("Record round 1")
        who.says("waits for outcomes")
        enter("Report or correct outcomes")
        to("Found")
        who.page.keyboard.press("Enter")
        who.says("saved")


@pytest.mark.parametrize("plain", [True, False], ids=["without JavaScript", "with it"])
def test_mistakes_are_taken_back(browser, site, plain):  # noqa: F811
    """A round that was recorded twice, cancelled and undone; who is retired and comes back; a campaign that is put away."""
    url, log = site.url, Store(site.database)
    campaign = service.create(Repository(log), Author("Vera"), **NORTH).state.campaign
    log.close()
    home, found = f"{url}/campaigns/{campaign}", {}
    with person(browser, PHONE if plain else DESKTOP, java_script_enabled=not plain) as who:

        def look(name):
            who.fits()
            if not plain and (wrong := violations(who.page)):
                found[name] = wrong

        (
            opened_plainly(who, f"{url}/enter/{OWNER}")
            if plain
            else opened(who, f"{url}/enter/{OWNER}", "/")
        )
        who.go(f"{home}/plan")
        who.press("Record round 1")
        who.says("Round 1 was recorded.")
        look("the sheet with what can be undone")
        who.go(f"{home}/plan")
        who.says("There is no outcome of round 1 yet.")
        who.press("Record round 2")
        who.says("Is it time for round 2?")
        look("the plan that asks")
        assert len(site.state(campaign).rounds) == 1
        who.press("Yes, record round 2 as well")
        who.says("Round 2 was recorded.")
        who.press("Undo")
        who.page.wait_for_url(re.compile("/rounds$"))
        assert len(site.state(campaign).rounds) == 1
        who.go(f"{home}/rounds/1")
        who.follow("Cancel this round")
        who.says("Cancel round 1?")
        look("the question")
        who.press("Cancel round 1")
        who.says("No round is planned yet.")
        assert len(site.state(campaign).rounds) == 0
        who.go(f"{home}/team?agent=agent-2")
        who.press("Ben leaves the team")
        who.says("Ben was retired.")
        who.press("Undo")
        who.says("Ben is back.")
        assert not site.state(campaign).agents[1].retired
        who.go(f"{home}/team")
        who.page.locator("#form-archive summary").click()
        who.press("Archive the campaign")
        who.says("This campaign is archived")
        look("an archived campaign")
        who.go(url)
        who.page.get_by_text("Archived: 1 campaign").click()
        look("the archive")
        who.follow("North park")
        who.follow("Sign out in this browser")
        who.says("Sign out in this browser?")
        look("the question before one signs out")
        who.press("Sign out")
        who.says("link")
        who.go(home)
        who.says("Open your link")
    assert found == {}


def test_without_javascript(browser, site):  # noqa: F811
    with person(browser, PHONE, java_script_enabled=False) as who:
        opened_plainly(who, f"{site.url}/enter/{OWNER}")
        who.follow("New campaign")
        who.follow("Hotels")
        in_plain_words(who)
        who.page.get_by_label("Name", exact=True).fill("Plain")
        who.press("Make the campaign")
        who.follow("Plan round 1")
        first = who.page.locator("input[name=absent]").first
        first.check()
        who.press("Show the plan")
        who.says("Away this round.")
        who.press("Record round 1")
        who.follow("Report or correct outcomes")
        card = who.page.locator("article").first
        if card.locator("input[name=successes]").count():
            card.locator("input[name=successes]").fill("1")
            card.get_by_role("button", name="Save").click()
        else:
            card.get_by_role("button", name="Found", exact=True).click()
        who.says("saved")
        who.follow("Known")
        assert who.page.locator(".forest tbody tr").count() > 1


def opened_plainly(who, link):
    """A link, opened by a browser that keeps its address to itself; the page goes on by itself, too."""
    who.page.goto(link)
    who.page.wait_for_url(re.compile("/$"))


@pytest.mark.slow
def test_another_site_makes_nobody_somebody_else(browser, site):  # noqa: F811
    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {OWNER}"}) as ask:
        campaign = ask.post("/api/campaigns", json=NORTH).json()["id"]
        links = f"/api/campaigns/{campaign}/links"
        vera = ask.post(links, json={"role": "owner", "name": "Vera"}).json()["url"]
        wall = ask.post(links, json={"role": "viewer", "name": "Wall in the hall"}).json()["url"]
    elsewhere = (
        f"<meta name=viewport content=width=device-width><a href='{wall}'>a nice picture</a>"
    )
    with person(browser, PHONE) as who:
        pictures = "http://pictures.test/"
        who.page.route(pictures, lambda asked: asked.fulfill(body=elsewhere, content_type="text/html"))  # fmt: skip
        opened(who, vera, f"/campaigns/{campaign}")
        who.go(pictures)
        who.page.get_by_role("link").click()
        who.says("Go on as somebody else?")
        who.says("Vera")
        who.fits()
        assert violations(who.page) == []
        who.follow("Stay Vera")
        who.go(f"{site.url}/campaigns/{campaign}/team")
        who.says("Wall in the hall")
        who.go(pictures)
        who.page.get_by_role("link").click()
        who.press("Go on as Wall in the hall")
        who.page.wait_for_url(re.compile("/wall$"))
        who.go(f"{site.url}/campaigns/{campaign}/team")
        who.says("Your link does not open this")
    with person(browser, PHONE) as who:  # who holds none is let in at once, from there too
        who.page.route(pictures, lambda asked: asked.fulfill(body=elsewhere, content_type="text/html"))  # fmt: skip
        who.go(pictures)
        who.page.get_by_role("link").click()
        who.page.wait_for_url(re.compile("/wall$"))


@contextmanager
def other_site():
    """Another site: a function that puts a page on it which sends its visitors elsewhere, and the port it is at."""
    page = b""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    def send(to):
        nonlocal page
        page = f'<meta http-equiv="refresh" content="0; url={to}">'.encode()

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield send, server.server_port
        finally:
            server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_nor_does_it_without_tls(browser, site, scripts):  # noqa: F811
    """At a host name without TLS a browser does not say which site has sent it."""
    headers = {"Authorization": f"Bearer {OWNER}"}
    with httpx.Client(base_url=f"{site.url}/api", headers=headers) as api:
        campaign = api.post("/campaigns", json=NORTH).json()["id"]
        links = {
            role: api.post(f"/campaigns/{campaign}/links", json={"role": role, "name": name}).json()["token"]
            for role, name in (("owner", "Vera"), ("viewer", "Wall"))
        }  # fmt: skip
    with other_site() as (send, port), person(browser, DESKTOP, java_script_enabled=scripts) as who:
        park, evil = f"http://parks.test:{site.port}", f"http://evil.test:{port}"
        send(f"{park}/enter/{links['viewer']}")
        who.page.goto(evil)  # with nothing in hand, it opens
        who.page.wait_for_url(f"{park}/campaigns/{campaign}/wall")
        who.page.goto(f"{park}/enter/{links['owner']}")
        who.press("Go on as Vera")
        who.page.wait_for_url(f"{park}/campaigns/{campaign}")
        who.page.goto(evil)
        who.says("Go on as somebody else?")
        held = {cookie["value"] for cookie in who.context.cookies(park)}
        assert links["owner"] in held
        assert links["viewer"] not in held
        who.follow("Stay Vera")
        assert who.page.goto(f"{park}/campaigns/{campaign}/team").status == 200
        assert all("Cross-Origin-Opener-Policy" in one for one in who.wrong)
        who.wrong.clear()  # which means nothing without TLS


@pytest.mark.slow
def test_labels_of_a_new_campaign_follow_the_words_that_are_typed(browser, site):  # noqa: F811
    with person(browser, DESKTOP) as owner:
        opened(owner, f"{site.url}/enter/{OWNER}", "/")
        owner.go(f"{site.url}/new")
        owner.page.get_by_label("One who goes, an agent").fill("ranger")
        owner.page.get_by_label("Rangers", exact=True).wait_for()
        owner.says("at least as many as there are rangers.")
