"""The loop over rounds for a block of trials: words, indices, assignment, outcomes, tables, regret.

Notation as in `indices`; besides, for the truth that only the simulator knows:

    threshold[a, n]   agent a succeeds on arm n if the arm's word is at most this; -1 means never. Of several
                      tests as many succeed as it is at most the first, second, ... of these, which fall
    tests[a]          the tests that agent a makes in a visit
    gap[a, n]         tests_a s_a (mu_f*(a) - mu_n), what a visit by a of n costs against the optimum f*   [eq:regret_def]
    starts[m]         the first round of the m-th stretch in which the means stand still: mu, threshold and gap have
                      a part for each of these, mu[m], threshold[m, a, n], gap[m, a, n]
    arms[f, a]        the arm of agent a in assignment f, for the rule that ranks whole assignments
    C[f], Y[f]        that rule's own tables: how often assignment f was played, and its successes in all
    C[a, n], Y[a, n]  those of a rule that forgets: pulls and successes of the last rounds, or faded with time
    past[i, a]        the arm of agent a in the rounds of that rule's window, round t at i = t modulo its length
"""

from typing import NamedTuple

import numpy as np

from heterobandits.core.assignment import Table, assign
from heterobandits.core.beliefs import BeliefCells, BeliefRoom
from heterobandits.core.compiled import compiled, inlined, inner
from heterobandits.core.filtered import (
    Cells,
    Few,
    assign_again,
    begin_cells,
    find_doubts,
    take_exact,
)
from heterobandits.core.randomness import fill_words
from heterobandits.core.seen import Agents, Seen, fill_log_row
from heterobandits.core.work import Desk

HALF_BITS = 26  # a regret fills two halves of this many bits, so that products of halves fit in 64
LIMB_BITS = 32  # a sum over many blocks is kept in two limbs, the lower of this many bits
LIMB = 2**LIMB_BITS - 1
STOP, DONE, DOUBTS = 0, 1, 2  # what stands where in `control`


class World(NamedTuple):
    """What is true, what the rule believes, and how its index rows become an assignment.

    If by_tests, the log term is of the tests of an arm where these are more than the rounds.
    order[q] is what picks at turn q: an agent or, where whole assignments are ranked, the team as one.
    If filtered, the rule is played by its filter, which knows few pulls by heart; sorts says whether the second index row sorts.
    """

    agents: Agents
    order: np.ndarray
    starts: np.ndarray
    mu: np.ndarray
    threshold: np.ndarray
    tests: np.ndarray
    several: bool
    by_tests: bool
    gap: np.ndarray
    arms: np.ndarray
    dealt: int
    remembers: bool
    forgets: bool
    fade: float
    first_tie: int
    first_key: int
    few: Few
    filtered: bool
    sorts: bool
    beliefs: BeliefCells


class Block(NamedTuple):
    """A block of trials: what was learned, what was paid for, and room for a round.

    c, y are the tables of learning; C, Y those that the rule looks at: the same, or those of assignments, or those of
    a rule that forgets, which has the arms and hits of its window in past and past_hits.
    sent[q] is what was picked, an arm or an assignment; regret is the ledger of what was paid for it. Where a
    visit yields several tests, total has those of each arm and most the largest of these; L are the log terms.
    """

    c: np.ndarray
    y: np.ndarray
    C: np.ndarray
    Y: np.ndarray
    past: np.ndarray
    past_hits: np.ndarray
    words: np.ndarray
    index: np.ndarray
    sent: np.ndarray
    remembered: np.ndarray
    regret: np.ndarray
    total: np.ndarray
    most: np.ndarray
    L: np.ndarray
    desk: Desk
    table: Table
    cells: Cells
    room: BeliefRoom


@inner
def observe(world, m, block):
    """Send every agent to its arm: count the visit, and the success if the arm's luck is good enough."""
    A, N, B = block.c.shape
    threshold = world.threshold[m]
    for a in range(A):
        sent = block.sent[a]
        for n in range(N):
            arm = np.int32(n)  # 32 bits like the lanes, or the comparison would widen them
            c_an = block.c[a, n]
            y_an = block.y[a, n]
            word = block.words[n]
            highest = np.uint32(max(0, threshold[a, n, 0]))
            possible = threshold[a, n, 0] >= 0
            for lane in range(B):
                here = sent[lane] == arm
                c_an[lane] += here
                y_an[lane] += here & possible & (word[lane] <= highest)


@inlined
def succeeded(word, threshold):
    """How many tests succeed with this word: the thresholds that it is not above."""
    low = 0
    high = len(threshold)
    while low < high:
        middle = (low + high) // 2
        if np.int64(word) <= threshold[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def visit(world, m, block, a, n, lane):
    """Agent a tests on arm n, as often as it does in a visit; how many tests succeed."""
    success = succeeded(block.words[n, lane], world.threshold[m, a, n])
    block.c[a, n, lane] += world.tests[a]
    block.y[a, n, lane] += success
    block.total[n, lane] += world.tests[a]
    block.most[lane] = max(block.most[lane], block.total[n, lane])
    return success


@inner
def observe_several(world, m, block):
    """Send every agent to its arm where a visit yields several tests."""
    A, _, B = block.c.shape
    for a in range(A):
        for lane in range(B):
            visit(world, m, block, a, block.sent[a, lane], lane)


@inner
def fill_log_terms(elapsed, L, block):
    """The log term of every lane: L[0] is that of t = elapsed rounds, but t is at least the tests of any arm."""
    for lane in range(len(block.most)):
        block.desk.floats[lane] = L[max(0, block.most[lane] - elapsed)]
    fill_log_row(block.desk.floats[: len(block.most)], block.L)


@inner
def pay(world, m, block):
    """Add to the ledger what the assignment costs against the optimum.

    The agents are summed over in the order in which they pick: listing them otherwise changes no bit. Two
    at a time, for fewer passes over the ledger.
    """
    order = world.order
    gap = world.gap[m]
    regret = block.regret
    A = len(order)
    for q in range(0, A - 1, 2):
        gap_a = gap[order[q]]
        gap_b = gap[order[q + 1]]
        sent_a = block.sent[order[q]]
        sent_b = block.sent[order[q + 1]]
        for lane in range(len(regret)):
            regret[lane] += gap_a[np.uint32(sent_a[lane])] + gap_b[np.uint32(sent_b[lane])]
    if A % 2 == 1:
        gap_a = gap[order[A - 1]]
        sent_a = block.sent[order[A - 1]]
        for lane in range(len(regret)):
            regret[lane] += gap_a[np.uint32(sent_a[lane])]


@inner
def observe_assignment(world, m, block):
    """The same for a whole assignment, which the rule that ranks them learns about."""
    A, _, B = block.c.shape
    for lane in range(B):
        f = block.sent[0, lane]
        block.C[0, f, lane] += 1
        for q in range(A):
            a = world.agents.order[q]
            n = world.arms[f, a]
            block.regret[lane] += world.gap[m, a, n]
            block.Y[0, f, lane] += visit(world, m, block, a, n, lane)


@inner
def note_hits(world, m, block):
    """What a filter takes in."""
    A, B = block.sent.shape
    hits = block.cells.hits
    for a in range(A):
        for lane in range(B):
            n = block.sent[a, lane]
            hits[a, lane] = succeeded(block.words[n, lane], world.threshold[m, a, n])


@inner
def fade_tables(fade, C, Y):
    """Let everything count for less than a round ago."""
    A, N, B = C.shape
    for a in range(A):
        for n in range(N):
            C_an = C[a, n]
            Y_an = Y[a, n]
            for lane in range(B):
                C_an[lane] *= fade
                Y_an[lane] *= fade


@inner
def remember(world, m, round_, block):
    """Take the round into the tables of a rule that forgets, and what it forgets out of them   docs/model.md (17), (18)"""
    A, B = block.sent.shape
    if world.fade < 1.0:
        fade_tables(world.fade, block.C, block.Y)
    window = len(block.past)
    for a in range(A):
        for lane in range(B):
            n = block.sent[a, lane]
            hits = succeeded(block.words[n, lane], world.threshold[m, a, n])
            block.C[a, n, lane] += world.tests[a]
            block.Y[a, n, lane] += hits
            if window > 0:
                place = round_ % window
                if round_ > window:
                    gone = block.past[place, a, lane]
                    block.C[a, gone, lane] -= world.tests[a]
                    block.Y[a, gone, lane] -= block.past_hits[place, a, lane]
                block.past[place, a, lane] = n
                block.past_hits[place, a, lane] = hits


@inner
def fill_unvisited(sent, out):
    """out[n, lane] = whether nobody was sent to arm n."""
    A, B = sent.shape
    for n in range(len(out)):
        arm = np.int32(n)
        row = out[n]
        for lane in range(B):
            row[lane] = True
        for a in range(A):
            sent_a = sent[a]
            for lane in range(B):
                row[lane] &= sent_a[lane] != arm


@inlined
def choose(world, block):
    """From the index rows and the words of the round: who goes where."""
    ties = block.words[world.first_tie :]
    draws = block.words[world.first_key :]
    assign(block.index, ties, draws, world.dealt, world.order, block.table, block.sent)


@inlined
def settle_doubts(fill, world, seen, block):
    """Choose again with exact numbers where those of the filter do not tell; in how many lanes."""
    cells = block.cells
    ties = block.words[world.first_tie :]
    tables = (seen.c, seen.y, seen.L, seen.keys, cells.kept)
    known = Seen(seen.agents, seen.mu, *tables, seen.cells, seen.room)
    doubts = find_doubts(block.sent, world.order, world.sorts, cells)
    settled = doubts
    while doubts > 0:
        fill(known, block.desk, block.index)
        take_exact(cells)
        assign_again(doubts, ties, world.dealt, world.order, cells, block.table, block.sent)
        doubts = find_doubts(block.sent, world.order, world.sorts, cells)
    return settled


@inlined
def finish_round(world, m, block):
    """What they see there."""
    if len(world.arms) > 0:
        observe_assignment(world, m, block)
    else:
        if world.several:
            observe_several(world, m, block)
        else:
            observe(world, m, block)
        pay(world, m, block)


@inlined
def stretch_of(round_, starts, m):
    """The stretch of a round, from one that is not after it on."""
    while m + 1 < len(starts) and starts[m + 1] <= round_:
        m += 1
    return m


@compiled
def play_round(world, seed, trial, round_, block):
    """One round of a block by index rows made elsewhere (a user's own policy)."""
    fill_words(seed, trial, round_, block.words)
    choose(world, block)
    finish_round(world, stretch_of(round_, world.starts, 0), block)


@inner
def begin(world, block):
    """Forget everything: the trials of the block begin."""
    block.c.fill(0)
    block.y.fill(0)
    block.C.fill(0)
    block.Y.fill(0)
    block.total.fill(0)
    block.most.fill(0)
    block.remembered.fill(False)
    block.regret.fill(0.0)
    block.sent.fill(-1)
    begin_cells(world.few, block.cells)


@compiled
def play_trials(
    fill, refresh, world, seed, trial, elapsed, rounds, L, checkpoints, control, block, out
):
    """Play the trials from `trial` on, block by block, for so many rounds; false if it was stopped.

    L[i] is the log term after elapsed + i rounds or, if there are more, tests of an arm. out[k, i] = the regret of the i-th trial after checkpoints[k] rounds, for those that are reached. If rounds
    have elapsed before, there must be one block only, which goes on. The last block may be too wide for the
    trials left: it plays some that nobody asked for. Another thread may set control[STOP], and may read the
    trial-rounds played from control[DONE].
    """
    K, trials = out.shape
    B = block.c.shape[2]
    keys = block.words[world.first_key :]
    for start in range(0, trials, B):
        first = trial + np.uint64(start)
        if elapsed == 0:
            begin(world, block)
        m = 0
        k = 0
        while k < K and checkpoints[k] <= elapsed:
            k += 1
        for i in range(rounds):
            if control[STOP] != 0:
                return False
            round_ = elapsed + i + 1
            m = stretch_of(round_, world.starts, m)
            fill_words(seed, first, round_, block.words)
            if world.by_tests:
                fill_log_terms(elapsed + i, L[i:], block)
            else:
                block.L.fill(L[i])
            mu = world.mu[m]
            tables = (block.C, block.Y, block.L, keys, block.remembered)
            seen = Seen(world.agents, mu, *tables, world.beliefs, block.room)
            if world.filtered:
                refresh(
                    world.agents,
                    block.L,
                    world.few,
                    world.tests,
                    block.sent,
                    world.sorts,
                    block.cells,
                )
            else:
                fill(seen, block.desk, block.index)
            choose(world, block)
            if world.filtered:
                control[DOUBTS] += settle_doubts(fill, world, seen, block)
            finish_round(world, m, block)
            if world.filtered:
                note_hits(world, m, block)
            if world.forgets:
                remember(world, m, round_, block)
            if world.remembers:
                fill_unvisited(block.sent, block.remembered)
            control[DONE] += B
            if k < K and checkpoints[k] == round_:
                row = out[k]
                for lane in range(min(B, trials - start)):
                    row[start + lane] = block.regret[lane]
                k += 1
    return True


@compiled
def tally(regrets, unit, high, low, sums, products):
    """Exact sums and sums of products over trials, from regrets[policy, checkpoint, trial].

    A regret is rounded to a multiple of 1 / unit, and its multiple u split: u = high 2^26 + low. To
    sums[p, k] goes sum u, in limbs, and to products[i, p, q, k], q <= p, the sums of high high, of
    high low + low high, and of low low.
    """
    P, K, trials = regrets.shape
    step = high.shape[1]
    for k in range(K):
        for start in range(0, trials, step):
            width = min(step, trials - start)
            for p in range(P):
                total = 0
                row = regrets[p, k]
                for i in range(width):
                    u = np.int64(np.rint(row[start + i] * unit))
                    total += u
                    high[p, i] = u >> HALF_BITS
                    low[p, i] = u - ((u >> HALF_BITS) << HALF_BITS)
                add(total, sums[p, k])
                for q in range(p + 1):
                    both_high = 0
                    mixed = 0
                    both_low = 0
                    for i in range(width):
                        both_high += high[p, i] * high[q, i]
                        mixed += high[p, i] * low[q, i] + low[p, i] * high[q, i]
                        both_low += low[p, i] * low[q, i]
                    add(both_high, products[0, p, q, k])
                    add(mixed, products[1, p, q, k])
                    add(both_low, products[2, p, q, k])


@inlined
def add(value, limbs):
    """Add a whole number to one kept in two limbs, which many blocks cannot overflow."""
    limbs[0] += value >> LIMB_BITS
    limbs[1] += value & LIMB
