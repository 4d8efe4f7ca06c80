"""The house is as its page says: folders with docstrings that CONTRIBUTING repeats, and tests in folders of the same names."""

import ast
import re
from collections import defaultdict

from paths import ROOT, TESTS

SOURCES = ROOT / "src" / "heterobandits"
FOLDERS = {
    path.parent.relative_to(SOURCES).as_posix(): path
    for path in sorted(SOURCES.rglob("__init__.py"))
    if path.parent != SOURCES
}


def test_contributing_says_of_every_folder_what_its_docstring_says():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([a-z_/]+)/` \| (.*) \|$", page, re.M))
    first_lines = {
        folder: ast.get_docstring(ast.parse(path.read_text("utf-8"))).partition("\n")[0]
        for folder, path in FOLDERS.items()
    }
    assert rows == first_lines


def test_every_folder_of_sources_is_a_package():
    with_modules = {path.parent.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py")}
    migrations = {folder for folder in with_modules if "migrations" in folder}
    assert with_modules - migrations == {*FOLDERS, "."}


def test_folders_of_tests_are_folders_of_sources():
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert folders <= {*FOLDERS, "."}
    assert {folder.partition("/")[0] for folder in FOLDERS} <= {
        f.partition("/")[0] for f in folders
    }


def test_a_helper_of_one_folder_of_tests_stands_in_it():
    users = {path.stem: set() for path in TESTS.glob("*.py") if not path.stem.startswith("test_")}
    for path in TESTS.rglob("*.py"):
        folder = path.relative_to(TESTS).parts[0]
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in users:
                users[node.module].add(folder)
    assert {name: found for name, found in users.items() if len(found) == 1} == {}


def test_a_name_of_a_class_is_that_of_one_class():
    found = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(SOURCES).as_posix())
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_a_function_of_a_module_has_a_name_of_its_own():
    allowed = {
        "ln_G"
    }  # the paper's symbol: the kernel, and the function that checks its arguments and is public
    found = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        if "migrations" in path.parts:  # of which Alembic calls an upgrade in each
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(SOURCES).as_posix())
    assert {name for name, places in found.items() if len(places) > 1} == allowed
