"""What numbers were made with is found out wherever in the package the module that asks stands."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

import heterobandits
from heterobandits import provenance
from heterobandits.campaigns.audit import report
from heterobandits.provenance import PACKAGE_FOLDER, digest_of_sources, is_installed

HERE = Path(heterobandits.__file__).parent


def test_the_package_is_all_of_it():
    assert PACKAGE_FOLDER == HERE
    assert {"core", "campaigns"} <= {path.name for path in PACKAGE_FOLDER.iterdir()}


@pytest.fixture
def moved(tmp_path):
    """The same module, standing somewhere else."""
    elsewhere = tmp_path / "deep" / "down" / "provenance.py"
    elsewhere.parent.mkdir(parents=True)
    shutil.copyfile(provenance.__file__, elsewhere)
    spec = importlib.util.spec_from_file_location("moved_provenance", elsewhere)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_what_is_installed_does_not_depend_on_where_the_module_stands(moved, tmp_path):
    for module in (provenance, moved):
        assert module.is_installed(str(HERE / "errors.py"))
        assert module.is_installed(str(HERE / "core" / "rounds.py"))
        assert module.is_installed(pytest.__file__)
        assert not module.is_installed(str(tmp_path / "deep" / "mine.py"))


def test_a_neighbour_with_a_longer_name_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "PACKAGE_FOLDER", tmp_path / "heterobandits")
    assert is_installed(str(tmp_path / "heterobandits" / "errors.py"))
    assert not is_installed(str(tmp_path / "heterobandits_of_somebody_else.py"))


def test_what_somebody_has_made_is_not_installed(tmp_path):
    assert not is_installed(__file__)
    assert not is_installed(str(tmp_path / "policy.py"))


def test_a_fingerprint_follows_what_is_ones_own_and_knows_ours_by_name(moved):
    def mine(known):
        return heterobandits.policy("min-width").index(known)

    def other(known):
        return heterobandits.policy("min-ucb").index(known)

    assert moved.fingerprint(mine) == provenance.fingerprint(mine)
    assert provenance.fingerprint(mine) != provenance.fingerprint(other)


@pytest.mark.parametrize(
    "file", ["planner.py", "campaigns/auditing.py", "a/b/deeper.py", "templates/audit.html"]
)
def test_any_source_however_deep_changes_the_digest(tmp_path, file):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "other.py").write_text("0\n")
    path.write_text("1\n")
    before = digest_of_sources(tmp_path)
    path.write_text("2\n")
    changed = digest_of_sources(tmp_path)
    path.rename(path.with_name(f"moved_{path.name}"))
    assert len({before, changed, digest_of_sources(tmp_path)}) == 3


def test_an_audit_bears_the_digest_of_all_sources():
    assert report.audit_maker().endswith(f", sources {digest_of_sources()}")
    assert digest_of_sources() == digest_of_sources(HERE)
