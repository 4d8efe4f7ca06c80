"""The engine: one shard, a range of trials of one problem, played to all its checkpoints.

A shard is data and can be played anywhere: `play_shard` gives exact sums of the regrets of all its policies on the
same luck, and nothing in them depends on how trials are cut into shards, or shards into blocks. For every
policy of the catalogue it is one call into compiled code, which does not hold the interpreter lock.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import BigIntegers, Counts, Floats, LearningTable
from heterobandits.caches import cached_property
from heterobandits.core import rounds as kernels
from heterobandits.core.assignment import table
from heterobandits.core.beliefs import belief_room
from heterobandits.core.compiled import is_ready
from heterobandits.core.filtered import MOST_STATES, NOTHING, Few, cell_bytes, cells, few_states
from heterobandits.core.randomness import (
    WORD_SIZE,
    luck_of_tests,
    round_words,
    slots,
    words_needed,
)
from heterobandits.core.seen import log_row, see
from heterobandits.core.work import desk
from heterobandits.errors import InvalidInput
from heterobandits.interrupts import remember_interrupts
from heterobandits.model.belief_cells import belief_cells
from heterobandits.model.prior import Prior
from heterobandits.model.problem import Problem
from heterobandits.model.team import Team
from heterobandits.policies.policy import Policy, WordsFunction, all_assignments
from heterobandits.simulation.delays import LateOutcomes
from heterobandits.simulation.results import binary_places

Control = npt.NDArray[np.int64]
Marks = npt.NDArray[np.int64]

BLOCK_BYTES = 2**21  # a block's tables should stay in a core's own cache, or nearly
WINDOW_BYTES = 2**26  # what a block may remember of the rounds of a window
BLOCK_MIN_LANES = 16
BLOCK_MAX_LANES = 512
KERNEL_CALL_MAX_ROUNDS = 2**17  # more log terms than this are not kept


def new_control() -> Control:
    """An array shared by a thread that plays and one that watches: a wish to stop, rounds played, and doubts."""
    return np.zeros(3, np.int64)


def count_doubts(control: Control) -> int:
    """The number of trial-rounds of filtered rules that needed exact numbers."""
    return int(control[kernels.DOUBTS])


def request_stop(control: Control) -> None:
    """Ask whoever plays under this control to stop before the next round."""
    control[kernels.STOP] = 1


def is_stopped(control: Control) -> bool:
    """Whether somebody asked to stop."""
    return bool(control[kernels.STOP])


def count_played_rounds(control: Control) -> int:
    """The trial-rounds played under this control."""
    return int(control[kernels.DONE])


class Truth(NamedTuple):
    """What is true of a problem, stretch by stretch of rounds, as `rounds.World` has it."""

    starts: npt.NDArray[np.int64]
    mu: Floats
    threshold: npt.NDArray[np.int64]
    gap: Floats


@lru_cache(
    maxsize=2
)  # of several tests they take a while, and are the same for all policies of a run
def truth_of(problem: Problem, rounds: int) -> Truth:
    """What is true of a problem in all rounds up to this one."""
    team = problem.true_team
    stretches = problem.stretches(rounds)
    mu = np.ascontiguousarray(stretches.means)
    best = np.empty((len(mu), problem.agents))
    best[:, team.order] = np.sort(mu, axis=1)[:, ::-1][:, : problem.agents]
    reported = team.offset[:, None] + team.slope[:, None] * mu[:, None, :]
    return Truth(
        starts=np.asarray(stretches.starts, np.int64),
        mu=mu,
        threshold=success_thresholds(reported, problem.tests),
        gap=team.worth[:, None] * (best[:, :, None] - mu[:, None, :]),
    )


@dataclass(frozen=True)
class PolicyWorld:
    """A problem as one policy meets it, up to some round.

    Outcomes become known `delay` rounds late; whether what is expected of visits under way is `counted` until then.
    """

    problem: Problem
    policy: Policy
    rounds: int = 1
    delay: int = 0
    counted: bool = True

    def __post_init__(self) -> None:
        self.policy.check_size(self.problem.agents, self.problem.arms)
        if self.waits and self.policy.index_per == "assignment":
            raise InvalidInput(
                f"{self.policy.name} {self.policy.simulated_only}: it can be simulated without a delay alone"
            )

    @property
    def waits(self) -> bool:
        """Whether the policy waits for outcomes; one that learns nothing does not."""
        return self.delay > 0 and self.policy.learns

    @cached_property
    def team(self) -> Team:
        """The agents as the policy believes them to be; one that knows the means knows them as they are."""
        problem = self.problem
        return problem.true_team if self.policy.needs_means else problem.team

    @cached_property
    def assignments(self) -> Counts:
        """All assignments, for a policy that ranks those; else none.

        They are numbered by the arms of the agents as they pick: listing these otherwise changes no luck.
        """
        A, N = self.problem.agents, self.problem.arms
        if self.policy.index_per != "assignment":
            return np.empty((0, A), np.int32)
        return np.ascontiguousarray(all_assignments(A, N)[:, np.argsort(self.team.order)])

    @cached_property
    def arrays(self) -> kernels.World:
        """The same for the kernels."""
        problem, policy = self.problem, self.policy
        true = truth_of(problem, 1 if problem.drift is None else self.rounds)
        where = slots(problem.agents, problem.arms)
        ranked = len(self.assignments) > 0
        return kernels.World(
            agents=policy.agents(self.team),
            order=np.zeros(1, np.int64) if ranked else self.team.arrays.order,
            starts=true.starts,
            mu=true.mu,
            threshold=true.threshold,
            tests=np.array(problem.tests),
            several=problem.several_tests,
            by_tests=problem.several_tests and not policy.in_season,
            gap=true.gap,
            arms=self.assignments,
            dealt=policy.dealt,
            remembers=policy.rule is not None and policy.rule.remembers and self.goes_by_tables,
            forgets=policy.forgets != "",
            beliefs=self.beliefs,
            fade=policy.fade,
            first_tie=where.ties,
            first_key=policy.first_draw(problem.agents, problem.arms),
            few=self.few,
            filtered=self.filtered,
            sorts=policy.sorted_by == "estimate",
        )

    @remember_interrupts()
    def make_arrays(self) -> None:
        """Make them now: with means that change and several tests in a visit that takes a while."""
        assert self.arrays is not None

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code plays it, many rounds and blocks in one call."""
        return self.policy.rule is not None and not self.waits

    @property
    def filtered(self) -> bool:
        """Whether decisions are made by cheap numbers, and by exact ones only in doubt."""
        rule = self.policy.rule
        if rule is None or rule.refresh is None or self.prior is not None:
            return False
        if rule.calibrated and self.team.is_calibrated:
            return False
        return rule.words == 0 or self.problem.agents == self.problem.arms

    @property
    def goes_by_tables(self) -> bool:
        """Whether the exact rule decides by the two tables alone: neither a filter nor a prior does."""
        return not self.filtered and self.prior is None

    @property
    def prior(self) -> Prior | None:
        """What the policy goes by of what is believed beforehand; None if every mean is as likely to it, or it asks for no prior."""
        return self.policy.prior_of(self.problem.prior)

    @cached_property
    def beliefs(self) -> Any:
        """The cells of that prior, for as many pulls as an arm can have."""
        return belief_cells(self.team, self.prior, self.rounds * max(self.problem.tests))

    @property
    def fill(self) -> Any:
        """The kernel that fills the index rows."""
        assert self.policy.rule is not None
        return self.policy.rule.kernel(prior=self.prior is not None)

    @property
    def counts(self) -> int:
        """How many hits and misses of an arm the likelihood tells apart."""
        agents = self.policy.agents(self.team)
        return len(agents.r) + len(agents.s_k)

    @cached_property
    def few(self) -> Few:
        """What the exact rule says of an arm that was pulled a few times."""
        if not self.filtered:
            return Few(np.empty((1, 1)), np.empty((1, 1), np.int64), True, 1.0, True)
        return few_pulls_table(self.policy, self.team, self.problem.arms)

    @property
    def cells(self) -> int:
        """The number of cells of one of the tables the policy ranks by."""
        return max(self.problem.agents * self.problem.arms, len(self.assignments))

    @property
    def lanes(self) -> int:
        """How many trials side by side keep their tables in the cache: a power of two, in whole vectors."""
        own = self.problem.arms * cell_bytes(self.counts) if self.filtered else 0
        fitting = max(1, BLOCK_BYTES // (16 * self.cells + own))
        if self.policy.window:
            fitting = max(
                1, min(fitting, WINDOW_BYTES // (8 * self.policy.window * self.problem.agents))
            )
        return max(BLOCK_MIN_LANES, min(BLOCK_MAX_LANES, 1 << (fitting.bit_length() - 1)))

    def block(self, lanes: int) -> kernels.Block:
        """A block of trials that have not begun, with room for a round."""
        A, N = self.problem.agents, self.problem.arms
        F = len(self.assignments)
        pickers, choices = (1, F) if F else (A, N)
        rows = self.policy.rows(A)
        index = np.empty((rows, choices, lanes))
        c, y = np.zeros((2, A, N, lanes), np.int32)
        C: LearningTable = c
        Y: LearningTable = y
        if F:
            C, Y = np.zeros((2, 1, F, lanes), np.int32)
        elif self.policy.forgets:
            C, Y = np.zeros((2, A, N, lanes))
        past, past_hits = np.empty((2, self.policy.window, A, lanes), np.int32)
        tied_rows = A if self.policy.index_per == "agent" else 1
        words = N + max(tied_rows * choices, choices + self.policy.draws(A, N))
        return kernels.Block(
            c=c,
            y=y,
            C=C,
            Y=Y,
            past=past,
            past_hits=past_hits,
            words=np.empty((words_needed(words), lanes), np.uint32),
            index=index,
            sent=np.empty((pickers, lanes), np.int32),
            remembered=np.zeros((choices, lanes), np.bool_),
            regret=np.zeros(lanes),
            total=np.zeros((N, lanes), np.int32),
            most=np.zeros(lanes, np.int64),
            L=log_row(lanes),
            desk=desk(A, lanes, C.dtype),
            table=table(pickers, choices, lanes),
            cells=cells(A, lanes if self.filtered else 0, index, self.counts),
            room=belief_room(self.beliefs),
        )


def success_thresholds(chances: Floats, tests: Sequence[int]) -> npt.NDArray[np.int64]:
    """What `rounds.World` has of them, from the chance of agents on arms that a test succeeds, [stretch, agent, arm]."""
    if max(tests) == 1:
        return np.asarray(np.ceil(chances / WORD_SIZE).astype(np.int64) - 1)[..., None]
    out = np.full((*chances.shape, max(tests)), -1, np.int64)
    for (m, a, n), chance in np.ndenumerate(chances):
        out[m, a, n, : tests[a]] = luck_of_tests(tests[a], float(chance))
    return out


def worlds_of(
    problem: Problem,
    policies: Iterable[Policy],
    rounds: int = 1,
    delay: int = 0,
    *,
    counted: bool = True,
) -> tuple[PolicyWorld, ...]:
    """A problem as each of these policies meets it, in the rounds up to one."""
    return tuple(PolicyWorld(problem, policy, rounds, delay, counted) for policy in policies)


class Learning:
    """The learning of one policy in a block of neighbouring trials: the two tables, and the rounds behind them."""

    def __init__(self, world: PolicyWorld, seed: int, trial: int, lanes: int) -> None:
        self.world = world
        self.seed = seed
        self.trial = trial
        self.elapsed = 0
        self.block = world.block(lanes)
        self.late: LateOutcomes | None = None
        if world.waits:
            shape = (world.problem.agents, world.problem.arms, lanes)
            how = (world.policy, world.team, shape, world.delay)
            self.late = LateOutcomes(*how, counted=world.counted)

    @property
    def pulls(self) -> Counts:
        """Of every agent on every arm, shape (agents, arms, trials)."""
        return np.asarray(self.block.c)

    @property
    def successes(self) -> Counts:
        """Among them."""
        return np.asarray(self.block.y)

    @property
    def lanes(self) -> int:
        """The number of trials."""
        return int(self.pulls.shape[-1])

    def regrets(self) -> Floats:
        """The regret of every trial so far."""
        return np.array(self.block.regret)

    def advance(self, rounds: int) -> None:
        """Play this many more rounds."""
        self.play(self.elapsed + rounds, (), new_control(), np.empty((0, self.lanes)))

    @remember_interrupts()
    def play(self, horizon: int, checkpoints: Sequence[int], control: Control, out: Floats) -> bool:
        """Play on to the horizon; out[k, i] = the regret of the i-th trial after checkpoints[k] rounds.

        False if it was stopped before. Up to MOST_ROUNDS_A_CALL rounds, `out` may have more trials than the
        block has lanes: they are played one block after the other.
        """
        play = self._play_rule if self.world.is_compiled else self._play_by_rows
        marks = np.array(checkpoints, np.int64)
        assert self.world.problem.drift is None or horizon <= self.world.rounds
        while self.elapsed < horizon:
            rounds = min(horizon - self.elapsed, KERNEL_CALL_MAX_ROUNDS)
            if not play(rounds, marks, control, out):
                return False
            self.elapsed += rounds
        return True

    def _play_rule(self, rounds: int, checkpoints: Marks, control: Control, out: Floats) -> bool:
        world = self.world
        assert world.policy.rule is not None
        where = (np.uint64(self.seed), np.uint64(self.trial), self.elapsed)
        # the most tests that one arm can have before the last round
        most = (self.elapsed + rounds - 1) * max(world.problem.tests)
        count = max(rounds, most + 1 - self.elapsed) if world.arrays.by_tests else rounds
        L = log_terms_of_rounds(world.policy, world.team, world.problem.arms, self.elapsed, count)
        how = (world.fill, world.policy.rule.refresh or NOTHING, world.arrays)
        return bool(
            kernels.play_trials(*how, *where, rounds, L, checkpoints, control, self.block, out)
        )

    def _play_by_rows(self, rounds: int, checkpoints: Marks, control: Control, out: Floats) -> bool:
        """Round by round: a policy of the user's own is Python, and so is what is known of visits that are under way."""
        world, block = self.world, self.block
        places = {int(mark): k for k, mark in enumerate(checkpoints)}
        for elapsed in range(self.elapsed, self.elapsed + rounds):
            if control[kernels.STOP]:
                return False
            where = (np.uint64(self.seed), np.uint64(self.trial), elapsed + 1)
            words = partial(round_words, *where, lanes=self.lanes)
            block.index[:] = self._index_rows(elapsed, words)
            before = None if self.late is None else self.successes.copy()
            kernels.play_round(world.arrays, *where, block)
            if self.late is not None and before is not None:
                arms = np.array(block.sent)
                found = (self.successes - before).sum(axis=1)
                self.late.remember(arms, found)
            control[kernels.DONE] += self.lanes
            if elapsed + 1 in places:
                out[places[elapsed + 1]] = self.regrets()
        return True

    def _index_rows(self, elapsed: int, words: WordsFunction) -> Floats:
        """The index rows of the next round, by what is known."""
        world, late = self.world, self.late
        policy, prior = world.policy, world.problem.prior
        pulls, successes = (
            (self.block.c, self.block.y) if late is None else late.tables(world.prior)
        )
        most = self.block.most if late is None else late.most_pulls
        by_tests = world.problem.several_tests and not policy.in_season
        t = np.maximum(elapsed, most) if by_tests else elapsed
        return policy.index_rows(world.team, pulls, successes, t, words, prior)


@lru_cache(maxsize=64)
def few_pulls_table(policy: Policy, team: Team, arms: int) -> Few:
    """What the exact rule gives for an arm after few pulls, for every possible outcome."""
    agents = policy.agents(team)
    rule = policy.rule
    assert rule is not None
    roots = len(agents.r)
    states, ranks = few_states(roots + len(agents.s_k), MOST_STATES[rule.remembers])
    pulls, successes = np.zeros((2, len(team), 1, len(states)), np.int32)
    for j in range(roots):
        (a, *_) = np.flatnonzero(agents.root[agents.kind] == j)
        pulls[a, 0] += states[:, j]
        successes[a, 0] += states[:, j]
    for k in range(len(agents.s_k)):
        (a, *_) = np.flatnonzero(agents.kind == k)
        pulls[a, 0] += states[:, roots + k]
    (L,) = log_terms_of_rounds(policy, team, arms, 0, 1)
    keys = np.zeros((rule.words, len(states)), np.uint32)
    rows = np.empty((policy.rows(len(team)), 1, len(states)))
    seen = see(agents, pulls, successes, log_term=L, keys=keys)
    rule.fill(seen, desk(len(team), len(states)), rows)
    pole = 1.0 if rule.quantile else 1.0 / float(agents.s_k[0])
    return Few(np.ascontiguousarray(rows[:, 0]), ranks, rule.remembers, pole, not rule.quantile)


@lru_cache(maxsize=64)
def log_terms_of_rounds(policy: Policy, team: Team, arms: int, elapsed: int, count: int) -> Floats:
    """The log terms of some rounds: the same for all the blocks of a run."""
    return policy.log_terms(team, arms, elapsed, count)


@dataclass(frozen=True)
class Shard:
    """A range of trials of one problem, to be played by some policies on the same luck.

    Attributes
    ----------
    worlds
        The problem as each policy meets it. They are made once for all the shards of a run.
    rounds
        The checkpoints; the last one is the horizon.
    kept
        At how many of the last checkpoints every trial's regret is wanted, beside the sums.
    lanes
        The most trials to play side by side.
    """

    worlds: tuple[PolicyWorld, ...]
    rounds: tuple[int, ...]
    seed: int
    trials: range
    kept: int = 0
    lanes: int = BLOCK_MAX_LANES

    @property
    def trial_rounds(self) -> int:
        """The rounds of all trials, by all policies."""
        return len(self.trials) * self.rounds[-1] * len(self.worlds)


class ShardSums(NamedTuple):
    """A shard's results: exact sums over its trials, as `tally` makes them."""

    span: tuple[int, int]
    sums: BigIntegers
    products: BigIntegers
    seconds: Floats  # for each policy
    kept: Floats  # [policy, kept checkpoint, trial]


def play_shard(shard: Shard, control: Control | None = None) -> ShardSums | None:
    """Play a shard to the end; None if `control` stopped it before."""
    control = new_control() if control is None else control
    regrets = np.empty((len(shard.worlds), len(shard.rounds), len(shard.trials)))
    seconds = np.empty(len(shard.worlds))
    for p, world in enumerate(shard.worlds):
        begin = time.perf_counter()
        if not _fill_regrets(world, shard, control, regrets[p]):
            return None
        seconds[p] = time.perf_counter() - begin
    sums, products = tally_regrets(
        regrets, binary_places(shard.rounds[-1], sum(shard.worlds[0].problem.tests))
    )
    span = (shard.trials.start, shard.trials.stop)
    kept = regrets[:, len(shard.rounds) - shard.kept :].copy()
    return ShardSums(span, sums, products, seconds, kept)


def _fill_regrets(world: PolicyWorld, shard: Shard, control: Control, out: Floats) -> bool:
    """out[k, i] = the regret of the shard's i-th trial at its k-th checkpoint; false if it was stopped before."""
    trials, horizon = shard.trials, shard.rounds[-1]
    blocks = -(-len(trials) // min(world.lanes, shard.lanes))
    lanes = -(-len(trials) // blocks)
    in_one_call = world.is_compiled and horizon <= KERNEL_CALL_MAX_ROUNDS
    together = len(trials) if in_one_call else lanes
    for start in range(0, len(trials), together):
        width = min(together, len(trials) - start)
        learning = Learning(world, shard.seed, trials[start], min(lanes, width))
        part = out if width == len(trials) else np.empty((len(out), width))
        if not learning.play(horizon, shard.rounds, control, part):
            return False
        out[:, start : start + width] = part
    return True


def tally_regrets(regrets: Floats, places: int) -> tuple[BigIntegers, BigIntegers]:
    """Exact sums and sums of products over trials.

    From regrets[policy, checkpoint, trial] come sums[policy, checkpoint] in units of 2**-places
    and products[policy, policy, checkpoint] in units of 4**-places.
    """
    P, K, _ = regrets.shape
    high, low = np.empty((2, P, BLOCK_MAX_LANES), np.int64)
    sums = np.zeros((P, K, 2), np.int64)
    parts = np.zeros((3, P, P, K, 2), np.int64)
    kernels.tally(np.ascontiguousarray(regrets), 2.0**places, high, low, sums, parts)
    both_high, mixed, both_low = _join_limbs(parts)
    half = kernels.HALF_BITS
    products = both_high * 4**half + mixed * 2**half + both_low
    for p in range(P):
        products[:p, p] = products[p, :p]
    return _join_limbs(sums), products


def _join_limbs(limbs: npt.NDArray[np.int64]) -> BigIntegers:
    whole = limbs.astype(object)
    return np.asarray(whole[..., 0] * 2**kernels.LIMB_BITS + whole[..., 1])


def compile_kernels(policies: Iterable[Policy], delay: int = 0) -> float:
    """Compile what these policies need, or load it from this machine's cache; the seconds it took.

    With a delay that is more: what looks at visits under way from the second round on.
    """
    start = time.perf_counter()
    problem = Problem([0.5, 0.25], [0.5])
    stand_in = Policy("own", index=lambda known: np.zeros(known.pulls.shape[1:]))
    for policy in policies:  # one of the user's own may be made for another problem
        entry = stand_in if policy.rule is None else policy
        rounds = 2 if delay else 1
        play_shard(Shard(worlds_of(problem, [entry], rounds, delay), (rounds,), 0, range(1)))
    return time.perf_counter() - start


def has_compiled_kernels(policies: Iterable[Policy]) -> bool:
    """Whether this machine has compiled all kernels for these sources and policies."""
    return all(
        is_ready(kernels.play_round)
        if policy.rule is None
        else is_ready(kernels.play_trials)
        and is_ready(policy.rule.fill)
        and is_ready(policy.rule.refresh or NOTHING)
        for policy in policies
    )
