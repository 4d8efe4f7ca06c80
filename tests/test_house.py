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


NOT_UNIQUE = {
    "app": "the object that Typer and its documentation call so, in each module with commands",
    "router": "the object that FastAPI and its documentation call so, in each module with routes",
    "ln_G": "the paper's symbol: the kernel, and the public function that checks its arguments",
    "FEW": "of the core: how many are few, in two modules that count different things",
    "NODES": "of the core: the nodes of a quadrature",
    "WEIGHTS": "of the core: the weights of a quadrature",
}
NOUNS = {  # last words that only look like participles
    "seed": "a seed",
    "speed": "a speed",
}
PARTICIPLES = re.compile(
    r"(\w+ed|told|shown|held|kept|sent|found|made|given|seen|known|read|drawn|taken|built|done|gone|left|met|written|said"
    r"|begun|chosen|meant|lost|thrown|broken|paid|spent)"
)


def module_level_names():
    """Where each class, function and constant of a module is defined: (file, kind of statement), by name."""
    found = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        if "migrations" in path.parts:  # of which Alembic calls an upgrade in each
            continue
        place = path.relative_to(SOURCES).as_posix()
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name].append((place, type(node)))
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for part in (part for target in targets for part in ast.walk(target)):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        found[part.id].append((place, type(node)))
    return found


def test_a_name_of_a_module_is_that_of_one_thing():
    twice = {
        name: places
        for name, places in module_level_names().items()
        if not name.startswith("_") and len({place for place, _ in places}) > 1
    }
    assert {name: places for name, places in twice.items() if name not in NOT_UNIQUE} == {}
    assert set(NOT_UNIQUE) <= set(twice)  # none that is no exception any more
    assert len(NOT_UNIQUE) + len(NOUNS) <= 15


def test_a_function_is_called_by_a_verb_or_by_what_it_makes():
    functions = {
        name
        for name, places in module_level_names().items()
        for place, kind in places
        if kind in (ast.FunctionDef, ast.AsyncFunctionDef) and not place.startswith("core/")
    }
    last_words = {name: name.rpartition("_")[2] for name in functions}
    assert {
        name
        for name, word in last_words.items()
        if PARTICIPLES.fullmatch(word)
        and word not in NOUNS
        and not name.startswith(("is_", "has_", "_is_", "_has_"))
    } == set()
