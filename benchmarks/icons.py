"""Draw the icons that phones want as PNG from web/static/icon.svg, with Chromium: `python benchmarks/icons.py`, once after a change of the icon."""

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

STATIC = Path(__file__).parents[1] / "src/heterobandits/web/static"
GREEN = "#0b6e4f"
MASKABLE_SHARE = 0.72  # of the width: a phone may cut away all but a circle of four fifths

with sync_playwright() as driver:
    browser = driver.chromium.launch(
        executable_path=shutil.which("chromium"), args=["--no-sandbox"]
    )
    drawing = (STATIC / "icon.svg").read_text()
    for name, size, share in (
        ("icon-192", 192, 1),
        ("icon-512", 512, 1),
        ("icon-maskable-512", 512, MASKABLE_SHARE),
    ):
        page = browser.new_page(viewport={"width": size, "height": size})
        paper = "transparent" if share == 1 else GREEN
        inner = drawing.replace("<svg ", f'<svg width="{size * share}" height="{size * share}" ')
        page.set_content(
            f'<body style="margin:0;background:{paper};display:grid;place-items:center;height:100vh">{inner}'
        )
        page.screenshot(path=STATIC / f"{name}.png", omit_background=True)
    browser.close()
