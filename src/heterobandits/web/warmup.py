"""Kernels are loaded before a request needs them: a tiny campaign is planned and looked at with every policy there is.

What this machine has compiled before is loaded before the server answers, which takes a second or two. What is missing takes
minutes, so a process of its own compiles it into the cache, rule after rule, while the server answers already; each process that
answers then loads from the cache, in a thread, what is there. Compiling in that thread would take the interpreter from all requests.
Until a rule is loaded, the requests that need it are told how long it takes.
"""

import math
import mmap
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from numba.core import event

from heterobandits.campaigns import service
from heterobandits.campaigns.analysis.answers import answers
from heterobandits.campaigns.analysis.estimates import estimates
from heterobandits.campaigns.analysis.prices import prices
from heterobandits.campaigns.analysis.projection import project
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.outcomes import outcome_drafts
from heterobandits.campaigns.plan_events import explanations_of_plan
from heterobandits.campaigns.reducer import policy_body, state_after_drafts
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import parse_policy
from heterobandits.core.assignment import sort_by_ranks
from heterobandits.core.compiled import KernelCache, is_ready
from heterobandits.policies.catalogue import RECOMMENDED_FOR_HORIZON
from heterobandits.policies.policy import CATALOGUE

COMPILER_NICENESS = 10  # of the process that compiles: answers come first
COMPILER_POLL_S = 0.2  # seconds between looks whether one more rule is compiled
# of all that is compiled, what the first rule needs, as others need most of it too
FIRST_RULE_SHARE = 1 / 3
LOADING_END_TIMEOUT_S = 2.0  # that a server which ends waits for the rule that is just being loaded
WARMUP_RETRY_AFTER_S = 20  # while nothing can be said of how long it takes
WARMUP_RETRY_AFTER_MAX_S = 60  # after which a client asks again in any case
WARMUP_SEASON_ROUNDS = 3
WARMUP_AGENTS = (  # all ways to report
    {"name": "a", "sensitivity": 0.9},
    {"name": "b", "sensitivity": 0.5, "false_positive_rate": 0.1, "tests": 2},
    {"name": "c", "calibration": [17, 20]},
)
WARMUP_CIRCUMSTANCES: dict[str, Any] = {"forbidden": [("a", "w")], "absent": ["c"]}


class WarmupProgress(NamedTuple):
    """How many rules can be used, of how many, and about how many seconds the rest takes; None while nobody knows."""

    done: int
    total: int
    seconds: float | None

    @property
    def text(self) -> str:
        """The same in words.

        >>> WarmupProgress(14, 21, 55.0).text
        '14 of 21 rules compiled; about a minute left'
        """
        return f"{self.done} of {self.total} rules compiled; {render_wait(self.seconds)}"

    @property
    def retry_after(self) -> int:
        """After how many seconds it is worth asking again."""
        if self.seconds is None:
            return WARMUP_RETRY_AFTER_S
        return max(1, min(WARMUP_RETRY_AFTER_MAX_S, math.ceil(self.seconds)))


class MissingKernel(Exception):
    """A kernel that this machine has not compiled yet."""


class CompileListener(event.Listener):
    """Stops whatever is about to compile a kernel, and remembers it, as the exception may get lost on its way through C."""

    def __init__(self) -> None:
        self.heard = False

    def on_start(self, one: event.Event) -> None:
        """A kernel was not in the cache; small ones that others are made of are compiled in every process."""
        if isinstance(one.data["dispatcher"]._cache, KernelCache):
            self.heard = True
            raise MissingKernel

    def on_end(self, one: event.Event) -> None:
        """And was not compiled."""


@contextmanager
def without_compiling() -> Iterator[CompileListener]:
    """Within this context no kernel is compiled."""
    listener = CompileListener()
    with event.install_listener("numba:compile", listener):
        yield listener


def load_rule(rule: str) -> None:
    """Do once everything that a request about a campaign with this policy may need."""
    exercise_state(play_campaign(rule))
    if rule == RECOMMENDED_FOR_HORIZON:
        project(play_campaign(rule), rounds=1, draws=2)


def load_kernels() -> None:
    """Do once everything that a request may need, compiling what is missing."""
    for rule in rules_to_load():
        load_rule(rule)


def rules_to_load() -> list[str]:
    """The policies that a campaign may have; first the one that most have."""
    rules = [name for name, entry in CATALOGUE.items() if not entry.simulated_only]
    return sorted(rules, key=lambda name: name != RECOMMENDED_FOR_HORIZON)


class Warmup:
    """How far the kernels are: rules are loaded in order, into every process that answers.

    Make it before other processes and threads are there: what the process that compiles says is seen by all that are forked later.
    """

    def __init__(self, rules: list[str] | None = None) -> None:
        self.rules = rules_to_load() if rules is None else rules
        self.loaded = 0  # rules, in this process
        self.compiler: int | None = (
            None  # the process that compiles, while it is this one's to wait for
        )
        self._compiled = mmap.mmap(-1, 1)  # rules, as that process says
        self._compiler_ends = -1  # where reading comes to an end once it has ended
        self._known = 0  # rules that were compiled before
        self._began = time.monotonic()
        self._ending = threading.Event()

    @property
    def progress(self) -> WarmupProgress:
        """How far they are."""
        total = len(self.rules)
        done = max(self.loaded, self._compiled[0])
        before = work_share(self._known, total)
        now = work_share(done, total)
        took = time.monotonic() - self._began
        return WarmupProgress(
            done, total, took * (1 - now) / (now - before) if now > before else None
        )

    @property
    def ready(self) -> bool:
        """Whether every rule is loaded."""
        return self.loaded == len(self.rules)

    def has_rule(self, rule: str) -> bool:
        """Whether a campaign with this policy can be planned."""
        return self.ready or rule in self.rules[: self.loaded]

    def load_compiled(self) -> None:
        """Load what this machine has compiled before, in order, up to the first rule of which something is missing."""
        # without the first of all kernels there is little to be loaded
        for rule in self.rules if is_ready(sort_by_ranks) else ():
            with without_compiling() as listener:
                try:
                    load_rule(rule)
                except Exception:
                    if not listener.heard:
                        raise
            if listener.heard:
                break
            self.loaded += 1
        self._began = time.monotonic()
        self._known = self._compiled[0] = self.loaded

    def start_compiler(self) -> None:
        """Fork a process that compiles the rest into the cache, and ends when all others have."""
        if self.ready or not is_cache_kept():
            return
        ends, says_end = os.pipe()
        # whose other end stays open as long as one of the others is there
        lives, _ = os.pipe()
        self.compiler = os.fork()
        if self.compiler:
            os.close(says_end)
            os.close(lives)
            self._compiler_ends = ends
            return
        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C is for the first process alone
            for ending in (signal.SIGTERM, signal.SIGINT):
                signal.signal(ending, signal.SIG_DFL)
            close_all_but(lives, says_end)  # nobody is answered at what this server listens at
            os.nice(COMPILER_NICENESS)
            threading.Thread(target=exit_after, args=(lives,), daemon=True).start()
            for number in range(self.loaded, len(self.rules)):
                load_rule(self.rules[number])
                self._compiled[0] = number + 1
            code = 0
        finally:
            os._exit(code)

    def end_compiler(self) -> None:
        """End the process that compiles; what it has saved is whole, and the rest is compiled another time."""
        if self.compiler is None:
            return
        with suppress(ProcessLookupError, ChildProcessError):  # somebody has waited for all
            if not self._compiler_has_ended(0.0):  # and its number may be another's by now
                os.kill(self.compiler, signal.SIGKILL)
            os.waitpid(self.compiler, 0)
        self.compiler = None

    def _compiler_has_ended(self, seconds: float) -> bool:
        """Whether the process that compiles has ended, or does so within this time."""
        return bool(select.select([self._compiler_ends], [], [], seconds)[0])

    def load_until(self, rule: str) -> None:
        """Load rules until a campaign with this policy can be planned."""
        while not self.has_rule(rule):
            self.load_next()

    def load_next(self) -> None:
        """Load one more rule once it is compiled. If nobody compiles it any more this process does, more slowly for all who ask."""
        number = self.loaded
        while self._compiled[0] <= number and self._compiler_ends >= 0:
            if self._ending.is_set():
                return
            if self._compiler_has_ended(COMPILER_POLL_S):
                break
        load_rule(self.rules[number])
        self.loaded = number + 1

    @contextmanager
    def loading(self, note: Callable[[str], None]) -> Iterator[None]:
        """Within this context, a thread loads the rest."""

        def load() -> None:
            began = time.monotonic()
            while not self.ready and not self._ending.is_set():
                self.load_next()
            if self.ready:
                note(f"all rules are compiled and loaded, after {time.monotonic() - began:.0f} s")

        thread = threading.Thread(target=load, daemon=True)
        if not self.ready:
            thread.start()
        try:
            yield
        finally:
            self._ending.set()
            if thread.is_alive():
                thread.join(LOADING_END_TIMEOUT_S)


def render_wait(seconds: float | None) -> str:
    """How long something still takes, as people say it.

    >>> [render_wait(seconds) for seconds in (None, 3.0, 34.0, 70.0, 130.0)]
    ['a few minutes left', 'a few seconds left', 'about 35 seconds left', 'about a minute left', 'about 2 minutes left']
    """
    if seconds is None:
        return "a few minutes left"
    if seconds < 10:
        return "a few seconds left"
    if seconds < 52:
        return f"about {5 * math.ceil(seconds / 5)} seconds left"
    minutes = round(seconds / 60)
    return "about a minute left" if minutes == 1 else f"about {minutes} minutes left"


def prepare_kernels(note: Callable[[str], None]) -> Warmup:
    """Load what this machine has compiled before, and have the rest compiled."""
    began = time.monotonic()
    kernels = Warmup()
    kernels.load_compiled()
    took = f"loaded in {time.monotonic() - began:.1f} s"
    if kernels.ready:
        note(took)
    else:
        total = len(kernels.rules)
        note(
            f"{kernels.loaded} of {total} rules {took}; the others are compiled meanwhile, once on a machine, which takes some minutes"
        )
        kernels.start_compiler()
    return kernels


def work_share(rules: int, total: int) -> float:
    """About which part of all compiling so many rules take, of so many.

    >>> work_share(0, 21), work_share(21, 21)
    (0.0, 1.0)
    """
    if rules == 0:
        return 0.0
    return FIRST_RULE_SHARE + (1 - FIRST_RULE_SHARE) * (rules - 1) / max(1, total - 1)


def is_cache_kept() -> bool:
    """Whether what one process compiles is there for others: some folder can be written to."""
    return isinstance(getattr(sort_by_ranks, "_cache", None), KernelCache)


def close_all_but(*kept: int) -> None:
    """Close all files of this process but these, and what it reads from and prints to."""
    begin = 3
    for number in sorted(kept):
        os.closerange(begin, number)
        begin = number + 1
    os.closerange(begin, os.sysconf("SC_OPEN_MAX"))


def exit_after(reader: int) -> None:
    """End this process at once when nobody can write to a pipe any more."""
    os.read(reader, 1)
    os._exit(1)


def play_campaign(policy: str) -> State:
    """A throwaway campaign after one round; while it waited, another was planned."""
    body = {
        "name": "to load kernels",
        "agents": list(WARMUP_AGENTS),
        "arms": [{"name": name} for name in "wxyz"],
        "policy": policy_body(parse_policy(policy, season=WARMUP_SEASON_ROUNDS)),
        "seed": 0,
        "season": WARMUP_SEASON_ROUNDS,
    }
    state = state_after_drafts(None, [Draft("created", body)])
    planned = service.preview(state).body
    state = state_after_drafts(state, [Draft("round planned", planned)])
    service.preview(state)  # with visits under way
    told = outcome_drafts(state, "reported", 1, {"a": 1, "b": (1, 2), "c": 0})
    return state_after_drafts(state, told)


def exercise_state(state: State) -> None:
    """Plan the next round with and without circumstances, and ask all there is to ask."""
    for circumstances in ({}, WARMUP_CIRCUMSTANCES):
        made = service.preview(state, **circumstances)
        explanations_of_plan(state, made.plan)
        prices(state, made.given, made.plan)
    estimates(state)
    answers(state)
