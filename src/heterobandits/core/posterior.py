"""The posterior of an arm's mean under a uniform prior on [0, 1]: its evidence, mean and quantiles.

With l the log-likelihood of `likelihood`, and in the same lanes,

    Z = integral of exp(l) over [0, 1]                                  docs/beyond.md (5)

exp(l) is log-concave, so what lies where l is more than DEPTH below its greatest value on [0, 1] is
a share of less than exp(-DEPTH) of Z. On the rest Gauss's quadrature with a fixed number of nodes is
as good as exact: exp(l) is a polynomial of as many degrees as there were pulls, or close to a
normal density if these are many.
"""

import math
from decimal import Decimal, localcontext

import numpy as np

from heterobandits.core.compiled import compiled
from heterobandits.core.elementary import exp, ln
from heterobandits.core.likelihood import (
    fill_fallen,
    fill_greatest,
    fill_log_likelihoods,
    fill_slopes,
)

DEPTH = 27.0
SLACK = 3.5  # it need not be exact
FEW = 24  # successes so few that the density reaches down to 0 on the scale of its width


def _gauss(count):
    """Nodes and weights of Gauss's quadrature on [0, 1], correctly rounded: the same bits on any machine.

    The nodes are the roots of the Legendre polynomial P of that degree, by Newton's method in 40 digits.
    """
    nodes, weights = np.empty((2, count))
    with localcontext(prec=40):
        for i in range(count):
            x = Decimal(-math.cos(math.pi * (i + 0.75) / (count + 0.5)))
            for _ in range(8):
                before, P = Decimal(1), x
                for k in range(1, count):
                    before, P = P, ((2 * k + 1) * x * P - k * before) / (k + 1)
                slope = count * (x * P - before) / (x * x - 1)
                x -= P / slope
            nodes[i] = (1 + x) / 2
            weights[i] = 1 / ((1 - x * x) * slope * slope)
    return nodes, weights


NODES, WEIGHTS = _gauss(28)
HALF_NODES, HALF_WEIGHTS = _gauss(20)  # from an end up to the middle
SHORT_NODES, SHORT_WEIGHTS = _gauss(6)  # between two neighbouring nodes
CLOSE = 1e-4  # in probability, relative to the tail
MOST_STEPS = 100


@compiled
def fill_ends(peak, greatest, Y, s, f, top, low, high):
    """top[lane] = the greatest l on [0, 1]; low, high = where l has fallen by DEPTH from it, or 0, 1."""
    B = len(peak)
    drop = np.empty(B)
    inside = np.empty(B)
    any_many = False
    for lane in range(B):
        inside[lane] = peak[lane] if peak[lane] < 1.0 else 1.0
        drop[lane] = DEPTH
    fill_greatest(inside, Y, s, f, top)
    fill_fallen(True, 1.0, drop, SLACK, peak, greatest, Y, s, f, high)
    for lane in range(B):
        many = Y[lane] > FEW
        any_many = any_many | many
        low[lane] = 0.0
        drop[lane] = DEPTH + (greatest[lane] - top[lane]) if many else 0.0
    if any_many:
        fill_fallen(False, 1.0, drop, SLACK, peak, greatest, Y, s, f, inside)
        for lane in range(B):
            low[lane] = inside[lane] if drop[lane] > 0.0 else 0.0


@compiled
def fill_density(node, low, high, top, Y, s, f, mu, out):
    """out[lane] = exp(l(mu) - top) at mu[lane], which is set to low + (high - low) node."""
    for lane in range(len(mu)):
        mu[lane] = low[lane] + (high[lane] - low[lane]) * node
    fill_log_likelihoods(mu, Y, s, f, out)
    for lane in range(len(mu)):
        out[lane] = exp(out[lane] - top[lane])


@compiled
def fill_posterior(peak, greatest, Y, s, f, log_evidence, mean):
    """log_evidence[lane] = ln Z, and the posterior mean."""
    B = len(peak)
    top = np.empty(B)
    low = np.empty(B)
    high = np.empty(B)
    mu = np.empty(B)
    density = np.empty(B)
    mass = np.zeros(B)
    moment = np.zeros(B)
    fill_ends(peak, greatest, Y, s, f, top, low, high)
    for i in range(len(NODES)):
        fill_density(NODES[i], low, high, top, Y, s, f, mu, density)
        for lane in range(B):
            mass[lane] += WEIGHTS[i] * density[lane]
            moment[lane] += WEIGHTS[i] * density[lane] * mu[lane]
    for lane in range(B):
        log_evidence[lane] = top[lane] + ln(mass[lane] * (high[lane] - low[lane]))
        mean[lane] = moment[lane] / mass[lane]


@compiled
def fill_quantiles(level, peak, greatest, Y, s, f, mu):
    """mu[lane] = the mean below which a share level[lane], in (0, 1), of the posterior lies.

    Halley's method on the distribution function F, whose derivatives are exp(l) and exp(l) l', from
    where the masses at the nodes add up to the level. F is integrated from the nearer end up to
    there, then from step to step. A step out of the interval in which the quantile is known to
    lie halves that instead. F is at least as exact as Z.
    """
    B = len(peak)
    top = np.empty(B)
    low = np.empty(B)
    high = np.empty(B)
    at = np.empty(B)
    end = np.empty(B)
    density = np.empty(B)
    slope = np.empty(B)
    excess = np.empty(B)
    total = np.zeros(B)
    active = np.empty(B, np.bool_)
    masses = np.empty((len(NODES), B))
    fill_ends(peak, greatest, Y, s, f, top, low, high)
    for i in range(len(NODES)):
        mass = masses[i]
        fill_density(NODES[i], low, high, top, Y, s, f, at, mass)
        for lane in range(B):
            mass[lane] *= WEIGHTS[i] * (high[lane] - low[lane])
            total[lane] += mass[lane]
    fill_crossings(level, total, masses, mu)
    for lane in range(B):
        mu[lane] = low[lane] + (high[lane] - low[lane]) * mu[lane]
        from_below = mu[lane] - low[lane] < high[lane] - mu[lane]
        end[lane] = low[lane] if from_below else high[lane]
        excess[lane] = (0.0 if from_below else total[lane]) - level[lane] * total[lane]
        active[lane] = True
    for i in range(len(HALF_NODES)):
        fill_density(HALF_NODES[i], end, mu, top, Y, s, f, at, density)
        for lane in range(B):
            excess[lane] += HALF_WEIGHTS[i] * density[lane] * (mu[lane] - end[lane])
    for _ in range(MOST_STEPS):
        fill_density(0.0, mu, mu, top, Y, s, f, at, density)
        fill_slopes(mu, Y, s, f, slope)
        moving = 0
        for lane in range(B):
            over = excess[lane] > 0.0
            low[lane] = low[lane] if over else mu[lane]
            high[lane] = mu[lane] if over else high[lane]
            after = mu[lane] - 2.0 * excess[lane] / (
                2.0 * density[lane] - excess[lane] * slope[lane]
            )
            inside = (after >= low[lane]) & (after <= high[lane])
            after = after if inside else 0.5 * (low[lane] + high[lane])
            end[lane] = mu[lane]
            mu[lane] = after if active[lane] else mu[lane]
            # the step triples the digits: from here it was the last
            tail = level[lane] if level[lane] < 0.5 else 1.0 - level[lane]
            close = abs(excess[lane]) <= CLOSE * tail * total[lane]
            active[lane] = active[lane] & (not (close & inside))
            moving += active[lane]
        if moving == 0:
            break
        for i in range(len(SHORT_NODES)):
            fill_density(SHORT_NODES[i], end, mu, top, Y, s, f, at, density)
            for lane in range(B):
                excess[lane] += SHORT_WEIGHTS[i] * density[lane] * (mu[lane] - end[lane])


@compiled
def fill_crossings(level, total, masses, out):
    """out[lane] = about where, in [0, 1], the masses at the nodes below add up to level times total."""
    B = len(total)
    below = np.zeros(B)
    last = np.zeros(B)  # the masses up to the last node, with half of its own
    found = np.zeros(B, np.bool_)
    previous = 0.0
    for i in range(len(NODES)):
        mass = masses[i]
        for lane in range(B):
            wanted = level[lane] * total[lane]
            here = below[lane] + 0.5 * mass[lane]
            between = (not found[lane]) & (here >= wanted)
            part = (wanted - last[lane]) / (here - last[lane])
            out[lane] = previous + (NODES[i] - previous) * part if between else out[lane]
            found[lane] |= between
            last[lane] = here
            below[lane] += mass[lane]
        previous = NODES[i]
    for lane in range(B):
        out[lane] = out[lane] if found[lane] else 0.5 * (previous + 1.0)
