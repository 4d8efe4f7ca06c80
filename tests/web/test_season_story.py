"""A season of 26 weeks, played in a real browser as people in the field had it: eight rangers, three of them away for a week with their
browsers closed, one whose link is revoked meanwhile, paper of two, mistakes that are taken back, and a server that is killed twice."""

import random
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import pytest

from browsers import DESKTOP, browser, person, violations  # noqa: F401 - fixture
from heterobandits.client import CampaignError, Campaigns, ServerUnreachable
from serving import OWNER
from test_browser import free_port, opened
from test_paper import AREAS, on_paper, read
from test_phone import Phone, QuickSite

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.browser,
    pytest.mark.server,
    pytest.mark.slow,
]

WEEKS, CHECKS = 26, 5
AISSATOU, JOSE, ZOE, MAMADOU = "Aïssatou N'Diaye", "José Muñoz", "Zoë", "Mamadou"
PHONES = (AISSATOU, JOSE, ZOE)
PAPER = ("Femi", "Łukasz Kołodziejczyk-Brzęczyszczykiewicz")
SENSITIVITIES = dict(
    zip((*PHONES, MAMADOU, *PAPER, "Ana", "Chi"), (0.9, 0.85, 0.8, 0.75, 0.7, 0.7, 0.65, 0.6), strict=True)
)  # fmt: skip
MEANS = dict(zip(AREAS, (0.01 + 0.34 * n / (len(AREAS) - 1) for n in range(len(AREAS))), strict=True))  # fmt: skip
NOT_DONE = "not done"


class Mast:
    """What phones reach the server through: while it is down, nothing answers them, whatever becomes of the server."""

    def __init__(self, port):
        self.to, self.port, self.carried = port, free_port(), []
        self.url = f"http://127.0.0.1:{self.port}"
        self.up()

    def up(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._listen, args=[self.listener], daemon=True).start()

    def down(self):
        with suppress(OSError):  # it is down already
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.carried:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.carried.clear()

    def _listen(self, listener):
        with suppress(OSError):
            while True:
                phone, _ = listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.to))
                except OSError:
                    phone.close()
                    continue
                self.carried += [phone, server]
                for ends in ((phone, server), (server, phone)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    @staticmethod
    def _carry(one, other):
        with suppress(OSError):
            while said := one.recv(65_536):
                other.sendall(said)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Season:
    """The owner in the office, the links of the rangers, and a diary of all that anybody has entered."""

    def __init__(self, site, mast, owner, seed):
        self.site, self.mast, self.owner, self.page = site, mast, owner, owner.page
        self.luck = random.Random(seed)
        self.week, self.team = 0, list(SENSITIVITIES)
        self.tokens, self.clients = {}, {}
        self.diary = {}  # what was entered last of a week and a ranger
        self.reports = self.corrections = 0

    def created(self):
        """A campaign, made on the page, and its cards, read from the paper."""
        opened(self.owner, f"{self.site.url}/enter/{OWNER}", "/")
        self.owner.go(f"{self.site.url}/new")
        rangers = (f"{name};{s};{CHECKS}" for name, s in SENSITIVITIES.items())
        for field, text in (
            ("name", "Parc national"),
            ("season", str(WEEKS)),
            ("agents", "\n".join(rangers)),
            ("arms", "\n".join(AREAS)),
        ):
            self.page.locator(f"[name={field}]").fill(text)
        self.owner.press("Make the campaign")
        self.page.wait_for_url("**/campaigns/*")
        self.id = self.page.url.rpartition("/")[2]
        self.home = f"{self.site.url}/campaigns/{self.id}"
        self.owner.go(f"{self.home}/team")
        self.page.locator("#form-cards summary").click()
        self.sent(self.page.locator("#form-cards form button"))
        self.page.locator(".qr svg").first.wait_for()
        on_paper(self.owner)
        tokens = {url.rpartition("/")[2] for url in read(self.page.screenshot(full_page=True))}
        self.page.emulate_media(media="screen")
        self.page.set_viewport_size(DESKTOP["viewport"])
        whose = {link.id: link.agent for link in self.state.links.values()}
        for token in tokens:
            self.tokens[self.state.agents[whose[token.split("_")[2]]].name] = token
        assert set(self.tokens) == set(self.team)

    @property
    def state(self):
        return self.site.state(self.id)

    def sent(self, button):
        """Press what sends a form, and wait for the page that follows."""
        with self.page.expect_navigation():
            button.click()

    def plan(self):
        """The next week, looked at and recorded."""
        self.week += 1
        self.owner.go(f"{self.home}/plan")
        self.sent(self.page.locator("#planning button[formmethod=post]").last)
        self.page.wait_for_url(f"**/rounds/{self.week}")
        self.places = self.places_of(self.week)

    def places_of(self, week):
        """Where a week sends each ranger."""
        state = self.state
        return {state.agents[a].name: state.arms[arm].name for a, arm in state.round(week).sent}

    def finds(self, week, name):
        """What a ranger sees, which goes into the diary."""
        chance = MEANS[self.places_of(week)[name]] * SENSITIVITIES[name]
        found = sum(self.luck.random() < chance for _ in range(CHECKS))
        self.note(week, name, (found, CHECKS))
        return found

    def note(self, week, name, outcome, again=False):
        self.diary[week, name] = outcome
        self.corrections += again
        self.reports += not again

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = Campaigns(self.site.url, self.tokens[name])
        return self.clients[name]

    def report(self, *names):
        """Reports of this week, with each ranger's own link."""
        for name in names:
            self.client(name).report(self.id, self.week, name, self.finds(self.week, name), CHECKS)

    def told(self, week):
        """What the log knows of a week, by ranger."""
        state = self.state
        return {
            state.agents[agent].name: NOT_DONE if one.counts is None else one.counts
            for (agent, _), one in state.round(week).told.items()
        }

    def kinds(self):
        return [event.kind for event in self.site.events(self.id)]

    def type_paper(self, week, finds):
        """A sheet, typed into the table of its week."""
        self.owner.go(f"{self.home}/rounds/{week}/table")
        for name, found in finds.items():
            row = self.page.locator("tr", has=self.page.locator("th", has_text=name))
            row.locator("[name=found]").fill(str(found))
        self.sent(self.page.locator("form[data-table] button").last)
        self.owner.says(f"Saved: {len(finds)} ")

    def paste(self, lines, saved):
        """Lines of a spreadsheet, looked at and saved."""
        self.owner.go(f"{self.home}/paste")
        self.page.locator("textarea").fill("\n".join(lines))
        self.sent(self.page.locator("button[value=look]"))
        self.sent(self.page.locator("button[value=save]"))
        self.owner.says(f"Saved: {saved} ")

    def pile(self, weeks):
        """Paper of several weeks, as lines of a spreadsheet."""
        return [
            f"{week};{name};{self.places_of(week)[name]};{self.finds(week, name)};{CHECKS}"
            for week in weeks
            for name in PAPER
        ]

    def link(self, name):
        """The address of a ranger's link, as their phone reaches it."""
        return f"{self.mast.url}/enter/{self.tokens[name]}"


class Ranger(Phone):
    """A phone with the page of reports."""

    season = name = None

    def go_to_reports(self):
        self.page.goto(f"{self.season.mast.url}/campaigns/{self.season.id}/report")

    def visit(self, week):
        return self.page.locator("article", has=self.page.locator(f"form[data-round='{week}']"))

    def enter(self, week, found=None):
        """A count; or that it was not done, and why."""
        card = self.visit(week)
        if found is None:
            card.locator("summary", has_text="not done").click()
            card.locator("[name=note]").fill("The bridge is gone.")
            card.locator("button[value='not done']").click()
        else:
            card.locator("[name=successes]").fill(str(found))
            card.locator("button[value=count]").click()

    def keeps(self, week):
        """Wait until this browser has the page with this week, for when there is no network."""
        self.holds(
            """async (week) => {
                const kept = await (await caches.open("heterobandits-pages")).match(location.pathname);
                return Boolean(navigator.serviceWorker.controller && kept && (await kept.text()).includes(`data-round="${week}"`));
            }""",
            week,
        )

    def statuses(self, *wanted):
        """Wait until the entries of this browser have come to this."""
        self.holds(
            "async (wanted) => (await Waiting.all()).map((one) => one.status + one.round).join() === wanted",
            ",".join(wanted),
        )

    def looks_right(self):
        self.fits()
        assert violations(self.page) == []


@pytest.fixture
def season(browser, tmp_path, seed):  # noqa: F811
    site = QuickSite(tmp_path)
    mast = Mast(site.port)
    try:
        with person(browser, DESKTOP, accept_downloads=True) as owner:
            made = Season(site, mast, owner, seed)
            yield made
            for client in made.clients.values():
                client.close()
    finally:
        mast.down()
        if site.server.process.poll() is None:
            site.server.end()


@contextmanager
def phone_of(name, season, kind, folder):
    """A ranger's phone; its profile stays when it is closed."""
    made = Ranger(kind, folder / name)
    made.season, made.name = season, name
    yield made
    made.context.close()
    assert made.wrong == []


def test_a_season_with_phones_that_are_away(season, browser, tmp_path, called):  # noqa: F811
    owner, page, site, mast = season.owner, season.page, season.site, season.mast
    phone = partial(phone_of, season=season, kind=browser.browser_type, folder=tmp_path)
    season.created()
    others = (MAMADOU, "Ana", "Chi")
    season.plan()
    season.report(*PHONES, *others)

    # week 2 is recorded, and week 3 too, by a second press: that one is cancelled before anybody knows of it
    season.plan()
    owner.go(f"{season.home}/plan")
    season.sent(page.locator("#planning button[formmethod=post]").last)
    assert len(season.state.rounds) == 2
    season.sent(page.locator("button[name=anyway]").last)
    assert len(season.state.rounds) == 3
    owner.go(f"{season.home}/rounds/3")
    season.sent(page.locator("a[href$='/cancel']").first)
    season.sent(page.locator("main form button"))
    assert len(season.state.rounds) == 2
    season.report(*PHONES, *others)

    # week 3: three phones report; one takes it back by a correction; each learns of week 4, and is closed
    season.plan()
    with ExitStack() as open_phones:
        phones = [open_phones.enter_context(phone(name)) for name in PHONES]
        for one in phones:
            opened(one, season.link(one.name), "/report")
            one.enter(3, season.finds(3, one.name))
            one.statuses("sent3")
            assert season.told(3)[one.name] == season.diary[3, one.name]
        zoe, right = phones[-1], CHECKS - season.diary[3, ZOE][0]
        season.note(3, ZOE, (right, CHECKS), again=True)
        zoe.page.locator("article.done form[data-round='3']").wait_for(state="attached")
        zoe.visit(3).locator("summary", has_text="Correct it").click()
        zoe.enter(3, right)
        zoe.statuses("sent3", "sent3")
        season.report(*others)
        season.plan()
        for one in phones:
            one.page.reload()
            one.keeps(4)
    season.report(*others)

    # they are in the bush: browsers that were closed open without a network, take a report, and are closed again
    mast.down()
    for name in PHONES:
        with phone(name) as one:
            one.go_to_reports()
            one.says("No network. This is as of")
            one.says(season.places[name])
            if name == ZOE:
                season.note(4, ZOE, NOT_DONE)
                one.enter(4)
            else:
                one.enter(4, season.finds(4, name))
            one.says("waits here")
            one.page.keyboard.press(
                "End"
            )  # what waits is a bar at the bottom, which covers what is under it
            one.looks_right()
    assert set(season.told(4)) == set(others)

    # meanwhile a link is revoked, and its ranger gets another one; week 5 is planned; the server is killed
    owner.go(f"{season.home}/team")
    season.sent(page.locator(f"[id='{season.tokens[JOSE].split('_')[2]}'] button[value=revoke]"))
    page.locator("#form-link summary").click()
    page.locator("#form-link [name=name]").fill(JOSE)
    page.locator("#form-link [name=agent]").select_option(label=JOSE)
    season.sent(page.locator("#form-link form button"))
    old = season.link(JOSE)
    season.tokens[JOSE] = page.locator("#url").input_value().rpartition("/")[2]
    season.clients.pop(JOSE).close()
    season.plan()
    site.kill()

    # they come back: one to a server that is not there yet, one whose link is revoked, one whose network comes while they look
    mast.up()
    before = season.kinds().count("reported")
    with phone(AISSATOU) as one:
        one.go_to_reports()
        one.says("No network. This is as of")
        one.says("waits here")
        site.start()
        one.statuses("sent3", "sent4")
        one.visit(5).wait_for()
        one.looks_right()
        one.wrong.clear()  # a network that went away
    with phone(JOSE) as one:
        one.go_to_reports()
        one.says("Open your link")
        one.page.goto(old)
        one.says("opens nothing")
        opened(one, season.link(JOSE), "/report")
        one.statuses("sent3", "sent4")
        one.looks_right()
    mast.down()
    with phone(ZOE) as one:
        one.go_to_reports()
        one.says("waits here")
        one.statuses("sent3", "sent3", "waiting4")
        mast.up()
        one.statuses("sent3", "sent3", "sent4")
        one.page.reload()
        one.says("The bridge is gone.")
        one.looks_right()
        one.wrong.clear()
    assert season.kinds().count("reported") == before + 3
    state = season.state
    for (agent, _), told in state.round(4).told.items():
        if state.agents[agent].name in PHONES:
            assert told.entered < told.time

    # a pile of paper: three weeks into their tables; the fifth with the finds of another week, which is undone
    for week in range(1, 5):
        season.type_paper(week, {name: season.finds(week, name) for name in PAPER})
    season.report(*PHONES, *others)
    season.type_paper(5, dict.fromkeys(PAPER, 5))
    season.reports += 2
    season.sent(page.locator("form.undo button"))
    assert not set(season.told(5)) & set(PAPER)
    season.type_paper(5, {name: season.finds(5, name) for name in PAPER})

    # a server that is killed while all report at once
    season.plan()
    report_while_it_is_killed(season, (*PHONES, *others))
    while season.week < 12:
        season.plan()
        season.report(*PHONES, *others)

    # somebody leaves, and what they hold opens nothing any more
    owner.go(f"{season.home}/team?agent=agent-{season.team.index(MAMADOU) + 1}")
    season.sent(page.locator("button[value=retire]"))
    season.sent(page.locator("button[value=revoke]"))
    with pytest.raises(CampaignError) as gone:
        season.client(MAMADOU).campaign(season.id)
    assert gone.value.status == 401
    others = others[1:]
    season.paste(season.pile(range(6, 13)), 14)
    while season.week < WEEKS:
        season.plan()
        assert MAMADOU not in season.places
        season.report(*PHONES, *others)
    right = CHECKS - season.diary[12, "Femi"][0]  # a sheet that was misread
    season.note(12, "Femi", (right, CHECKS), again=True)
    line = f"12;Femi;{season.places_of(12)['Femi']};{right};{CHECKS}"
    season.paste([line, *season.pile(range(13, WEEKS + 1))], 29)
    owner.go(f"{season.home}/plan")
    assert page.get_by_role("heading", level=1).inner_text() == "The season is over"

    # nothing is lost, and nothing doubled
    state = season.state
    planned = [(at.number, state.agents[a].name) for at in state.rounds for a, _ in at.sent]
    assert len(planned) == len(set(planned)) == 12 * 8 + 14 * 7
    told = {(at.number, n): outcome for at in state.rounds for n, outcome in season.told(at.number).items()}  # fmt: skip
    assert told == season.diary
    assert set(told) == set(planned)
    kinds = season.kinds()
    counted = {kind: kinds.count(kind) for kind in ("round planned", "round cancelled", "reported", "corrected", "withdrawn")}  # fmt: skip
    assert counted == {
        "round planned": WEEKS + 1,
        "round cancelled": 1,
        "reported": season.reports,
        "corrected": season.corrections,
        "withdrawn": 2,
    }
    assert season.reports == len(planned) + 2

    # the log is whole, and so is the audit that the owner takes home
    code, out, err = called("campaign", "verify", site.database, "--least", len(kinds))
    assert code == 0, err
    assert f"is whole: {len(kinds)} events, {WEEKS} plans made again" in out
    owner.go(f"{season.home}/history")
    with page.expect_download() as begun:
        page.locator("a[href$='/audit.html']").first.click()
    audit = tmp_path / "audit.html"
    begun.value.save_as(audit)
    code, out, err = called("campaign", "verify", audit)
    assert code == 0, err
    assert f"{len(kinds)} events" in out
    assert "the page says what its events say, to the letter" in out
    with phone(ZOE) as one:
        one.go_to_reports()
        one.says("Nothing for you to report.")
        one.looks_right()
    assert owner.hosts == {f"127.0.0.1:{site.port}"}


def report_while_it_is_killed(season, names):
    """All report at once; when the first is answered the server is killed, and who has no answer goes on until the report is there."""
    finds = {name: season.finds(season.week, name) for name in names}
    clients = {name: season.client(name) for name in names}
    answered = threading.Event()

    def report(name):
        while True:
            try:
                clients[name].report(season.id, season.week, name, finds[name], CHECKS)
            except ServerUnreachable:
                continue
            except CampaignError as error:
                if error.kind != "already-reported":  # that was saved, and nobody heard of it
                    raise
            answered.set()
            return

    threads = [threading.Thread(target=report, args=[name]) for name in names]
    for one in threads:
        one.start()
    assert answered.wait(60)
    season.site.kill()
    season.site.start()
    for one in threads:
        one.join(60)
        assert not one.is_alive()
    assert season.told(season.week) == {name: (found, CHECKS) for name, found in finds.items()}
