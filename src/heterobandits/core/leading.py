"""Who leads, and who challenges the last leader: what pbm-pie decides of all arms together   docs/beyond.md (16)"""

import numpy as np

from heterobandits.core.compiled import inlined, inner

FIRST = (
    2.0**40
)  # about the index of an arm that pbm-pie has yet to send every agent to: no mean is as high
ROUNDED_UP = (
    1.0 + 1e-9
)  # by as much as the root of pbm-pie's bound may be off: a tie on paper is one here
HEADS = np.uint32(2**31)  # a coin falls so if its word is below


@inlined
def leads(estimate, ties, n, m, lane):
    """Whether arm n stands before arm m: by its estimate or, where these are equal, as ties are broken."""
    ahead = estimate[n, lane] > estimate[m, lane]
    equal = estimate[n, lane] == estimate[m, lane]
    first = (ties[n, lane] > ties[m, lane]) | ((ties[n, lane] == ties[m, lane]) & (n < m))
    return ahead | (equal & first)


@inner
def last_leader(estimate, ties, count, lane):
    """The last of so many arms that lead."""
    last = -1
    for _ in range(count):
        best = -1
        for n in range(len(estimate)):
            behind = last < 0 or leads(estimate, ties, last, n, lane)
            if behind and (best < 0 or leads(estimate, ties, n, best, lane)):
                best = n
        last = best
    return last


@inner
def draw_challenger(seen, bound, estimate, last, lane):
    """An arm behind the last leader whose bound reaches that one's estimate, each as likely; -1 if there is none, or by the coin."""
    N = len(estimate)
    ties = seen.keys[:N]
    draws = seen.keys[N:]
    drawn = -1
    if draws[last, lane] < HEADS:  # the word of an arm that cannot be drawn
        for n in range(N):
            reaches = ROUNDED_UP * bound[n, lane] >= estimate[last, lane]
            able = leads(estimate, ties, last, n, lane) & reaches
            if able and (drawn < 0 or draws[n, lane] > draws[drawn, lane]):
                drawn = n
    return drawn


@inner
def begin_leading(seen, out, lane):
    """To begin with every agent goes to every arm once: an arm goes from an agent to the next one before it in picking order, and
    to the last agent comes an arm that the fewest have seen   docs/beyond.md (16)

    The beginning is over as soon as some agent has been everywhere.
    """
    A, N, _ = seen.c.shape
    order = seen.agents.order
    most = 0
    for a in range(A):
        visited = 0
        for n in range(N):
            visited += seen.c[a, n, lane] > 0
        most = max(most, visited)
    if most == N:
        return
    for n in range(N):
        seen_by = 0
        for a in range(A):
            seen_by += seen.c[a, n, lane] > 0
        turn = -1
        for q in range(A - 1):
            if seen.c[order[q + 1], n, lane] > 0 and seen.c[order[q], n, lane] == 0:
                turn = q  # the last of these
        if turn >= 0:
            out[0, n, lane] = 2.0 * FIRST
            out[1, n, lane] = -turn
        elif seen_by < A:
            out[0, n, lane] = FIRST - seen_by
            out[1, n, lane] = -(A - 1)


@inner
def settle_leading(seen, out):
    """pbm-pie: the index is the estimate, and that of an arm drawn to challenge the last leader its bound, which is above that one's."""
    A, N, B = seen.c.shape
    index = out[0]
    estimate = out[1]
    for lane in range(B):
        last = last_leader(estimate, seen.keys, min(A, N), lane)
        drawn = draw_challenger(seen, index, estimate, last, lane)
        level = estimate[last, lane]
        for n in range(N):
            if n != drawn:
                index[n, lane] = estimate[n, lane]
            elif index[n, lane] <= level:  # it takes the place, whoever wins a tie
                index[n, lane] = np.nextafter(level, np.inf)
        begin_leading(seen, out, lane)
