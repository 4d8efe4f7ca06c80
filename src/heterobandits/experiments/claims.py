"""The claims of the paper's text as named checks, each with the numbers behind its verdict.

A claim is data: where it stands, what it says in our words, which experiments it needs, and a
function from the evidence to a verdict and a sentence. A comparison passes if its confidence
interval lies on the claimed side of zero, fails if it lies on the other, and is unclear otherwise.
So is a claim about measurements that no run of this length could contradict; arithmetic passes if it is right. The sentence says how far the
numbers are from contradicting it or, of a claim about many settings, in how many it holds.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heterobandits.experiments.catalogue import CASES, SYNTHETIC, Experiment
from heterobandits.experiments.tables import (
    LEVEL,
    ordered,
    rankings,
    ratio_percent,
)
from heterobandits.experiments.theory import Theory
from heterobandits.inference.bounds import log_term
from heterobandits.limits import DEFAULT_DELTA
from heterobandits.policies.catalogue import PAPER
from heterobandits.simulation.moments import reach
from heterobandits.simulation.results import Results

Verdict = Literal["pass", "fail", "unclear"]
Finding = tuple[Verdict, str]
Floats = npt.NDArray[np.float64]

AWARE = ("min-width", "min-ucb", "no-sharing")
CANONICAL = ("cucb", "ucb")
ALIKE = 1.25  # "similar" means: within a quarter of each other; "much longer": by a quarter or more
APART = (1.25, 1.5, 2.0)  # "different" means: by these factors
RANGERS = ("poaching-2", "poaching-3", "poaching-5")
SYNTHETIC_NAMES = tuple(experiment.name for experiment in SYNTHETIC)


@dataclass(frozen=True)
class Evidence:
    """Everything measured."""

    results: dict[str, Results]
    theory: dict[str, Theory]
    delta: float = DEFAULT_DELTA


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that numbers can contradict."""

    id: str
    section: str
    text: str
    needs: tuple[str, ...]
    check: Callable[[Evidence], Finding]


def joint(verdicts: Iterable[Verdict]) -> Verdict:
    """All must pass; one that fails fails all."""
    verdicts = list(verdicts)
    if "fail" in verdicts:
        return "fail"
    return "unclear" if "unclear" in verdicts else "pass"


def sign(lower: float, upper: float) -> Verdict:
    """Pass if the interval is below zero, fail if it is above."""
    return "pass" if upper < 0 else "fail" if lower > 0 else "unclear"


def negative(mean: float, se: float, trials: int) -> Verdict:
    """Whether what was measured in so many trials, with this standard error, is below zero."""
    away = float(reach(LEVEL, trials)) * se
    return sign(mean - away, mean + away)


def rarer_than(probability: float, share: float, trials: int) -> Verdict:
    """Whether what happened in this share of the trials has less than this probability, by the exact binomial tails."""
    from scipy.special import bdtr, bdtrc

    times, least = round(share * trials), (1.0 - LEVEL) / 2
    if bdtr(times, trials, probability) < least:
        return "pass"
    return "fail" if times and bdtrc(times - 1, trials, probability) < least else "unclear"


def least_trials(evidence: Evidence, names: Iterable[str]) -> int:
    """The least number of trials of some experiments."""
    return min(evidence.results[name].trials for name in names)


def mean_and_se(sample: Floats) -> tuple[float, float]:
    """The mean of a sample, and its standard error."""
    return float(sample.mean()), float(sample.std(ddof=1) / math.sqrt(len(sample)))


def lower_regret(results: Results, better: str, others: Iterable[str]) -> Verdict:
    """Whether a policy has less regret at the horizon than each of the others."""
    pairs = (results.difference(better, other, LEVEL) for other in others if other != better)
    return joint(sign(float(pair.lower[-1]), float(pair.upper[-1])) for pair in pairs)


def at_horizon(results: Results, labels: Iterable[str] = PAPER) -> str:
    """The regrets at the horizon, as they stand in evidence."""
    return ", ".join(
        f"{label} {results.mean(label)[-1]:.2f} ± {results.se(label)[-1]:.2f}" for label in labels
    )


class Times(NamedTuple):
    """One regret in multiples of another, with its interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """As it stands in evidence."""
        return f"{self.value:.2f} [{self.lower:.2f}, {self.upper:.2f}]"

    def alike(self) -> Verdict:
        """Whether it is within a quarter."""
        if self.lower >= 1 / ALIKE and self.upper <= ALIKE:
            return "pass"
        return "fail" if self.lower > ALIKE or self.upper < 1 / ALIKE else "unclear"


def regret_ratio(results: Results, one: str, other: str, k: int = -1) -> Times:
    """The regret of a policy over another's at a checkpoint."""
    ratio = results.ratio(one, other, LEVEL)
    return Times(*(float(part[k]) for part in ratio[1:]))


def largest_over_least(results: Results, k: int) -> Times:
    """The largest regret at a checkpoint over the least; 1 if nobody has any, and infinite if only some have none."""
    means = {label: float(results.mean(label)[k]) for label in PAPER}
    most, least = max(PAPER, key=lambda p: means[p]), min(PAPER, key=lambda p: means[p])
    if means[least] > 0:
        return regret_ratio(results, most, least, k)
    return Times(*[math.inf if means[most] > 0 else 1.0] * 3)


def covid_starts_alike(evidence: Evidence) -> Finding:
    results = evidence.results["covid"]
    k = int(np.searchsorted(results.rounds, 6))
    found = largest_over_least(results, k)
    until = first_apart(results, ALIKE)
    text = f"in round {results.rounds[k]} the largest regret is {found} times the least"
    return found.alike(), f"{text}, and over {ALIKE:g} times from round {when(until)}"


def best_in(name: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        results = evidence.results[name]
        return lower_regret(results, "min-width", PAPER), at_horizon(results)

    return check


def covid_cucb_alike(evidence: Evidence) -> Finding:
    results = evidence.results["covid"]
    found = [regret_ratio(results, "cucb", label) for label in ("min-ucb", "no-sharing")]
    text = f"cucb has {found[0]} times min-ucb's regret and {found[1]} times no-sharing's; {ALIKE:g} is alike"
    return joint(one.alike() for one in found), text


def hotel_always_best(evidence: Evidence) -> Finding:
    results = evidence.results["hotel"]
    pairs = [results.difference("min-width", other, LEVEL) for other in PAPER[1:]]
    ends = np.array([(pair.lower, pair.upper) for pair in pairs])
    below = np.atleast_1d((ends[:, 1] < 0).all(axis=0))
    above = np.atleast_1d((ends[:, 0] > 0).any(axis=0))
    first = int(np.flatnonzero(~below).max(initial=-1)) + 1  # the checkpoint after the last doubt
    since = results.rounds[first] if first < len(below) else results.horizon + 1
    early = since <= results.horizon / 100  # all begin alike: no policy can be ahead at once
    verdict: Verdict = "fail" if above.any() else "pass" if early else "unclear"
    held = (
        "at no checkpoint up to the horizon"
        if since > results.horizon
        else f"from round {since} on"
    )
    beaten = "above another's, with confidence, at " + (f"{above.sum()}" if above.any() else "none")
    return (
        verdict,
        f"its regret is below every other's, with confidence, {held}; {beaten} of {len(above)} checkpoints",
    )


def hotel_order(evidence: Evidence) -> Finding:
    results = evidence.results["hotel"]
    verdicts = (lower_regret(results, a, [b]) for a, b in pairwise(AWARE))
    return joint(verdicts), at_horizon(results, AWARE)


def hotel_baselines(evidence: Evidence) -> Finding:
    results = evidence.results["hotel"]
    return joint(lower_regret(results, label, CANONICAL) for label in AWARE), at_horizon(results)


def poaching_later(evidence: Evidence) -> Finding:
    verdicts: list[Verdict] = []
    parts = []
    for factor in APART:
        found = [first_apart(evidence.results[name], factor) for name in RANGERS]
        verdicts += [much_later(*pair) for pair in pairwise(found)]
        parts.append(f"{factor:g} times from round {', '.join(when(one) for one in found)}")
    text = (
        f"the largest regret is, in multiples of the least, {'; '.join(parts)} with 2, 3, 5 rangers"
    )
    held = f"much longer, {ALIKE:g} times as long, in {verdicts.count('pass')} of {len(verdicts)} comparisons"
    # what some of these show and others contradict is not contradicted by all
    alike = set(verdicts) <= {"pass"} or set(verdicts) <= {"fail"}
    return (verdicts[0] if alike else "unclear"), f"{text}: {held}"


class RoundEstimate(NamedTuple):
    """A round in which something happens, infinite if it never does, with its interval."""

    value: float
    lower: float
    upper: float


def when(found: RoundEstimate) -> str:
    """A round as it stands in evidence."""
    if math.isinf(found.value):
        return "never"
    upper = "later" if math.isinf(found.upper) else f"{found.upper:.0f}"
    return f"{found.value:.0f} [{found.lower:.0f}, {upper}]"


def much_later(one: RoundEstimate, other: RoundEstimate) -> Verdict:
    """Whether something happens a quarter later, or more."""
    if one.lower >= ALIKE * other.upper and not math.isinf(other.upper):
        return "pass"
    return "fail" if one.upper < ALIKE * other.lower else "unclear"


def first_apart(results: Results, factor: float) -> RoundEstimate:
    """The round, between checkpoints by interpolation, in which the regrets are a factor apart, and when the ends of their interval are."""
    ratios = np.array([largest_over_least(results, k) for k in range(len(results.rounds))])
    value, late, early = (first_above(results.rounds, part, factor) for part in ratios.T)
    return RoundEstimate(value, min(early, value), max(late, value))


def first_above(rounds: tuple[int, ...], values: Floats, factor: float) -> float:
    """The round, between checkpoints by interpolation, in which values that are known at these pass a factor."""
    known = np.where(np.isfinite(values), values, 1.0)
    above = np.flatnonzero(known > factor)
    if not len(above) or above[0] == 0:
        return math.inf if not len(above) else float(rounds[0])
    k = int(above[0])
    return float(np.interp(factor, known[k - 1 : k + 1], rounds[k - 1 : k + 1]))


def growing(values: list[tuple[float, float]], trials: int) -> Verdict:
    """Whether figures, each with a standard error from so many trials, grow from one to the next."""
    return joint(negative(a - b, math.hypot(x, y), trials) for (a, x), (b, y) in pairwise(values))


def poaching_benefit(evidence: Evidence) -> Finding:
    shares = []
    for name in RANGERS:
        results = evidence.results[name]
        mine, others = results.regrets("min-width"), [results.regrets(p) for p in PAPER[1:]]
        change, se = ratio_percent(np.mean(others, axis=0), mine)
        shares.append((change, se))
    text = "the others' mean regret is higher by " + ", ".join(
        f"{v:.0f} ± {e:.0f} %" for v, e in shares
    )
    return growing(shares, least_trials(evidence, RANGERS)), f"{text} with 2, 3, 5 rangers"


def poaching_gap(evidence: Evidence) -> Finding:
    gaps = []
    for name in RANGERS:
        results = evidence.results[name]
        gap = np.mean([results.regrets(p) for p in CANONICAL], axis=0) - np.mean(
            [results.regrets(p) for p in AWARE], axis=0
        )
        gaps.append(mean_and_se(gap))
    text = "canonical minus sensitivity-aware regret: " + ", ".join(
        f"{v:.0f} ± {e:.1f}" for v, e in gaps
    )
    return growing(gaps, least_trials(evidence, RANGERS)), f"{text} with 2, 3, 5 rangers"


def synthetic(
    evidence: Evidence, wanted: Callable[[Experiment], bool]
) -> list[tuple[Experiment, Results]]:
    """The synthetic experiments of a kind, with their results."""
    return [(e, evidence.results[e.name]) for e in SYNTHETIC if wanted(e)]


def min_width_best_of(size: int) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        chosen = synthetic(evidence, lambda e: e.problem.agents == e.problem.arms == size)
        verdicts = [lower_regret(results, "min-width", PAPER) for _, results in chosen]
        held = verdicts.count("pass")
        return joint(verdicts), f"best with confidence in {held} of {len(chosen)} settings"

    return check


def best_with_as_many(evidence: Evidence) -> Finding:
    verdicts = [
        lower_regret(evidence.results[n], "min-width", PAPER) for n in ("hotel", "poaching-5")
    ]
    return joint(verdicts), "; ".join(
        at_horizon(evidence.results[n]) for n in ("hotel", "poaching-5")
    )


def min_ucb_sometimes(evidence: Evidence) -> Finding:
    chosen = synthetic(evidence, lambda e: e.problem.agents < e.problem.arms)
    verdicts = [lower_regret(results, "min-ucb", ["min-width"]) for _, results in chosen]
    ahead, behind = verdicts.count("pass"), verdicts.count("fail")
    text = (
        f"with fewer agents than arms min-ucb is ahead in {ahead} settings and behind in {behind}"
    )
    decided = ahead + behind == len(verdicts)
    return ("pass" if ahead and behind else "fail" if decided else "unclear"), text


def best_is_aware(evidence: Evidence) -> Finding:
    chosen = synthetic(evidence, lambda e: len(set(e.problem.sensitivities)) > 1)
    best = [ordered(results)[0] for _, results in chosen]
    verdicts = [
        joint(min((lower_regret(r, label, [rival]) for label in ("min-width", "min-ucb")), key=_rank)
              for rival in ("no-sharing", "cucb", "ucb"))
        for _, r in chosen
    ]  # fmt: skip
    counts = ", ".join(f"{label} in {best.count(label)}" for label in dict.fromkeys(best))
    return joint(verdicts), f"lowest mean regret of {len(chosen)} settings: {counts}"


def _rank(verdict: Verdict) -> int:
    return ("pass", "unclear", "fail").index(verdict)


def cucb_for_identical(evidence: Evidence) -> Finding:
    ((_, results),) = synthetic(evidence, lambda e: len(set(e.problem.sensitivities)) == 1)
    return lower_regret(results, "cucb", PAPER), at_horizon(results)


def all_rankings(evidence: Evidence) -> Finding:
    verdicts = [row.verdict for row in rankings(evidence.results)]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("match", "tied", "mismatch"))
    verdict: Verdict = (
        "fail" if "mismatch" in verdicts else "unclear" if "tied" in verdicts else "pass"
    )
    return verdict, f"of {len(verdicts)} rankings: {counts}"


def varied_gains(evidence: Evidence) -> Finding:
    verdicts: list[Verdict] = []
    pairs = 0
    chosen = synthetic(evidence, lambda e: e.problem.agents == e.problem.arms == 2)
    for first, one in chosen:
        for second, two in chosen:
            spreads = [
                max(e.problem.sensitivities) - min(e.problem.sensitivities) for e in (first, second)
            ]
            if first.problem.means != second.problem.means or spreads[0] + 1e-9 >= spreads[1]:
                continue
            pairs += 1
            gains = [
                (-float(d.mean[-1]), float(d.se[-1]))
                for d in (r.difference("min-width", "cucb") for r in (one, two))
            ]
            verdicts.append(growing(gains, min(one.trials, two.trials)))
    return joint(verdicts), (
        f"cucb's regret beyond min-width's is larger for the more varied sensitivities in "
        f"{verdicts.count('pass')} of {pairs} pairs of 2x2 settings with the same means"
    )


def changes(evidence: Evidence, policy: str) -> dict[str, tuple[float, float]]:
    """Percent change of the mean regret, with its standard error, in the three cases."""
    true = evidence.results["covid"].regrets(policy)
    return {case: ratio_percent(evidence.results[case].regrets(policy), true) for case in CASES}


def over_hurts_less(policy: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        over, under = (evidence.results[case].regrets(policy) for case in CASES[:2])
        found = changes(evidence, policy)
        text = ", ".join(
            f"{case.removeprefix('covid-')} {v:+.1f} ± {e:.1f} %" for case, (v, e) in found.items()
        )
        verdict = negative(*mean_and_se(over - under), len(over))
        # the one that is to hurt more has to hurt
        worse = found[CASES[1] if verdict == "pass" else CASES[0]]
        if verdict != "unclear" and negative(-worse[0], worse[1], len(over)) != "pass":
            return "unclear", f"neither hurts with confidence: {text}"
        return verdict, text

    return check


def over_hurts_no_sharing(evidence: Evidence) -> Finding:
    over, under, true = (
        evidence.results[case].regrets("no-sharing") for case in (*CASES[:2], "covid")
    )
    if (over == true).all() and (under == true).all():
        return "unclear", (
            "neither hurts at all: every trial's regret is the same to the bit, because each agent's "
            "indices are only rescaled; the published 0.9 ± 0.5 and 1.5 ± 0.5 % are noise and the "
            "statistic's bias"
        )
    return over_hurts_less("no-sharing")(evidence)


def mix_hurts_most(evidence: Evidence) -> Finding:
    verdicts: list[Verdict] = []
    parts = []
    for policy in ("min-width", "min-ucb"):
        regrets = [evidence.results[case].regrets(policy) for case in CASES]
        verdicts += [
            negative(*mean_and_se(other - regrets[2]), len(other)) for other in regrets[:2]
        ]
        parts.append(
            f"{policy} " + " / ".join(f"{v:+.1f} %" for v, _ in changes(evidence, policy).values())
        )
    return joint(verdicts), "; ".join(parts) + " for over / under / mix"


def no_sharing_least_affected(evidence: Evidence) -> Finding:
    worst = {
        policy: max((abs(v), se) for v, se in changes(evidence, policy).values())
        for policy in AWARE
    }
    text = ", ".join(f"{policy} {value:.1f} ± {se:.1f} %" for policy, (value, se) in worst.items())
    mine, error = worst.pop("no-sharing")
    trials = least_trials(evidence, ROBUST)
    verdicts = (
        negative(mine - value, math.hypot(error, se), trials) for value, se in worst.values()
    )
    return joint(verdicts), f"largest change: {text}"


def robustly_best(evidence: Evidence) -> Finding:
    verdicts = [lower_regret(evidence.results[case], "min-width", PAPER) for case in CASES]
    return joint(verdicts), "; ".join(
        f"{case.removeprefix('covid-')}: {at_horizon(evidence.results[case])}" for case in CASES
    )


def canonical_unaffected(evidence: Evidence) -> Finding:
    same = all(
        (evidence.results[case].regrets(p) == evidence.results["covid"].regrets(p)).all()
        for case in CASES
        for p in CANONICAL
    )
    return ("pass" if same else "fail"), "every trial's regret of cucb and ucb is " + (
        "the same to the bit" if same else "not the same"
    )


def smaller_logarithm(evidence: Evidence) -> Finding:
    terms = []
    for name, theory in evidence.theory.items():
        problem = evidence.results[name].problem
        T = theory.coverage.horizon
        terms.append((log_term("no-sharing", problem.agents, problem.arms, T),
                      log_term("min-width", problem.agents, problem.arms, T)))  # fmt: skip
    text = ", ".join(f"{own:.1f} < {shared:.1f}" for own, shared in terms)
    text = f"log terms: {text}; arithmetic, which no run decides"
    return ("pass" if all(a < b for a, b in terms) else "fail"), text


def rounds(evidence: Evidence) -> str:
    """How long the theory was watched."""
    horizons = sorted({theory.coverage.horizon for theory in evidence.theory.values()})
    return f"in {' or '.join(map(str, horizons))} rounds"


def covered(name: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        shares = {
            domain: (theory.coverage.failed[name], theory.coverage.trials)
            for domain, theory in evidence.theory.items()
        }
        text = ", ".join(f"{domain} {share:.4f}" for domain, (share, _) in shares.items())
        verdict = joint(
            rarer_than(evidence.delta, share, trials) for share, trials in shares.values()
        )
        needed = ", ".join(f"{t.coverage.needed[name]:.2f}" for t in evidence.theory.values())
        return (
            verdict,
            f"share of trials in which a bound failed, {rounds(evidence)}: {text}; allowed {evidence.delta:g}, and "
            f"widths cut to {needed} of theirs would fail so often",
        )

    return check


def regret_bounded(evidence: Evidence) -> Finding:
    parts, verdicts, tested = [], list[Verdict](), False
    for domain, theory in evidence.theory.items():
        study = theory.coverage
        (most,) = evidence.results[domain].problem.most_regret([study.horizon])
        parts.append(f"{domain} {study.worst_regret:.0f} of {study.regret_bound:,.0f}")
        if most > study.regret_bound:
            tested = True
            verdicts.append(rarer_than(evidence.delta, study.over_regret_bound, study.trials))
        else:
            parts[-1] += f", where whatever is done loses {most:.0f} at most"
            verdicts.append("unclear")
    text = f"largest regret, {rounds(evidence)}: {'; '.join(parts)}"
    return joint(verdicts), text + ": no run of so few rounds could contradict the bound" * (
        not tested
    )


def closed_form(evidence: Evidence) -> Finding:
    error = max(theory.error_of_ln_g for theory in evidence.theory.values())
    below = all(math.comb(t + a, a) - 1 < (t + 1) ** a for t in (1, 5, 300) for a in (1, 2, 5, 9))
    text = f"the sum and C(T+A, A) - 1 agree to {error:.0e} in the logarithm; below (T+1)^A"
    return ("pass" if error < 1e-10 and below else "fail"), text


def lemma_holds(evidence: Evidence) -> Finding:
    shares = {domain: theory.lemma_share for domain, theory in evidence.theory.items()}
    text = ", ".join(f"{domain} {share:.3f}" for domain, share in shares.items())
    return (
        "pass" if max(shares.values()) < 1 else "fail"
    ), f"sum over its bound at the most: {text}; arithmetic, which no run decides"


ROBUST = ("covid", *CASES)
THEORY = ("covid", "hotel", "poaching-5")

OF_EXPERIMENTS = (
    Claim("covid-start", "Results, COVID", "All policies do about equally well in the first rounds.", ("covid",), covid_starts_alike),
    Claim("covid-best", "Results, COVID", "After them Min-Width does best.", ("covid",), best_in("covid")),
    Claim("covid-cucb", "Results, COVID", "CUCB does about as well as Min-UCB and No-Sharing.", ("covid",), covid_cucb_alike),
    Claim("hotel-always", "Results, hotels", "Min-Width beats the other four at all times.", ("hotel",), hotel_always_best),
    Claim("hotel-order", "Results, hotels", "Min-Width, Min-UCB, No-Sharing: the more is shared, the less regret.", ("hotel",), hotel_order),
    Claim("hotel-baselines", "Results, hotels", "Both canonical baselines do poorly.", ("hotel",), hotel_baselines),
    Claim("poaching-later", "Results, poaching", "With fewer rangers it takes much longer until the policies differ.", RANGERS, poaching_later),
    Claim("poaching-benefit", "Results, poaching", "The relative benefit of Min-Width grows with the number of rangers.", RANGERS, poaching_benefit),
    Claim("poaching-gap", "Results, poaching", "The gap between canonical and sensitivity-aware policies grows with the number of rangers.", RANGERS, poaching_gap),
    Claim("synthetic-2x2", "Results, synthetic", "With 2 agents and 2 arms Min-Width is best in the long run.", SYNTHETIC_NAMES, min_width_best_of(2)),
    Claim("synthetic-3x3", "Results, synthetic", "With 3 agents and 3 arms Min-Width is best in the long run.", SYNTHETIC_NAMES, min_width_best_of(3)),
    Claim("as-many-agents", "Results, synthetic", "Min-Width is also best in the domains with as many agents as arms.", ("hotel", "poaching-5"), best_with_as_many),
    Claim("min-ucb-sometimes", "Results, synthetic", "With fewer agents than arms Min-UCB sometimes beats Min-Width.", SYNTHETIC_NAMES, min_ucb_sometimes),
    Claim("rankings", "Appendix, table", "The 36 rankings of the five policies.", SYNTHETIC_NAMES, all_rankings),
    Claim("best-is-aware", "Discussion", "For heterogeneous agents Min-Width or Min-UCB is best in the long run.", SYNTHETIC_NAMES, best_is_aware),
    Claim("cucb-identical", "Discussion", "For identical agents CUCB is best.", SYNTHETIC_NAMES, cucb_for_identical),
    Claim("varied-gains", "Abstract", "Modelling heterogeneity gains more the more varied the sensitivities are.", SYNTHETIC_NAMES, varied_gains),
    Claim("over-under-min-width", "Results, robustness", "Overestimating hurts Min-Width less than underestimating.", ROBUST, over_hurts_less("min-width")),
    Claim("over-under-min-ucb", "Results, robustness", "Overestimating hurts Min-UCB less than underestimating.", ROBUST, over_hurts_less("min-ucb")),
    Claim("over-under-no-sharing", "Results, robustness", "Overestimating hurts No-Sharing less than underestimating.", ROBUST, over_hurts_no_sharing),
    Claim("mix-hurts-most", "Results, robustness", "The mix hurts Min-Width and Min-UCB most.", ROBUST, mix_hurts_most),
    Claim("no-sharing-least", "Results, robustness", "No-Sharing is least affected.", ROBUST, no_sharing_least_affected),
    Claim("robustly-best", "Results, robustness", "Min-Width stays best in all three cases.", ROBUST, robustly_best),
    Claim("canonical-unaffected", "Results, robustness", "The canonical baselines are not affected at all.", ROBUST, canonical_unaffected),
)  # fmt: skip

OF_THEORY = (
    Claim("smaller-logarithm", "Min-UCB", "The logarithm of No-Sharing and Min-UCB is smaller than Min-Width's.", THEORY, smaller_logarithm),
    Claim("coverage-min-width", "Theorem, concentration", "Min-Width's intervals all hold with probability 1 - δ.", THEORY, covered("min-width")),
    Claim("coverage-min-ucb", "Corollary", "Min-UCB's upper bounds all hold with probability 1 - δ.", THEORY, covered("min-ucb")),
    Claim("coverage-no-sharing", "Proposition", "No-Sharing's intervals all hold with probability 1 - δ.", THEORY, covered("no-sharing")),
    Claim("regret-bound", "Theorem, regret", "Min-Width's regret stays below the bound with probability 1 - δ.", THEORY, regret_bounded),
    Claim("closed-form", "Update rule", "G(T, A) counts the ways to pull an arm, and is below (T+1)^A.", THEORY, closed_form),
    Claim("lemma", "Appendix, lemma", "The sum of 1/sqrt(c) over all pulls is below 2 sqrt(ANT).", THEORY, lemma_holds),
)  # fmt: skip

CLAIMS = OF_EXPERIMENTS + OF_THEORY


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the numbers behind it."""

    claim: Claim
    verdict: Verdict
    evidence: str


def judge(evidence: Evidence) -> list[Judged]:
    """The verdict on every claim whose experiments were run; on theory's if it was watched in any domain."""
    run = [claim for claim in OF_EXPERIMENTS if set(claim.needs) <= set(evidence.results)]
    watched = OF_THEORY if evidence.theory else ()
    return [Judged(claim, *claim.check(evidence)) for claim in (*run, *watched)]
