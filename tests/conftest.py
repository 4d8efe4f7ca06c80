"""What all tests share: hypothesis profiles, the seed of stochastic tests, the COVID problem, the paper's figures.

A stochastic test must pass for any seed from 0 to 99: set HETEROBANDITS_TEST_SEED to try one.
"""

import faulthandler
import os
import signal
from dataclasses import replace

import matplotlib as mpl
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

from evidence import run_fresh
from heterobandits import Problem
from heterobandits.experiments.catalogue import FIGURES, SYNTHETIC
from heterobandits.output.files import FIGURE_FORMATS
from postgres import database, postgres  # noqa: F401 - fixtures

mpl.use("Agg")  # no test may need a screen

# Kernels compile on first use, so no example has a deadline.
settings.register_profile("local", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.differing_executors],  # planted faults are tried in one process
)  # fmt: skip
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


# Where the tests run in the background interrupts may be ignored, and what they start would ignore them too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--seeded", action="store_true", help="only the tests that take the seed")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--seeded"):
        chosen = [item for item in items if "seed" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


@pytest.fixture
def ends(request):
    """The test ends by itself, or its process is ended after a while and says where it was: for runs that would go on for hours."""
    stderr = request.config.stash[fault_handler_stderr_fd_key]  # what pytest does not capture
    faulthandler.dump_traceback_later(300, exit=True, file=stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def called(capsys):
    """The command line without the cost of a process: exit code, stdout, stderr."""
    from heterobandits.cli import main

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return call


@pytest.fixture
def svg_alone(monkeypatch):
    """Figures are written as SVG alone: the other formats take most of the time, and few tests look at them."""
    for kind in ("png", "pdf"):
        monkeypatch.delitem(FIGURE_FORMATS, kind)


@pytest.fixture(scope="session")
def seed():
    """The seed of stochastic tests."""
    value = int(os.environ.get("HETEROBANDITS_TEST_SEED", "0"))
    assert 0 <= value <= 99, "HETEROBANDITS_TEST_SEED is a number from 0 to 99"
    return value


@pytest.fixture(scope="session")
def covid():
    """The paper's COVID test allocation: five tests of two kinds for six floors."""
    return Problem(
        means=[0.05, 0.1, 0.12, 0.15, 0.25, 0.3], sensitivities=[0.8, 0.8, 0.8, 0.95, 0.95]
    )


@pytest.fixture(scope="session")
def figures(seed):
    """All figures with few trials; more for the cases, whose differences are the smallest."""
    chosen = [
        replace(e, trials=400 if e.problem.agents == 5 and e.horizon == 300 else 150)
        for e in FIGURES
    ]
    return run_fresh(chosen, seed)


@pytest.fixture(scope="session")
def synthetic(seed):
    """All settings of the synthetic table, for a short while."""
    return run_fresh([replace(e, horizon=3000, trials=32) for e in SYNTHETIC], seed)
