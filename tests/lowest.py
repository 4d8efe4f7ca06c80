"""Prints the oldest versions that pyproject.toml allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in (*project["dependencies"], *project["optional-dependencies"]["dask"]):
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
    print(f"{name}=={version}")
