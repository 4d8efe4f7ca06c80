"""What is printed, in a real browser: codes that a phone reads from paper, every page with the campaign and the date, tables that fit.

And a pile of paper typed into the table of a round with the keyboard alone.
"""

import io
import re

import pytest
import zxingcpp
from PIL import Image

from browsers import DESKTOP, PHONE, browser, person, violations  # noqa: F401 - fixture
from heterobandits.campaigns import service
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store
from serving import OWNER, served

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.browser,
    pytest.mark.slow,
]

VERA = Author("Vera")
LONG = "Łukasz Kołodziejczyk-Brzęczyszczykiewicz"
NAMES = ["Aïssatou N'Diaye", "José Muñoz", "Zoë", LONG, "Mamadou", "Ana", "Femi", "Chi"]
AREAS = [
    "Mare aux hippos", "Camp O'Hara", "Río Pequeño", "Hügel Süd", "Lac & marais", "gate", "lake", "ford",
    "salt lick", "old quarry", "river bend", "burnt hill", "ravine", "An area with a long name, far in the north",
]  # fmt: skip
MM = 96 / 25.4  # pixels of CSS in a millimetre
A4_WIDTH = round((210 - 2 * 12) * MM)  # pixels between the margins
CODE_MIN_MM = 22.0
QUIET_MODULES = 4
# the width of each code on the page in pixels, without the white around it
WIDTHS = f"""codes => codes.map(code => {{
  const modules = code.viewBox.baseVal.width;
  return code.getBoundingClientRect().width * (modules - 2 * {QUIET_MODULES}) / modules;
}})"""


class Park:
    """A served campaign of eight rangers and 14 areas, with three rounds, of which the last waits; one ranger is away."""

    def __init__(self, folder):
        self.database = folder / "park.db"
        with Store(self.database) as store:
            log = Repository(store)
            agents = [{"name": name, "sensitivity": 0.8, "tests": 5} for name in NAMES]
            self.id = service.create(
                log, VERA, name="Parc national", agents=agents, arms=AREAS, season=26, seed=1
            ).state.campaign
            for number in (1, 2, 3):
                absent = ["Femi"] if number == 3 else []
                at = service.plan_round(log, self.id, VERA, absent=absent).state.rounds[-1]
                if number < 3:
                    found = {f"agent-{a + 1}": (1, 5) for a, _ in at.sent}
                    report_outcomes(log, self.id, VERA, number, found)

    def told(self, round):
        with Store(self.database) as store:
            state = Repository(store).state(self.id)
        return {
            state.agents[a].name: known.counts for (a, _), known in state.round(round).told.items()
        }


@pytest.fixture(scope="module")
def park(tmp_path_factory):
    return Park(tmp_path_factory.mktemp("paper"))


@pytest.fixture(scope="module")
def site(park):
    with served(park.database) as server:
        yield server


@pytest.fixture
def owner(browser, site, park):  # noqa: F811
    with person(browser, DESKTOP) as made:
        made.go(f"{site.url}/enter/{OWNER}")
        made.page.wait_for_url(re.compile("/$"))
        made.home = f"{site.url}/campaigns/{park.id}"
        yield made


def on_paper(who):
    """The page as it is laid out on A4."""
    who.page.emulate_media(media="print")
    who.page.set_viewport_size({"width": A4_WIDTH, "height": 1000})


def read(picture):
    """What a reader finds in a picture of the page."""
    found = zxingcpp.read_barcodes(Image.open(io.BytesIO(picture)))
    return [one.text for one in found if one.format == zxingcpp.BarcodeFormat.QRCode]


def pages_of(pdf):
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type\s*/Page[^s]", pdf))


@pytest.mark.parametrize("kind", ["sheet", "cards"])
def test_codes_are_wide_enough_and_can_be_read(owner, kind):
    if kind == "sheet":
        owner.go(f"{owner.home}/rounds/3")
        owner.press("Print with QR codes")
    else:
        owner.go(f"{owner.home}/team")
        owner.page.locator("#form-cards summary").click()
        owner.press("Make cards")
    owner.page.locator(".qr svg").first.wait_for()
    whose = 7 if kind == "sheet" else 8  # Femi is away
    on_paper(owner)
    widths = owner.page.locator(".qr svg").evaluate_all(WIDTHS)
    assert len(widths) == whose
    assert min(widths) / MM >= CODE_MIN_MM
    addresses = read(owner.page.screenshot(full_page=True))
    assert len(set(addresses)) == whose
    assert all(re.search(r"/enter/hb_[0-9a-f]{12}_[0-9a-f]{12}_[\w-]{43}$", a) for a in addresses)
    assert owner.page.get_by_text("Valid until").count() == whose
    assert pages_of(owner.page.pdf(prefer_css_page_size=True)) == 1
    wide = owner.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= A4_WIDTH


def test_a_weeks_sheet_has_the_codes_of_the_week_before(owner):
    found = []
    for number in (1, 2):
        owner.go(f"{owner.home}/rounds/{number}")
        owner.press("Print with QR codes")
        owner.page.locator(".qr svg").first.wait_for()
        on_paper(owner)
        found.append(set(read(owner.page.screenshot(full_page=True))))
        owner.page.emulate_media(media="screen")
    assert len(found[0]) == 8
    assert found[0] == found[1]


def test_a_sheet_has_the_same_fields_with_and_without_codes(owner):
    fields = []
    for press in (False, True):
        owner.page.emulate_media(media="screen")
        owner.go(f"{owner.home}/rounds/3")
        if press:
            owner.press("Print with QR codes")
            owner.page.locator(".qr svg").first.wait_for()
        on_paper(owner)
        blanks = owner.page.locator(".sheet.line:visible")
        fields.append([text.strip() for text in blanks.all_inner_texts()])
    assert fields[0] == fields[1] == ["of 5"] * 7


@pytest.mark.parametrize("part", ["", "/rounds/2", "/history", "/team"])
def test_every_sheet_of_paper_has_the_campaign_and_the_date(owner, part):
    """The head of the page is the head of a table that goes over all sheets: the browser repeats it on each."""
    owner.go(owner.home + part)
    on_paper(owner)
    head = owner.page.locator(".running")
    assert "Parc national" in head.inner_text()
    assert re.search(r"\b20\d\d\b", head.inner_text())
    styles = [
        owner.page.evaluate(f"getComputedStyle(document.querySelector('{where}')).{what}")
        for where, what in (
            (".running", "display"),
            (".running", "breakInside"),
            ("main", "display"),
        )
    ]
    assert styles == ["table-header-group", "avoid", "table-row-group"]
    wide = owner.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= A4_WIDTH


def test_who_was_where_has_all_areas_on_paper(owner):
    owner.go(owner.home)
    on_paper(owner)
    rows = owner.page.locator("table.sheet tbody tr:visible").all_inner_texts()
    assert [row.partition("\t")[0] for row in rows] == AREAS
    assert sum(row.count(" 5") for row in rows) == 16  # visits that were reported
    assert not owner.page.locator(".wide:visible").count()
    owner.page.emulate_media(media="screen")
    assert not owner.page.locator("table.sheet:visible").count()


def test_a_pile_of_paper_is_typed_with_the_keyboard(owner, park):
    owner.go(f"{owner.home}/rounds/3/table")
    owner.fits()
    assert violations(owner.page) == []
    fields = owner.page.locator("input[name=found]")
    fields.first.focus()
    for text in ("2", "9", "-", "0", "1", "1"):
        owner.page.keyboard.type(text)
        owner.page.keyboard.press("Enter")
    assert fields.nth(6).evaluate("field => field === document.activeElement")
    owner.page.keyboard.type("5")
    owner.page.keyboard.press("Enter")
    owner.page.keyboard.press("Enter")  # on the button
    owner.says("Nothing was saved.")
    assert violations(owner.page) == []
    assert park.told(3) == {}
    assert fields.nth(1).input_value() == "9"
    assert fields.nth(6).input_value() == "5"
    fields.nth(1).fill("3")
    owner.press("Save all")
    owner.says("Saved: 7 visits.")
    assert sorted(park.told(3).values(), key=str) == sorted(
        [(2, 5), (3, 5), None, (0, 5), (1, 5), (1, 5), (5, 5)], key=str
    )


def test_on_a_phone_the_table_and_the_paste_fit(browser, site, park):  # noqa: F811
    with person(browser, PHONE) as planner:
        planner.go(f"{site.url}/enter/{OWNER}")
        planner.page.wait_for_url(re.compile("/$"))
        home = f"{site.url}/campaigns/{park.id}"
        for part in ("/rounds/2/table", "/paste", "/team"):
            planner.go(home + part)
            planner.fits()
        planner.go(f"{home}/paste")
        planner.page.locator("textarea").fill(f"2;{LONG};;3;5\n2;Nobody;;1;5\n1;Zoë;;1;5")
        planner.press("See what they would do")
        planner.says("One line is wrong")
        planner.fits()
        assert violations(planner.page) == []
