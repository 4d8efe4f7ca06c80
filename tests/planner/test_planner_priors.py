"""The planner under a prior: the same plans as the simulator's, estimates that stay, and what is certain stays certain."""

import numpy as np
import pytest

from heterobandits import CATALOGUE, InvalidInput, Planner, Problem, policy
from heterobandits.inference.intervals import mean_intervals, ranking
from heterobandits.simulation.engine import Learning, worlds_of

MEANS = [0.03, 0.2, 0.01, 0.05, 0.6]
AGENTS = {"sensitivities": [0.9, 0.6, 0.6], "tests": [2, 5, 1]}
PRIORS = {
    "stated": [[2, 60], None, [1, 1], [1.5, 8], [30, 4]],
    "mixed": ["learned", [2, 60], [], [], [], []],
    "learned": "learned",
}
NAMES = [name for name, entry in CATALOGUE.items() if entry.takes_prior]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", NAMES)
def test_the_planner_plans_as_the_simulator_plays(name, prior):
    """Seven rounds on the same addresses, assignment by assignment."""
    entry = policy(name, horizon=7) if name == "season" else policy(name)
    problem = Problem(MEANS, **AGENTS, prior=PRIORS[prior])
    (world,) = worlds_of(problem, [entry], 7)
    learning = Learning(world, seed=5, trial=9, lanes=16)
    planner = Planner(**AGENTS, arms=5, policy=entry, seed=5, trial=9, prior=PRIORS[prior])
    for number in range(1, 8):
        before = learning.pulls[..., 0].copy(), learning.successes[..., 0].copy()
        learning.advance(1)
        tests, found = learning.pulls[..., 0] - before[0], learning.successes[..., 0] - before[1]
        plan = planner.ask()
        assert plan.assignment == tuple(tests.argmax(axis=1).tolist())
        planner.accept(plan)
        planner.tell(number, list(zip(found.sum(axis=1), tests.sum(axis=1), strict=True)))
    assert (planner.pulls == learning.pulls[..., 0]).all()


def test_uniform_priors_move_no_bit():
    for prior in (None, (1, 1), [None] * 5, ["learned", *[[1, 1]] * 5]):
        planner = Planner(**AGENTS, arms=5, seed=3, prior=prior)
        planner.accept(planner.ask())
        planner.tell(1, [(1, 2), (0, 5), (1, 1)])
        if prior is None:
            wanted = planner.ask().index
        assert planner.ask().index == wanted


def test_a_saved_planner_believes_what_it_did():
    planner = Planner(**AGENTS, arms=5, policy="bayes-ucb", prior=PRIORS["mixed"])
    planner.accept(planner.ask())
    planner.tell(1, [(1, 2), (0, 5), (1, 1)])
    again = Planner.from_json(planner.to_json())
    assert again.prior == planner.prior
    assert again.ask() == planner.ask()


def test_rare_things_are_expected_to_be_rare_everywhere():
    """Of 100 tests of other arms none found anything: an arm that nobody has visited is not believed to be at 1/2."""
    pulls = np.array([[25, 25, 25, 25, 0]])
    how = {"pulls": pulls, "successes": 0 * pulls, "rounds": 20}
    learned = Planner([0.9], 5, prior="learned", **how).probable()
    uniform = Planner([0.9], 5, **how).probable()
    assert learned.estimate[4] < 0.1 < 0.49 < uniform.estimate[4]
    first = str(learned).splitlines()[1].split()
    assert first[:2] == ["arm", str(1 + int(learned.best.argmax()))]


def test_chances_are_those_of_exact_posteriors():
    """Two arms, a perfect agent: P(Beta(9, 3) > Beta(4, 8)) by quadrature, within 6 standard errors of 4,000 draws."""
    from scipy.integrate import quad
    from scipy.stats import beta

    planner = Planner([1.0], 2, pulls=[[10, 10]], successes=[[8, 3]], rounds=20)
    exact, _ = quad(lambda x: beta(9, 3).pdf(x) * beta(4, 8).cdf(x), 0, 1)
    error = np.sqrt(exact * (1 - exact) / 4000)
    assert abs(planner.probable().best[0] - exact) < 6 * error


class TestCertain:
    """Intervals and the order go by a prior that was fixed beforehand, and by no other."""

    def test_a_prior_that_is_right_narrows_them(self):
        tables = ([[40, 40]], [[1, 2]])
        plain, stated = (
            mean_intervals(*tables, [0.9]),
            mean_intervals(*tables, [0.9], prior=(2, 60)),
        )
        assert (stated.upper < plain.upper).all()

    def test_a_learned_one_is_refused(self):
        for call in (mean_intervals, ranking):
            with pytest.raises(InvalidInput, match="learned from what is seen"):
                call([[4, 4]], [[1, 0]], [0.9], prior="learned")

    def test_a_planner_that_learns_says_what_is_certain_by_the_uniform_one(self):
        how = {"pulls": [[40, 40]], "successes": [[1, 2]], "rounds": 80}
        plain, learned = (Planner([0.9], 2, prior=prior, **how) for prior in (None, "learned"))
        assert plain.intervals().upper.tolist() == learned.intervals().upper.tolist()

    @pytest.mark.parametrize("prior", [(1, 1), (8, 3), (2, 60), (1, 400)])
    def test_they_fail_no_more_often_than_they_say(self, prior):
        """delta 0.2; 400 seasons of 40 rounds at 0.3 and 0.05: failures of any arm in any round, right prior or wrong.

        With a chance of 0.2 each more than 128 of 400 come less than once in 10 million.
        """
        rng, failed = np.random.default_rng(11), np.zeros(400, bool)
        means = np.array([0.3, 0.05])
        pulls, successes = np.zeros((2, 400, 2), int)
        for number in range(40):
            arm = number % 2
            pulls[:, arm] += 3
            successes[:, arm] += rng.binomial(3, 0.9 * means[arm], 400)
            tables, which = np.unique(np.stack([pulls, successes], 1), axis=0, return_inverse=True)
            for i, (c, y) in enumerate(tables):
                known = mean_intervals(c[None], y[None], [0.9], delta=0.2, prior=prior)
                outside = (means < known.lower) | (means > known.upper)
                failed[which == i] |= outside.any()
        assert failed.sum() <= 128
