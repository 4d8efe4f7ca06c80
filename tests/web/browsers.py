"""A real browser for tests: Debian's Chromium, driven by Playwright, on pages of a server in a process of its own.

Whatever goes wrong in a page (an error of its script, something its policy forbids, a request to another host) is kept, and the
tests look at it in the end.
"""

import os
import shutil
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP *.test 127.0.0.1",
]  # fmt: skip
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
TABLET = {"viewport": {"width": 768, "height": 1024}}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# phones in the light and desktops in the dark; the other two pairs every night
LOOKS = [
    pytest.param(PHONE, "light", id="phone-light"),
    pytest.param(DESKTOP, "dark", id="desktop-dark"),
    pytest.param(PHONE, "dark", id="phone-dark", marks=pytest.mark.nightly),
    pytest.param(DESKTOP, "light", id="desktop-light", marks=pytest.mark.nightly),
]


@contextmanager
def chromium():
    """The browser, for as long as the tests of a file take."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        reason = "there is no chromium: apt-get install chromium"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    with chromium() as made:
        yield made


class Person:
    """Somebody with a browser of their own."""

    def __init__(self, browser, kind, **options):
        self.context = browser.new_context(**kind, **options)
        self.page = self.context.new_page()
        self.wrong = []  # what no page may do
        self.hosts = set()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._noted)
        self.context.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def _noted(self, message):
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def go(self, address):
        self.page.goto(address)
        self.page.wait_for_load_state()

    def says(self, text):
        """Wait until the page says this, where one can see it."""
        self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def press(self, name, exact=True):
        self.page.get_by_role("button", name=name, exact=exact).first.click()

    def follow(self, name):
        self.page.get_by_role("link", name=name, exact=True).first.click()
        self.page.wait_for_load_state()

    def fits(self):
        """Nothing of the page is beside the screen."""
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= self.page.viewport_size["width"], (self.page.url, wide)

    def leave(self):
        self.context.close()
        assert self.wrong == []


@contextmanager
def person(browser, kind, **options):
    """Somebody, until they close their browser."""
    made = Person(browser, kind, **options)
    yield made
    made.leave()


def violations(page):
    """What axe finds wrong with a page: the rule, and what it is about."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": WCAG}}).response
    return [
        (one["id"], [node["target"] for node in one["nodes"]][:5]) for one in found["violations"]
    ]
