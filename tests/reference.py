"""A slow, plain transcription of the paper (Gordon, Rolf, Tambe 2024), to compare the library with.

Nothing is imported from the library; integrals and roots are SciPy's. Sums over agents are exact fractions, so that what ties
on paper ties here. Tables are lists: c[a][n] pulls and y[a][n] successes of agent a on arm n.
"""

import itertools
import math
import warnings
from collections import defaultdict
from fractions import Fraction
from functools import cache

from scipy.integrate import IntegrationWarning, quad

INF = math.inf
PAPER = ("min-width", "min-ucb", "no-sharing", "cucb", "ucb")
WORD = 2**32
SORTED = {  # who chooses
    "posterior-sorted": "posterior-ratio",
    "thompson-sorted": "thompson",
    "bayes-ucb": "quantile",
    "season": "season quantile",
    "calibrated-sorted": "calibrated",  # of agents that are known
}

FORGETS = {  # which policy forgets, and how
    "min-width-window": ("min-width", "window"),
    "min-width-discounted": ("min-width", "discount"),
    "posterior-sorted-window": ("posterior-sorted", "window"),
    "posterior-sorted-discounted": ("posterior-sorted", "discount"),
}
MEMORY = 300

COUNTED = {  # how often N arms are counted in the logarithm
    "posterior-ratio": lambda t: 1,
    "posterior-ratio-decay": lambda t: t,
    "calibrated": lambda t: 2,
}


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al. 2011, section 4.3): four words from a counter and a key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 // WORD) ^ c1 ^ k0, p1 % WORD, (p0 // WORD) ^ c3 ^ k1, p0 % WORD
        k0, k1 = (k0 + 0x9E3779B9) % WORD, (k1 + 0xBB67AE85) % WORD
    return c0, c1, c2, c3


@cache
def word(seed, trial, round_, slot):
    """The word of an address: one counter holds four neighbouring slots."""
    counter = (slot // 4, round_, trial % WORD, trial // WORD)
    return philox(counter, (seed % WORD, seed // WORD))[slot % 4]


def weight(how, memory, age):
    """docs/model.md (17), (18): what a round counts for after `age` more."""
    return Fraction(memory - 1, memory) ** age if how == "discount" else int(age < memory)


def recalled(how, memory, t, tests=1):
    """What is left of t rounds, or of the t tests of an arm that has `tests` in each; of a window, the most it can have."""
    if how == "window":
        return tests * min(t, memory)
    gamma = 1 - 1 / memory
    return tests * (1 - gamma ** (t / tests)) / (1 - gamma)


@cache
def G(T, A):
    """eq:G(T,A), term by term; C(T+A, A) - 1 for a T that is not whole."""
    if isinstance(T, float):
        return math.prod(1 + T / i for i in range(1, A + 1)) - 1
    return sum(math.comb(t + A - 1, A - 1) for t in range(1, T + 1))


def log_of(count, delta):
    """ln(count / delta) for a whole number of any size."""
    return math.log(count) - math.log(delta)


@cache
def shared_sums(s, c_n, y_n):
    """sum_a s_a y_an and sum_a s_a^2 c_an of one arm, exactly."""
    W = sum((Fraction(s_a) * y for s_a, y in zip(s, y_n, strict=True)), Fraction(0))
    V = sum((Fraction(s_a) ** 2 * c for s_a, c in zip(s, c_n, strict=True)), Fraction(0))
    return W, V


def muhat_shared(s, c_n, y_n):
    """eq:muhat_t,n"""
    W, V = shared_sums(tuple(s), tuple(c_n), tuple(y_n))
    return float(W / V) if V else 0.5


def epsilon_shared(s, c_n, N, T, delta):
    """eq:epsilon_t,n"""
    _, V = shared_sums(tuple(s), tuple(c_n), tuple(c_n))
    return math.sqrt(log_of(2 * N * G(T, len(s)), delta) / (2 * float(V))) if V else INF


def muhat_own(s_a, c_an, y_an):
    """eq:muhat_t,a,n"""
    return float(Fraction(y_an) / (Fraction(s_a) * c_an)) if c_an else 0.5


def epsilon_own(s_a, c_an, A, N, T, delta):
    """eq:epsilon_t,a,n"""
    return math.sqrt(log_of(2 * A * N * T, delta) / (2 * c_an)) / s_a if c_an else INF


def column(table, n):
    """The entries of arm n."""
    return tuple(row[n] for row in table)


def ucb_min_width(s, c, y, n, t, delta):
    """eq:min-width-UCB_t,n"""
    N = len(c[0])
    mean = muhat_shared(s, column(c, n), column(y, n))
    return mean + epsilon_shared(s, column(c, n), N, t, delta)


def epsilon_grouped(s, c_n, N, T, delta):
    """docs/beyond.md (1): the union bound over pulls of each kind of agent."""
    _, V = shared_sums(tuple(s), tuple(c_n), tuple(c_n))
    return math.sqrt(log_of(2 * N * G(T, len(set(s))), delta) / (2 * float(V))) if V else INF


def epsilon_mixture(s, c_n, N, delta, rho=1.0):
    """docs/beyond.md (2): |M| at which sqrt(rho/(V+rho)) exp(2 M^2/(V+rho)) reaches N/delta, over V."""
    _, V = shared_sums(tuple(s), tuple(c_n), tuple(c_n))
    if not V:
        return INF
    level = math.log(N / delta) + math.log((float(V) + rho) / rho) / 2
    return math.sqrt(level * (float(V) + rho) / 2) / float(V)


def ucb_grouped(s, c, y, n, t, delta):
    """Estimate plus the width that counts equal agents as one."""
    mean = muhat_shared(s, column(c, n), column(y, n))
    return mean + epsilon_grouped(s, column(c, n), len(c[0]), t, delta)


def ucb_mixture(s, c, y, n, delta):
    """Estimate plus the width of the normal mixture."""
    mean = muhat_shared(s, column(c, n), column(y, n))
    return mean + epsilon_mixture(s, column(c, n), len(c[0]), delta)


def failures_by_kind(s, c_n, y_n):
    """(sensitivity, failures) of each kind of agent: with the successes, all that l depends on."""
    kinds = {}
    for s_a, pulls, hits in zip(s, c_n, y_n, strict=True):
        kinds[s_a] = kinds.get(s_a, 0) + pulls - hits
    return sorted(kinds.items())


def log_likelihood(hits, failures, mu):
    """docs/beyond.md (3)"""
    total = hits * math.log(mu) if hits else 0.0
    return total + sum(f * math.log1p(-s_k * mu) for s_k, f in failures if f)


def halved(low, high, goes_up):
    """The end of halving an interval: neighbouring numbers, `goes_up` being true below and false above."""
    for _ in range(1100):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if goes_up(middle) else (low, middle)
    return low, high


def likeliest(hits, failures, limit):
    """Where the likelihood peaks on (0, limit]."""

    def rising(mu):
        return hits / mu > sum(f * s_k / (1 - s_k * mu) for s_k, f in failures)

    return halved(0.0, limit, rising)[1]


def highest(s, hits, failures, level):
    """The largest mean up to 1/s_1 whose log-likelihood is at least `level`."""
    limit = math.nextafter(1 / max(s), 0)
    peak = likeliest(hits, failures, limit)
    if log_likelihood(hits, failures, limit) >= level:
        return limit
    return halved(peak, limit, lambda mu: log_likelihood(hits, failures, mu) >= level)[0]


def kl_ucb(s, c_n, y_n, drop):
    """docs/beyond.md (4), by halving intervals: first to the peak, then to where it has fallen."""
    if not sum(c_n):
        return INF
    hits, failures = sum(y_n), failures_by_kind(s, c_n, y_n)
    peak = likeliest(hits, failures, math.nextafter(1 / max(s), 0))
    return highest(s, hits, failures, log_likelihood(hits, failures, peak) - drop)


class Posterior:
    """docs/beyond.md (5): the posterior of a mean under a uniform prior on [0, 1], by SciPy's quad."""

    def __init__(self, hits, failures):
        self.hits, self.failures = hits, failures
        self.prepare()

    def log_likelihood(self, mu):
        """l"""
        return log_likelihood(self.hits, self.failures, mu)

    def slope(self, mu):
        """l'"""
        return slope(self.hits, self.failures, mu)

    def bend(self, mu):
        """-l''"""
        rise = self.hits / mu**2 if self.hits else 0.0
        return rise + sum(f * (s_k / (1 - s_k * mu)) ** 2 for s_k, f in self.failures if f)

    def likeliest(self, limit):
        """Where l peaks up to `limit`."""
        return likeliest(self.hits, self.failures, limit)

    def at_zero(self):
        """l(0)"""
        return -INF if self.hits else 0.0

    def at_one(self):
        """l(1)"""
        certain = any(s_k == 1 for s_k, f in self.failures if f)
        return -INF if certain else self.log_likelihood(1.0)

    def prepare(self):
        """The peak up to 1, and what is needed to integrate over all that is not negligible."""
        self.peak = self.likeliest(math.nextafter(1.0, 0))
        self.top = self.log_likelihood(self.peak)

        def inside(mu):
            return self.top - self.log_likelihood(mu) < 60

        far = self.top - self.at_zero() >= 60
        low = halved(0.0, self.peak, lambda mu: not inside(mu))[0] if far else 0.0
        high = halved(self.peak, 1.0, inside)[1]
        parts = [0.0, 0.05, 0.2, 0.5, 1.0]
        self.edges = sorted(
            {self.peak - (self.peak - low) * x for x in parts}
            | {self.peak + (high - self.peak) * x for x in parts}
        )
        self.mass = self.integral(lambda mu: 1.0, 1.0)

    def density(self, mu):
        """exp(l) over its greatest value."""
        return math.exp(self.log_likelihood(mu) - self.top)

    def integral(self, weight, upto):
        """Of weight times density, from 0 to there."""
        edges = [edge for edge in self.edges if edge < upto]
        edges.append(min(upto, self.edges[-1]))
        with warnings.catch_warnings():
            # beside a million pulls l is rounded to 1e-10, and quad says that it cannot get to 1e-13
            warnings.simplefilter("ignore", IntegrationWarning)
            return math.fsum(
                quad(lambda mu: weight(mu) * self.density(mu), a, b, epsabs=0, epsrel=1e-13)[0]
                for a, b in itertools.pairwise(edges)
                if b > a
            )

    @property
    def log_evidence(self):
        """ln Z"""
        return self.top + math.log(self.mass)

    @property
    def mean(self):
        """The posterior mean."""
        return self.integral(lambda mu: mu, 1.0) / self.mass

    def share_below(self, mu):
        """The distribution function."""
        return self.integral(lambda mu: 1.0, mu) / self.mass

    def interval(self, log):
        """docs/beyond.md (6), both ends: where the log-likelihood is `log` below the evidence, or 0 and 1."""
        return self.lowest(self.log_evidence - log), self.highest(self.log_evidence - log, 1.0)

    def lowest(self, level):
        """The least mean whose log-likelihood is at least `level`."""
        if self.at_zero() >= level:
            return 0.0
        return halved(0.0, self.peak, lambda mu: self.log_likelihood(mu) < level)[1]

    def reaching(self, level):
        """The largest one below 1; from there on 1 and by how much l(1) is above the level."""
        left = self.at_one() - level
        return 1.0 + left if left > 0 else self.highest(level, 1.0)

    def highest(self, level, limit):
        """The largest one up to `limit`."""
        inside = math.nextafter(limit, 0)
        if self.log_likelihood(inside) >= level:
            return limit
        peak = self.likeliest(inside)
        return halved(peak, limit, lambda mu: self.log_likelihood(mu) >= level)[0]


@cache
def posterior(hits, failures):
    """The posterior after so many successes and these failures by kind."""
    return Posterior(hits, failures)


def posterior_of(s, c_n, y_n):
    """The posterior of one arm."""
    return posterior(sum(y_n), tuple(failures_by_kind(s, c_n, y_n)))


@cache
def posterior_ratio(s, hits, failures, log):
    """docs/beyond.md (6): the largest mean whose log-likelihood is within `log` of the evidence, or 1 and by how much 1 is."""
    known = posterior(hits, failures)
    return known.reaching(known.log_evidence - log)


@cache
def quantile(hits, failures, t):
    """docs/beyond.md (11): the mean exceeded with posterior probability 1/t."""
    known = posterior(hits, failures)
    return halved(0.0, 1.0, lambda mu: t * (1 - known.share_below(mu)) > 1)[1] if t > 1 else 0.0


def ucb_posterior(s, c_n, y_n, log):
    """The same for one arm, infinite before the first pull."""
    if not sum(c_n):
        return INF
    return posterior_ratio(tuple(s), sum(y_n), tuple(failures_by_kind(s, c_n, y_n)), log)


def slope(hits, failures, mu):
    """l'"""
    rise = hits / mu if hits else 0.0
    return rise - sum(f * s_k / (1 - s_k * mu) for s_k, f in failures if f)


class Bound:
    """docs/beyond.md (9): h, from its left tail over the flat part to its right tail."""

    def __init__(self, posterior):
        self.posterior = posterior
        m = posterior.peak
        bend = posterior.bend(m)
        self.edges, self.scales = [0.0, 1.0], [0.0, 0.0]
        for i, side in enumerate((-1, 1)):
            falls = max(0.0, -side * posterior.slope(m))
            if not (falls or bend):
                continue
            touch = m + side * 2 / (falls + math.sqrt(falls**2 + 2 * bend))
            if 0 < touch < 1:
                self.scales[i] = abs(1 / posterior.slope(touch))
                drop = posterior.top - posterior.log_likelihood(touch)
                self.edges[i] = touch - side * drop * self.scales[i]
        self.mass = self.scales[0] + self.edges[1] - self.edges[0] + self.scales[1]

    def log(self, mu):
        """ln h"""
        low, high = self.edges
        if low <= mu <= high:
            return 0.0
        away, scale = (low - mu, self.scales[0]) if mu < low else (mu - high, self.scales[1])
        return -away / scale if scale else -INF

    def quantile(self, u):
        """Where a share u of h lies below."""
        low, high = self.edges
        below, above = u * self.mass, (1 - u) * self.mass
        if below < self.scales[0]:
            return low + self.scales[0] * math.log(below / self.scales[0])
        if above < self.scales[1]:
            return high - self.scales[1] * math.log(above / self.scales[1])
        return low + below - self.scales[0]


@cache
def bound(posterior):
    """The bound on this posterior's density."""
    return Bound(posterior)


def drawn(posterior, key):
    """docs/beyond.md (9), by von Neumann's rejection with the words of a stream of its own."""
    h = bound(posterior)
    words = (w for i in itertools.count() for w in philox((i, 0, 0, 0), key))
    while True:
        u, v = ((next(words) + 0.5) / WORD for _ in range(2))
        mu = h.quantile(u)
        if 0 < mu < 1:
            l = posterior.log_likelihood(mu) - posterior.top
            if math.log(v) + h.log(mu) <= l:
                return mu


def thompson(hits, failures, key):
    """The same after so many successes and these failures by kind."""
    return drawn(posterior(hits, failures), key)


class Reported(Posterior):
    """The same where agents give false alarms: a report is 1 with probability phi + d mu, that of a plain coin.

    `reports` are (d, phi, pulls, successes) of each agent. l has no constant dropped here.
    """

    def __init__(self, reports):
        self.reports = tuple((d, phi, c, y) for d, phi, c, y in reports if c)
        self.limit = min(((1 - phi) / d for d, phi, _, _ in reports), default=1.0)
        self.prepare()

    def log_likelihood(self, mu):
        """l, minus infinity where what was reported cannot have been."""
        terms = []
        for d, phi, c, y in self.reports:
            p = phi + d * mu
            if (y and p <= 0) or (c > y and p >= 1):
                return -INF
            terms += [y * math.log(p) if y else 0.0, (c - y) * math.log1p(-p) if c > y else 0.0]
        return math.fsum(terms)

    def slope(self, mu):
        """l'"""
        return math.fsum(self.slopes(mu))

    def slopes(self, mu):
        """The terms of l'."""
        terms = []
        for d, phi, c, y in self.reports:
            p = phi + d * mu
            terms += [y * d / p if y else 0.0, -(c - y) * d / (1 - p) if c > y else 0.0]
        return terms

    def bend(self, mu):
        """-l''"""
        terms = []
        for d, phi, c, y in self.reports:
            p = phi + d * mu
            terms += [
                y * (d / p) ** 2 if y else 0.0,
                (c - y) * (d / (1 - p)) ** 2 if c > y else 0.0,
            ]
        return math.fsum(terms)

    def likeliest(self, limit):
        """Where l peaks on [0, limit]: at 0 if it falls from there on."""

        def rising(mu):
            if any(c > y and phi + d * mu >= 1 for d, phi, c, y in self.reports):
                return False
            return self.slope(mu) > 0

        if not any(y for *_, y in self.reports) and self.reports:
            return 0.0
        possible = all(phi or not y for _, phi, _, y in self.reports)
        if self.reports and possible and self.slope(0.0) <= 0:
            return 0.0
        return limit if rising(limit) else halved(0.0, limit, rising)[1]

    def at_zero(self):
        """l(0)"""
        return self.log_likelihood(0.0)

    def at_one(self):
        """l(1)"""
        return self.log_likelihood(1.0)

    @property
    def dropped(self):
        """The constant that docs/beyond.md (3) leaves out: with it ln d for a success, ln(1 - phi) for a failure."""
        return math.fsum(
            y * math.log(d) + (c - y) * math.log1p(-phi) for d, phi, c, y in self.reports
        )

    def kl_ucb(self, drop):
        """docs/beyond.md (4): the largest mean up to 1/s_1 within `drop` of the greatest l; infinite before a pull."""
        if not self.reports:
            return INF
        inside = math.nextafter(self.limit, 0)
        peak = self.likeliest(inside)
        if not drop:  # l is strictly concave, but beside false alarms it rounds to a plateau
            return self.limit if peak == inside else peak
        return self.highest(self.log_likelihood(peak) - drop, self.limit)

    def ratio(self, log):
        """docs/beyond.md (6): the largest mean within `log` of the evidence, or 1 and by how much 1 is."""
        return self.reaching(self.log_evidence - log) if self.reports else INF


def reported_sums(reports):
    """V = sum d^2 c and W = sum d (y - phi c), exactly."""
    V = sum((Fraction(d) ** 2 * c for d, _, c, _ in reports), Fraction(0))
    W = sum((Fraction(d) * (y - Fraction(phi) * c) for d, phi, c, y in reports), Fraction(0))
    return V, W


def ucb_pbm(reports, t):
    """docs/beyond.md (15), of what each agent reported: (d, phi, pulls, successes); infinite before a pull."""
    pulls = sum(c for _, _, c, _ in reports)
    if not pulls:
        return INF
    D = sum(Fraction(d) * c for d, _, c, _ in reports)
    S = sum(y - Fraction(phi) * c for _, phi, c, y in reports)
    return float(S / D) + math.sqrt(pulls / float(D)) * math.sqrt(math.log(t) / (2 * float(D)))


def bernoulli_divergence(p, q):
    """d(p, q) of two chances."""
    if (p and q <= 0) or (p < 1 and q >= 1):
        return INF
    hit = p * math.log(p / q) if p else 0.0
    return hit + ((1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0)


def pie_bound(reports, t):
    """docs/beyond.md (16): the largest mean from the least divergence up to 1 at which this is at most ln t."""
    seen = [(d, phi, c, y) for d, phi, c, y in reports if c]

    def divergence(q):
        return sum(c * bernoulli_divergence(y / c, phi + d * q) for d, phi, c, y in seen)

    def falls(q):
        if any(phi + d * q >= 1 and y < c for d, phi, c, y in seen):
            return False
        slopes = [
            ((c - y) * d / (1 - phi - d * q) if c > y else 0.0)
            - (y * d / (phi + d * q) if y else 0.0)
            for d, phi, c, y in seen
        ]
        return math.fsum(slopes) < 0

    least = 1.0 if falls(1.0) else halved(0.0, 1.0, falls)[0]
    if divergence(1.0) <= math.log(t):
        return 1.0
    return halved(least, 1.0, lambda q: divergence(q) <= math.log(t))[0]


def pie_rows(reports, t, keys, order):
    """docs/beyond.md (16): the index and the estimate of every arm; keys are its word of ties and, for all, one to draw by.

    Estimates are compared as fractions. `order` is that in which the agents pick.
    """
    A, N = len(order), len(reports)
    ties, draws = keys[:N], keys[N:]
    estimate = [INF] * N
    for n, of_n in enumerate(reports):
        if any(c for _, _, c, _ in of_n):
            expected = sum(Fraction(d) * c for d, _, c, _ in of_n)
            estimate[n] = sum(y - Fraction(phi) * c for _, phi, c, y in of_n) / expected
    ranked = sorted(range(N), key=lambda n: (estimate[n], ties[n]), reverse=True)
    last = ranked[A - 1]
    index = list(map(float, estimate))
    bounds = {n: pie_bound(reports[n], t) for n in ranked[A:]}
    able = [
        n for n, bound in bounds.items() if bound * (1 + 1e-9) >= estimate[last]
    ]  # a tie is one
    if able and draws[last] < WORD // 2:
        drawn = max(able, key=lambda n: draws[n])
        index[drawn] = max(bounds[drawn], math.nextafter(float(estimate[last]), INF))
    rows = [index, list(map(float, estimate))]
    been = [[reports[n][a][2] > 0 for a in order] for n in range(N)]
    if all(any(not been[n][q] for n in range(N)) for q in range(A)):  # the beginning
        for n in range(N):
            waits_for = [q for q in range(A - 1) if been[n][q + 1] and not been[n][q]]
            if waits_for:
                rows[0][n], rows[1][n] = 2.0**41, -waits_for[-1]
            elif not all(been[n]):
                rows[0][n], rows[1][n] = 2.0**40 - sum(been[n]), 1 - A
    return rows


def ucb_own(s, c, y, a, n, t, delta):
    """eq:UCB_t,a,n"""
    A, N = len(c), len(c[0])
    return muhat_own(s[a], c[a][n], y[a][n]) + epsilon_own(s[a], c[a][n], A, N, t, delta)


def ucb_min_ucb(s, c, y, n, t, delta):
    """eq:min-UCB_UCB_t,n"""
    return min(ucb_own(s, c, y, a, n, t, delta) for a in range(len(s)))


def ucb_plain(pulls, successes, count, t, delta):
    """eq:cucb_alg_ucb with count = N, eq:ucb_alg_ucb with count = N!/(N-A)!"""
    if not pulls:
        return INF
    return successes / pulls + math.sqrt(log_of(2 * count * t, delta) / (2 * pulls))


def greedy(s, c, y, n):
    """Min-Width's estimate alone; infinite before the first pull."""
    return muhat_shared(s, column(c, n), column(y, n)) if sum(column(c, n)) else INF


def index_rows(policy, s, c, y, t, delta, mu=None, draws=None):
    """The index of every arm: one row that all agents share, or one row for each agent.

    For the policies in SORTED two: what arms are chosen by, and what they are dealt by. `draws` are the
    words that Thompson's means are drawn with, two for each arm.
    """
    A, N = len(c), len(c[0])
    arms = range(N)
    if policy in FORGETS:
        base, how = FORGETS[policy]
        return index_rows(base, s, c, y, recalled(how, MEMORY, t), delta)
    if policy == "min-width":
        return [[ucb_min_width(s, c, y, n, t, delta) for n in arms]]
    if policy == "min-width-grouped":
        return [[ucb_grouped(s, c, y, n, t, delta) for n in arms]]
    if policy == "mixture-width":
        return [[ucb_mixture(s, c, y, n, delta) for n in arms]]
    if policy == "kl-ucb":
        return [[kl_ucb(s, column(c, n), column(y, n), math.log(t)) for n in arms]]
    if policy == "pbm-pie":
        reports = [[(s[a], 0, c[a][n], y[a][n]) for a in range(A)] for n in arms]
        return pie_rows(reports, t, draws, picking_order(s))
    if policy == "pbm-ucb":
        return [[ucb_pbm([(s[a], 0, c[a][n], y[a][n]) for a in range(A)], t) for n in arms]]
    if policy in SORTED:
        chooser = index_rows(SORTED[policy], s, c, y, t, delta, mu, draws)
        return [*chooser, [posterior_of(s, column(c, n), column(y, n)).mean for n in arms]]
    if policy in COUNTED:
        log = log_of(N * COUNTED[policy](t), delta)
        return [[ucb_posterior(s, column(c, n), column(y, n), log) for n in arms]]
    if policy == "quantile":
        seen = [(column(c, n), column(y, n)) for n in arms]
        return [[quantile(sum(y_n), tuple(failures_by_kind(s, c_n, y_n)), t) for c_n, y_n in seen]]
    if policy == "season quantile":  # t are the rounds left
        seen = [(column(c, n), column(y, n)) for n in arms]
        odds = 1 + t / max(1.0, math.log(t)) ** 1.25
        return [
            [quantile(sum(y_n), tuple(failures_by_kind(s, c_n, y_n)), odds) for c_n, y_n in seen]
        ]
    if policy == "thompson":
        known = [(sum(column(y, n)), column(c, n), column(y, n)) for n in arms]
        return [
            [
                thompson(hits, tuple(failures_by_kind(s, c_n, y_n)), draws[2 * n : 2 * n + 2])
                for n, (hits, c_n, y_n) in enumerate(known)
            ]
        ]
    if policy == "min-ucb":
        return [[ucb_min_ucb(s, c, y, n, t, delta) for n in arms]]
    if policy == "no-sharing":
        return [[ucb_own(s, c, y, a, n, t, delta) for n in arms] for a in range(A)]
    if policy == "cucb":
        pooled = [(sum(column(c, n)), sum(column(y, n))) for n in arms]
        return [[ucb_plain(pulls, hits, N, t, delta) for pulls, hits in pooled]]
    if policy == "greedy":
        return [[greedy(s, c, y, n) for n in arms]]
    if policy == "random":
        return [[0.0] * N]
    if policy == "oracle":
        return [list(mu)]
    raise ValueError(f"no transcription of {policy}")


def reported_rows(policy, reports, t, delta, mu=None, draws=None):
    """The same where agents give false alarms: reports[n] are (d, phi, pulls, successes) of each agent on arm n.

    docs/model.md (2) to (4); what all of them reported is a `Reported`, the others subtract what is false.
    """
    N, A = len(reports), len(reports[0])
    if policy in SORTED:
        chooser = reported_rows(SORTED[policy], reports, t, delta, mu, draws)
        return [*chooser, [Reported(of_n).mean for of_n in reports]]
    if policy == "pbm-pie":
        return pie_rows(reports, t, draws, picking_order([d + phi for d, phi, _, _ in reports[0]]))
    if policy in ("random", "oracle", "cucb"):
        c, y = ([[of_n[a][i] for of_n in reports] for a in range(A)] for i in (2, 3))
        return index_rows(policy, None, c, y, t, delta, mu)

    def own(a, n):
        d, phi, c, y = reports[n][a]
        if not c:
            return INF
        estimate = (y - Fraction(phi) * c) / (Fraction(d) * c)
        return float(estimate) + math.sqrt(log_of(2 * A * N * t, delta) / (2 * c)) / d

    if policy == "no-sharing":
        return [[own(a, n) for n in range(N)] for a in range(A)]
    row = []
    for n, of_n in enumerate(reports):
        V, W = reported_sums(of_n)
        kinds = len({report[:2] for report in of_n})
        known = Reported(of_n)
        if policy == "thompson":
            row.append(drawn(known, draws[2 * n : 2 * n + 2]))
        elif policy in ("quantile", "season quantile"):
            odds = 1 + t / max(1.0, math.log(t)) ** 1.25 if policy.startswith("season") else t
            up = odds > 1
            above = lambda mu, known=known, odds=odds: odds * (1 - known.share_below(mu)) > 1  # noqa: E731
            row.append(halved(0.0, 1.0, above)[1] if up else 0.0)
        elif not V:
            row.append(INF)
        elif policy == "pbm-ucb":
            row.append(ucb_pbm(of_n, t))
        elif policy == "min-ucb":
            row.append(min(own(a, n) for a in range(A)))
        elif policy == "kl-ucb":
            row.append(known.kl_ucb(math.log(t)))
        elif policy in COUNTED:
            row.append(known.ratio(log_of(N * COUNTED[policy](t), delta)))
        else:
            v = float(V)
            width = {
                "greedy": lambda v: 0.0,
                "min-width": lambda v: math.sqrt(log_of(2 * N * G(t, A), delta) / (2 * v)),
                "min-width-grouped": lambda v, K=kinds: math.sqrt(
                    log_of(2 * N * G(t, K), delta) / (2 * v)
                ),
                "mixture-width": lambda v: (
                    math.sqrt((log_of(N, delta) + math.log1p(v) / 2) * (v + 1) / 2) / v
                ),
            }[policy]
            row.append(float(W / V) + width(v))
    return [row]


def picking_order(s):
    """The agents from the most to the least sensitive, of equals the first listed first."""
    return sorted(range(len(s)), key=lambda a: (-s[a], a))


def greedy_assignment(rows, ties, count):
    """The arms picked in turn: the free arm with the highest (index, tie key) of the turn's row."""
    free = set(range(len(rows[0])))
    picked = []
    for q in range(count):
        row, keys = (rows[q], ties[q]) if len(rows) > 1 else (rows[0], ties[0])
        best = max(free, key=lambda n: (row[n], keys[n]))
        free.remove(best)
        picked.append(best)
    return picked


def expected_reward(mu, s, f):
    """sum_a s_a mu_f(a)"""
    return sum(s_a * mu[n] for s_a, n in zip(s, f, strict=True))


def best_reward(mu, s):
    """The expected reward of eq:f_star, by trying every assignment."""
    return max(expected_reward(mu, s, f) for f in itertools.permutations(range(len(mu)), len(s)))


def regret(mu, s, assignments):
    """eq:regret_def of a sequence of assignments."""
    best = best_reward(mu, s)
    return sum(best - expected_reward(mu, s, f) for f in assignments)


def succeeded(word, n, p):
    """How many of n tests of this chance succeed with this word: the inverse of their distribution, exactly."""
    p = Fraction(p)
    chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    return sum(word < sum(chances[k:]) * WORD for k in range(1, n + 1))


def play(
    policy,
    mu,
    s,
    T,
    seed,
    trial,
    believed=None,
    delta=0.05,
    fixed_t=None,
    phi=None,
    rates=None,
    tests=None,
    memory=MEMORY,
    delay=0,
    counted=True,
):
    """One trial on the luck of its addresses: yields (assignment, c, y) after every round.

    Everything is in the order in which the agents are listed, as in the paper; only the
    addresses of tie-breaks and turns go by the order in which they pick. The most tests that an
    arm can have in fixed_t rounds stand for the rounds elapsed until these are more. `phi` are the rates of false alarms, `rates` those believed;
    `tests` is how many each agent makes in a visit. Where means change, `mu` is a function of the round. Outcomes come `delay`
    rounds late; until then a visit counts with what is expected of it, if it is counted.
    """
    means_in = mu if callable(mu) else lambda _: mu
    tests = tests or [1] * len(s)
    believed = s if believed is None else believed
    alarms = phi is not None
    phi = phi or [0.0] * len(s)
    rates = rates or phi
    A, N = len(s), len(means_in(1))
    order = picking_order(
        [n * x for n, x in zip(tests, s if policy == "oracle" else believed, strict=True)]
    )
    c = [[0] * N for _ in range(A)]
    y = [[0] * N for _ in range(A)]
    supers = list(itertools.permutations(range(N), A))
    C, Y = [0] * len(supers), [0] * len(supers)
    base, how = FORGETS.get(policy, (policy, None))
    visits = []  # round, agent, arm, successes
    for round_ in range(1, T + 1):
        mu = means_in(round_)
        words = [
            word(seed, trial, round_, i) for i in range(N + max(A * N, len(supers), N) + 2 * N)
        ]
        known = [[0] * N for _ in range(A)]
        for r, a, n, _ in visits:
            known[a][n] += tests[a] if r < round_ - delay else 0
        t = max((fixed_t or 0) * max(tests), round_ - 1, *(sum(column(known, n)) for n in range(N)))
        seen_c, seen_y = c, y
        if policy == "season":
            t = T - (round_ - 1)
        if how:
            t = recalled(how, memory, max(1, t), max(tests))
        if how or delay:
            seen_c, seen_y, awaited = ([[0] * N for _ in range(A)] for _ in range(3))
            for r, a, n, success in visits:
                counts_for = weight(how, memory, round_ - 1 - r) if how else 1
                if r < round_ - delay:
                    seen_c[a][n] += counts_for * tests[a]
                    seen_y[a][n] += counts_for * success
                else:
                    awaited[a][n] += counts_for * tests[a]
            if counted:
                count_expected(believed, rates, seen_c, seen_y, awaited)
        if policy == "ucb":
            index = [ucb_plain(C[i], Y[i], len(supers), t or 1, delta) for i in range(len(supers))]
            chosen = max(range(len(supers)), key=lambda i: (index[i], words[N + i]))
            turns, picked = order, supers[chosen]
        else:
            draws = words[2 * N : 4 * N]
            if alarms or policy == "pbm-pie":
                s_, phi_ = (s, phi) if policy == "oracle" else (believed, rates)
                reports = [
                    [(s_[a] - phi_[a], phi_[a], seen_c[a][n], seen_y[a][n]) for a in range(A)]
                    for n in range(N)
                ]
                if policy == "pbm-pie":
                    rows = pie_rows(reports, t or 1, words[N : 3 * N], order)
                else:
                    rows = reported_rows(base, reports, t or 1, delta, mu, draws)
            else:
                rows = index_rows(base, believed, seen_c, seen_y, t or 1, delta, mu, draws)
            if policy == "no-sharing":
                rows = [rows[a] for a in order]
            ties = [words[N + i * N : N + i * N + N] for i in range(len(rows))]
            turns = order
            if policy == "cucb":
                draws = words[2 * N : 2 * N + A]
                turns = [order[q] for q in sorted(range(A), key=lambda q: (-draws[q], q))]
            if base in SORTED or base == "pbm-pie":
                chosen = greedy_assignment(rows[:1], ties, A)
                picked = sorted(chosen, key=lambda n: (rows[1][n], ties[0][n]), reverse=True)
            else:
                picked = greedy_assignment(rows, ties, A)
        f = [0] * A
        for a, n in zip(turns, picked, strict=True):
            f[a] = n
            success = succeeded(words[n], tests[a], phi[a] + (s[a] - phi[a]) * mu[n])
            c[a][n] += tests[a]
            y[a][n] += success
            visits.append((round_, a, n, success))
            if policy == "ucb":
                Y[chosen] += success
        if policy == "ucb":
            C[chosen] += 1
        yield tuple(f), [row[:] for row in c], [row[:] for row in y]


def count_expected(s, rates, c, y, awaited):
    """Count tests that are under way as pulls, and as successes what is expected of them by the posterior mean."""
    agents, arms = range(len(c)), range(len(c[0]))
    for n in arms:
        if not any(awaited[a][n] for a in agents):
            continue
        reports = [(s[a] - rates[a], rates[a], c[a][n], y[a][n]) for a in agents]
        silent = not any(rates)
        mean = (
            posterior_of(s, column(c, n), column(y, n)).mean if silent else Reported(reports).mean
        )
        for a in agents:
            c[a][n] += awaited[a][n]
            y[a][n] += awaited[a][n] * (rates[a] + (s[a] - rates[a]) * mean)


def assignment_chances(policy, s, believed, c, y, supers, t, delta, mu):
    """The probability of every assignment in the next round, over all tie-breaks and turns."""
    chances = defaultdict(float)
    A = len(s)
    if policy == "ucb":
        index = [ucb_plain(C, Y, len(supers), t, delta) for C, Y in supers.values()]
        best = [f for f, value in zip(supers, index, strict=True) if value == max(index)]
        for f in best:
            chances[f] += 1 / len(best)
        return chances
    order = picking_order(s if policy == "oracle" else believed)
    rows = index_rows(policy, believed, c, y, t, delta, mu)
    all_turns = list(itertools.permutations(order)) if policy == "cucb" else [tuple(order)]

    def deal(picked, dealt, chance):
        """Where agents are sorted: the arms picked go to the agents in turn by the second row."""
        if not picked:
            f = [0] * A
            for a, n in zip(order, dealt, strict=True):
                f[a] = n
            chances[tuple(f)] += chance
            return
        best = [n for n in picked if rows[1][n] == max(rows[1][m] for m in picked)]
        for n in best:
            deal([m for m in picked if m != n], (*dealt, n), chance / len(best))

    def pick(turns, picked, chance):
        if len(picked) == A and policy in SORTED:
            deal(picked, (), chance)
            return
        if len(picked) == A:
            f = [0] * A
            for a, n in zip(turns, picked, strict=True):
                f[a] = n
            chances[tuple(f)] += chance
            return
        row = rows[turns[len(picked)]] if policy == "no-sharing" else rows[0]
        free = [n for n in range(len(row)) if n not in picked]
        best = [n for n in free if row[n] == max(row[m] for m in free)]
        for n in best:
            pick(turns, (*picked, n), chance / len(best))

    for turns in all_turns:
        pick(turns, (), 1 / len(all_turns))
    return chances


def expected_regrets(policy, mu, s, T, believed=None, delta=0.05):
    """The expected regret after each of T rounds, over all outcomes, tie-breaks and turns."""
    believed = s if believed is None else believed
    A, N = len(s), len(mu)
    best = best_reward(mu, s)
    permutations = list(itertools.permutations(range(N), A)) if policy == "ucb" else []
    nothing = tuple((0,) * N for _ in range(A))
    states = {(nothing, nothing, tuple((0, 0) for _ in permutations)): 1.0}
    total, curve = 0.0, []
    for elapsed in range(T):
        following = defaultdict(float)
        for (c, y, totals), chance in states.items():
            supers = dict(zip(permutations, totals, strict=True))
            choices = assignment_chances(
                policy, s, believed, c, y, supers, max(1, elapsed), delta, mu
            )
            for f, share in choices.items():
                total += chance * share * (best - expected_reward(mu, s, f))
                for outcome in itertools.product((0, 1), repeat=A):
                    luck = math.prod(
                        s[a] * mu[f[a]] if outcome[a] else 1 - s[a] * mu[f[a]] for a in range(A)
                    )
                    if luck == 0:
                        continue
                    c_new = [list(row) for row in c]
                    y_new = [list(row) for row in y]
                    for a in range(A):
                        c_new[a][f[a]] += 1
                        y_new[a][f[a]] += outcome[a]
                    totals_new = tuple(
                        (C + 1, Y + sum(outcome)) if g == f else (C, Y)
                        for g, (C, Y) in supers.items()
                    )
                    key = (tuple(map(tuple, c_new)), tuple(map(tuple, y_new)), totals_new)
                    following[key] += chance * share * luck
        states = following
        curve.append(total)
    return curve
