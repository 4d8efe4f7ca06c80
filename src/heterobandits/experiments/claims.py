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

from heterobandits.arrays import Floats
from heterobandits.experiments.catalogue import MISJUDGED, SYNTHETIC, Experiment
from heterobandits.experiments.tables import (
    TABLE_CONFIDENCE,
    order_by_regret,
    rankings_table,
    ratio_percent,
)
from heterobandits.experiments.theory import TheoryCheck
from heterobandits.inference.bounds import log_term
from heterobandits.limits import DEFAULT_DELTA
from heterobandits.policies.catalogue import PAPER
from heterobandits.simulation.moments import student_quantile
from heterobandits.simulation.results import Results

ClaimVerdict = Literal["pass", "fail", "unclear"]
Finding = tuple[ClaimVerdict, str]

AWARE_POLICIES = ("min-width", "min-ucb", "no-sharing")
CANONICAL_POLICIES = ("cucb", "ucb")
# "similar" means: within a quarter of each other; "much longer": by a quarter or more
ALIKE_FACTOR = 1.25
APART_FACTORS = (1.25, 1.5, 2.0)  # "different" means: by these factors
RANGERS = ("poaching-2", "poaching-3", "poaching-5")
SYNTHETIC_NAMES = tuple(experiment.name for experiment in SYNTHETIC)


@dataclass(frozen=True)
class Evidence:
    """Everything measured."""

    results: dict[str, Results]
    theory: dict[str, TheoryCheck]
    delta: float = DEFAULT_DELTA


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that numbers can contradict."""

    id: str
    section: str
    text: str
    needs: tuple[str, ...]
    check: Callable[[Evidence], Finding]


def join_verdicts(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """Pass if all pass; fail if any fails."""
    verdicts = list(verdicts)
    if "fail" in verdicts:
        return "fail"
    return "unclear" if "unclear" in verdicts else "pass"


def verdict_of_interval(lower: float, upper: float) -> ClaimVerdict:
    """Pass if the interval lies below zero, fail if above."""
    return "pass" if upper < 0 else "fail" if lower > 0 else "unclear"


def verdict_of_mean(mean: float, se: float, trials: int) -> ClaimVerdict:
    """The verdict on whether a mean from so many trials, with this standard error, is below zero."""
    away = float(student_quantile(TABLE_CONFIDENCE, trials)) * se
    return verdict_of_interval(mean - away, mean + away)


def rarer_than(probability: float, share: float, trials: int) -> ClaimVerdict:
    """Whether what happened in this share of the trials has less than this probability, by the exact binomial tails."""
    from scipy.special import bdtr, bdtrc

    times, least = round(share * trials), (1.0 - TABLE_CONFIDENCE) / 2
    if bdtr(times, trials, probability) < least:
        return "pass"
    return "fail" if times and bdtrc(times - 1, trials, probability) < least else "unclear"


def least_trials(evidence: Evidence, names: Iterable[str]) -> int:
    """The smallest number of trials among some experiments."""
    return min(evidence.results[name].trials for name in names)


def mean_and_se(sample: Floats) -> tuple[float, float]:
    """The mean of a sample, and its standard error."""
    return float(sample.mean()), float(sample.std(ddof=1) / math.sqrt(len(sample)))


def verdict_of_regrets(results: Results, better: str, others: Iterable[str]) -> ClaimVerdict:
    """The verdict on whether a policy has less regret at the horizon than each of the others."""
    pairs = (
        results.difference(better, other, TABLE_CONFIDENCE) for other in others if other != better
    )
    return join_verdicts(
        verdict_of_interval(float(pair.lower[-1]), float(pair.upper[-1])) for pair in pairs
    )


def render_regrets(results: Results, labels: Iterable[str] = PAPER) -> str:
    """The regrets at the horizon, as they stand in evidence."""
    return ", ".join(
        f"{label} {results.mean(label)[-1]:.2f} ± {results.se(label)[-1]:.2f}" for label in labels
    )


class RegretMultiple(NamedTuple):
    """One regret as a multiple of another, with its interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """As it stands in evidence."""
        return f"{self.value:.2f} [{self.lower:.2f}, {self.upper:.2f}]"

    def alike(self) -> ClaimVerdict:
        """Whether it is within a quarter."""
        if self.lower >= 1 / ALIKE_FACTOR and self.upper <= ALIKE_FACTOR:
            return "pass"
        return "fail" if self.lower > ALIKE_FACTOR or self.upper < 1 / ALIKE_FACTOR else "unclear"


def regret_ratio(results: Results, one: str, other: str, k: int = -1) -> RegretMultiple:
    """The regret of a policy over another's at a checkpoint."""
    ratio = results.ratio(one, other, TABLE_CONFIDENCE)
    return RegretMultiple(*(float(part[k]) for part in ratio[1:]))


def largest_regret_ratio(results: Results, k: int) -> RegretMultiple:
    """The largest regret at a checkpoint over the smallest; 1 if all are zero, infinite if only some are."""
    means = {label: float(results.mean(label)[k]) for label in PAPER}
    most, least = max(PAPER, key=lambda p: means[p]), min(PAPER, key=lambda p: means[p])
    if means[least] > 0:
        return regret_ratio(results, most, least, k)
    return RegretMultiple(*[math.inf if means[most] > 0 else 1.0] * 3)


def check_covid_start(evidence: Evidence) -> Finding:
    results = evidence.results["covid"]
    k = int(np.searchsorted(results.rounds, 6))
    found = largest_regret_ratio(results, k)
    until = first_round_apart(results, ALIKE_FACTOR)
    text = f"in round {results.rounds[k]} the largest regret is {found} times the least"
    return (
        found.alike(),
        f"{text}, and over {ALIKE_FACTOR:g} times from round {render_round_estimate(until)}",
    )


def check_best_in(name: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        results = evidence.results[name]
        return verdict_of_regrets(results, "min-width", PAPER), render_regrets(results)

    return check


def check_covid_cucb(evidence: Evidence) -> Finding:
    results = evidence.results["covid"]
    found = [regret_ratio(results, "cucb", label) for label in ("min-ucb", "no-sharing")]
    text = f"cucb has {found[0]} times min-ucb's regret and {found[1]} times no-sharing's; {ALIKE_FACTOR:g} is alike"
    return join_verdicts(one.alike() for one in found), text


def check_hotel_best(evidence: Evidence) -> Finding:
    results = evidence.results["hotel"]
    pairs = [results.difference("min-width", other, TABLE_CONFIDENCE) for other in PAPER[1:]]
    ends = np.array([(pair.lower, pair.upper) for pair in pairs])
    below = np.atleast_1d((ends[:, 1] < 0).all(axis=0))
    above = np.atleast_1d((ends[:, 0] > 0).any(axis=0))
    first = int(np.flatnonzero(~below).max(initial=-1)) + 1  # the checkpoint after the last doubt
    since = results.rounds[first] if first < len(below) else results.horizon + 1
    early = since <= results.horizon / 100  # all begin alike: no policy can be ahead at once
    verdict: ClaimVerdict = "fail" if above.any() else "pass" if early else "unclear"
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


def check_hotel_order(evidence: Evidence) -> Finding:
    results = evidence.results["hotel"]
    verdicts = (verdict_of_regrets(results, a, [b]) for a, b in pairwise(AWARE_POLICIES))
    return join_verdicts(verdicts), render_regrets(results, AWARE_POLICIES)


def check_hotel_baselines(evidence: Evidence) -> Finding:
    results = evidence.results["hotel"]
    return join_verdicts(
        verdict_of_regrets(results, label, CANONICAL_POLICIES) for label in AWARE_POLICIES
    ), render_regrets(results)


def check_poaching_later(evidence: Evidence) -> Finding:
    verdicts: list[ClaimVerdict] = []
    parts = []
    for factor in APART_FACTORS:
        found = [first_round_apart(evidence.results[name], factor) for name in RANGERS]
        verdicts += [verdict_of_rounds(*pair) for pair in pairwise(found)]
        parts.append(
            f"{factor:g} times from round {', '.join(render_round_estimate(one) for one in found)}"
        )
    text = (
        f"the largest regret is, in multiples of the least, {'; '.join(parts)} with 2, 3, 5 rangers"
    )
    held = f"much longer, {ALIKE_FACTOR:g} times as long, in {verdicts.count('pass')} of {len(verdicts)} comparisons"
    # what some of these show and others contradict is not contradicted by all
    alike = set(verdicts) <= {"pass"} or set(verdicts) <= {"fail"}
    return (verdicts[0] if alike else "unclear"), f"{text}: {held}"


class RoundEstimate(NamedTuple):
    """The round in which something happens, with its interval; infinite if it never happens."""

    value: float
    lower: float
    upper: float


def render_round_estimate(found: RoundEstimate) -> str:
    """A round as it stands in evidence."""
    if math.isinf(found.value):
        return "never"
    upper = "later" if math.isinf(found.upper) else f"{found.upper:.0f}"
    return f"{found.value:.0f} [{found.lower:.0f}, {upper}]"


def verdict_of_rounds(one: RoundEstimate, other: RoundEstimate) -> ClaimVerdict:
    """The verdict on whether something happens at least a quarter later."""
    if one.lower >= ALIKE_FACTOR * other.upper and not math.isinf(other.upper):
        return "pass"
    return "fail" if one.upper < ALIKE_FACTOR * other.lower else "unclear"


def first_round_apart(results: Results, factor: float) -> RoundEstimate:
    """The first round, interpolated between checkpoints, in which two regrets differ by a factor, with an interval."""
    ratios = np.array([largest_regret_ratio(results, k) for k in range(len(results.rounds))])
    value, late, early = (first_round_above(results.rounds, part, factor) for part in ratios.T)
    return RoundEstimate(value, min(early, value), max(late, value))


def first_round_above(rounds: tuple[int, ...], values: Floats, factor: float) -> float:
    """The first round, interpolated between checkpoints, in which values exceed a factor."""
    known = np.where(np.isfinite(values), values, 1.0)
    above = np.flatnonzero(known > factor)
    if not len(above) or above[0] == 0:
        return math.inf if not len(above) else float(rounds[0])
    k = int(above[0])
    return float(np.interp(factor, known[k - 1 : k + 1], rounds[k - 1 : k + 1]))


def verdict_of_growth(values: list[tuple[float, float]], trials: int) -> ClaimVerdict:
    """The verdict on whether figures grow from one to the next, each with a standard error from so many trials."""
    return join_verdicts(
        verdict_of_mean(a - b, math.hypot(x, y), trials) for (a, x), (b, y) in pairwise(values)
    )


def check_poaching_benefit(evidence: Evidence) -> Finding:
    shares = []
    for name in RANGERS:
        results = evidence.results[name]
        mine, others = results.regrets("min-width"), [results.regrets(p) for p in PAPER[1:]]
        change, se = ratio_percent(np.mean(others, axis=0), mine)
        shares.append((change, se))
    text = "the others' mean regret is higher by " + ", ".join(
        f"{v:.0f} ± {e:.0f} %" for v, e in shares
    )
    return verdict_of_growth(
        shares, least_trials(evidence, RANGERS)
    ), f"{text} with 2, 3, 5 rangers"


def check_poaching_gap(evidence: Evidence) -> Finding:
    gaps = []
    for name in RANGERS:
        results = evidence.results[name]
        gap = np.mean([results.regrets(p) for p in CANONICAL_POLICIES], axis=0) - np.mean(
            [results.regrets(p) for p in AWARE_POLICIES], axis=0
        )
        gaps.append(mean_and_se(gap))
    text = "canonical minus sensitivity-aware regret: " + ", ".join(
        f"{v:.0f} ± {e:.1f}" for v, e in gaps
    )
    return verdict_of_growth(gaps, least_trials(evidence, RANGERS)), f"{text} with 2, 3, 5 rangers"


def synthetic_results(
    evidence: Evidence, wanted: Callable[[Experiment], bool]
) -> list[tuple[Experiment, Results]]:
    """The synthetic experiments of a kind, with their results."""
    return [(e, evidence.results[e.name]) for e in SYNTHETIC if wanted(e)]


def check_min_width_best(size: int) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        chosen = synthetic_results(evidence, lambda e: e.problem.agents == e.problem.arms == size)
        verdicts = [verdict_of_regrets(results, "min-width", PAPER) for _, results in chosen]
        held = verdicts.count("pass")
        return join_verdicts(verdicts), f"best with confidence in {held} of {len(chosen)} settings"

    return check


def check_best_with_as_many(evidence: Evidence) -> Finding:
    verdicts = [
        verdict_of_regrets(evidence.results[n], "min-width", PAPER) for n in ("hotel", "poaching-5")
    ]
    return join_verdicts(verdicts), "; ".join(
        render_regrets(evidence.results[n]) for n in ("hotel", "poaching-5")
    )


def check_min_ucb_sometimes(evidence: Evidence) -> Finding:
    chosen = synthetic_results(evidence, lambda e: e.problem.agents < e.problem.arms)
    verdicts = [verdict_of_regrets(results, "min-ucb", ["min-width"]) for _, results in chosen]
    ahead, behind = verdicts.count("pass"), verdicts.count("fail")
    text = (
        f"with fewer agents than arms min-ucb is ahead in {ahead} settings and behind in {behind}"
    )
    decided = ahead + behind == len(verdicts)
    return ("pass" if ahead and behind else "fail" if decided else "unclear"), text


def check_best_is_aware(evidence: Evidence) -> Finding:
    chosen = synthetic_results(evidence, lambda e: len(set(e.problem.sensitivities)) > 1)
    best = [order_by_regret(results)[0] for _, results in chosen]
    verdicts = [
        join_verdicts(min((verdict_of_regrets(r, label, [rival]) for label in ("min-width", "min-ucb")), key=_rank_of_verdict)
              for rival in ("no-sharing", "cucb", "ucb"))
        for _, r in chosen
    ]  # fmt: skip
    counts = ", ".join(f"{label} in {best.count(label)}" for label in dict.fromkeys(best))
    return join_verdicts(verdicts), f"lowest mean regret of {len(chosen)} settings: {counts}"


def _rank_of_verdict(verdict: ClaimVerdict) -> int:
    return ("pass", "unclear", "fail").index(verdict)


def check_cucb_for_identical(evidence: Evidence) -> Finding:
    ((_, results),) = synthetic_results(evidence, lambda e: len(set(e.problem.sensitivities)) == 1)
    return verdict_of_regrets(results, "cucb", PAPER), render_regrets(results)


def check_all_rankings(evidence: Evidence) -> Finding:
    verdicts = [row.verdict for row in rankings_table(evidence.results)]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("match", "tied", "mismatch"))
    verdict: ClaimVerdict = (
        "fail" if "mismatch" in verdicts else "unclear" if "tied" in verdicts else "pass"
    )
    return verdict, f"of {len(verdicts)} rankings: {counts}"


def check_varied_gains(evidence: Evidence) -> Finding:
    verdicts: list[ClaimVerdict] = []
    pairs = 0
    chosen = synthetic_results(evidence, lambda e: e.problem.agents == e.problem.arms == 2)
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
            verdicts.append(verdict_of_growth(gains, min(one.trials, two.trials)))
    return join_verdicts(verdicts), (
        f"cucb's regret beyond min-width's is larger for the more varied sensitivities in "
        f"{verdicts.count('pass')} of {pairs} pairs of 2x2 settings with the same means"
    )


def percent_changes(evidence: Evidence, policy: str) -> dict[str, tuple[float, float]]:
    """Percent change of the mean regret in the three cases, with standard errors."""
    true = evidence.results["covid"].regrets(policy)
    return {case: ratio_percent(evidence.results[case].regrets(policy), true) for case in MISJUDGED}


def check_overestimating(policy: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        over, under = (evidence.results[case].regrets(policy) for case in MISJUDGED[:2])
        found = percent_changes(evidence, policy)
        text = ", ".join(
            f"{case.removeprefix('covid-')} {v:+.1f} ± {e:.1f} %" for case, (v, e) in found.items()
        )
        verdict = verdict_of_mean(*mean_and_se(over - under), len(over))
        # the one that is to hurt more has to hurt
        worse = found[MISJUDGED[1] if verdict == "pass" else MISJUDGED[0]]
        if verdict != "unclear" and verdict_of_mean(-worse[0], worse[1], len(over)) != "pass":
            return "unclear", f"neither hurts with confidence: {text}"
        return verdict, text

    return check


def check_overestimating_no_sharing(evidence: Evidence) -> Finding:
    over, under, true = (
        evidence.results[case].regrets("no-sharing") for case in (*MISJUDGED[:2], "covid")
    )
    if (over == true).all() and (under == true).all():
        return "unclear", (
            "neither hurts at all: every trial's regret is the same to the bit, because each agent's "
            "indices are only rescaled; the published 0.9 ± 0.5 and 1.5 ± 0.5 % are noise and the "
            "statistic's bias"
        )
    return check_overestimating("no-sharing")(evidence)


def check_mix_hurts_most(evidence: Evidence) -> Finding:
    verdicts: list[ClaimVerdict] = []
    parts = []
    for policy in ("min-width", "min-ucb"):
        regrets = [evidence.results[case].regrets(policy) for case in MISJUDGED]
        verdicts += [
            verdict_of_mean(*mean_and_se(other - regrets[2]), len(other)) for other in regrets[:2]
        ]
        parts.append(
            f"{policy} "
            + " / ".join(f"{v:+.1f} %" for v, _ in percent_changes(evidence, policy).values())
        )
    return join_verdicts(verdicts), "; ".join(parts) + " for over / under / mix"


def check_no_sharing_least_hurt(evidence: Evidence) -> Finding:
    worst = {
        policy: max((abs(v), se) for v, se in percent_changes(evidence, policy).values())
        for policy in AWARE_POLICIES
    }
    text = ", ".join(f"{policy} {value:.1f} ± {se:.1f} %" for policy, (value, se) in worst.items())
    mine, error = worst.pop("no-sharing")
    trials = least_trials(evidence, ROBUST)
    verdicts = (
        verdict_of_mean(mine - value, math.hypot(error, se), trials) for value, se in worst.values()
    )
    return join_verdicts(verdicts), f"largest change: {text}"


def check_min_width_robust(evidence: Evidence) -> Finding:
    verdicts = [
        verdict_of_regrets(evidence.results[case], "min-width", PAPER) for case in MISJUDGED
    ]
    return join_verdicts(verdicts), "; ".join(
        f"{case.removeprefix('covid-')}: {render_regrets(evidence.results[case])}"
        for case in MISJUDGED
    )


def check_canonical_unhurt(evidence: Evidence) -> Finding:
    same = all(
        (evidence.results[case].regrets(p) == evidence.results["covid"].regrets(p)).all()
        for case in MISJUDGED
        for p in CANONICAL_POLICIES
    )
    return ("pass" if same else "fail"), "every trial's regret of cucb and ucb is " + (
        "the same to the bit" if same else "not the same"
    )


def check_smaller_logarithm(evidence: Evidence) -> Finding:
    terms = []
    for name, theory in evidence.theory.items():
        problem = evidence.results[name].problem
        T = theory.coverage.horizon
        terms.append((log_term("no-sharing", problem.agents, problem.arms, T),
                      log_term("min-width", problem.agents, problem.arms, T)))  # fmt: skip
    text = ", ".join(f"{own:.1f} < {shared:.1f}" for own, shared in terms)
    text = f"log terms: {text}; arithmetic, which no run decides"
    return ("pass" if all(a < b for a, b in terms) else "fail"), text


def theory_rounds_text(evidence: Evidence) -> str:
    """For how many rounds the theory was checked, in words."""
    horizons = sorted({theory.coverage.horizon for theory in evidence.theory.values()})
    return f"in {' or '.join(map(str, horizons))} rounds"


def check_coverage_of(name: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        shares = {
            domain: (theory.coverage.failed[name], theory.coverage.trials)
            for domain, theory in evidence.theory.items()
        }
        text = ", ".join(f"{domain} {share:.4f}" for domain, (share, _) in shares.items())
        verdict = join_verdicts(
            rarer_than(evidence.delta, share, trials) for share, trials in shares.values()
        )
        needed = ", ".join(f"{t.coverage.needed[name]:.2f}" for t in evidence.theory.values())
        return (
            verdict,
            f"share of trials in which a bound failed, {theory_rounds_text(evidence)}: {text}; allowed {evidence.delta:g}, and "
            f"widths cut to {needed} of theirs would fail so often",
        )

    return check


def check_regret_bound(evidence: Evidence) -> Finding:
    parts, verdicts, tested = [], list[ClaimVerdict](), False
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
    text = f"largest regret, {theory_rounds_text(evidence)}: {'; '.join(parts)}"
    return join_verdicts(
        verdicts
    ), text + ": no run of so few rounds could contradict the bound" * (not tested)


def check_closed_form(evidence: Evidence) -> Finding:
    error = max(theory.error_of_ln_g for theory in evidence.theory.values())
    below = all(math.comb(t + a, a) - 1 < (t + 1) ** a for t in (1, 5, 300) for a in (1, 2, 5, 9))
    text = f"the sum and C(T+A, A) - 1 agree to {error:.0e} in the logarithm; below (T+1)^A"
    return ("pass" if error < 1e-10 and below else "fail"), text


def check_lemma(evidence: Evidence) -> Finding:
    shares = {domain: theory.lemma_share for domain, theory in evidence.theory.items()}
    text = ", ".join(f"{domain} {share:.3f}" for domain, share in shares.items())
    return (
        "pass" if max(shares.values()) < 1 else "fail"
    ), f"sum over its bound at the most: {text}; arithmetic, which no run decides"


ROBUST = ("covid", *MISJUDGED)
THEORY = ("covid", "hotel", "poaching-5")

EXPERIMENT_CLAIMS = (
    Claim("covid-start", "Results, COVID", "All policies do about equally well in the first rounds.", ("covid",), check_covid_start),
    Claim("covid-best", "Results, COVID", "After them Min-Width does best.", ("covid",), check_best_in("covid")),
    Claim("covid-cucb", "Results, COVID", "CUCB does about as well as Min-UCB and No-Sharing.", ("covid",), check_covid_cucb),
    Claim("hotel-always", "Results, hotels", "Min-Width beats the other four at all times.", ("hotel",), check_hotel_best),
    Claim("hotel-order", "Results, hotels", "Min-Width, Min-UCB, No-Sharing: the more is shared, the less regret.", ("hotel",), check_hotel_order),
    Claim("hotel-baselines", "Results, hotels", "Both canonical baselines do poorly.", ("hotel",), check_hotel_baselines),
    Claim("poaching-later", "Results, poaching", "With fewer rangers it takes much longer until the policies differ.", RANGERS, check_poaching_later),
    Claim("poaching-benefit", "Results, poaching", "The relative benefit of Min-Width grows with the number of rangers.", RANGERS, check_poaching_benefit),
    Claim("poaching-gap", "Results, poaching", "The gap between canonical and sensitivity-aware policies grows with the number of rangers.", RANGERS, check_poaching_gap),
    Claim("synthetic-2x2", "Results, synthetic", "With 2 agents and 2 arms Min-Width is best in the long run.", SYNTHETIC_NAMES, check_min_width_best(2)),
    Claim("synthetic-3x3", "Results, synthetic", "With 3 agents and 3 arms Min-Width is best in the long run.", SYNTHETIC_NAMES, check_min_width_best(3)),
    Claim("as-many-agents", "Results, synthetic", "Min-Width is also best in the domains with as many agents as arms.", ("hotel", "poaching-5"), check_best_with_as_many),
    Claim("min-ucb-sometimes", "Results, synthetic", "With fewer agents than arms Min-UCB sometimes beats Min-Width.", SYNTHETIC_NAMES, check_min_ucb_sometimes),
    Claim("rankings", "Appendix, table", "The 36 rankings of the five policies.", SYNTHETIC_NAMES, check_all_rankings),
    Claim("best-is-aware", "Discussion", "For heterogeneous agents Min-Width or Min-UCB is best in the long run.", SYNTHETIC_NAMES, check_best_is_aware),
    Claim("cucb-identical", "Discussion", "For identical agents CUCB is best.", SYNTHETIC_NAMES, check_cucb_for_identical),
    Claim("varied-gains", "Abstract", "Modelling heterogeneity gains more the more varied the sensitivities are.", SYNTHETIC_NAMES, check_varied_gains),
    Claim("over-under-min-width", "Results, robustness", "Overestimating hurts Min-Width less than underestimating.", ROBUST, check_overestimating("min-width")),
    Claim("over-under-min-ucb", "Results, robustness", "Overestimating hurts Min-UCB less than underestimating.", ROBUST, check_overestimating("min-ucb")),
    Claim("over-under-no-sharing", "Results, robustness", "Overestimating hurts No-Sharing less than underestimating.", ROBUST, check_overestimating_no_sharing),
    Claim("mix-hurts-most", "Results, robustness", "The mix hurts Min-Width and Min-UCB most.", ROBUST, check_mix_hurts_most),
    Claim("no-sharing-least", "Results, robustness", "No-Sharing is least affected.", ROBUST, check_no_sharing_least_hurt),
    Claim("robustly-best", "Results, robustness", "Min-Width stays best in all three cases.", ROBUST, check_min_width_robust),
    Claim("canonical-unaffected", "Results, robustness", "The canonical baselines are not affected at all.", ROBUST, check_canonical_unhurt),
)  # fmt: skip

THEORY_CLAIMS = (
    Claim("smaller-logarithm", "Min-UCB", "The logarithm of No-Sharing and Min-UCB is smaller than Min-Width's.", THEORY, check_smaller_logarithm),
    Claim("coverage-min-width", "Theorem, concentration", "Min-Width's intervals all hold with probability 1 - δ.", THEORY, check_coverage_of("min-width")),
    Claim("coverage-min-ucb", "Corollary", "Min-UCB's upper bounds all hold with probability 1 - δ.", THEORY, check_coverage_of("min-ucb")),
    Claim("coverage-no-sharing", "Proposition", "No-Sharing's intervals all hold with probability 1 - δ.", THEORY, check_coverage_of("no-sharing")),
    Claim("regret-bound", "Theorem, regret", "Min-Width's regret stays below the bound with probability 1 - δ.", THEORY, check_regret_bound),
    Claim("closed-form", "Update rule", "G(T, A) counts the ways to pull an arm, and is below (T+1)^A.", THEORY, check_closed_form),
    Claim("lemma", "Appendix, lemma", "The sum of 1/sqrt(c) over all pulls is below 2 sqrt(ANT).", THEORY, check_lemma),
)  # fmt: skip

CLAIMS = EXPERIMENT_CLAIMS + THEORY_CLAIMS


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict and the numbers behind it."""

    claim: Claim
    verdict: ClaimVerdict
    evidence: str


def judge_claims(evidence: Evidence) -> list[JudgedClaim]:
    """The verdict on every claim whose experiments were run, and on the theory's if any domain was checked."""
    run = [claim for claim in EXPERIMENT_CLAIMS if set(claim.needs) <= set(evidence.results)]
    watched = THEORY_CLAIMS if evidence.theory else ()
    return [JudgedClaim(claim, *claim.check(evidence)) for claim in (*run, *watched)]
