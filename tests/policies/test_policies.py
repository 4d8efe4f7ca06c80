"""Policies: the catalogue, their parameters, and policies of the user's own."""

import math
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from heterobandits import CATALOGUE, PAPER, InvalidInput, Planner, Policy, Problem, coverage, policy
from heterobandits.inference import bounds
from heterobandits.inference.intervals import mean_intervals, ranking
from heterobandits.model.team import Team
from heterobandits.policies.catalogue import BEYOND_PAPER, RECOMMENDED
from heterobandits.policies.policy import forgetting_policies
from heterobandits.simulation.engine import Learning, PolicyWorld

NAMES = tuple(CATALOGUE)


def zeros(known):
    return np.zeros(known.pulls.shape[1:])


class TestCatalogue:
    def test_the_papers_and_those_beyond_follow_from_the_records(self):
        assert set(PAPER) == {"min-width", "min-ucb", "no-sharing", "cucb", "ucb"}
        assert [name for name in NAMES if CATALOGUE[name].origin == "paper"] == list(PAPER)
        assert [name for name in NAMES if CATALOGUE[name].origin == "beyond"] == list(BEYOND_PAPER)
        assert RECOMMENDED in BEYOND_PAPER
        baselines = {"greedy", "random", "oracle"}
        assert {name for name in NAMES if CATALOGUE[name].origin == "baseline"} == baselines
        assert set(NAMES) == {*PAPER, *BEYOND_PAPER, *forgetting_policies(), *baselines}

    @pytest.mark.parametrize("name", NAMES)
    def test_every_entry_says_what_it_is(self, name):
        entry = CATALOGUE[name]
        assert entry.name == name
        assert policy(name) is entry
        assert entry.label == name
        for text in (entry.summary, entry.equation, entry.guarantee, entry.cost):
            assert text.strip()
            assert "\n" not in text
        assert (entry.delta, entry.horizon) == (0.05, "anytime")

    def test_what_an_index_belongs_to_and_who_picks_first(self):
        assert {n for n in NAMES if CATALOGUE[n].index_per == "agent"} == {"no-sharing"}
        assert {n for n in NAMES if CATALOGUE[n].index_per == "assignment"} == {"ucb"}
        assert {n for n in NAMES if CATALOGUE[n].first == "random"} == {"cucb"}
        assert {n for n in NAMES if CATALOGUE[n].needs_means} == {"oracle"}

    def test_an_entry_cannot_be_changed(self):
        with pytest.raises(FrozenInstanceError):
            CATALOGUE["greedy"].delta = 0.1

    @pytest.mark.parametrize("name", NAMES)
    def test_a_name_of_the_catalogue_means_that_entry_or_nothing(self, name):
        # The compiled rule of a name fits one shape of index only: an entry of the same name
        # that ranks something else would read numbers that nobody wrote.
        entry = CATALOGUE[name]
        shape = ("index_per", "first", "needs_means")
        for changes in (
            {},
            {"index_per": "arm"},
            {"index_per": "agent"},
            {"index_per": "assignment"},
            {"first": "random"},
            {"first": "tallest"},
            {"needs_means": True},
        ):
            try:
                made = Policy(name, **changes)
            except InvalidInput as error:
                assert name in str(error)  # noqa: PT017 - either outcome is right
            else:
                assert [getattr(made, f) for f in shape] == [getattr(entry, f) for f in shape]


class TestRecords:
    """What is special about a policy stands on its record."""

    @pytest.mark.parametrize("name", ["brand-new", "min-widths"])
    def test_one_without_a_rule_is_refused(self, name):
        for changes in ({}, {"origin": "beyond", "equation": "W/V"}, {"rule": None}):
            with pytest.raises(InvalidInput, match=f"unknown policy '{name}'"):
                Policy(name, **changes)

    def test_a_rule_and_a_function_are_one_too_many(self):
        with pytest.raises(InvalidInput, match=r"'both'.*in the catalogue"):
            Policy("both", index=zeros, rule=CATALOGUE["cucb"].rule)

    @pytest.mark.parametrize("name", NAMES)
    def test_its_rule_decides_what_is_ranked_and_sorted_by(self, name):
        rule = CATALOGUE[name].rule
        for changes in (
            {},
            {"index_per": "agent", "sorted_by": "estimate"},
            {"index_per": "assignment"},
        ):
            for made in (
                Policy("another", rule=rule, **changes),
                replace(CATALOGUE[name], **changes),
            ):
                assert (made.index_per, made.sorted_by) == (rule.index_per, rule.sorted_by)
                assert made.rule is rule

    def test_rows_and_words_follow_from_the_rule(self):
        rows = {name: CATALOGUE[name].rows(3) for name in NAMES}
        assert {name for name in NAMES if rows[name] == 3} == {"no-sharing"}
        sorted_ = {name for name in NAMES if CATALOGUE[name].sorted_by == "estimate"}
        assert {name for name in NAMES if rows[name] == 2} == sorted_
        assert "posterior-sorted" in sorted_
        assert {name for name in NAMES if CATALOGUE[name].draws(3, 4)} == {
            "cucb",
            "pbm-pie",
            "thompson",
            "thompson-sorted",
        }
        assert CATALOGUE["cucb"].draws(3, 4) == 3
        assert CATALOGUE["thompson"].draws(3, 4) == 8

    @pytest.mark.parametrize("name", NAMES)
    def test_it_travels_by_name_and_comes_back_with_its_rule(self, name):
        entry = CATALOGUE[name]
        assert pickle.loads(pickle.dumps(entry)) == entry
        changed = policy(name, delta=0.25, horizon=7)
        back = pickle.loads(pickle.dumps(changed))
        assert back == changed
        assert back.rule is entry.rule
        assert len(pickle.dumps(changed)) < 200

    def test_one_of_ones_own_travels_if_its_function_does(self):
        own = Policy("own", index=zeros, delta=0.25, horizon=7, first="random", title="Own")
        assert pickle.loads(pickle.dumps(own)) == own
        local = Policy("local", index=lambda known: 0 * zeros(known))
        with pytest.raises((pickle.PicklingError, AttributeError)):
            pickle.dumps(local)


class TestProven:
    """What is proven is proven of a policy as configured."""

    @pytest.mark.parametrize(
        ("name", "anytime", "fixed"),
        [
            ("min-width", "nothing", "regret"),
            ("min-ucb", "nothing", "intervals"),
            ("no-sharing", "nothing", "intervals"),
            ("min-width-grouped", "nothing", "intervals"),
            ("mixture-width", "intervals", "intervals"),
            ("posterior-ratio", "regret", "regret"),
            ("posterior-ratio-decay", "regret", "regret"),
            ("posterior-sorted", "regret", "regret"),
            ("calibrated-sorted", "intervals", "intervals"),
        ],
    )
    def test_with_the_rounds_elapsed_and_with_a_horizon(self, name, anytime, fixed):
        assert policy(name).proven == anytime
        assert policy(name, horizon=100).proven == fixed
        assert policy(policy(name, horizon=100), horizon="anytime").proven == anytime

    def test_of_the_others_nothing_is(self):
        proven = {n for n in NAMES if policy(n, horizon=100).proven != "nothing"}
        assert len(proven) == 9
        assert Policy("own", index=zeros).proven == "nothing"
        assert Policy("own", index=zeros, proves="regret").proven == "regret"

    @pytest.mark.parametrize("name", NAMES)
    def test_the_words_say_it_too(self, name):
        entry = CATALOGUE[name]
        assert ("fixed horizon" in entry.guarantee) == (
            entry.proven != policy(name, horizon=100).proven
        )

    def test_the_catalogue_says_what_guarantees_need(self, capsys):
        from heterobandits.cli.policies import policies_command

        policies_command()
        shown = " ".join(capsys.readouterr().out.split())
        for need in (
            "sensitivities and false positive rates are as believed",
            "agents who visit one arm in one round look independently of each other",
            "tests of a visit",
            "missing",
        ):
            assert need in shown


class TestParameters:
    def test_labels_show_what_is_not_the_default(self):
        assert policy("min-width", delta=0.05, horizon="anytime").label == "min-width"
        assert policy("min-width", delta=0.1).label == "min-width(delta=0.1)"
        assert policy("cucb", horizon=5000).label == "cucb(horizon=5000)"
        both = policy("min-ucb", delta=0.01, horizon=300)
        assert both.label == "min-ucb(delta=0.01, horizon=300)"
        assert (both.delta, both.horizon) == (0.01, 300)
        assert CATALOGUE["min-ucb"].delta == 0.05

    def test_it_is_shown_as_it_is_made(self):
        for entry in (policy("season", horizon=40), policy("min-width", delta=0.1), policy("ucb")):
            again = eval(repr(entry), {"policy": policy})
            assert again == entry
        assert repr(policy("season", horizon=40)) == "policy('season', horizon=40)"
        own = Policy("own", index=np.zeros_like, delta=0.1)
        assert repr(own) == "Policy('own', index=zeros_like, delta=0.1)"

    def test_a_policy_may_be_given_again_to_change_it(self):
        once = policy("min-width", delta=0.1)
        assert policy(once) is once
        again = policy(once, horizon=10)
        assert (again.delta, again.horizon) == (0.1, 10)
        assert policy(again, horizon="anytime") == once

    def test_numpy_numbers_become_plain(self):
        made = policy("min-width", delta=np.float64(0.1), horizon=np.int64(7))
        assert type(made.delta) is float
        assert type(made.horizon) is int

    @pytest.mark.parametrize(
        "delta",
        [
            0,
            1,
            -0.1,
            1.5,
            math.nan,
            math.inf,
            "0.1",
            [0.1],
            True,
            pytest.param(10**5000, id="huge"),
        ],
    )
    def test_delta_is_a_probability(self, delta):
        for make in (lambda: policy("ucb", delta=delta), lambda: Policy("ucb", delta=delta)):
            with pytest.raises(InvalidInput, match=r"^delta is .*strictly between 0 and 1"):
                make()

    @pytest.mark.parametrize("delta", [5e-324, 1e-308, 9e-201])
    def test_delta_is_not_so_small_that_every_index_is_infinite(self, delta):
        """2 A N / delta must be a number: with 1e-308 and nine arms it is not, and all arms tie."""
        tables = ([[9] * 9], [[3] * 9], [0.9])
        message = f"^delta is {delta:g}: at least 1e-200, to be computed with$"
        for make in (
            lambda: policy("min-width", delta=delta),
            lambda: mean_intervals(*tables, delta=delta),
            lambda: ranking(*tables, delta=delta),
            lambda: bounds.regret_bound(Problem([0.5], [0.5]), 10, delta),
            lambda: coverage(Problem([0.5], [0.5]), 3, 2, delta=delta),
        ):
            with pytest.raises(InvalidInput, match=message):
                make()

    @pytest.mark.parametrize("name", [n for n in NAMES if CATALOGUE[n].learns and n != "ucb"])
    def test_the_least_delta_still_ranks_the_arms(self, name):
        tables = {"pulls": [[9, 9, 9]], "successes": [[1, 8, 5]], "rounds": 27}
        planner = Planner([0.9], 3, policy(name, delta=1e-200), **tables)
        (index,) = planner.ask().index
        assert np.isfinite(index).all()
        assert bounds.log_term("no-sharing", 2**31 - 1, 2**31 - 1, 1, 1e-200) < 1000

    @pytest.mark.parametrize(
        "horizon", [0, -1, 1.5, "never", math.nan, True, [3], np.array([1, 2])]
    )
    def test_horizon_is_a_number_of_rounds(self, horizon):
        for make in (
            lambda: policy("cucb", horizon=horizon),
            lambda: Policy("own", index=zeros, horizon=horizon),
        ):
            with pytest.raises(InvalidInput, match=r"horizon is .*whole number"):
                make()

    def test_a_horizon_beyond_all_numbers(self):
        # Either refused at once or good for planning: not a surprise in the first round.
        try:
            made = policy("min-width", horizon=10**400)
        except InvalidInput as error:
            assert "horizon" in str(error)  # noqa: PT017 - either outcome is right
        else:
            assert len(Planner([0.5], 2, made).ask().assignment) == 1

    def test_delta_widens_and_a_longer_horizon_widens(self):
        def index(entry):
            planner = Planner([0.8], 1, entry)
            planner.tell(planner.ask(), [(3, 10)])
            return planner.ask().index[0][0]

        def exact(log_term):  # eq:min-width-UCB_t,n with one agent: V = s²c, W = s·y
            return 3 / (0.8 * 10) + math.sqrt(log_term / (2 * 0.8**2 * 10))

        assert index(policy("min-width")) == pytest.approx(exact(math.log(2 * 10 / 0.05)))
        assert index(policy("min-width", delta=0.5)) == pytest.approx(exact(math.log(2 * 10 / 0.5)))
        assert index(policy("min-width", horizon=500)) == pytest.approx(
            exact(math.log(2 * 500 / 0.05))
        )

    def test_a_horizon_that_is_over_gives_way_to_the_rounds_elapsed(self):
        team = Team([0.9, 0.5])
        fixed, anytime = policy("min-width", horizon=10), policy("min-width")
        assert fixed.log_terms(team, 3, 0, 11).tolist() == [anytime.log_terms(team, 3, 10)[0]] * 11
        after = fixed.log_terms(team, 3, 11, 5)
        assert after.tolist() == anytime.log_terms(team, 3, 11, 5).tolist()
        planner = Planner([0.8], 1, policy("min-width", horizon=10))
        planner.tell(planner.ask(), [(300, 1000)])
        wanted = 300 / (0.8 * 1000) + math.sqrt(math.log(2 * 1000 / 0.05) / (2 * 0.8**2 * 1000))
        assert planner.ask().index[0][0] == pytest.approx(wanted, rel=1e-12)

    @pytest.mark.parametrize(
        ("given", "nearest"),
        [
            ("min_width", "min-width"),
            ("minwidth", "min-width"),
            ("CUCB", None),
            ("gredy", "greedy"),
        ],
    )
    def test_unknown_names_give_the_nearest(self, given, nearest):
        hint = f"did you mean '{nearest}'" if nearest else "known are min-width, min-ucb"
        for make in (lambda: policy(given), lambda: Policy(given)):
            with pytest.raises(InvalidInput, match=f"unknown policy '{given}': {hint}"):
                make()

    @pytest.mark.parametrize("given", [None, 7, ["min-width"], {}, b"ucb"])
    def test_what_is_no_name(self, given):
        with pytest.raises(InvalidInput, match="unknown policy"):
            policy(given)


class TestOwnPolicy:
    @pytest.mark.parametrize("name", ["", "  ", None, 5, ["x"]])
    def test_it_needs_a_name(self, name):
        with pytest.raises(InvalidInput, match=r"^name is "):
            Policy(name, index=zeros)

    def test_the_names_of_the_catalogue_are_taken(self):
        with pytest.raises(InvalidInput, match=r"'cucb'.*in the catalogue"):
            Policy("cucb", index=zeros)

    @pytest.mark.parametrize(
        ("changes", "culprit"),
        [
            ({"index": 5}, "index is 5: a function"),
            ({"index_per": "assignment"}, "index_per is 'assignment': 'arm' or 'agent'"),
            ({"index_per": None}, "index_per is None"),
            ({"first": "tallest"}, "first is 'tallest'"),
            ({"index_per": "agent", "first": "random"}, "an index per agent needs"),
            ({"delta": 2}, "delta is 2"),
        ],
    )
    def test_its_fields_are_checked(self, changes, culprit):
        with pytest.raises(InvalidInput, match=f"^{culprit}"):
            Policy(**{"name": "own", "index": zeros, **changes})

    def test_parameters_and_label(self):
        own = policy(Policy("own", index=zeros), delta=0.2, horizon=9)
        assert own.label == "own(delta=0.2, horizon=9)"
        assert own.index is zeros

    @pytest.mark.parametrize("per", ["arm", "agent"])
    @pytest.mark.parametrize(
        ("answer", "culprit"),
        [
            (lambda shape: np.zeros(shape[1:]), r"shape"),
            (lambda shape: np.zeros((*shape, 1)), r"shape"),
            (lambda shape: np.zeros((shape[0] + 1, *shape[1:])), r"shape"),
            (lambda shape: 0.5, r"shape \(\)"),
            (lambda shape: None, r"'own' gave"),
            (lambda shape: "high", r"'own' gave 'high'"),
            (lambda shape: {"arm": 1}, r"'own' gave"),
            (lambda shape: [[1.0], [1.0, 2.0]], r"'own' gave"),
            (lambda shape: np.full(shape, "x"), r"'own' gave"),
            (lambda shape: np.full(shape, 1j), r"'own' gave"),
            (lambda shape: np.full(shape, np.nan), r"not a number \(NaN\)"),
            (lambda shape: np.full(shape, None), r"'own' gave"),
            (lambda shape: np.full(shape, 10**400, object), r"'own' gave"),
        ],
    )
    def test_a_wrong_answer_is_named(self, per, answer, culprit):
        def index(known):
            return answer(known.pulls.shape if per == "agent" else known.pulls.shape[1:])

        own = Policy("own", index=index, index_per=per)
        with pytest.raises(InvalidInput, match=f"policy 'own' gave.*{culprit}|{culprit}"):
            Planner([0.9, 0.5], 3, own).ask()
        learning = Learning(PolicyWorld(Problem([0.5, 0.5, 0.5], [0.9, 0.5]), own), 0, 0, 4)
        with pytest.raises(InvalidInput, match="policy 'own' gave"):
            learning.advance(1)

    def test_the_message_says_which_shape_is_wanted(self):
        own = Policy("own", index=lambda known: np.zeros((3, 5)))
        with pytest.raises(InvalidInput, match=r"shape \(3, 5\): \(3, 1\) is wanted"):
            Planner([0.9, 0.5], 3, own).ask()

    def test_other_numbers_will_do(self):
        for answer in ([[1], [3], [2]], np.array([[1], [3], [2]], np.int8), [[True], [9.0], [2]]):
            own = Policy("own", index=lambda known, answer=answer: answer)
            plan = Planner([0.9, 0.5], 3, own).ask()
            assert plan.assignment == (1, 2)
            assert plan.index == ((1.0, 9.0 if plan.index[0][1] == 9 else 3.0, 2.0),) * 2

    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyError, TypeError, ValueError])
    def test_errors_inside_come_through_as_they_are(self, error):
        def broken(known):
            raise error("of the user")

        own = Policy("own", index=broken)
        planner = Planner([0.9, 0.5], 3, own)
        with pytest.raises(error, match="of the user") as caught:
            planner.ask()
        assert caught.type is error
        learning = Learning(PolicyWorld(Problem([0.5] * 3, [0.9, 0.5]), own), 0, 0, 2)
        with pytest.raises(error, match="of the user") as caught:
            learning.advance(1)
        assert caught.type is error

    def test_what_the_function_is_given(self):
        seen = []

        def index(known):
            tables = (known.pulls.copy(), known.successes.copy())
            seen.append((*tables, known.team.slope.copy(), known.rounds))
            return np.array([[3.0], [2.0], [1.0]])

        # Listed from the least sensitive on: the function sees them as listed.
        planner = Planner([0.2, 0.5, 0.9], 3, Policy("own", index=index))
        plan = planner.ask()
        assert plan.assignment == (2, 1, 0)
        planner.tell(plan, [0, 1, 1])
        planner.ask()
        (first, second) = seen
        assert first[0].shape == first[1].shape == (3, 3, 1)
        assert (first[0].sum(), first[1].sum(), first[3]) == (0, 0, 0)
        assert second[2].tolist() == [0.2, 0.5, 0.9]
        assert second[0][:, :, 0].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
        assert second[1][:, :, 0].tolist() == [[0, 0, 0], [0, 1, 0], [1, 0, 0]]
        assert second[3] == 1

    @pytest.mark.parametrize("what", ["pulls", "successes", "slope", "offset", "order", "kind"])
    def test_a_function_that_scribbles_does_not_change_the_planner(self, what):
        def scribble(known):
            array = getattr(known if what in ("pulls", "successes") else known.team, what)
            array += 7
            return np.zeros(known.pulls.shape[1:])

        own = Policy("own", index=scribble)
        planner = Planner([0.9, 0.5], 3, own)
        before = planner.to_json()
        with pytest.raises(ValueError, match="read-only"):
            planner.ask()
        assert planner.to_json() == before
        learning = Learning(PolicyWorld(Problem([0.5] * 3, [0.9, 0.5]), own), 0, 0, 2)
        with pytest.raises(ValueError, match="read-only"):
            learning.advance(1)
        assert not learning.pulls.any()
        assert not learning.successes.any()
        assert learning.world.team.sensitivities == tuple(learning.world.team.slope) == (0.9, 0.5)


class TestManyAssignments:
    def test_720_are_ranked(self):
        # 10·9·8
        assert PolicyWorld(Problem([0.5] * 10, [0.5] * 3), policy("ucb")).assignments.shape == (
            720,
            3,
        )

    @pytest.mark.parametrize(
        ("agents", "arms", "count"),
        [
            (10, 10, "3,628,800"),
            (6, 10, None),  # 151,200: below the limit
            (7, 10, "604,800"),
            (9, 9, "362,880"),
            (50, 60, "about 10^75"),  # 60!/10! = 2.3e75
            (100, 1000, "about 10^298"),
            (410, 1000, "about 10^1187"),  # beyond all floats
        ],
    )
    def test_the_limit_is_said_with_the_count(self, agents, arms, count):
        exact = math.prod(range(arms - agents + 1, arms + 1))
        ucb = policy("ucb")
        if exact <= 200_000:
            assert count is None
            ucb.check_size(agents, arms)
            return
        for make in (
            lambda: ucb.check_size(agents, arms),
            lambda: PolicyWorld(Problem([0.5] * arms, [0.5] * agents), ucb),
        ):
            with pytest.raises(InvalidInput, match="over the limit of 200,000") as error:
                make()
            message = str(error.value)
            assert f"rank {count} assignments of {agents} agents to {arms} arms" in message
        if count.startswith("about"):
            exponent = int(count.removeprefix("about 10^"))
            assert abs(math.log10(exact) - exponent) <= 0.5

    def test_other_policies_have_no_such_limit(self):
        plan = Planner([0.5] * 50, 60, "min-width").ask()
        assert len(set(plan.assignment)) == 50
