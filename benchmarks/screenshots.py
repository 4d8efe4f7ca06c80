"""Pictures of every page, to look at: `python benchmarks/screenshots.py FOLDER [--dark] [--readme]`.

A demo is served, and every page of it is taken at 360, 768 and 1280 pixels. With `--readme` only the three of the README are
taken, as they stand in docs/pictures.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "web"))

from PIL import Image

from browsers import DESKTOP, PHONE, TABLET, chromium, person
from serving import SERVE, Server

KINDS = {"360": PHONE, "768": TABLET, "1280": DESKTOP}
PLACES = {
    "campaigns": "/", "new": "/new?template=rangers", "known": "{}", "wall": "{}/wall",
    "plan": "{}/plan?absent=agent-2&closed=arm-3", "report": "{}/report", "rounds": "{}/rounds",
    "round": "{}/rounds/30", "why": "{}/rounds/30?why", "ahead": "{}/ahead?run=1&rounds=30&sensitivity=0.8",
    "compare": "{}/compare?policy=cucb", "history": "{}/history", "team": "{}/team", "agent": "{}/team?agent=agent-1",
}  # fmt: skip
README = (("known", "1280", 1250), ("plan", "1280", 1250), ("report", "360", 700))


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    code = SERVE.replace("sys.argv[1:]", '["serve", "--demo", "--port", "0"]')
    server = Server("", env={"HETEROBANDITS_OWNER_TOKEN": ""}, code=code)
    links = [server.process.stdout.readline().split()[-1] for _ in range(3)]
    scheme = "dark" if given.dark else "light"
    everything = tuple((name, width, None) for width in KINDS for name in PLACES)
    wanted = README if given.readme else everything
    with chromium() as browser:
        for width, kind in KINDS.items():
            with person(browser, kind, color_scheme=scheme) as who:
                who.go(links[0])  # the owner's
                who.page.wait_for_url(f"{server.url}/")
                campaign = who.page.locator("table a").first.get_attribute("href")
                for name, at, height in wanted:
                    if at != width:
                        continue
                    who.go(server.url + PLACES[name].format(campaign))
                    who.page.wait_for_timeout(200)
                    clip = {"x": 0, "y": 0, "width": int(width), "height": height}
                    how = {} if height is None else {"clip": clip}
                    path = given.folder / f"{name}-{width}.png"
                    who.page.screenshot(path=path, full_page=True, **how)
                    few = Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE)
                    few.save(path, optimize=True)  # a third of the bytes, and the same to look at
    server.end()


if __name__ == "__main__":
    main()
