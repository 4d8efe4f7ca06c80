"""The comparison of policies: ratios, problems, verdicts, the leaderboard and its command."""

import csv
import html
import json
import math
import re
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy import stats

from evidence import handmade
from heterobandits import (
    CATALOGUE,
    PAPER,
    InvalidInput,
    Policy,
    Problem,
    lower_bound,
    policy,
    simulate,
)
from heterobandits.cli import main
from heterobandits.experiments import comparison, figures, leaderboard
from heterobandits.experiments.catalogue import FIGURES, SYNTHETIC, Experiment
from heterobandits.experiments.comparison import (
    ComparedPolicy,
    Comparison,
    judge_policies,
    random_problems,
    standing_of_policy,
)
from heterobandits.experiments.reproduce import caption_of
from heterobandits.experiments.runs import with_trials
from heterobandits.experiments.tiny_worlds import OptimumDistance
from heterobandits.policies.catalogue import BEYOND_PAPER
from heterobandits.policies.policy import forgetting_policies
from heterobandits.provenance import describe_machine, versions_in_use
from heterobandits.simulation.pool.shards import ShardStore

EASY = Problem([0.1, 0.9, 0.5], [0.9, 0.4])
# the bound is the gap over the divergence: 0.8 / (0.8 ln 9)
ALONE = Problem([0.1, 0.9], [1.0])


def row(policy="posterior-sorted", ratio=0.5, verdict="ahead", group="settings", **changes):
    made = {
        "problem": "p", "title": "a <problem>", "group": group, "policy": policy,
        "regret": 2.0, "se": 0.1, "best": "min-ucb",
        "ratio": ratio, "lower": ratio * 0.9, "upper": ratio * 1.1, "verdict": verdict, "sure": False,
        "trials": 60, "played": 100, "largest": 9.0, "failed": 3,
        "to_min_width": ratio / 2, "to_limit": None,
    }  # fmt: skip
    return ComparedPolicy(**made | changes)


def compared(rows, folder="."):
    speeds = {r.policy: 1.0 for r in rows}
    return Comparison(rows, speeds, 0.0, False, folder)


class TestProblems:
    def test_the_random_problems_are_as_announced_and_always_the_same(self):
        problems = random_problems(200)
        assert problems[:20] == random_problems(20)
        assert len({(p.means, p.sensitivities) for p in problems}) == 200
        assert {p.agents for p in problems} == set(range(1, 11))
        for p in problems:
            assert max(2, p.agents) <= p.arms <= 20
            assert all(0 <= m <= 1 for m in p.means)
            assert all(0.05 <= s <= 1 for s in p.sensitivities)
            assert all(round(1000 * x, 9).is_integer() for x in (*p.means, *p.sensitivities))
        # what is uniform comes near to both ends in a thousand draws
        arms = [p.arms for p in problems]
        assert (min(arms), max(arms)) == (2, 20)
        means = [m for p in problems for m in p.means]
        assert (min(means) < 0.01, max(means) > 0.99) == (True, True)
        sensitivities = [s for p in problems for s in p.sensitivities]
        assert (min(sensitivities) < 0.06, max(sensitivities) > 0.99) == (True, True)

    def test_the_contests(self):
        chosen = comparison.comparison_experiments(["kl-ucb", "cucb"], quick=False)
        assert {g: len(es) for g, es in chosen.items()} == {
            "settings": 36,
            "domains": 5,
            "random": 200,
        }
        assert {(e.horizon, e.at_first, e.trials) for e in chosen["settings"]} == {
            (100_000, 32, 256)
        }
        assert {(e.at_first, e.trials) for e in chosen["domains"]} == {(125, 2000)}
        assert {e.at_first for e in chosen["random"]} == {None}
        assert [(e.name, e.horizon) for e in chosen["domains"]] == [
            ("covid", 300), ("hotel", 5000), ("poaching-2", 5000), ("poaching-3", 5000), ("poaching-5", 5000),
        ]  # fmt: skip
        for experiments in chosen.values():
            for e in experiments:
                small = math.perm(e.problem.arms, e.problem.agents) <= 1000
                five = PAPER if small or e.name == "covid" else PAPER[:4]
                assert e.policies == (*five, "kl-ucb")
        for i, (e, problem) in enumerate(
            zip(chosen["random"], random_problems(200), strict=True), 1
        ):
            agents = "1 agent" if problem.agents == 1 else f"{problem.agents} agents"
            assert e.title == f"random problem {i}: {agents}, {problem.arms} arms"
            assert (e.name, e.problem, e.shown_in) == (f"random-{i}", problem, "random problems")
            assert (e.horizon, e.trials) == (2000, 32)

    def test_the_quick_contests(self):
        """As many problems of the paper, for a twentieth of the long horizon; few random ones, for a quarter."""
        chosen = comparison.comparison_experiments(["kl-ucb"], quick=True)
        assert [e.horizon for e in chosen["settings"]] == [5000] * 36
        assert [e.horizon for e in chosen["random"]] == [500] * 20
        assert [e.horizon for e in chosen["domains"]] == [300, 5000, 5000, 5000, 5000]
        assert {(e.at_first, e.trials) for es in chosen.values() for e in es} == {(None, 32)}

    def test_own_policies_run_as_they_were_made(self):
        own = Policy("own", index=lambda known: known.pulls[0])
        bold = policy("min-width", delta=0.5)
        for experiments in comparison.comparison_experiments(
            [own, "ucb", bold], quick=True
        ).values():
            assert {e.policies[-2:] for e in experiments} == {(own, bold)}
            assert {e.policies[:4] for e in experiments} == {PAPER[:4]}

    def test_beyond_is_everything_but_the_five_the_baselines_and_those_who_forget(self):
        assert {*BEYOND_PAPER, *PAPER, *forgetting_policies(), "greedy", "random", "oracle"} == set(
            CATALOGUE
        )


class TestJudging:
    def experiment(self, problem, horizon=400, trials=80):
        policies = (*PAPER, "mixture-width", "random")
        return Experiment("p", "a problem", problem, horizon, trials, "", policies=policies)

    @pytest.mark.parametrize("problem", [EASY, Problem([0.3, 0.6], [0.9, 0.5])])
    def test_the_rows_are_what_the_results_say(self, problem):
        e = self.experiment(problem)
        results = simulate(problem, e.policies, e.horizon, e.trials, seed=4, keep="final")
        rows = judge_policies(e, "random", results)
        assert [r.policy for r in rows] == list(e.policies)
        assert {(r.problem, r.title, r.group) for r in rows} == {("p", "a problem", "random")}
        finals = {p: results.regrets(p) for p in e.policies}
        best = min(PAPER, key=lambda p: finals[p].mean())
        for r in rows:
            x, y = finals[r.policy], finals[best]
            assert r.best == best
            assert r.regret == pytest.approx(x.mean())
            assert r.se == pytest.approx(stats.sem(x))
            assert r.ratio == pytest.approx(x.mean() / y.mean())
            assert r.to_min_width == pytest.approx(x.mean() / finals["min-width"].mean())
            quantile = stats.t.ppf(0.995, e.trials - 1)
            spread = math.exp(quantile * stats.sem(x / x.mean() - y / y.mean()))
            assert r.lower == pytest.approx(r.ratio / spread, rel=1e-9)
            assert r.upper == pytest.approx(r.ratio * spread, rel=1e-9)
            assert (r.trials, r.played, r.largest) == (e.trials, e.trials, x.max())
            far = 0.01 * problem.most_regret([400])[0]
            assert r.failed == ((x > 10 * np.median(x)) & (x > far)).sum()
            gaps = [x - finals[rival] for rival in PAPER if rival != r.policy]
            reach = [quantile * stats.sem(gap) for gap in gaps]
            ahead = all(gap.mean() + q < 0 for gap, q in zip(gaps, reach, strict=True))
            five = stats.t.ppf(1 - 0.005 / 5, e.trials - 1)
            behind = any(gap.mean() - five * stats.sem(gap) > 0 for gap in gaps)
            ahead &= r.policy not in PAPER
            assert r.verdict == ("ahead" if ahead else "behind" if behind else "unclear")
            limit = lower_bound(problem)
            if limit:
                assert r.to_limit == pytest.approx(x.mean() / (limit * math.log(e.horizon)))
            else:
                assert r.to_limit is None
        # both verdicts must occur, or the test could not see them swapped
        assert {r.policy: r.verdict for r in rows}["random"] == "behind"
        assert {r.policy: r.verdict for r in rows}["mixture-width"] == "ahead"

    @pytest.mark.parametrize(
        ("sign", "noise", "verdict"),
        [(-1, 1.0, "ahead"), (-1, 32.0, "unclear"), (1, 32.0, "unclear"), (1, 1.0, "behind")],
    )
    def test_a_mean_alone_decides_nothing(self, sign, noise, verdict):
        """The gap is 10; of 64 pairs with a standard deviation of 32 the 99 % interval reaches 10.7, at 95 % 8.1."""
        e = self.experiment(EASY, horizon=1000, trials=64)
        luck = np.tile([-1.0, 1.0], 32) * noise
        regrets = np.array([500.0 + 0 * luck, *[600.0 + 0 * luck] * 4, 500 + 10 * sign + luck])
        names = (*PAPER, "mixture-width")
        made = handmade(EASY, e.horizon, (e.horizon,), regrets[:, None], names)
        found = judge_policies(replace(e, policies=names), "random", made)[-1]
        assert (found.best, found.regret) == ("min-width", 500 + 10 * sign)
        assert found.verdict == verdict

    @pytest.mark.parametrize(("gap", "verdict"), [(0.99, "unclear"), (1.01, "ahead")])
    def test_looks_share_the_error(self, gap, verdict):
        """After 16, 32 and 64 trials: each look may err in a third of 0.5 % to each side."""
        luck = np.tile([-1.0, 1.0], 16) * 3
        reach = stats.t.ppf(1 - 0.01 / 3 / 2, 31) * stats.sem(luck)
        e = replace(self.experiment(EASY, trials=64), at_first=16)
        regrets = np.array([*[20.0 + 0 * luck] * 5, 20 - gap * reach + luck])
        names = (*PAPER, "mixture-width")
        made = handmade(EASY, e.horizon, (e.horizon,), regrets[:, None], names)
        assert comparison.verdict_of(e, made, "mixture-width") == (verdict, False)

    def test_what_was_looked_at_gives_the_verdict_and_the_rest_the_numbers(self):
        e = self.experiment(EASY)
        names = (*PAPER, "mixture-width")
        looked, after = (
            handmade(EASY, 400, (400,), np.outer([4, 4, 4, 4, 4, own], np.ones(n))[:, None], names)
            for own, n in ((1.0, 30), (8.0, 50))
        )
        row = judge_policies(e, "random", after, looked)[-1]
        assert (row.regret, row.ratio, row.verdict) == (8.0, 2.0, "ahead")
        assert (row.trials, row.played, row.largest) == (50, 80, 8.0)

    @pytest.mark.parametrize(("trials", "sure"), [(40, False), (400, True)])
    def test_what_is_sure_takes_many_trials(self, trials, sure):
        """A regret of 10 less, where one failure could cost 288 [400 rounds of 0.9 * 0.8]: 0.033 a trial, and ln 200 is 5.3."""
        names = (*PAPER, "mixture-width")
        for own, verdict in ((10.0, "ahead"), (30.0, "behind")):
            regrets = np.outer([20, 20, 20, 20, 20, own], np.ones(trials))[:, None]
            made = handmade(EASY, 400, (400,), regrets, names)
            row = judge_policies(self.experiment(EASY), "random", made)[-1]
            assert (row.verdict, row.sure) == (verdict, sure)

    @pytest.mark.parametrize(
        ("own", "needed"),
        [
            (10.0, math.log(2 / 0.01)),  # ahead: one of two sides
            (30.0, math.log(2 * 5 / 0.01)),  # behind: one of two sides, and of five rivals
        ],
    )
    def test_a_verdict_is_sure_from_that_trial_on_with_which_its_bets_have_won_enough(
        self, own, needed
    ):
        def won(trials):
            """docs/sweeps.md, of a difference of 10 in every trial, where 288 could be lost."""
            z, bets = 10 / 288, [0.95, *(0.5**k for k in range(1, 6))]
            gains = [math.exp(trials * (u * z - (-math.log(1 - u) - u) * z**2)) for u in bets]
            return math.log(sum(gains) / len(gains))

        first = next(n for n in range(1, 2000) if won(n) >= needed)
        for trials, sure in ((first - 1, False), (first, True)):
            regrets = np.outer([20, 20, 20, 20, 20, own], np.ones(trials))[:, None]
            made = handmade(EASY, 400, (400,), regrets, (*PAPER, "mixture-width"))
            assert judge_policies(self.experiment(EASY), "random", made)[-1].sure is sure

    def test_to_be_ahead_for_sure_is_to_be_so_of_every_rival(self):
        for nearest, sure in ((20.0, True), (10.5, False)):
            regrets = np.outer([20, nearest, 20, 20, 20, 10], np.ones(400))[:, None]
            made = handmade(EASY, 400, (400,), regrets, (*PAPER, "mixture-width"))
            row = judge_policies(self.experiment(EASY), "random", made)[-1]
            assert (row.verdict, row.sure) == ("ahead", sure)

    @pytest.mark.parametrize(
        ("gap", "noise", "known"), [(100, 1.0, True), (0.5, 32.0, False), (0.5, 2.0, True)]
    )
    def test_when_enough_is_known(self, gap, noise, known):
        """Told apart; not so and wide; or within 5 %: with 64 pairs 2.66 standard errors of 0.25 in 500 are 0.13 %."""
        e = self.experiment(EASY, horizon=1000, trials=64)
        luck = np.tile([-1.0, 1.0], 32) * noise
        others = [600.0 - 50 * np.tile([1.0, -1.0, -1.0, 1.0], 16)] * 4  # which nobody asks about
        regrets = np.array([20.0 + 0 * luck, *others, 20 + gap + luck])
        if known and noise == 2.0:
            regrets += 480
        names = (*PAPER, "mixture-width")
        made = handmade(EASY, e.horizon, (e.horizon,), regrets[:, None], names)
        assert comparison.is_known(replace(e, policies=names), made) is known

    def test_the_best_is_one_that_ran(self):
        """Where ucb is left out, the yardstick is among the other four; one beyond them is none."""
        names = (*PAPER[:4], "mixture-width")
        regrets = np.array([2.0, 1.0, 1.5, 1.0, 0.5])[:, None, None] * np.ones(6)
        made = handmade(ALONE, 3, (3,), regrets, names)
        rows = judge_policies(self.experiment(ALONE, horizon=3), "random", made)
        assert {r.best for r in rows} == {"min-ucb"}
        assert [r.ratio for r in rows] == [2.0, 1.0, 1.5, 1.0, 0.5]
        assert [r.to_min_width for r in rows] == [1.0, 0.5, 0.75, 0.5, 0.25]
        assert [r.verdict for r in rows] == ["behind", "unclear", "behind", "unclear", "ahead"]
        # the limit is ln 3 / ln 9
        assert [r.to_limit for r in rows] == pytest.approx([4, 2, 3, 2, 1], rel=1e-12)

    @pytest.mark.parametrize(
        ("values", "mean"),
        [
            ([0.5, 2.0], 1.0),
            ([9.0], 9.0),
            ([0.25, 0.0, 1.0], 0.5),
            ([], math.nan),
            ([0.0], math.nan),
        ],
    )
    def test_the_mean_of_ratios(self, values, mean):
        """Without those that are zero, which have no logarithm."""
        found = comparison.geometric_mean(iter(values))
        assert found == pytest.approx(mean, rel=1e-15, nan_ok=True)

    def test_speeds_are_those_of_all_runs_together(self):
        """4 trials of 1000 rounds in 2 and 4 seconds; of 3000 rounds in 6, by the first policy alone."""
        one = handmade(EASY, 1000, (1000,), np.ones((2, 1, 4)), PAPER[:2])
        two = handmade(EASY, 3000, (3000,), np.ones((1, 1, 4)), PAPER[:1])
        runs = [replace(one, seconds=(2.0, 4.0)), replace(two, seconds=(6.0,))]
        assert comparison.speeds_of_policies(runs) == {"min-width": 0.002, "min-ucb": 0.001}

    def test_a_standing_adds_up(self):
        rows = [
            row(ratio=0.25, to_limit=2.0),
            row(ratio=4.0, verdict="behind", title="the worst"),
            row(ratio=1.0, verdict="unclear", to_limit=4.0),
        ]
        found = standing_of_policy(rows)
        assert found["ratio"] == pytest.approx(1.0)
        assert (found["ahead"], found["unclear"], found["behind"]) == (1, 1, 1)
        assert found["problems"] == 3
        assert found["to_min_width"] == pytest.approx(0.5)
        assert found["to_limit"] == pytest.approx(3.0)
        assert (found["worst_ratio"], found["worst_problem"]) == (4.0, "the worst")
        assert standing_of_policy(rows[1:2])["to_limit"] is None

    def test_what_a_program_is_told(self):
        own = Policy("own", index=lambda known: known.pulls[0], guarantee="none at all")
        rows = [
            row(ratio=0.5),
            row(ratio=2.0, verdict="behind", group="random", title="hard", to_limit=3.0),
            row("own", ratio=0.25, group="random", to_limit=5.0),
        ]
        speeds = {"posterior-sorted": 2.0, "own": 0.5}
        near = OptimumDistance("a world", "posterior-sorted", 0.75, 0.5)
        made = Comparison(rows, speeds, 7.0, True, Path("there"), (own,), (near,))
        easy = {
            "problems": 1, "ahead": 1, "unclear": 0, "behind": 0, "sure": 0, "played": 100, "failed": 3,
            "ratio": 0.5, "to_min_width": 0.25, "to_limit": None,
            "worst_ratio": 0.5, "worst_problem": "a <problem>",
        }  # fmt: skip
        hard = easy | {
            "ahead": 0, "behind": 1, "ratio": 2.0, "to_min_width": 1.0, "to_limit": 3.0,
            "worst_ratio": 2.0, "worst_problem": "hard",
        }  # fmt: skip
        both = hard | {
            "problems": 2, "played": 200, "failed": 6, "ahead": 1, "ratio": 1.0, "to_min_width": 0.625,
        }  # fmt: skip
        mine = {**easy, "ratio": 0.25, "to_min_width": 0.125, "to_limit": 5.0, "worst_ratio": 0.25}
        assert made.summary() == {
            "standings": [
                {
                    "policy": "own",
                    "guarantee": "none at all",
                    "groups": {"random": mine},
                    "all": mine,
                    "million_rounds_per_second": 0.5,
                },
                {
                    "policy": "posterior-sorted",
                    "guarantee": CATALOGUE["posterior-sorted"].guarantee,
                    "groups": {"settings": easy, "random": hard},
                    "all": both,
                    "million_rounds_per_second": 2.0,
                },
            ],
            "rows": [asdict(r) for r in rows],
            "optimum": [
                {
                    "world": "a world",
                    "policy": "posterior-sorted",
                    "regret": 0.75,
                    "optimum": 0.5,
                    "ratio": 1.5,
                }
            ],
            "level": 0.99,
            "quick": True,
            "page": str(Path("there", "leaderboard.html")),
            "seconds": 7.0,
        }


class TestAdvice:
    def test_says_what_each_gains(self):
        rows = [
            row(ratio=0.5, regret=4.0),
            row(ratio=0.125, regret=1.0, problem="q"),
            row("season", ratio=0.25, regret=2.0),
            row("season", ratio=0.25, regret=2.0, problem="q"),
        ]
        far = [OptimumDistance(w, "season", r, 1.0) for w, r in (("a", 1.001), ("b", 1.02))]
        made = replace(compared(rows), distances=tuple(far))
        # the geometric means of 1/2 and 1/8, and of 1/2 and 2
        assert leaderboard.advice_texts(made) == [
            (
                "If you know how many rounds there will be: Season",
                "regret is 0.25 of the best of the paper's five, 1.00 of Posterior-Sorted's, "
                "1.001 to 1.020 of the least possible in 2 tiny worlds",
            ),
            (
                "If you do not: Posterior-Sorted",
                "regret is 0.25 of the best of the paper's five, 1.00 of Season's",
            ),
        ]

    def test_is_of_those_that_were_compared(self):
        ((case, gain),) = leaderboard.advice_texts(compared([row()]))
        assert case == "If you do not: Posterior-Sorted"
        assert gain == "regret is 0.50 of the best of the paper's five"
        assert leaderboard.advice_texts(compared([row("kl-ucb")])) == []


class TestLeaderboard:
    def test_the_best_with_a_proof_is_named(self):
        rows = [
            row("thompson", 0.1),
            row("posterior-ratio", 0.3),
            row("posterior-sorted", 0.2),
            row("posterior-sorted", 0.4, "unclear", "random"),
            row("min-width", 1.0, "unclear"),
        ]
        made = compared(rows)
        assert made.policies[0] == "thompson"
        assert leaderboard.winner_of(made) == "posterior-sorted"
        assert leaderboard.leaderboard_headline(made) == (
            "Posterior-Sorted is ahead of the best of the paper's five on "
            "1 of 1 settings of the paper and 0 of 1 random problems. "
            "Thompson has less regret on the whole, but no bound on it is proven that holds for every problem."
        )
        assert leaderboard.leaderboard_headline(compared(rows[1:])).endswith("random problems.")

    def test_losses_are_said_plainly_the_worst_first(self):
        rows = [row("kl-ucb", 1.2, "behind"), row("kl-ucb", 1.9, "behind", title="bad"), row()]
        rows += [row("kl-ucb", 3.0, "unclear")]
        sorted_, kl = leaderboard.losses_texts(compared(rows))
        assert kl[0] == "KL-UCB"
        assert re.match(r"bad: 1\.90 .*Min-UCB's; a <problem>: 1\.20", kl[1])
        assert "3.00" not in kl[1]
        assert sorted_ == ("Posterior-Sorted", "nowhere")
        text = leaderboard.render_leaderboard(compared(rows), [], "")
        assert re.search(
            r"<b>KL-UCB</b>: bad: 1\.90 .*Min-UCB&#39;s; a &lt;problem&gt;: 1\.20", text
        )
        assert "<b>Posterior-Sorted</b>: nowhere." in text
        ((_, many),) = leaderboard.losses_texts(
            compared([row("kl-ucb", 2 + i, "behind") for i in range(11)])
        )
        assert many.endswith("Min-UCB's; and 3 more")

    def test_the_page_stands_alone(self):
        page = leaderboard.render_leaderboard(
            compared([row(), row("min-width", 1.0)]), [], '{"seed": 0}'
        )
        assert "a &lt;problem&gt;" in page
        assert "a <problem>" not in page
        assert not re.search(r"(?:src|href)=['\"]?https?:", page)


class TestWriting:
    """What is put into the folder, from results made by hand."""

    @pytest.mark.slow
    def test_figures_table_and_page(self, tmp_path):
        rounds, names = (10, 100, 300), (*PAPER, "kl-ucb")
        means = np.outer([8.0, 10, 12, 16, 20, 4], [1, 2, 4])
        limited = Experiment("limited", "more <arms>", ALONE, 300, 1000, "", policies=names)
        bounded = replace(
            limited, name="bounded", title="none over", problem=Problem([0.3, 0.6], [0.9, 0.5])
        )
        long = replace(limited, name="random-1", horizon=700, trials=100)
        results = {
            e.name: handmade(e.problem, 300, rounds, np.repeat(means[:, :, None], 1000, 2), names)
            for e in (limited, bounded)
        }
        # 0.455 ln 300 is 2.6, and one policy is below
        short = replace(limited, name="short", title="a start")
        results["short"] = handmade(
            ALONE, 300, rounds, np.repeat(means[:, :, None] / 8, 1000, 2), names
        )
        every = [limited, short, bounded]
        rows = [r for e in every for r in judge_policies(e, "domains", results[e.name])]
        folder = tmp_path / "not" / "yet"
        far = [
            OptimumDistance(world, policy, regret, 0.5)
            for world, regret in (("a <world>", 1.0), ("another", 0.75))
            for policy in ("min-width", "kl-ucb")
        ]
        far[1] = replace(far[1], regret=0.6)
        made = Comparison(rows, dict.fromkeys(names, 1.0), 0.0, True, folder, distances=tuple(far))
        other = replace(long, name="random-2")
        for e, trials in ((long, 9), (other, 7)):  # as many as were played, not as might have been
            regrets = np.repeat(means[:, -1:, None], trials, 2)
            results[e.name] = handmade(ALONE, 700, (700,), regrets, names)
        chosen = {"domains": every, "random": [long, other]}
        comparison.write_comparison(made, chosen, results, 11)

        assert {path.name for path in (folder / "figures").iterdir()} == {
            f"{name}.{kind}"
            for name in ("optimum", "limited-limit", "bounded-limit")
            for kind in ("svg", "png", "pdf")
        }
        again = figures.save_report_figure(
            lambda: figures.limit_figure(limited, results["limited"], quick=True), tmp_path, "again"
        )
        assert (folder / "figures" / "limited-limit.svg").read_text("utf-8") == again
        page = html.unescape((folder / "leaderboard.html").read_text("utf-8"))
        assert re.findall(r'alt="(.*?)"', page) == [
            "The best possible in tiny worlds",
            "more <arms>",
            "none over",
        ]
        lines = re.findall(r"<tr><td><b>(.*?)</b></td>(.*?)</tr>", page)
        cells = [(name, re.findall(r">([0-9.]+)<", cells)) for name, cells in lines]
        assert cells == [("KL-UCB", ["1.200", "1.500"]), ("Min-Width", ["2.000", "1.500"])]
        assert re.findall("<figcaption>(.*?)</figcaption>", page) == [
            "Bayes regret over the least possible, exactly, all means being equally likely",
            "Regret over 0.455 ln t, the least possible in the long run; 1,000 trials",
            "As many agents as arms: regret can stay bounded; 1,000 trials",
        ]
        told = {
            "seed": 11,
            "quick": True,
            "versions": versions_in_use(),
            "machine": describe_machine(),
            "runs": {
                "domains": {"problems": 3, "horizons": [300], "trials": [1000]},
                "random": {"problems": 2, "horizons": [700], "trials": [7, 9]},
            },
        }
        assert f"<pre>{json.dumps(told, indent=1)}</pre>" in page
        with (folder / "leaderboard.csv").open(newline="", encoding="utf-8") as file:
            first, *_, last = csv.DictReader(file)
        assert list(first) == list(asdict(rows[0]))
        assert {k: first[k] for k in ("problem", "policy", "regret", "best", "ratio")} == {
            "problem": "limited", "policy": "min-width", "regret": "32.0", "best": "min-width", "ratio": "1.0",
        }  # fmt: skip
        assert {k: last[k] for k in ("problem", "policy", "ratio", "verdict", "to_limit")} == {
            "problem": "bounded", "policy": "kl-ucb", "ratio": "0.5", "verdict": "ahead", "to_limit": "",
        }  # fmt: skip


class TestLimitInCharts:
    def test_a_regret_chart_has_the_limit(self):
        results = simulate(EASY, ["min-width"], 200, 20)
        e = Experiment("p", "a problem", EASY, 200, 20, "")
        limit = lower_bound(EASY)
        assert limit > 0
        for draw in (figures.regret_figure, figures.theory_figure):
            (axes,) = draw(e, results, False).axes
            lines = {line.get_label(): line for line in axes.get_lines()}
            (line,) = (value for key, value in lines.items() if key.startswith("limit"))
            x, y = line.get_data()
            np.testing.assert_allclose(y, limit * np.log(x), atol=1e-12)
        (axes,) = figures.limit_figure(e, results, False).axes
        lines = {line.get_label(): line for line in axes.get_lines()}
        x, y = lines["Min-Width"].get_data()
        mean = dict(zip(results.rounds, results.mean("min-width"), strict=True))
        np.testing.assert_allclose(y, [mean[t] / (limit * math.log(t)) for t in x])
        (line,) = (value for key, value in lines.items() if key.startswith("limit"))
        assert set(line.get_ydata()) == {1.0}

    def test_no_line_and_no_legend_where_regret_can_be_bounded(self):
        problem = Problem([0.2, 0.7], [0.9, 0.4])
        results = simulate(problem, ["min-width"], 50, 5)
        e = Experiment("p", "a problem", problem, 50, 5, "")
        drawn = [results.plot(limit=0.0)]
        for draw in (figures.regret_figure, figures.limit_figure, figures.theory_figure):
            drawn.append(draw(e, results, False).axes[0])
        for axes in drawn:
            texts = [text.get_text() for text in axes.get_legend().get_texts()]
            assert not any("limit" in text for text in texts), texts
        assert "regret can stay bounded" in caption_of(e, results)
        assert "bounded" not in caption_of(replace(e, problem=EASY), results)


def regret_figure_of(name, trials):
    """The figure of an experiment of the paper, and its axes, laid out as it is written."""
    (e,) = with_trials([e for e in FIGURES if e.name == name], trials)
    results = simulate(e.problem, e.policies, e.horizon, trials)
    figure = figures.regret_figure(e, results, quick=True)
    FigureCanvasAgg(figure).draw()
    return e, results, figure.axes[0]


class TestRegretFigures:
    """What the reproduction draws of regret."""

    def test_the_legend_covers_no_curve(self):
        _, _, axes = regret_figure_of("covid", 4)
        inside, legend = axes.get_window_extent(), axes.get_legend().get_window_extent()
        assert legend.x0 > inside.x1
        assert legend.x1 <= axes.figure.bbox.x1

    def test_curves_that_look_like_one_are_shown_larger(self):
        e, results, axes = regret_figure_of("two-by-two", 32)
        (inset,) = axes.child_axes
        assert len(inset.lines) == 4
        low, top = inset.get_ylim()
        shown = [label for label in e.policies if low < results.mean(label)[-1] < top]
        assert len(shown) == 4
        assert len({line.get_linewidth() for line in inset.lines}) == 4
        assert not regret_figure_of("covid", 4)[2].child_axes

    def test_places_are_the_numbers_of_the_paper(self):
        shown = [e.shown_in for e in FIGURES]
        assert shown == [
            f"Figure {n}" for n in ["1a", "1b", "2a", "2b", "2c", "B1", "B2", "B3", "B4"]
        ]
        assert {e.shown_in for e in SYNTHETIC} == {"Table B1"}


def command(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["compare", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a finished comparison of two trials, on problems of which no figure is drawn."""
    folder = tmp_path_factory.mktemp("comparison") / "new"
    how = {"policies": ["mixture-width"], "groups": ["random"], "quick": True, "trials": 2}
    return folder, how, comparison.compare(folder, **how, seed=5)


class TestOwnPolicies:
    """Policies of one's own, and of the catalogue with other parameters, are compared like any other."""

    def test_they_are_on_the_leaderboard(self, tmp_path):
        def hopeful(known):
            return (known.successes.sum(axis=0) + 1) / (known.pulls.sum(axis=0) + 1)

        own = Policy("hopeful <own>", index=hopeful, guarantee="none at all")
        bold = policy("min-width", delta=0.5)
        how = {"groups": ["random"], "quick": True, "trials": 2}
        made = comparison.compare(tmp_path, policies=[own, bold], **how)
        labels = {*PAPER, "hopeful <own>", "min-width(delta=0.5)"}
        assert {row.policy for row in made.rows} == labels
        first, *_ = comparison.comparison_experiments([own], quick=True)["random"]
        alone = simulate(first.problem, own, first.horizon, 2)
        (row,) = (r for r in made.of("hopeful <own>") if r.problem == "random-1")
        assert row.regret == alone.mean("hopeful <own>")[-1]
        said = {entry["policy"]: entry["guarantee"] for entry in made.standings()}
        assert said["hopeful <own>"] == "none at all"
        assert said["min-width(delta=0.5)"] == CATALOGUE["min-width"].guarantee
        page = (tmp_path / "leaderboard.html").read_text("utf-8")
        assert "<b>hopeful &lt;own&gt;</b>" in page

        changed = Policy("hopeful <own>", index=lambda known: -hopeful(known))
        again = comparison.compare(tmp_path, policies=[changed, bold], **how, resume=True)
        assert again.of("hopeful <own>") != made.of("hopeful <own>")
        assert again.of("ucb") == made.of("ucb")

    def test_two_of_one_name_are_refused(self, tmp_path):
        both = [Policy("own", index=lambda known: known.pulls[0]) for _ in range(2)]
        with pytest.raises(InvalidInput, match="policy 'own' is given twice"):
            comparison.compare(tmp_path, policies=both)


class TestCommand:
    @pytest.mark.slow
    def test_everything_is_written(self, tmp_path):
        how = {"policies": ["mixture-width"], "groups": ["domains"], "quick": True, "trials": 2}
        folder = tmp_path
        made = comparison.compare(folder, **how)
        assert len(made.rows) == 5 * 6
        page = (folder / "leaderboard.html").read_text("utf-8")
        assert "Quick run" in page
        # the best possible, and the two domains with as many agents as arms: two trials are no long run of the others
        assert page.count("<figure>") >= 3
        drawn = {p.stem for p in (folder / "figures").iterdir()}
        assert len(drawn) == page.count("<figure>")
        assert {"optimum", "hotel-limit", "poaching-5-limit"} <= drawn
        with (folder / "leaderboard.csv").open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        assert [(r.problem, r.policy) for r in made.rows] == [
            (line["problem"], line["policy"]) for line in lines
        ]
        assert float(lines[0]["regret"]) == pytest.approx(made.rows[0].regret)
        assert {p.suffix for p in (folder / "figures").iterdir()} == {".svg", ".png", ".pdf"}

    @pytest.mark.slow
    def test_resuming_runs_nothing_again_and_says_the_same(self, tiny, capsys):
        folder, how, made = tiny
        before = {p: p.stat().st_mtime_ns for p in (folder / "runs").iterdir()}
        code, out, _ = command(
            capsys, "--output", str(folder), "--resume", "--quick", "--trials", "2", "--seed", "5",
            "--policy", "mixture-width", "--only", "random", "--format", "json",
        )  # fmt: skip
        assert code == 0
        answer = json.loads(out)
        assert before == {p: p.stat().st_mtime_ns for p in (folder / "runs").iterdir()}
        assert answer["rows"][3]["regret"] == made.rows[3].regret
        assert [entry["policy"] for entry in answer["standings"]] == made.policies
        assert (answer["quick"], answer["level"]) == (True, 0.99)
        again = comparison.compare(folder, **how, seed=6, resume=True)
        assert again.rows[0].regret != made.rows[0].regret
        between = {p: p.stat().st_mtime_ns for p in (folder / "runs").iterdir()}
        assert comparison.compare(folder, **how, seed=6).rows == again.rows
        assert all(not p.exists() or p.stat().st_mtime_ns > then for p, then in between.items())

    def test_an_interrupt_keeps_what_is_finished(self, tmp_path):
        """A problem of a run that is not quick, with its own number of trials."""

        def show(title, share):
            if share > 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            comparison.compare(tmp_path, policies=["greedy"], groups=["random"], show=show)
        kept = ShardStore(tmp_path / "runs")
        stored = [(place[1:], json.loads(kept.row(place).definition)) for place in kept]
        assert 0 < len(stored) < 200
        assert {(span, what["horizon"], what["seed"]) for span, what in stored} == {
            ((0, 32), 2000, 0)
        }
        drawn = [problem.to_dict() for problem in comparison.random_problems(200)]
        assert all(what["problem"] in drawn for _, what in stored)
        assert [p.name for p in tmp_path.iterdir()] == ["runs"]

    def test_what_a_run_says_of_itself(self, tmp_path):
        """Its numbers, its time, what it is doing, and a remark about a file it cannot use."""
        (tmp_path / "runs").mkdir()
        broken = tmp_path / "runs" / f"{'a' * 32}.parquet"
        broken.write_text("PAR1", "utf-8")
        shown, notes = [], []
        start = time.perf_counter()
        made = comparison.compare(
            str(tmp_path), policies="mixture-width", groups=["random"], quick=True, trials=3, seed=5, resume=True,
            show=lambda title, share: shown.append((title, share)), note=notes.append,
        )  # fmt: skip
        assert 0 < made.seconds <= time.perf_counter() - start
        assert (made.quick, made.folder, made.entered) == (
            True,
            tmp_path,
            (policy("mixture-width"),),
        )
        assert set(made.speeds) == {*PAPER, "mixture-width"}
        assert min(made.speeds.values()) > 0
        drawn = comparison.comparison_experiments(["mixture-width"], quick=True)["random"]
        assert shown[0][1] == 0.0
        assert shown[-1] == ("drawing", 1.0)
        assert shown[-2] == ("the best possible in tiny worlds", 1.0)
        assert {title for title, _ in shown[:-2]} <= {e.title for e in drawn}
        (note,) = notes
        assert note.startswith(f"{broken} cannot be used, and what it had is run again: ")
        alone = simulate(drawn[0].problem, drawn[0].policies, drawn[0].horizon, 3, seed=5)
        assert {r.policy: r.regret for r in made.rows if r.problem == "random-1"} == {
            name: alone.mean(name)[-1] for name in alone.policies
        }
        told = (
            (tmp_path / "leaderboard.html")
            .read_text("utf-8")
            .partition("<pre>")[2]
            .partition("</pre>")[0]
        )
        assert json.loads(html.unescape(told)) == {
            "seed": 5,
            "quick": True,
            "versions": versions_in_use(),
            "machine": describe_machine(),
            "runs": {"random": {"problems": 20, "horizons": [500], "trials": [3]}},
        }

    def test_the_table_for_a_person(self, tiny, capsys):
        folder, *_ = tiny
        code, out, _ = command(
            capsys, "--output", str(folder), "--resume", "--quick", "--trials", "2", "--seed", "5",
            "--policy", "mixture-width", "--only", "random",
        )  # fmt: skip
        assert code == 0
        assert "quick run" in out
        assert "mixture-width" in out
        assert "leaderboard.html" in out

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--policy", "min-widht"], "min-widht"),
            (["--policy", "oracle"], "oracle"),
            (["--only", "setings"], "setings"),
            (["--trials", "1"], "trials"),
            (["--seed", "-1"], "seed"),
        ],
    )
    def test_bad_input_is_one_line(self, capsys, tmp_path, arguments, said):
        code, out, err = command(capsys, "--quick", "--output", str(tmp_path / "x"), *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1
        assert not (tmp_path / "x" / "leaderboard.html").exists()

    def test_a_folder_that_cannot_be_written_to(self, capsys, tmp_path):
        (tmp_path / "file").write_text("")
        code, _, err = command(capsys, "--quick", "--output", str(tmp_path / "file"))
        assert code == 2
        assert "cannot write to" in err
        with pytest.raises(InvalidInput, match="cannot write"):
            comparison.compare(tmp_path / "file", quick=True)

    def test_a_folder_in_which_figures_are_a_file(self, tmp_path):
        (tmp_path / "figures").write_text("")
        how = {"policies": ["greedy"], "groups": ["random"], "quick": True, "trials": 2}
        with pytest.raises(InvalidInput, match=f"^cannot write to {re.escape(str(tmp_path))}: "):
            comparison.compare(tmp_path, **how)


@pytest.mark.parametrize(
    ("given", "culprit"),
    [
        ({"groups": []}, "groups is empty: some of settings, domains, random"),
        ({"groups": iter(())}, "groups is empty: some of settings, domains, random"),
        ({"groups": "domains"}, "groups is 'domains': a list of groups of problems"),
        (
            {"groups": ["domains", "setings"]},
            "a group of problems is 'setings': 'settings' or 'domains' or 'random'",
        ),
        ({"folder": None}, "folder is None: the path of a file or folder"),
        ({"folder": ""}, "folder is '': the path of a file or folder, not empty"),
        ({"policies": ["greedy", "oracle"]}, "oracle knows the true means: nothing to compare"),
        ({"trials": 1}, "trials is 1: a whole number at least 2"),
    ],
)
def test_what_cannot_be_compared(given, culprit, tmp_path):
    with pytest.raises(InvalidInput, match=f"^{re.escape(culprit)}$"):
        comparison.compare(**{"folder": tmp_path / "made", "policies": ["greedy"], **given})
    assert not (tmp_path / "made").exists()


def test_groups_may_come_one_by_one(tmp_path):
    how = {"policies": ["greedy"], "quick": True, "trials": 2}
    made = comparison.compare(tmp_path, groups=(g for g in ["random"]), **how)
    assert {row.group for row in made.rows} == {"random"}
