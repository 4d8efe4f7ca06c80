"""The documentation is true: its examples run, and nothing a user can type is missing from it."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_command

from heterobandits import Problem
from heterobandits.policies.policy import CATALOGUE
from paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = {
    page.stem: codes
    for page in PAGES
    if (codes := re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S))
}
RUN_EACH = """
import json, os, sys
for number, code in enumerate(json.load(sys.stdin)):
    os.mkdir(str(number))
    os.chdir(str(number))
    exec(compile(code, f"example {number}", "exec"), {"__name__": "__main__"})
    os.chdir("..")
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_python_examples_run(page: str, tmp_path: Path) -> None:
    """Each in a folder and with names of its own, all of a page in one process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_EACH], input=json.dumps(EXAMPLES[page]),
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def shell_examples() -> list[str]:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("heterobandits ")]


@pytest.mark.slow
@pytest.mark.parametrize("line", shell_examples())
def test_shell_examples_run(line, called, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = called(*line.split()[1:])
    assert code == 0, err
    assert out


def test_the_tables_of_commands_are_those_that_would_be_written() -> None:
    """Run `python docs/command_reference.py` after a command or its options changed."""
    from heterobandits.cli.commands import app

    script = runpy.run_path(str(ROOT / "docs" / "command_reference.py"))
    page = script["PAGE"].read_text("utf-8")
    assert script["render_page"](page) == page
    sections = re.findall(r"^## `heterobandits ([\w-]+)`$", page, re.M)
    assert sorted(sections) == sorted(get_command(app).commands)
    assert re.findall(r"^<!-- options of ([\w-]+) -->$", page, re.M) == sections


def test_the_policies_in_the_readme_are_the_catalogue() -> None:
    """Paste what `heterobandits policies --format markdown` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "heterobandits", "policies", "--format", "markdown"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [f"| `{name}` |" in done.stdout for name in CATALOGUE] == [True] * len(CATALOGUE)
    assert f"\n{done.stdout}\n" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("table", ["covid 5×6", "16 over 1"])
def test_tables_of_speed_have_every_policy(table: str) -> None:
    page = (ROOT / "docs" / "engine.md").read_text("utf-8")
    (rows,) = (part for part in page.split("\n\n") if part.startswith("|") and table in part)
    assert re.findall(r"^\| `([\w-]+)` \|", rows, re.M) == list(CATALOGUE)


def test_links_lead_somewhere() -> None:
    links = [
        (page, target)
        for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8"))
        if "://" not in target
    ]
    assert links
    assert [target for page, target in links if not (page.parent / target).exists()] == []


def test_problem_files_are_shown_with_every_field() -> None:
    """Each example is a problem, and every field a problem can have stands in one."""
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    files = re.findall(r"```toml\n(.*?)```", page, re.S)
    assert len(files) >= 4
    for text in files:
        assert Problem.from_toml(text).agents == 2
    shown = {field for text in files for field in tomllib.loads(text)}
    assert shown == {field.name for field in fields(Problem)}


@pytest.mark.parametrize(
    "shape",
    [
        "RoundJson", "AssignmentJson", "VisitJson", "PreviewJson", "PricesJson", "PriceJson", "WhyJson", "EstimateJson", "AnswersJson", "ChangeJson", "ShadowJson",
        "ArmJson", "SensitivitiesJson", "SensitivityJson", "ShadowedJson", "ProjectionJson", "WorthJson",
    ],
)  # fmt: skip
def test_answers_are_shown_with_every_field(shape: str) -> None:
    from heterobandits.campaigns import responses_schema

    page = (ROOT / "docs" / "http-api.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| `{shape}` \| (.*) \|$", page, re.M)
    assert set(re.findall(r"`(\w+)`", row)) == set(getattr(responses_schema, shape).__annotations__)


def test_the_comparison_of_the_readme_prints_what_its_comments_promise(tmp_path):
    """A row for each policy, and one number."""
    text = (ROOT / "README.md").read_text("utf-8")
    (code,) = (one for one in re.findall(r"```python\n(.*?)```", text, re.S) if "to_frame()" in one)
    done = subprocess.run(
        [sys.executable, "-c", code.replace("trials=2000", "trials=20")],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    _, *rows, number = done.stdout.splitlines()
    assert [row.split()[1] for row in rows] == ["min-width", "min-ucb", "cucb"]
    assert {row.split()[2] for row in rows} == {"300"}
    assert isinstance(float(number), float)
    assert (tmp_path / "regret.png").stat().st_size > 0
