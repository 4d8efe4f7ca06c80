"""Campaigns to begin with: agents and arms of a park, a campus and a platform, as TOML files that come with the library."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from heterobandits.errors import unknown_name


def template_files() -> dict[str, Path]:
    """The template files by name."""
    folder = Path(str(resources.files("heterobandits.campaigns.files") / "examples"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_template(name: str) -> dict[str, Any]:
    """One template as `service.create` takes it: agents, arms, the season if it has an end, and what all these are best called."""
    known = template_files()
    if name not in known:
        raise unknown_name("template", name, list(known))
    return tomllib.loads(known[name].read_text("utf-8"))
