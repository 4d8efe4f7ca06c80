"""The claims of the paper's text as named checks, each with the numbers behind its verdict.

A claim is data: where it stands, what it says in our words, which experiments it needs, and a
function from the evidence to a verdict and a sentence. A comparison passes if its confidence
interval lies on the claimed side of zero, fails if it lies on the other, and is unclear otherwise.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from heterobandits.bounds import log_term
from heterobandits.experiments.catalogue import CASES, SYNTHETIC, Experiment
from heterobandits.experiments.tables import (
    DEVIATIONS,
    LEVEL,
    ordered,
    rankings,
    ratio_percent,
)
from heterobandits.experiments.theory import Theory
from heterobandits.policies import PAPER
from heterobandits.ranges import DEFAULT_DELTA
from heterobandits.results import Results

Verdict = Literal["pass", "fail", "unclear"]
Finding = tuple[Verdict, str]
Floats = npt.NDArray[np.float64]

AWARE = ("min-width", "min-ucb", "no-sharing")
CANONICAL = ("cucb", "ucb")
ALIKE = 1.25  # "similar" means: within a quarter of each other
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


def negative(mean: float, se: float) -> Verdict:
    """Whether what was measured with this standard error is below zero."""
    return sign(mean - DEVIATIONS * se, mean + DEVIATIONS * se)


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


def covid_starts_alike(evidence: Evidence) -> Finding:
    results = evidence.results["covid"]
    k = int(np.searchsorted(results.rounds, 6))
    means = [float(results.mean(label)[k]) for label in PAPER]
    text = f"in round {results.rounds[k]} the largest regret is {max(means) / min(means):.2f} times the least"
    return ("pass" if max(means) <= ALIKE * min(means) else "fail"), text


def best_in(name: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        results = evidence.results[name]
        return lower_regret(results, "min-width", PAPER), at_horizon(results)

    return check


def covid_cucb_alike(evidence: Evidence) -> Finding:
    results = evidence.results["covid"]
    cucb = float(results.mean("cucb")[-1])
    ratios = [cucb / float(results.mean(label)[-1]) for label in ("min-ucb", "no-sharing")]
    text = f"cucb has {ratios[0]:.2f} times min-ucb's regret and {ratios[1]:.2f} times no-sharing's"
    return ("pass" if all(1 / ALIKE <= r <= ALIKE for r in ratios) else "fail"), text


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
    sorted_out, parts = [], []
    for factor in APART:
        rounds = [first_apart(evidence.results[name], factor) for name in RANGERS]
        sorted_out.append(rounds[0] > rounds[1] > rounds[2])
        listed = ", ".join("never" if math.isinf(t) else f"{t:.0f}" for t in rounds)
        parts.append(f"{factor:g} times from round {listed}")
    text = (
        f"the largest regret is, in multiples of the least, {'; '.join(parts)} with 2, 3, 5 rangers"
    )
    return ("pass" if all(sorted_out) else "unclear" if any(sorted_out) else "fail"), text


def first_apart(results: Results, factor: float) -> float:
    """The round, between checkpoints by interpolation, in which the regrets are a factor apart."""
    means = np.array([results.mean(label) for label in PAPER])
    least = means.min(axis=0)
    ratio = np.where(least > 0, means.max(axis=0) / np.where(least > 0, least, 1.0), 1.0)
    above = np.flatnonzero(ratio > factor)
    if not len(above) or above[0] == 0:
        return math.inf if not len(above) else float(results.rounds[0])
    k = int(above[0])
    return float(np.interp(factor, ratio[k - 1 : k + 1], results.rounds[k - 1 : k + 1]))


def growing(values: list[tuple[float, float]]) -> Verdict:
    """Whether figures, each with a standard error, grow from one to the next."""
    return joint(negative(a - b, math.hypot(x, y)) for (a, x), (b, y) in pairwise(values))


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
    return growing(shares), f"{text} with 2, 3, 5 rangers"


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
    return growing(gaps), f"{text} with 2, 3, 5 rangers"


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
    return ("pass" if ahead and behind else "fail"), text


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
            verdicts.append(growing(gains))
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
        return negative(*mean_and_se(over - under)), text

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
        verdicts += [negative(*mean_and_se(other - regrets[2])) for other in regrets[:2]]
        parts.append(
            f"{policy} " + " / ".join(f"{v:+.1f} %" for v, _ in changes(evidence, policy).values())
        )
    return joint(verdicts), "; ".join(parts) + " for over / under / mix"


def no_sharing_least_affected(evidence: Evidence) -> Finding:
    worst = {
        policy: max((abs(v) for v, _ in changes(evidence, policy).values())) for policy in AWARE
    }
    text = ", ".join(f"{policy} {value:.1f} %" for policy, value in worst.items())
    least = worst["no-sharing"] < min(worst["min-width"], worst["min-ucb"])
    return ("pass" if least else "fail"), f"largest change: {text}"


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
    return ("pass" if all(a < b for a, b in terms) else "fail"), f"log terms: {text}"


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
            negative(share - evidence.delta, math.sqrt(max(share, 1 / trials) / trials))
            for share, trials in shares.values()
        )
        return (
            verdict,
            f"share of trials in which a bound failed, {rounds(evidence)}: {text}; allowed {evidence.delta:g}",
        )

    return check


def regret_bounded(evidence: Evidence) -> Finding:
    parts = [
        f"{domain} {theory.coverage.worst_regret:.0f} of {theory.coverage.regret_bound:,.0f}"
        for domain, theory in evidence.theory.items()
    ]
    broken = max(theory.coverage.over_regret_bound for theory in evidence.theory.values())
    return (
        "pass" if broken <= evidence.delta else "fail"
    ), f"largest regret, {rounds(evidence)}: {', '.join(parts)}"


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
    ), f"sum over its bound at the most: {text}"


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
