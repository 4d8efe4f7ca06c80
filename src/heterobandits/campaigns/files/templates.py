"""Campaigns to begin with: agents and arms of a park, a campus and a platform, as TOML files that come with the library."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from heterobandits.errors import unknown


def template_files() -> dict[str, Path]:
    """The files, by name."""
    folder = Path(str(resources.files("heterobandits.campaigns.files") / "examples"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def example(name: str) -> dict[str, Any]:
    """What `service.create` takes of one of them: agents, arms, and the season if it has an end."""
    known = template_files()
    if name not in known:
        raise unknown("template", name, list(known))
    return tomllib.loads(known[name].read_text("utf-8"))
