"""The cache of compiled kernels: never old, never damaged, never another rule's; nothing is compiled twice."""

import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys

import pytest
from numba import config

from heterobandits import CATALOGUE, core
from heterobandits.core import compiled

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


def run_python(code, *args, **environment):
    """What a process of its own, whose kernels are cached in a folder of their own, prints as JSON."""
    variables = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True, text=True, timeout=300, check=True, env=variables | environment,
    )  # fmt: skip
    return json.loads(done.stdout)


class TestEdits:
    """Compiled kernels are kept on disk, and never used when they are old or damaged."""

    # A core of two files, so that compiling it takes no time: the equation, and the loop that calls it.
    RULES = """
from core.compiled import inlined
@inlined
def index(x):
    return 2.0 * x
"""
    LOOPS = """
from core.compiled import compiled
from core.rules import index
@compiled
def total(values):
    sum_ = 0.0
    for x in values:
        sum_ += index(x)
    return sum_
"""
    CODE = """
import json
import numpy as np
from core.compiled import is_ready
from core.loops import total
cached = is_ready(total)
sum_ = total(np.arange(4.0))
print(json.dumps([cached, sum_, sum(total.stats.cache_hits.values())]))
"""

    @pytest.fixture
    def small(self, tmp_path):
        """Its folder."""
        folder = tmp_path / "core"
        folder.mkdir()
        (folder / "__init__.py").touch()
        shutil.copy(compiled.__file__, folder / "compiled.py")
        (folder / "rules.py").write_text(self.RULES)
        (folder / "loops.py").write_text(self.LOOPS)
        return folder

    def run(self, folder):
        """Whether compiled code was there, what it gave, and how often it came from the cache."""
        return run_python(self.CODE, PYTHONPATH=str(folder.parent))

    @pytest.mark.slow
    def test_an_edited_rule_and_a_damaged_cache_are_compiled_anew(self, small):
        assert self.run(small) == [False, 12.0, 0]
        assert self.run(small) == [True, 12.0, 1]

        # The edit is in another file than the loop that is compiled and cached.
        (small / "rules.py").write_text(self.RULES.replace("2.0", "3.0"))
        assert self.run(small) == [False, 18.0, 0]
        assert self.run(small) == [True, 18.0, 1]

        kept = [*small.rglob("*.nbi"), *small.rglob("*.nbc")]
        assert {path.suffix for path in kept} == {".nbi", ".nbc"}
        for path in kept:
            path.write_bytes(path.read_bytes()[:50])
        assert self.run(small) == [False, 18.0, 0]

    @pytest.mark.slow
    def test_compiled_code_alone_may_be_damaged(self, small):
        """The index is whole, so that something seems to be there."""
        assert self.run(small) == [False, 12.0, 0]
        for path in small.rglob("*.nbc"):
            path.write_bytes(path.read_bytes()[:50])
        assert self.run(small) == [True, 12.0, 0]

    def test_every_kernel_is_kept_that_way(self):
        """No kernel has numba's own cache, which does not see an edit in another file, or none at all."""
        seen = 0
        for module in pkgutil.iter_modules(core.__path__):
            for thing in vars(importlib.import_module(f"{core.__name__}.{module.name}")).values():
                dispatcher = getattr(thing, "dispatcher", thing)
                if (
                    hasattr(dispatcher, "py_func")
                    and dispatcher.targetoptions.get("inline") is None
                ):
                    assert type(dispatcher._cache) is compiled.KernelCache, dispatcher
                    seen += 1
        for entry in CATALOGUE.values():
            assert type(entry.rule.fill.dispatcher._cache) is compiled.KernelCache
        assert seen >= 10


# What it plays, and what it compiled for that: of every function that was compiled or loaded its
# signatures, and how many of them were found in the cache and how many not.
PLAY = """
import importlib, json, pkgutil, sys
from numba.core.dispatcher import Dispatcher
from heterobandits import CATALOGUE, Problem, core, policy, simulate
from heterobandits.simulation.engine import has_compiled_kernels
names = sys.argv[1:]
cached = has_compiled_kernels([policy(name) for name in names])
for name in names:  # all before the first is played, as when planners have used them
    policy(name).rule.fill.compile()
sizes = [Problem([0.9, 0.2, 0.6], [0.5, 0.8]),
         Problem([0.3, 0.9, 0.2, 0.6, 0.5], [0.5, 0.8, 0.8])]
runs = [simulate(problem, names, 60, 50, keep="all") for problem in sizes]
made = {}
for module in (importlib.import_module("heterobandits.core." + m.name)
               for m in pkgutil.iter_modules(core.__path__)):
    for thing in vars(module).values():
        if isinstance(thing, Dispatcher) and thing.targetoptions.get("inline") != "always":
            made[thing.py_func.__module__ + "." + thing.py_func.__qualname__] = thing
for entry in CATALOGUE.values():
    made["rule of " + entry.name] = entry.rule.fill.dispatcher
    if entry.rule.band is not None:
        made["band of " + entry.name] = entry.rule.band.fill.dispatcher
print(json.dumps({
    "cached": cached,
    "regrets": {name: [run.regrets(name).tolist() for run in runs] for name in names},
    "made": {name: [len(thing.signatures), sum(thing.stats.cache_hits.values()),
                    sum(thing.stats.cache_misses.values())]
             for name, thing in made.items() if thing.signatures},
}))
"""
FAMILIES = {name: entry.rule.fill.dispatcher.py_func.__code__ for name, entry in CATALOGUE.items()}
# Rules of two families, each with several equations in one loop.
ALIKE = [
    name
    for name in FAMILIES
    if FAMILIES[name] in (FAMILIES["min-width"], FAMILIES["oracle"]) and not CATALOGUE[name].forgets
]


def play(cache, *names):
    return run_python(PLAY, *names, NUMBA_CACHE_DIR=str(cache))


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """A cache that begins empty, and what was played then: all alike at once."""
    cache = tmp_path_factory.mktemp("cold")
    return cache, play(cache, *ALIKE)


@pytest.fixture(scope="module")
def alone(cold, tmp_path_factory):
    """A cache without any rule, and what was played then: one of them alone, neither the first nor the last of its family."""
    cache = tmp_path_factory.mktemp("alone") / "cache"
    shutil.copytree(cold[0], cache, ignore=shutil.ignore_patterns("*locals.fill*"))
    return cache, play(cache, "mixture-width")


class TestCounts:
    """Compilations are counted."""

    @pytest.mark.slow
    def test_a_kernel_is_compiled_once_for_all_problems_and_policies(self, cold):
        _, played = cold
        assert not played["cached"]
        assert len(ALIKE) >= 5
        made = played["made"]
        rounds = "heterobandits.core.rounds."
        for name in (f"{rounds}play_trials", *(f"rule of {name}" for name in ALIKE)):
            assert made[name] == [1, 0, 1]
        assert {name for name, counts in made.items() if counts != [1, 0, 1]} == set()

    @pytest.mark.slow
    def test_the_next_process_compiles_nothing(self, cold):
        cache, played = cold
        again = play(cache, *ALIKE[::-1])
        assert again["cached"]
        assert again["regrets"] == played["regrets"]
        for name in (
            "heterobandits.core.rounds.play_trials",
            *(f"rule of {name}" for name in ALIKE),
        ):
            assert again["made"][name] == [1, 1, 0]
        assert {name for name, counts in again["made"].items() if counts != [1, 1, 0]} == set()

    @pytest.mark.slow
    def test_a_run_compiles_only_what_it_plays(self, alone):
        _, played = alone
        rules = {name for name in played["made"] if name.startswith(("rule of ", "band of "))}
        assert rules == {"rule of mixture-width"}
        strangers = ("core.likelihood.", "core.posterior.", "likelihood.<locals>", "choose_")
        assert [n for n in played["made"] if any(part in n for part in strangers)] == []


class TestFamilies:
    """Rules of a family are one function with another equation inside: none may be taken for another."""

    def test_they_differ_in_what_is_played(self, cold):
        regrets = cold[1]["regrets"]
        assert len({json.dumps(regrets[name]) for name in ALIKE}) == len(ALIKE)

    @pytest.mark.nightly
    @pytest.mark.parametrize("order", [1, -1])
    def test_one_from_the_cache_is_itself_whatever_is_compiled_beside_it(
        self, cold, alone, tmp_path, order
    ):
        wanted, first = cold[1]["regrets"], alone[1]["regrets"]
        assert first == {"mixture-width": wanted["mixture-width"]}
        cache = tmp_path / "cache"
        shutil.copytree(alone[0], cache)
        assert play(cache, *ALIKE[::order])["regrets"] == wanted
        assert play(cache, *ALIKE[::-order])["regrets"] == wanted

    @pytest.mark.nightly
    def test_those_compiled_in_different_processes_meet_in_one(self, cold, alone, tmp_path):
        """Numba numbers what it compiles in a process: here several come by the same number."""
        wanted = cold[1]["regrets"]
        cache = tmp_path / "cache"
        shutil.copytree(alone[0], cache)
        some = ALIKE[:2] + ALIKE[-1:]
        for name in some:
            assert play(cache, name)["regrets"] == {name: wanted[name]}
        for names in (some, some[::-1]):
            played = play(cache, *names)
            assert played["regrets"] == {name: wanted[name] for name in names}
            assert {misses for _, _, misses in played["made"].values()} == {0}


def test_a_kernel_of_kernels_says_that_python_cannot_call_it():
    """It has no way in: it would end in a crash."""

    @compiled.inner
    def twice(x):
        return 2 * x

    @compiled.compiled
    def four_times(x):
        return twice(twice(x))

    assert four_times(3) == 12
    with pytest.raises(TypeError, match="twice is called by kernels alone"):
        twice(3)
