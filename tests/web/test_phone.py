"""A phone that is away for days, in a real browser whose profile stays: closed and started again without a network, reports once and no more,
another link, another version of the server, a page of somebody else's network in between, a clock that is wrong."""

import json
import re
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import segno
import segno.encoder
from playwright.sync_api import Error

from browsers import CHROMIUM, DESKTOP, FLAGS, PHONE, Person, browser, person, violations  # noqa: F401 - fixture
from heterobandits.campaigns.state import parse_time
from heterobandits.web import pages
from serving import COLD, NORTH, OWNER, Server
from test_browser import Site, opened

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.browser,
    pytest.mark.slow,
]
OTHER_VERSION = f"""
from heterobandits.web.pages import base
known = base.static_files()
known["site.css"] += b"body {{ --version: two; }}"
known["report.js"] += b"document.documentElement.dataset.version = 'two';"
{COLD}"""
# by how many pixels the queue covers what is to be done
COVERED = "document.getElementById('live').getBoundingClientRect().bottom - document.getElementById('queue').getBoundingClientRect().top"
# by how many pixels it covers what has the keyboard, if that is not its own
HIDES = """(() => {
    const [bar, active] = [document.getElementById("queue"), document.activeElement];
    if (bar.contains(active) || active === document.body) return 0;
    return Math.min(active.getBoundingClientRect().bottom, innerHeight) - bar.getBoundingClientRect().top;
})()"""
HOTEL = "<!doctype html><title>Hotel</title><h1>Pay for the network first</h1>"


class Phone(Person):
    """A browser whose profile stays when it is closed, as on a phone whose battery is empty."""

    def __init__(self, kind, profile):
        self.context = kind.launch_persistent_context(
            profile, executable_path=CHROMIUM, args=FLAGS, **PHONE
        )
        self.page = self.context.pages[0]
        self.wrong, self.hosts = [], set()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._noted)
        self.context.on("request", self._met)

    def _met(self, request):
        self.hosts.add(re.sub(r"^\w+://|/.*", "", request.url))

    def card(self, place):
        return self.page.locator("article", has=self.page.get_by_role("heading", name=place))

    def holds(self, script, arg=None):
        """Wait until a function of the page comes to something true; a page that is loaded meanwhile is asked again."""
        for _ in range(600):
            with suppress(Error):
                if self.page.evaluate(script, arg):
                    return
            self.page.wait_for_timeout(50)
        raise AssertionError((script, arg, self.queue(), self.page.inner_text("body")))

    def settled(self):
        """Wait until the worker serves this page, and has the page and its files."""
        self.holds(
            """async () => {
                const pages = await caches.open("heterobandits-pages");
                return Boolean(navigator.serviceWorker.controller && (await pages.match(location.pathname)));
            }"""
        )

    def queue(self):
        """The entries that this browser keeps, each with its status."""
        return self.page.evaluate(
            "Waiting.all().then((all) => all.map((one) => [one.status, one.agent, Number(one.round)]))"
        )

    def until(self, *entries):
        """Wait until the queue is this."""
        self.holds(
            "async (wanted) => JSON.stringify((await Waiting.all()).map((one) => [one.status, one.agent, Number(one.round)])) === wanted",
            json.dumps([list(one) for one in entries], separators=(",", ":")),
        )


@pytest.fixture
def phone(browser, tmp_path):  # noqa: F811
    """Starts the phone, again and again with the same profile."""

    @contextmanager
    def start():
        made = Phone(browser.browser_type, tmp_path / "profile")
        yield made
        made.context.close()
        assert made.wrong == []

    return start


class QuickSite(Site):
    """One whose servers load no kernels before they are asked."""

    def start(self, code=COLD):
        self.server = Server(self.database, "--port", str(self.port), code=code)
        self.url = self.server.url


@pytest.fixture
def site(tmp_path):
    made = QuickSite(tmp_path)
    yield made
    if made.server.process.poll() is None:
        made.server.end()


class Park:
    """A campaign on a server, by its API; `site` may be killed meanwhile."""

    def __init__(self, site, **changes):
        self.site = site
        headers = {"Authorization": f"Bearer {OWNER}"}
        self.api = httpx.Client(base_url=f"{site.url}/api", headers=headers, timeout=60)
        self.id = self.api.post("/campaigns", json=NORTH | changes).json()["id"]

    def plan(self, **circumstances):
        return self.api.post(f"/campaigns/{self.id}/rounds", json=circumstances).json()

    def link(self, agent, role="reporter"):
        """The address of a new link, and its id."""
        body = {"role": role, "name": agent, "agent": agent if role == "reporter" else None}
        made = self.api.post(f"/campaigns/{self.id}/links", json=body).json()
        return made["url"], made["id"]

    def place(self, number, agent="Ana"):
        state = self.site.state(self.id)
        (arm,) = state.round(number).arms_of(state.agent(agent))
        return state.arms[arm].name

    def told(self, number, agent="Ana"):
        state = self.site.state(self.id)
        (arm,) = state.round(number).arms_of(state.agent(agent))
        return state.round(number).told.get((state.agent(agent), arm))

    def kinds(self):
        return [event.kind for event in self.site.events(self.id)]


@pytest.fixture
def park(site):
    made = Park(site)
    yield made
    made.api.close()


def test_a_phone_that_is_switched_off_for_days(phone, site, park):
    park.plan()
    url, _ = park.link("Chi")
    place, number = park.place(1, "Chi"), len(park.kinds())
    with phone() as chi:
        opened(chi, url, "/report")
        chi.settled()
    site.kill()  # there is no network, and nothing that could answer

    with phone() as chi:
        chi.page.goto(f"{site.url}/campaigns/{park.id}/report")
        chi.says("No network. This is as of")
        card = chi.card(place)
        tests = card.get_by_label("of tests")
        assert tests.input_value() == "12"

        # what cannot be is refused at once, in a sentence
        tests.fill("5")
        card.get_by_label("Found in").fill("9")
        card.get_by_role("button", name="Save").click()
        chi.says("9 of 5 cannot be. How many of the 5 tests found something?")
        assert chi.queue() == []
        tests.fill("500")
        card.get_by_role("button", name="Save").click()
        chi.says("at most 120 can be reported with this link")
        assert chi.queue() == []
        tests.fill("5")
        card.get_by_label("Found in").fill("3")
        card.get_by_text("A note, or why").click()
        card.get_by_label("Note").fill("fog; rain & 'wind'\nüber <b>")
        card.get_by_role("button", name="Save").click()
        chi.says("No network: this waits here")
        assert card.locator(".mistake").count() == 0
        chi.fits()
        assert violations(chi.page) == []

    with phone() as chi:  # and again, from the icon on the screen
        chi.page.goto(site.url)
        chi.page.wait_for_url(re.compile("/report$"))
        chi.says("waits here")
        chi.until(["waiting", "agent-3", 1])
        assert chi.card(place).get_by_role("button", name="Save").is_disabled()
        site.start()
        chi.until(["sent", "agent-3", 1])
        chi.page.locator("article.done", has_text="3 of 5").wait_for()
        assert chi.page.locator("#as-of").is_hidden()
        chi.page.set_viewport_size({"width": 360, "height": 400})
        assert chi.page.evaluate(COVERED) <= 0  # nothing waits: no bar is in the way
        chi.page.reload()
        chi.says("saved")
    assert park.kinds()[number:] == ["reported"]
    told = park.told(1, "Chi")
    assert told.counts == (3, 5)
    assert told.note == "fog; rain & 'wind'\nüber <b>"
    assert told.entered < told.time


def test_the_bar_covers_nothing_that_has_the_keyboard(phone, site, park):
    """What waits stays in sight at the bottom; whoever goes on with the keyboard, or types below, sees where they are."""
    for _ in range(4):
        park.plan()
    url, _ = park.link("Chi")
    with phone() as chi:
        chi.page.set_viewport_size({"width": 360, "height": 560})
        opened(chi, url, "/report")
        chi.settled()
        card = chi.page.locator("article", has_text="round 2,").first
        field = card.get_by_label("Found in")
        field.focus()
        chi.page.evaluate("scrollTo(0, scrollY + document.activeElement.getBoundingClientRect().bottom - innerHeight)")  # fmt: skip
        chi.context.set_offline(True)
        chi.page.evaluate("Waiting.add(...['a', 'b', 'c'].map((id, n) => ({ id, campaign: document.body.dataset.campaign, agent: 'agent-3', round: String(n + 1), label: 'Chi', status: 'waiting', do: 'found' }))).then(show)")  # fmt: skip
        chi.says("this waits here")
        chi.holds(f"{HIDES} <= 0")  # it came while somebody typed
        chi.page.evaluate("scrollTo(0, 0)")
        met = set()
        for _ in range(60):
            chi.page.keyboard.press("Tab")
            tag = chi.page.evaluate("document.activeElement.id || document.activeElement.outerHTML.slice(0, 60)")  # fmt: skip
            met.add(tag)
            assert chi.page.evaluate(HIDES) <= 0, tag
        assert sum("note-" in one or "<summary" in one for one in met) >= 1
        assert len(met) > 12
        chi.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert chi.page.evaluate(COVERED) <= 0


def test_two_tabs_and_the_worker_send_it_once(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        other = ana.context.new_page()
        other.goto(ana.page.url)
        asked = []
        ana.context.on("request", lambda one: asked.append(one.url) if one.method == "POST" else None)  # fmt: skip
        site.kill()
        ana.card(park.place(1)).get_by_role("button", name="Found", exact=True).click()
        ana.says("No network: this waits here")
        other.get_by_text("No network: this waits here").wait_for()
        assert other.get_by_role("button", name="Found", exact=True).is_disabled()
        before = len(asked)
        site.start()
        ana.until(["sent", "agent-1", 1])
        other.locator("article.done", has_text="found").wait_for()
        assert len(asked) > before
    assert park.kinds().count("reported") == 1


def test_in_the_background_with_the_page_closed(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        session = ana.context.new_cdp_session(ana.page)
        workers = []
        session.on("ServiceWorker.workerRegistrationUpdated", lambda said: workers.extend(said["registrations"]))  # fmt: skip
        session.send("ServiceWorker.enable")
        site.kill()
        ana.card(park.place(1)).get_by_role("button", name="Found", exact=True).click()
        ana.says("No network: this waits here")
        ana.page.goto("about:blank")
        site.start()
        given = {"registrationId": workers[0]["registrationId"], "tag": "reports", "lastChance": False}  # fmt: skip
        session.send("ServiceWorker.dispatchSyncEvent", {"origin": site.url, **given})
        ana.page.goto(f"{site.url}/campaigns/{park.id}/report")
        ana.says("saved")
        ana.until(["sent", "agent-1", 1])
    assert park.kinds().count("reported") == 1


def test_another_link_of_the_same_agent_sends_what_waits(phone, site, park):
    for _ in range(2):
        park.plan()
    (url, link), (later, _), (ben, _) = park.link("Ana"), park.link("Ana"), park.link("Ben")
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        with httpx.Client(base_url=site.url, headers=park.api.headers) as owner:
            owner.delete(f"/api/campaigns/{park.id}/links/{link}")
        ana.context.set_offline(True)
        for number in (1, 2):
            card = ana.page.locator("article", has_text=f"round {number}").first
            card.get_by_role("button", name="Found", exact=True).click()
            ana.holds("async (n) => (await Waiting.all()).length === n", arg=number)
        ana.context.set_offline(False)
        ana.says("Your link opens this no longer")
        ana.until(["waiting", "agent-1", 1], ["waiting", "agent-1", 2])

        # the page goes with the link, and what waits does not
        ana.go(f"{site.url}/campaigns/{park.id}/report")
        ana.says("Open your link")
        assert ana.page.evaluate("caches.open('heterobandits-pages').then((one) => one.keys()).then((all) => all.length)") == 0  # fmt: skip

        # whatever page is refused says what waits, what sends it, and how it can be handed over otherwise
        for part in ("/report", ""):
            ana.go(f"{site.url}/campaigns/{park.id}{part}")
            ana.says("Open your link")
            ana.says("Any link of the same person that is opened in this browser later sends it.")
            for number in (1, 2):
                ana.says(f"Ana (North park), Ana at {park.place(number)}, round {number}: found")
            ana.page.get_by_text("No network for long?").click()
            text = ana.page.get_by_label("What waits, as a text").input_value()
            assert [line[:20] for line in text.splitlines()] == [f"HB1;{park.id};agen"[:20]] * 2
            ana.press("Copy")
            ana.says("Copied.")
            ana.press("Show codes")
            assert ana.page.locator("#queue svg").count() >= 1
            ana.fits()
            assert violations(ana.page) == []
        assert ana.hosts == {f"127.0.0.1:{site.port}"}

        # another's link sends nothing of it, and says whose it is
        opened(ana, ben, "/report")
        ana.says("Not yours")
        ana.says("Ana, Ana at")
        ana.page.on("dialog", lambda one: one.dismiss())
        ana.press("Discard")
        ana.until(["waiting", "agent-1", 1], ["waiting", "agent-1", 2])
        assert "reported" not in park.kinds()

        # a new link of hers does
        ana.page.remove_listener("dialog", ana.page.listeners("dialog")[0]) if hasattr(
            ana.page, "listeners"
        ) else None
        opened(ana, later, "/report", "Ana")
        ana.until(["sent", "agent-1", 1], ["sent", "agent-1", 2])
    assert park.kinds().count("reported") == 2


def test_leaving_keeps_what_waits_and_not_the_page(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        ana.context.route("**/outcomes/**", lambda route: route.abort())
        ana.card(park.place(1)).get_by_role("button", name="Found", exact=True).click()
        ana.says("waits here")
        ana.page.goto(f"{site.url}/leave")
        ana.press("Sign out")
        ana.says("Open your link")
        ana.says("is not lost: it waits here")
        ana.holds("async () => !(await (await caches.open('heterobandits-pages')).keys()).length")  # fmt: skip
        site.kill()
        ana.page.goto(f"{site.url}/campaigns/{park.id}/report")
        ana.says("What you reported is not lost")
        ana.until(["waiting", "agent-1", 1])
        ana.context.unroute("**/outcomes/**")
        site.start()
        opened(ana, url, "/report")
        ana.until(["sent", "agent-1", 1])
        ana.wrong.clear()


def test_a_new_version_of_the_server(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        site.kill()
        ana.card(park.place(1)).get_by_role("button", name="Not found", exact=True).click()
        ana.says("waits here")
        with_outcomes_lost = "**/outcomes/**"
        ana.context.route(with_outcomes_lost, lambda route: route.abort())
        site.start(OTHER_VERSION)
        ana.page.reload()
        ana.page.wait_for_function("document.documentElement.dataset.version === 'two'")
        ana.until(["waiting", "agent-1", 1])
        ana.holds("async () => (await (await caches.open('heterobandits-files')).keys()).filter((one) => one.url.includes('report.js')).length === 1")  # fmt: skip
        site.kill()
    with phone() as ana:
        ana.page.goto(f"{site.url}/campaigns/{park.id}/report")
        ana.says("No network. This is as of")
        version = "getComputedStyle(document.body).getPropertyValue('--version')"
        assert ana.page.evaluate(version) == "two"
        assert ana.page.evaluate("document.documentElement.dataset.version") == "two"
        site.start()
        ana.until(["sent", "agent-1", 1])
    assert park.told(1).counts == (0, 1)


def test_somebody_elses_network_in_between(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    place = park.place(1)
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        ana.context.route(
            "**/*",
            lambda route: route.fulfill(status=200, content_type="text/html", body=HOTEL),
        )
        ana.page.reload()
        ana.says("This is as of")
        ana.card(place).get_by_role("button", name="Found", exact=True).click()
        ana.says("this waits here")
        ana.page.reload()
        ana.says("this waits here")
        ana.context.unroute("**/*")
        ana.until(["sent", "agent-1", 1])
        ana.wrong.clear()  # the manifest, which the hotel answered too
    assert park.told(1).counts == (1, 1)


def test_a_campaign_that_is_getting_ready_holds_up_no_other(phone, site, park):
    """What was reported first waits for its campaign, and what was reported next is sent meanwhile."""
    south = Park(site, name="South")
    busy = {
        "type": "/problems/busy",
        "title": "Busy",
        "status": 503,
        "detail": "It is getting ready.",
    }
    with phone() as ana:
        for one in (park, south):
            one.plan()
            opened(ana, one.link("Ana")[0], "/report")
            ana.settled()
        ana.context.route(
            f"**/campaigns/{park.id}/rounds/**", lambda route: route.fulfill(status=503, json=busy)
        )
        ana.context.set_offline(True)
        for one in (park, south):
            ana.page.goto(f"{site.url}/campaigns/{one.id}/report")
            ana.says("This is as of")
            ana.card(one.place(1)).get_by_role("button", name="Found", exact=True).click()
            ana.says("this waits here")
        ana.until(["waiting", "agent-1", 1], ["waiting", "agent-1", 1])
        ana.context.set_offline(False)
        ana.until(["waiting", "agent-1", 1], ["sent", "agent-1", 1])
        assert (park.told(1), south.told(1).counts) == (None, (1, 1))
        ana.context.unroute(f"**/campaigns/{park.id}/rounds/**")
        ana.until(["sent", "agent-1", 1], ["sent", "agent-1", 1])
        ana.wrong.clear()  # the answer 503
    assert park.told(1).counts == (1, 1)
    south.api.close()


@pytest.mark.parametrize("years", [-30, 30])
def test_a_clock_that_is_wrong(phone, site, park, years):
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        shift = years * 365 * 86_400_000
        ana.context.add_init_script(
            f"const Right = Date; globalThis.Date = class extends Right {{ constructor(...given) {{ if (given.length) super(...given); else super(Right.now() + {shift}); }} static now() {{ return Right.now() + {shift}; }} }};"
        )
        opened(ana, url, "/report")
        ana.card(park.place(1)).get_by_role("button", name="Found", exact=True).click()
        ana.until(["sent", "agent-1", 1])
    told = park.told(1)
    assert abs((parse_time(told.time) - parse_time(told.entered)).total_seconds()) < 30


def test_a_round_that_was_planned_anew(phone, site, park):
    """What was entered for one plan is not taken for another of the same number."""
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        ana.page.evaluate("document.querySelectorAll('[name=planned]').forEach((one) => { one.value -= 1; })")  # fmt: skip
        ana.card(park.place(1)).get_by_role("button", name="Found", exact=True).click()
        ana.says("Round 1 was planned anew since")
        ana.says("Not saved")
        ana.page.on("dialog", lambda one: one.accept())
        ana.press("Discard")
        ana.until()
        ana.page.locator("#queue").wait_for(state="hidden")
    assert "reported" not in park.kinds()


def test_somewhere_else_without_a_network(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    place = park.place(1)
    there = next(name for name in site.state(park.id).arm_names if name != place)
    with phone() as ana:
        opened(ana, url, "/report")
        ana.settled()
        site.kill()
        ana.page.reload()
        card = ana.card(place)
        card.get_by_text("I was somewhere else").click()
        card.get_by_label("Where").select_option(label=there)
        card.get_by_role("button", name="Found", exact=True).click()
        ana.says(f"found, at {there}")
        site.start()
        ana.until(["sent", "agent-1", 1])
        ana.page.locator("article.done", has_text=there).wait_for()
    assert park.place(1) == there
    assert park.kinds()[-2:] == ["overridden", "reported"]


def test_a_page_left_open_learns_of_a_round(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        opened(ana, url, "/report")
        card = ana.card(park.place(1)).first
        card.get_by_text("A note, or why").click()
        card.get_by_label("Note").fill("half a sen")
        park.plan()
        ana.page.locator("article", has_text="round 2").wait_for(timeout=30_000)
        assert ana.card(park.place(1)).first.get_by_label("Note").input_value() == "half a sen"
        assert ana.page.evaluate("document.activeElement.name") == "note"


def test_handed_over_without_a_network(phone, browser, site, park):  # noqa: F811
    for _ in range(2):
        park.plan()
    url, _ = park.link("Chi")
    owner_url, _ = park.link("Vera", "owner")
    with phone() as chi:
        opened(chi, url, "/report")
        chi.settled()
        chi.context.set_offline(True)
        chi.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for number in (1, 2):
            card = chi.page.locator("article", has_text=f"round {number},").first
            card.get_by_label("Found in").fill(str(number))
            card.get_by_text("A note, or why").click()
            card.get_by_label("Note").fill("fog; 100 %, \u00fcber")
            card.get_by_role("button", name="Save").click()
            chi.holds("async (n) => (await Waiting.all()).length === n", number)
        chi.page.get_by_text("No network for long?").click()
        text = chi.page.get_by_label("What waits, as a text").input_value()
        chi.press("Copy")
        chi.says("Copied.")
        assert chi.page.evaluate("navigator.clipboard.readText()") == text
        chi.press("Show codes")
        assert chi.page.locator("#queue svg").count() >= 1
        chi.fits()
        assert violations(chi.page) == []
    assert len(text.splitlines()) == 2
    with person(browser, DESKTOP) as vera:
        opened(vera, owner_url, park.id)
        vera.go(f"{site.url}/campaigns/{park.id}/report")
        vera.page.get_by_text("Enter what a phone could not send").click()
        chat = "\n".join(f"[12:03] Chi: {line}" for line in text.splitlines()) + " HB1;cut;off"
        vera.page.get_by_label("Lines that begin with HB1").fill(chat)
        vera.press("Look at them")
        vera.says("This line is cut off")
        assert vera.page.get_by_text("will be saved").count() == 2
        assert violations(vera.page) == []
        assert "reported" not in park.kinds()
        vera.press("Save 2 reports")
        vera.says("2 of 3 lines saved.")
    assert [park.told(number, "Chi").counts for number in (1, 2)] == [(1, 12), (2, 12)]
    assert park.told(1, "Chi").note == "fog; 100 %, \u00fcber"
    with phone() as chi:  # it comes once more by itself, and that does no harm
        chi.page.goto(f"{site.url}/campaigns/{park.id}/report")
        chi.until(["sent", "agent-3", 1], ["sent", "agent-3", 2])
    assert park.kinds().count("reported") == 2


def test_what_the_last_version_kept_is_sent(phone, site, park):
    park.plan()
    url, link = park.link("Ana")
    with phone() as ana:
        opened(ana, url, "/report")
        arm = ana.page.locator("form[data-queue] [name=arm]").first.get_attribute("value")
        old = {"id": "k1", "form": "f", "action": f"{site.url}/campaigns/{park.id}/rounds/1/outcomes/agent-1",
               "body": f"key=abc&arm={arm}&do=found", "label": "Ana at x, round 1", "says": "found", "link": link, "who": "Ana"}  # fmt: skip
        ana.page.evaluate("([place, text]) => localStorage.setItem(place, text)", [f"heterobandits-{park.id}", json.dumps([old])])  # fmt: skip
        ana.page.reload()
        ana.until(["sent", "agent-1", 1])
        assert ana.page.evaluate("localStorage.length") == 0
    assert park.told(1).counts == (1, 1)


def test_a_first_visit_with_the_worker_takes_little(phone, site, park):
    park.plan()
    url, _ = park.link("Ana")
    with phone() as ana:
        sizes = {}
        ana.context.on(
            "response", lambda one: sizes.setdefault((one.url, one.from_service_worker), one)
        )
        opened(ana, url, "/report")
        ana.settled()
        ana.page.wait_for_load_state("networkidle")
        answers = [one for one in sizes.values() if one.ok and not one.from_service_worker]
        taken = sum(int(one.headers.get("content-length", 0)) for one in answers)
        assert 30_000 < taken < 150_000
        assert ana.hosts == {f"127.0.0.1:{site.port}"}


@pytest.mark.parametrize("letters", [1, 14, 60, 130, 213, 251, 400, 600])
def test_a_code_is_one(browser, monkeypatch, letters):  # noqa: F811
    """Of the same text, version and mask as another encoder makes it, which would put a byte too many before the padding."""
    monkeypatch.setattr(
        segno.encoder,
        "write_padding_bits",
        lambda buff, _, length: buff.extend([0] * (-length % 8)),
    )
    text = ("HB1;0123456789ab;agent-1;" * 30)[: letters - 1] + "\u00fc"
    script = (Path(pages.__file__).parents[1] / "static/codes.js").read_text()
    with person(browser, DESKTOP) as who:
        who.page.set_content("<p>")
        rows = who.page.evaluate(f"(text) => {{ {script}; return drawCode.codeOf(text).map((row) => row.map(Number)); }}", text)  # fmt: skip
    given = {"error": "m", "version": (len(rows) - 17) // 4, "mode": "byte", "encoding": "utf-8"}
    made = [segno.make(text, mask=mask, eci=False, boost_error=False, **given) for mask in range(8)]
    assert rows in [[list(row) for row in one.matrix] for one in made]
