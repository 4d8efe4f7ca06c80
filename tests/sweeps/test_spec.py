"""The specification of a sweep: axes, laws, what is drawn, and mistakes with their places."""

import hashlib
import itertools
import json
import math
import re
import sys
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterobandits import InvalidInput, Policy, Problem
from heterobandits.core.randomness import uniform
from heterobandits.model.domains import DOMAINS, domain_of_name
from heterobandits.model.drift import Walk
from heterobandits.sweeps import spec as module
from heterobandits.sweeps.laws import SCALAR_CHECKS
from heterobandits.sweeps.spec import Chosen, Spec, Stopping, example_specs

HEAD = """
horizon = 100
trials = 10
policies = ["min-width", "cucb"]
"""
PROBLEM = """
[problem]
agents = 2
arms = 3
sensitivities = {low = 0.2, high = 0.8}
means = {low = 0.1, high = 0.9}
"""


def spec(text, head=HEAD, **own):
    return Spec.from_toml(head + text, **own)


def only(text, **own):
    """The one point of a sweep without axes."""
    made = spec(text, **own)
    assert len(made) == 1
    return made[0]


def problem(fields):
    """The problem of a sweep whose [problem] has these lines."""
    return only(f"[problem]\n{fields}").problem


def drawn(random, name, draws=50, seed=0):
    """The values of a random axis."""
    made = spec(PROBLEM + f"[random]\n{random}", f"{HEAD}draws = {draws}\nseed = {seed}\n")
    return [chosen.axes[name] for chosen in made]


def refusal(text, head=HEAD, **own):
    """The message with which a specification is refused, when it is read or when it is checked."""
    with pytest.raises(InvalidInput) as caught:
        spec(text, head, **own).check()
    message = str(caught.value)
    assert "\n" not in message
    return message


def digest(made):
    return hashlib.sha256(json.dumps(made.to_dict()).encode()).hexdigest()


def test_a_point_is_the_problem_the_policies_the_horizon_and_its_checkpoints():
    made = spec(PROBLEM)
    assert len(made) == 1
    assert made.axes == ()
    assert made.title == ""
    assert made.seed == 0
    assert made.reference == "min-width"
    assert [entry.label for entry in made.policies] == ["min-width", "cucb"]
    expected = Problem([0.1, 0.5, 0.9], [0.2, 0.8])
    assert made[0] == made.point(0) == Chosen({}, expected, made.policies, 100, (100,))


@pytest.mark.parametrize(
    ("given", "rounds"), [("4", (25, 50, 75, 100)), ("[7, 3, 7]", (3, 7, 100)), ("[]", (100,))]
)
def test_checkpoints_are_a_number_of_them_or_the_rounds(given, rounds):
    assert spec(PROBLEM, f"{HEAD}checkpoints = {given}\n")[0].rounds == rounds


def test_points_are_a_sequence():
    made = spec(PROBLEM + "[grid]\narms = [3, 4, 5]")
    assert [chosen.problem.arms for chosen in made] == [3, 4, 5]
    assert made[-1] == made[2]
    for outside in (3, -4):
        with pytest.raises(IndexError):
            made[outside]


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ("[0.3, 0.1, 0.2]", (0.3, 0.1, 0.2)),
        ("0.25", (0.25, 0.25, 0.25)),
        ("1", (1.0, 1.0, 1.0)),
        ("{low = 0.1, high = 0.9}", (0.1, 0.5, 0.9)),
        ("{high = 0.4, low = 0.4}", (0.4, 0.4, 0.4)),
        ("{centre = 0.5, spread = 0.6}", (0.2, 0.5, 0.8)),
        ("{centre = 0.5, spread = 0.6, drawn = false}", (0.2, 0.5, 0.8)),
        ("{low = 0.1, high = 0.2}", (0.1, 0.15, 0.2)),
        ("{low = 0.0, high = 0.3333333333}", (0.0, 0.166667, 0.333333)),
    ],
)
@pytest.mark.parametrize("name", ["means", "sensitivities", "believed"])
def test_laws(name, law, expected):
    others = {"means": "{low = 0.3, high = 0.7}", "sensitivities": "0.9"}
    if name != "means" and expected[0] == 0.0:
        expected, law = (0.1, 0.15, 0.2), "{centre = 0.15, spread = 0.1}"  # none may be 0
    lines = [f"{key} = {value}" for key, value in ({**others, name: law}).items()]
    made = problem("\n".join(["agents = 3", "arms = 3", *lines]))
    assert getattr(made, name) == expected


def test_one_alone_gets_the_middle():
    made = problem("agents = 1\narms = 1\nsensitivities = {low = 0.2, high = 0.6}\nmeans = 0.3")
    assert made.sensitivities == (0.4,)


def test_a_mean_that_is_rounded_to_0_has_no_sign():
    made = problem(
        "agents = 1\narms = 2\nsensitivities = 0.5\nmeans = {centre = 0.3, spread = 0.6000002}"
    )
    assert [str(mean) for mean in made.means] == ["0.0", "0.6"]


def test_lists_say_how_many_there_are():
    made = problem("sensitivities = [0.5, 0.7]\nmeans = [0.1, 0.2, 0.3]")
    assert (made.agents, made.arms) == (2, 3)
    assert problem("agents = 2\nsensitivities = [0.5, 0.7]\nmeans = [0.1, 0.2]").agents == 2


@pytest.mark.parametrize(
    ("agents", "ratio", "arms"),
    [(4, 2, 8), (5, 1.5, 8), (5, 1.1, 6), (3, 0.5, 3), (5, 1.29, 6), (5, 1.31, 7), (25, 1.14, 29)],
)
def test_arms_per_agent_are_rounded_halves_up_and_each_agent_has_an_arm(agents, ratio, arms):
    made = problem(f"agents = {agents}\narms_per_agent = {ratio}\nsensitivities = 0.5\nmeans = 0.5")
    assert made.arms == arms


AGENTS = "arms = 2\nsensitivities = [0.4, 0.8]\nmeans = 0.5\n"


def test_what_is_believed_may_be_a_factor_of_what_is_true_at_most_1():
    assert problem(f"{AGENTS}believed = {{times = 0.9}}").believed == (0.36, 0.72)
    assert problem(f"{AGENTS}believed = {{times = 1.5}}").believed == (0.6, 1.0)
    rates = "false_positive_rates = [0.1, 0.2]\nbelieved_false_positive_rates = {times = 0.5}"
    assert problem(AGENTS + rates).believed_false_positive_rates == (0.05, 0.1)


def test_within_draws_a_factor_for_each_agent():
    head = f"{HEAD}draws = 300\n"
    made = spec("[problem]\narms = 2\nsensitivities = 0.5\nagents = 2\nmeans = 0.5\n"
                "believed = {within = 0.2}", head)  # fmt: skip
    factors = [s / 0.5 for chosen in made for s in chosen.problem.believed]
    assert 0.8 <= min(factors) < 0.81
    assert 1.19 < max(factors) <= 1.2
    assert len(set(factors)) > 590
    assert spec("[problem]\narms = 1\nsensitivities = [0.5]\nmeans = 0.5\n"
                "believed = {within = 0.0}")[0].problem.believed == (0.5,)  # fmt: skip


def test_other_fields_are_those_of_a_problem():
    made = problem(
        AGENTS
        + "false_positive_rates = 0.05\nbelieved_false_positive_rates = {low = 0.0, high = 0.1}\n"
        "tests = 3\ndrift = {step = 0.01, seed = 7}\ncalibration = [[17, 20], []]\n"
        "agent_names = ['a', 'b']\narm_names = ['x', 'y']"
    )
    assert made == Problem(
        [0.5, 0.5],
        [0.4, 0.8],
        None,
        ["x", "y"],
        ["a", "b"],
        false_positive_rates=[0.05, 0.05],
        believed_false_positive_rates=[0.0, 0.1],
        tests=[3, 3],
        drift=Walk(0.01, 7),
        calibration=[(17, 20), None],
    )
    assert problem(f"{AGENTS}tests = [1, 4]").tests == (1, 4)


def test_a_domain_stands_for_a_problem_and_its_horizon():
    head = 'trials = 10\npolicies = ["cucb"]\n'
    made = spec(f"[grid]\ndomain = {json.dumps(list(DOMAINS))}", head)
    assert [chosen.problem for chosen in made] == [entry.problem for entry in DOMAINS.values()]
    assert [chosen.horizon for chosen in made] == [entry.horizon for entry in DOMAINS.values()]
    assert only('[problem]\ndomain = "covid"').horizon == 100


def test_other_fields_override_a_domain():
    covid = domain_of_name("covid").problem
    made = problem('domain = "covid"\nbelieved = {times = 0.5}\ntests = 2')
    assert made.means == covid.means
    assert made.agent_names == covid.agent_names
    assert made.believed == (0.4, 0.4, 0.4, 0.475, 0.475)
    assert made.tests == (2,) * 5
    # what is believed of the domain's agents is not believed of others, and they have other names
    made = problem('domain = "covid-over"\nsensitivities = 0.5')
    assert made.believed == made.sensitivities == (0.5,) * 5
    made = problem('domain = "covid"\nsensitivities = [0.3, 0.4]')
    assert made.agent_names == ("agent 1", "agent 2")
    assert made.arm_names == covid.arm_names
    made = problem('domain = "covid"\nmeans = {low = 0.0, high = 1.0}\narms = 11')
    assert made.means == tuple(i / 10 for i in range(11))
    assert made.arm_names[0] == "arm 1"


@pytest.mark.parametrize(
    ("grid", "values"),
    [
        ("arms = [5, 3]", [5, 3]),
        ("arms = {from = 3, to = 9, steps = 4}", [3, 5, 7, 9]),
        ("arms = {from = 3, to = 6, steps = 3}", [3, 5, 6]),  # halves up
        ("arms = {from = 3, to = 300, steps = 3, scale = 'log'}", [3, 30, 300]),
        ("arms_per_agent = {from = 1, to = 4, steps = 4}", [1.0, 2.0, 3.0, 4.0]),
        ("means.low = {from = 0, to = 0.3, steps = 4}", [0.0, 0.1, 0.2, 0.3]),
        (
            "means.low = {from = 0.0, to = 1, steps = 4, scale = 'even'}",
            [0.0, 0.333333, 0.666667, 1.0],
        ),
        ("drift.step = {from = 0.001, to = 0.1, steps = 3, scale = 'log'}", [0.001, 0.01, 0.1]),
        ("domain = ['covid', 'hotel']", ["covid", "hotel"]),
    ],
)
def test_forms_of_an_axis(grid, values):
    name = grid.split(" = ")[0]
    means = "" if name == "means.low" else "means.low = 0.5\n"
    text = "[problem]\nagents = 2\narms = 3\nsensitivities = 0.5\nmeans.high = 1.0\n"
    made = spec(f"{text}{means}[grid]\n{grid}")
    found = list(made.grid[name])
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]
    places = [made._place(i)[0] for i in range(len(made))]
    assert places == [{name: value} for value in values]


def test_the_last_axis_runs_fastest_and_draws_faster_still():
    grid = "[grid]\nagents = [1, 2]\nsensitivities.low = [0.1, 0.2, 0.3]\nhorizon = [10, 20]\n"
    random = "[random]\nmeans.low = {from = 0.2, to = 0.4}"
    made = spec(PROBLEM + grid + random, f"{HEAD}draws = 2\n")
    assert made.axes == ("agents", "sensitivities.low", "horizon", "means.low", "draw")
    places = [tuple(v for k, v in chosen.axes.items() if k != "means.low") for chosen in made]
    assert places == list(itertools.product([1, 2], [0.1, 0.2, 0.3], [10, 20], [0, 1]))
    for chosen in made:
        assert tuple(chosen.axes) == made.axes
        assert chosen.problem.agents == chosen.axes["agents"]
        assert chosen.horizon == chosen.axes["horizon"]
        assert chosen.rounds == (chosen.horizon,)
        assert chosen.problem.means[0] == chosen.axes["means.low"]


def test_an_axis_overrides_the_problem_and_arms_per_agent_the_arms():
    made = spec(
        PROBLEM + "[grid]\narms_per_agent = [1, 2]\nsensitivities.high = [0.4]\nmeans = [0.5]"
    )
    assert [chosen.problem.means for chosen in made] == [(0.5,) * 2, (0.5,) * 4]
    assert made[0].problem.sensitivities == (0.2, 0.4)
    swapped = PROBLEM.replace("arms = 3", "arms_per_agent = 3")
    assert spec(f"{swapped}[grid]\narms = [4]")[0].problem.arms == 4


def test_axes_may_make_up_a_table_that_the_problem_has_not():
    text = "[problem]\nagents = 2\narms = 2\nmeans = 0.5\n[grid]\nsensitivities.centre = [0.5]\n"
    made = spec(f"{text}sensitivities.spread = [0.2]\ndrift.step = [0.5]\nbelieved.times = [1.1]")
    assert made[0].problem == Problem([0.5] * 2, [0.4, 0.6], [0.44, 0.66], drift={"step": 0.5})


def test_a_table_may_be_written_with_dots_braces_or_a_quoted_path():
    forms = ("means.low = [0.1, 0.2]", "means = {low = [0.1, 0.2]}", '"means.low" = [0.1, 0.2]')
    assert {digest(spec(f"{PROBLEM}[grid]\n{form}")) for form in forms} == {
        digest(spec(f"{PROBLEM}[grid.means]\nlow = [0.1, 0.2]"))
    }


def key(seed, name):
    """The seed of what is drawn under a name, as the specification's files depend on it."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "little")


def test_a_random_number_has_an_address():
    u = [uniform(key(3, "means.low"), draw, 0, 0) for draw in range(50)]
    expected = [round(0.2 + 0.2 * x, 6) for x in u]
    assert drawn("means.low = {from = 0.2, to = 0.4}", "means.low", seed=3) == pytest.approx(
        expected, abs=1e-6
    )
    expected = [0.001 * 100**x for x in (uniform(key(3, "drift.step"), i, 0, 0) for i in range(50))]
    law = "drift.step = {from = 0.001, to = 0.1, scale = 'log'}"
    assert drawn(law, "drift.step", seed=3) == pytest.approx(expected, rel=1e-5)


def test_a_drawn_vector_has_an_address():
    text = "[problem]\nagents = 1\narms = 9\nsensitivities = 0.5\n"
    made = spec(
        text + "means = {low = 0.2, high = 0.8, drawn = true}", f"{HEAD}draws = 2\nseed = 4\n"
    )
    for draw, chosen in enumerate(made):
        u = [uniform(key(4, "means"), draw, 0, n) for n in range(9)]
        assert chosen.problem.means == tuple(round(0.2 + 0.6 * x, 6) for x in u)


def test_whole_numbers_are_drawn_with_both_ends_included():
    found = drawn("arms = {from = 3, to = 5}", "arms", 200)
    assert {type(value) for value in found} == {int}
    assert all(found.count(value) > 40 for value in (3, 4, 5))
    assert set(found) == {3, 4, 5}
    # k has the chance ln((k + 1)/k) / ln(24/3)
    found = drawn("arms = {from = 3, to = 23, scale = 'log'}", "arms", 400)
    assert set(found) <= set(range(3, 24))
    assert found.count(3) / 400 == pytest.approx(math.log(4 / 3) / math.log(8), abs=0.07)
    assert found.count(23) >= 1
    found = drawn("arms_per_agent = {from = 2, to = 4}", "arms_per_agent", 50)
    assert set(found) == {2, 3, 4}


def test_numbers_that_are_not_whole_are_drawn_between_the_ends():
    found = drawn("arms_per_agent = {from = 2, to = 4.0}", "arms_per_agent", 50)
    assert all(2 <= value <= 4 for value in found)
    assert len(set(found)) > 45
    # rounding leads out of no interval
    found = drawn("means.low = {from = 0.123456789, to = 0.123457}", "means.low")
    assert set(found) == {0.123457}
    found = drawn("means.low = {from = 0.1234561, to = 0.1234564}", "means.low")
    assert set(found) == {0.1234561}


def test_a_random_list_gives_one_of_its_items():
    found = drawn("horizon = [10, 20, 20]", "horizon", 300)
    assert set(found) == {10, 20}
    assert 60 < found.count(10) < 140


def test_each_draw_has_its_own_random_numbers_the_same_in_all_cells():
    random = "[random]\nmeans.low = {from = 0.0, to = 0.5}"
    made = spec(f"{PROBLEM}[grid]\nagents = [1, 2]\n{random}", f"{HEAD}draws = 5\n")
    found = [chosen.axes["means.low"] for chosen in made]
    assert len(set(found)) == 5
    assert found[:5] == found[5:]


def test_random_axes_change_with_nothing_but_seed_draw_and_name():
    law = "means.low = {from = 0.0, to = 0.5}"
    other = "tests = [1, 2, 3]"
    first = drawn(law, "means.low")
    assert drawn(f"{law}\n{other}", "means.low") == first
    assert drawn(f"{other}\n{law}", "means.low") == first
    assert drawn(law, "means.low", draws=90)[:50] == first
    assert drawn(law, "means.low", draws=1) == first[:1]
    assert drawn(law, "means.low", seed=1) != first
    assert drawn("arms_per_agent = {from = 0.5, to = 1.0}", "arms_per_agent") != [
        value + 0.5 for value in first
    ]


@given(
    few=st.integers(1, 8),
    more=st.integers(0, 8),
    seed=st.integers(0, 2**64 - 1),
    draws=st.integers(2, 6),
)
def test_the_first_entries_of_a_drawn_vector_do_not_depend_on_how_many_there_are(
    few, more, seed, draws
):
    text = "[problem]\nsensitivities = {low = 0.1, high = 0.9, drawn = true}\n"
    text += "means = {low = 0.0, high = 1.0, drawn = true}\nbelieved = {within = 0.5}\n"
    head = f"{HEAD}seed = {seed}\ndraws = {draws}\n"
    small = spec(f"{text}agents = {few}\narms = {few}", head)[draws - 1].problem
    grid = f"[grid]\nhorizon = [5, 7]\n[random]\ntests = [1, 2]\n{text}"
    large = spec(f"{grid}agents = {few + more}\narms = {few + more + 1}", head)[-1].problem
    for name in ("sensitivities", "means", "believed"):
        assert getattr(large, name)[:few] == getattr(small, name)
    assert (large.agents, large.arms) == (few + more, few + more + 1)


def test_draws_of_a_vector_differ():
    text = PROBLEM.replace("high = 0.9}", "high = 0.9, drawn = true}")
    made = spec(text, f"{HEAD}draws = 20\n")
    assert made.axes == ("draw",)
    assert [chosen.axes for chosen in made] == [{"draw": draw} for draw in range(20)]
    assert len({chosen.problem.means for chosen in made}) == 20
    assert all(0.1 <= mean <= 0.9 for chosen in made for mean in chosen.problem.means)
    assert len({chosen.problem.sensitivities for chosen in made}) == 1


def mine(known):
    return known.successes.sum(axis=0)


def test_policies_with_lists_of_parameters_are_all_combinations():
    policies = """policies = ["min-width", {name = "min-width-window", memory = [100, 300], delta = [0.01, 0.05]}, {name = "season", horizon = 50}, "oracle"]"""
    made = spec(PROBLEM, f"horizon = 10\ntrials = 5\n{policies}\n")
    assert [entry.label for entry in made[0].policies] == [
        "min-width",
        "min-width-window(delta=0.01, memory=100)",
        "min-width-window(delta=0.01)",
        "min-width-window(memory=100)",
        "min-width-window",
        "season(horizon=50)",
        "oracle",
    ]


def test_policies_of_ones_own_are_listed_by_their_names():
    own = {"mine": Policy("mine", index=mine)}
    head = 'horizon = 10\ntrials = 5\npolicies = ["cucb", "mine", {name = "mine", delta = 0.2}]\n'
    made = spec(PROBLEM, f"{head}reference = 'mine'\n", policies=own)
    assert [entry.label for entry in made.policies] == ["cucb", "mine", "mine(delta=0.2)"]
    assert made.policies[1] is own["mine"]
    assert made.reference == "mine"
    assert made.to_dict()["policies"][1] == own["mine"].parameters
    other = {"mine": Policy("mine", index=lambda known: -known.successes.sum(axis=0))}
    assert digest(made) != digest(spec(PROBLEM, f"{head}reference = 'mine'\n", policies=other))
    assert refusal(PROBLEM, head) == ("policies[1]: unknown policy 'mine': did you mean 'pbm-pie'?")
    assert "policies['mine'] is 3: a Policy" in refusal(PROBLEM, head, policies={"mine": 3})


MODULE = """
from heterobandits import Policy
optimism = Policy("optimism", index=lambda known: known.pulls.sum(axis=0) * {factor})
number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module of one's own and a specification that takes a policy from it."""
    for name in [name for name in sys.modules if name.startswith("own_sweep")]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "own_sweep_policies.py").write_text(MODULE.format(factor=-1))
    text = (HEAD + PROBLEM).replace(
        '"cucb"', '{python = "own_sweep_policies:optimism", delta = [0.05, 0.2]}'
    )
    (tmp_path / "sweep.toml").write_text(text)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_sweep")]:
        del sys.modules[name]


def test_a_policy_is_imported_from_the_folder_of_the_file(folder):
    before = list(sys.path)
    made = Spec.load(folder / "sweep.toml")
    assert [entry.label for entry in made.policies] == [
        "min-width",
        "optimism",
        "optimism(delta=0.2)",
    ]
    assert sys.path == before
    assert Spec.load(str(folder / "sweep.toml")) == made


def test_a_module_of_the_same_name_elsewhere_is_not_taken_for_it(folder):
    Spec.load(folder / "sweep.toml")
    other = folder / "other"
    other.mkdir()
    (other / "own_sweep_policies.py").write_text(MODULE.format(factor=-2))
    (other / "sweep.toml").write_text((folder / "sweep.toml").read_text())
    with pytest.raises(InvalidInput, match="a module of the same name that is in use") as caught:
        Spec.load(other / "sweep.toml")
    assert str(other / "own_sweep_policies.py") in str(caught.value)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("own_sweep_policies:number", "is 'own_sweep_policies:number', which is 3: a Policy"),
        ("own_sweep_policies:missing", "has no attribute 'missing'"),
        ("own_sweep_broken:policy", "cannot be imported: ZeroDivisionError: division by zero"),
        ("own_sweep_nowhere:policy", "No module named 'own_sweep_nowhere'"),
        ("own_sweep_policies", "a module and a name, as 'mymodule:optimism'"),
        (":x", "a module and a name, as 'mymodule:optimism'"),
    ],
)
def test_a_policy_that_cannot_be_imported(folder, place, message):
    (folder / "own_sweep_broken.py").write_text("1 / 0")
    path = folder / "sweep.toml"
    path.write_text(path.read_text().replace("own_sweep_policies:optimism", place))
    before = list(sys.path)
    with pytest.raises(InvalidInput) as caught:
        Spec.load(path)
    assert str(caught.value).startswith(f"{path}: policies[1]: python is ")
    assert message in str(caught.value)
    assert sys.path == before


@pytest.mark.parametrize(
    ("lines", "stopping"),
    [
        ("trials = 64", Stopping(64, 64, None, None, 0.95)),
        ("trials = 1\nconfidence = 0.9", Stopping(1, 1, None, None, 0.9)),
        ("trials = 64\nprecision = '1 %'", Stopping(64, 4096, 0.01, None, 0.95)),
        ("trials = 64\nprecision = '12.5%'", Stopping(64, 4096, 0.125, None, 0.95)),
        ("trials = 2\nprecision = 0.02", Stopping(2, 128, 0.02, None, 0.95)),
        (
            "trials = 8\nmost_trials = 8\nseparate = 0.99\nprecision = 0.5",
            Stopping(8, 8, 0.5, 0.99, 0.95),
        ),
    ],
)
def test_how_many_trials_a_point_gets(lines, stopping):
    made = spec(PROBLEM, f'horizon = 10\npolicies = "cucb"\n{lines}\n')
    assert made.stopping == stopping


def test_the_head_is_checked():
    def said(lines, missing=""):
        head = "\n".join(line for line in HEAD.splitlines() if not missing or missing not in line)
        return refusal(PROBLEM, f"{head}\n{lines}\n")

    assert said("titel = 'x'") == "unknown key of a sweep 'titel': did you mean 'title'?"
    assert said("title = 3") == "title is 3: a name is a text that is not blank"
    assert said("", "trials") == "a sweep needs trials"
    assert said("", "policies") == "a sweep needs policies"
    assert said("", "horizon").startswith("a sweep needs horizon")
    assert said("seed = -1").startswith("seed is -1: a whole number from 0 to 18,446,744")
    assert said(f"seed = {2**64}").startswith("seed is 18446744073709551616: ")
    assert said("trials = 0", "trials").startswith("trials is 0: a whole number from 1")
    assert said("horizon = 0", "horizon") == "horizon is 0: a whole number from 1 to 2,147,483,647"
    assert said("horizon = 1.5", "horizon").startswith("horizon is 1.5: a whole number")
    assert said("checkpoints = 0") == "checkpoints is 0: a whole number at least 1"
    assert said("checkpoints = [5, 0]").startswith("checkpoints[1] is 0: a whole number from 1")
    assert said("checkpoints = [5, 101]").startswith("point 0: checkpoints[1] is 101: ")
    assert said("draws = 0").startswith("draws is 0: a whole number from 1 to 100,000,000")
    assert said("draws = 10").startswith("draws is 10: nothing is drawn, so all would be the same")
    assert said("reference = 'min-with'") == (
        "unknown reference 'min-with': did you mean 'min-width'?"
    )


def test_stopping_is_checked():
    def said(lines):
        return refusal(PROBLEM, f'horizon = 10\npolicies = "cucb"\n{lines}\n')

    between = "a probability strictly between 0 and 1"
    assert said("trials = 9\nprecision = 0") == f"precision is 0: {between}"
    assert said("trials = 9\nprecision = '100 %'") == f"precision is 1: {between}"
    assert said("trials = 9\nprecision = 'nan %'") == f"precision is nan: {between}"
    allowed = "a number such as 0.01 or '1 %'"
    assert said("trials = 9\nprecision = '0.01'") == f"precision is '0.01': {allowed}"
    assert said("trials = 9\nprecision = 'much %'") == f"precision is 'much %': {allowed}"
    assert said("trials = 9\nprecision = [1]") == f"precision is [1]: {between}"
    assert said("trials = 9\nseparate = 1.0") == f"separate is 1: {between}"
    assert said("trials = 9\nseparate = true") == f"separate is True: {between}"
    assert said("trials = 9\nconfidence = 95") == f"confidence is 95: {between}"
    assert said("trials = 9\nmost_trials = 8\nseparate = 0.9").startswith(
        "most_trials is 8: a whole number from 9 to "
    )
    assert said("trials = 9\nmost_trials = 90").startswith(
        "most_trials needs precision or separate"
    )
    for rule in ("precision = 0.1", "separate = 0.9"):
        assert said(f"trials = 1\n{rule}").startswith("trials is 1: at least 2 with precision or")


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ('["min-wdth"]', "policies[0]: unknown policy 'min-wdth': did you mean 'min-width'?"),
        ('["cucb", 3]', "policies[1]: a policy is 3: a table"),
        ("3", "policies is 3: a list of policies"),
        ("[]", "policies is empty: at least one policy"),
        ('["cucb", "cucb"]', "policy 'cucb' is given twice: once is enough"),
        ('[{name = "cucb", delta = [0.1, 0.1]}]', "policy 'cucb(delta=0.1)' is given twice: "),
        ('[{name = "cucb", delta = 2}]', "policies[0]: delta is 2: a probability"),
        ('[{name = "cucb", delta = []}]', "policies[0]: delta is empty: at least one value"),
        ('[{name = "cucb", memory = 9}]', "policies[0]: memory is 9: cucb forgets nothing"),
        ('[{name = "cucb", dleta = 9}]', "policies[0]: unknown key of a policy 'dleta': did you"),
        ("[{name = 3}]", "policies[0]: unknown policy 3: "),
        ("[{delta = 0.1}]", "policies[0]: {'delta': 0.1} has to have a name, or the place"),
        ('[{name = "cucb", python = "a:b"}]', "policies[0]: {'name': 'cucb', 'python': 'a:b'} has"),
    ],
)
def test_policies_are_checked(policies, message):
    head = f"horizon = 10\ntrials = 5\npolicies = {policies}\n"
    assert refusal(PROBLEM, head).startswith(message)


FORMS = "{low, high} or {centre, spread} or {a, b}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("agent = 3", "unknown key of problem 'agent': did you mean 'agents'?"),
        ("horizon = 3", "unknown key of problem 'horizon': did you mean 'prior'?"),
        ("agents = 0", "problem.agents is 0: a whole number from 1 to 1,000,000"),
        ("agents = true", "problem.agents is True: a whole number"),
        ("arms = 2.0", "problem.arms is 2.0: a whole number"),
        ("arms_per_agent = 0", "problem.arms_per_agent is 0: a number above 0"),
        ("arms_per_agent = 2", "problem.arms and problem.arms_per_agent: one or the other"),
        (
            "domain = 'covd'",
            "problem.domain is 'covd': unknown domain 'covd': did you mean 'covid'",
        ),
        ("domain = 3", "problem.domain is 3: "),
        ("means = 'x'", f"problem.means is 'x': a number, a list of them, or {FORMS}"),
        ("means = true", f"problem.means is True: a number, a list of them, or {FORMS}"),
        ("means = 2", "problem.means is 2: a number in [0, 1]"),
        ("means = nan", "problem.means is nan: a number in [0, 1]"),
        ("means = []", "problem.means is empty: at least one number"),
        ("means = [0.5, 1.5]", "problem.means[1] is 1.5: a number in [0, 1]"),
        ("means = {}", f"problem.means is empty: {FORMS}"),
        ("means = {low = 0.1}", f"problem.means has low: {FORMS}"),
        ("means = {drawn = true}", f"problem.means has drawn: {FORMS}"),
        ("means = {low = 0, high = 1, centre = 0.5}", "problem.means has centre, high, low: "),
        ("means = {times = 2}", "unknown key of problem.means 'times': "),
        ("means = {centre = 0.5, spred = 1}", "unknown key of problem.means 'spred': did you mean"),
        ("means = {low = 0, high = 1, drawn = 1}", "problem.means.drawn is 1: true or false"),
        ("sensitivities = {centre = 0.5, spread = -1}", "problem.sensitivities.spread is -1: a nu"),
        ("believed = {times = 0}", "problem.believed.times is 0: a number above 0"),
        ("believed = {within = 1.1}", "problem.believed.within is 1.1: a number in [0, 1]"),
        (
            "believed = {times = 1, within = 0.1}",
            f"problem.believed has times, within: {FORMS} or ",
        ),
        ("believed = {times = 1, drawn = true}", "problem.believed has drawn, times: "),
        ("tests = 0", "problem.tests is 0: a whole number from 1 to 1,000"),
        ("tests = [1, 0]", "problem.tests[1] is 0: a whole number from 1 to 1,000"),
        ("drift = 3", "problem.drift is 3: a table"),
        ("drift = {stop = 1}", "unknown key of problem.drift 'stop': did you mean 'step'?"),
        ("drift = {step = 2}", "problem.drift.step is 2: a number in [0, 1]"),
        ("drift = {changes = 2}", "problem.drift.changes is 2: a list"),
        ("drift = {period = 9}", "point 0: drift is {'period': 9.0}: a table with {changes} or"),
        ("calibration = 2", "problem.calibration is 2: a list"),
        (
            "calibration = [[1, 2]]",
            "point 0: calibration has 1 entries: one for each of the 2 agen",
        ),
        ("agent_names = ['a']", "point 0: agent_names has 1 names: there are 2 agents to name"),
        ("means = [0.1, 0.2]", "point 0: arms is 3: means is a list of 2"),
        ("means = {low = 0.5, high = 0.4}", "point 0: means.low is 0.5: at most means.high, 0.4"),
        ("means = {centre = 0.5, spread = 1.2}", "point 0: means[0] is -0.1: a mean is a probab"),
        ("believed = [0.5]", "point 0: believed has 1 entries: one for each of the 2 agents"),
        ("believed_false_positive_rates = {times = 2}", "point 0: believed_false_positive_rates n"),
        ("agents = 4", "point 0: sensitivities has 4 agents and means has 3 arms: "),
    ],
)
def test_the_problem_is_checked(line, message):
    name = line.split(" = ")[0]
    lines = [given for given in PROBLEM.splitlines() if not given.startswith(f"{name} ")]
    assert refusal("\n".join([*lines, line])).startswith(message)


def test_what_a_problem_needs():
    assert refusal("") == f"problem needs sensitivities: a number, a list of them, or {FORMS}"
    assert refusal("[problem]\nsensitivities = 0.5").startswith("problem needs means: ")
    assert refusal("[problem]\nsensitivities = 0.5\nmeans = [0.5]") == (
        "point 0: problem needs agents: how many, as sensitivities is no list"
    )
    assert refusal("[problem]\nsensitivities = [0.5]\nmeans = 0.5").startswith(
        "point 0: problem needs arms"
    )
    assert refusal("problem = 3") == "problem is 3: a table"


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("grid = 3", "grid is 3: a table"),
        ("[grid]\nagents = []", "grid.agents is empty: a list of values or {from, to, steps}"),
        ("[grid]\nagents = {}", "grid.agents is empty: a list of values or {from, to, steps}"),
        ("[grid]\nagents = 3", "grid.agents is 3: a list of values or {from, to, steps}"),
        ("[grid]\nagents = [1, 2, 0]", "grid.agents[2] is 0: a whole number from 1 to"),
        ("[grid]\nagents = [1, 2, 1]", "grid.agents[2] is 1: it is there already"),
        ("[grid]\nmeans.low = [0, 0.0]", "grid.means.low[1] is 0.0: it is there already"),
        ("[grid]\nagnts = [1]", "unknown axis of grid 'agnts': did you mean 'agents'?"),
        ("[grid]\ntrials = [1]", "unknown axis of grid 'trials': "),
        ("[grid]\nmeans.drawn = [true]", "unknown axis of grid 'means.drawn': "),
        ("[grid]\nmeans.lo = [0.1]", "unknown axis of grid 'means.lo': did you mean 'means.low'?"),
        ("[grid]\ndrift = [0.1]", "unknown axis of grid 'drift': did you mean"),
        ("[grid]\nmeans = [[0.1, 0.2]]", "grid.means[0] is [0.1, 0.2]: a number in [0, 1]"),
        ('[grid]\nmeans.low = [0.1]\n"means.low" = [0.1]', "grid.means.low is there twice"),
        ("[grid]\ndomain = ['covid', 3]", "grid.domain[1] is 3: "),
        ("[grid]\ndomain = {from = 'covid', to = 'hotel', steps = 2}", "grid.domain is {"),
        (
            "[grid]\narms = {from = 3, to = 5}",
            "grid.arms needs steps: {'from': 3, 'to': 5} has none",
        ),
        (
            "[grid]\narms = {form = 3, to = 5}",
            "unknown key of grid.arms 'form': did you mean 'from'",
        ),
        ("[grid]\narms = {start = 3}", "unknown key of grid.arms 'start': "),
        (
            "[grid]\narms = {from = 3, to = 5, steps = 1}",
            "grid.arms.steps is 1: a whole number fro",
        ),
        (
            "[grid]\narms = {from = 5, to = 3, steps = 2}",
            "grid.arms.to is 3: above grid.arms.from, 5",
        ),
        ("[grid]\narms = {from = 3.0, to = 5, steps = 2}", "grid.arms.from is 3.0: a whole number"),
        ("[grid]\narms = {from = 3, to = 5, steps = 9}", "grid.arms[1] is 3: it is there already"),
        (
            "[grid]\nmeans.low = {from = 0, to = 1, steps = 3, scale = 'log'}",
            "grid.means.low.from is 0: above 0 on a logarithmic scale",
        ),
        (
            "[grid]\nmeans.low = {from = 0, to = 1, steps = 3, scale = 'lin'}",
            "grid.means.low.scale is 'lin': 'even' or 'log'",
        ),
        ("[random]\nagents = 3", "random.agents is 3: a list of values or {from, to}"),
        ("[random]\nagents = [1, 0]", "random.agents[1] is 0: a whole number from 1 to"),
        ("[random]\narms = {from = 3, to = 5, steps = 2}", "unknown key of random.arms 'steps': "),
        ("[random]\narms = {to = 5}", "random.arms needs from: {'to': 5} has none"),
        (
            "[random]\nmeans.low = {from = 0, to = 1}",
            "random.means.low is from 0 to 1, whole numbers, with none between: write 0.0 and 1.0",
        ),
        (
            f"[random]\ndrift.seed = {{from = 0, to = {2**32}}}",
            "random.drift.seed.to is 4294967296: at most 4,294,967,295 above",
        ),
        ("[grid]\narms = [3]\n[random]\narms = [3]", "grid.arms and random.arms: one or the other"),
        (
            "[grid]\nmeans.low = [0.1]\n[random]\nmeans = [0.5]",
            "grid.means.low and random.means: one or the other",
        ),
        (
            "[grid]\nmeans = [0.1]\n[random]\nmeans.low = [0.5]",
            "grid.means and random.means.low: one or the other",
        ),
        (
            "[grid]\narms = [3]\narms_per_agent = [2]",
            "grid.arms and grid.arms_per_agent: one or the other",
        ),
        ("[grid]\nmeans.centre = [0.5]", f"problem.means has centre, high, low: {FORMS}"),
    ],
)
def test_axes_are_checked(axis, message):
    text = f"{axis}\n{PROBLEM}" if axis.startswith("grid =") else PROBLEM + axis
    assert refusal(text).startswith(message)


def test_an_axis_cannot_go_into_a_number_or_a_list():
    text = "[problem]\nagents = 1\nsensitivities = 0.5\nmeans = [0.5]\n[grid]\n"
    assert refusal(f"{text}sensitivities.low = [0.5]") == (
        "grid.sensitivities.low goes into problem.sensitivities, which is 0.5"
    )
    assert refusal(f"{text}means.low = [0.5]") == (
        "grid.means.low goes into problem.means, which is [0.5]"
    )


def test_a_point_that_is_refused_says_where_it_stands():
    text = PROBLEM.replace("{low = 0.2, high = 0.8}", "{centre = 0.5, spread = 0.1}")
    text += "[grid]\nagents = [1, 2, 3]\nsensitivities.spread = [0.0, 0.2, 1.2]\n"
    made = spec(text)
    with pytest.raises(InvalidInput) as caught:
        made[8]
    assert str(caught.value) == (
        "point 8 (agents = 3, sensitivities.spread = 1.2): "
        "sensitivities[0] is -0.1: a sensitivity is a probability in (0, 1]"
    )
    assert made[7].problem.sensitivities == (0.4, 0.5, 0.6)


def test_horizons_that_cannot_be_counted_are_a_mistake_of_the_point():
    text = f"{PROBLEM}tests = 1000\n[grid]\nhorizon = [10, 20_000]\n"
    assert refusal(text).startswith(
        "point 1 (horizon = 20000): horizon is 20,000 rounds of up to 1000 tests on an arm"
    )


def test_too_many_assignments_are_a_mistake_of_the_point():
    head = 'horizon = 10\ntrials = 5\npolicies = ["cucb", "ucb"]\n'
    text = PROBLEM.replace("agents = 2", "agents = 4")
    assert len(spec(f"{text}[grid]\narms = [4, 16]", head)) == 2
    message = refusal(f"{text}[grid]\narms = [4, 30]", head)
    assert message.startswith("point 1 (arms = 30): ucb would have to rank 657,720 assignments")


def test_too_many_points_are_refused():
    grid = "[grid]\narms = {from = 1, to = 10_000, steps = 10_000}\n"
    most = f"{grid}horizon = {{from = 1, to = 10_000, steps = 10_000}}"
    made = spec(PROBLEM + most)
    assert len(made) == 10**8
    assert made[-1].axes == {"arms": 10_000, "horizon": 10_000}
    assert refusal(f"{PROBLEM}{most}\nagents = [1, 2]") == (
        "grid and draws make 200,000,000 points: at most 100,000,000"
    )


def test_check_tries_every_value_of_every_axis(monkeypatch):
    grid = "[grid]\nagents = [1, 2, 3]\narms = [3, 4, 5]\n"
    random = "[random]\nmeans.low = {from = 0.0, to = 0.1}\nhorizon = [10, 20, 30]"
    made = spec(PROBLEM + grid + random, f"{HEAD}draws = 40\n")
    monkeypatch.setattr(module, "CHECK_MAX_POINTS", 100)  # there are 360
    tried = []
    real = Spec.point
    monkeypatch.setattr(Spec, "point", lambda self, i: tried.append(real(self, i)) or tried[-1])
    made.check()
    places = [chosen.axes for chosen in tried]
    assert places[0] == real(made, 0).axes
    assert places[-1] == real(made, len(made) - 1).axes
    assert {place["agents"] for place in places} == {1, 2, 3}
    assert {place["arms"] for place in places} == {3, 4, 5}
    assert {place["horizon"] for place in places} == {10, 20, 30}
    lows = [real(made, draw).axes["means.low"] for draw in range(40)]
    assert {min(lows), max(lows)} <= {place["means.low"] for place in places}
    assert len(places) == len({tuple(place.items()) for place in places}) <= 2 + 2 + 2 + 2 + 3


def test_check_takes_no_longer_for_many_points(monkeypatch):
    tried = []
    text = f"{PROBLEM}[grid]\nhorizon = {{from = 1, to = 5000, steps = 5000}}\n[random]\n"
    made = spec(f"{text}means.low = {{from = 0.0, to = 0.1}}", f"{HEAD}draws = 20_000\n")
    monkeypatch.setattr(Spec, "point", lambda self, i: tried.append(i))
    made.check()
    assert len(made) == 10**8
    assert 900 < len(tried) < 1100


def test_check_finds_a_wrong_draw(monkeypatch):
    text = "[problem]\nagents = 3\narms = 3\nsensitivities.centre = 0.5\nmeans = 0.5\n[random]\n"
    made = spec(f"{text}sensitivities.spread = {{from = 0.0, to = 1.001}}", f"{HEAD}draws = 5000\n")
    wrong = []
    for draw in range(5000):
        try:
            made[draw]
        except InvalidInput:
            wrong.append(draw)
    assert 0 < len(wrong) < 50
    law = f"{text}sensitivities.spread = {{from = 0.0, to = 1.001}}"
    said = refusal(law, f"{HEAD}draws = 5000\n")
    assert said.startswith(f"point {wrong[0]} (sensitivities.spread = 1.00")
    # where not all are made, the one that goes furthest
    monkeypatch.setattr(module, "CHECK_MAX_POINTS", 100)
    said = refusal(law, f"{HEAD}draws = 5000\n")
    furthest = max(wrong, key=lambda i: spread(made, i))
    assert said.startswith(f"point {furthest} (sensitivities.spread = 1.00")


def spread(made, draw):
    return uniform(key(made.seed, "sensitivities.spread"), draw, 0, 0)


def test_syntax_errors_have_a_line_and_a_column():
    for text in ("a = [1,\nb", "seed = 1\nseed = 2", "trials 3"):
        with pytest.raises(tomllib.TOMLDecodeError) as syntax:
            tomllib.loads(text)
        assert re.search(r"line \d+, column \d+|end of document", str(syntax.value))
        with pytest.raises(InvalidInput) as caught:
            Spec.from_toml(text)
        assert str(caught.value) == f"not a sweep in TOML: {syntax.value}"
    with pytest.raises(InvalidInput, match="not a sweep in TOML: b'' is no text"):
        Spec.from_toml(b"")
    with pytest.raises(InvalidInput, match="not a sweep in TOML: "):
        Spec.from_toml("a = " + "[" * 100_000)


def test_files_are_read_with_and_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(HEAD + PROBLEM, encoding="utf-8")
    plain = Spec.load(path)
    path.write_text(HEAD + PROBLEM, encoding="utf-8-sig")
    assert Spec.load(path) == plain == spec(PROBLEM)


def test_files_that_cannot_be_read_and_mistakes_in_files_are_named(tmp_path):
    missing = tmp_path / "missing.toml"
    with pytest.raises(InvalidInput) as caught:
        Spec.load(missing)
    assert str(caught.value) == f"cannot read {missing}: No such file or directory"
    path = tmp_path / "sweep.toml"
    path.write_bytes(b"title = '\xff'")
    with pytest.raises(InvalidInput, match=r"cannot read .*sweep\.toml: 'utf-8' codec"):
        Spec.load(path)
    path.write_text("trials = 0")
    with pytest.raises(InvalidInput) as caught:
        Spec.load(path)
    assert str(caught.value) == f"{path}: a sweep needs policies"
    with pytest.raises(InvalidInput, match="path is 3: the path of a file or folder"):
        Spec.load(3)


def test_reordered_but_equal_texts_have_the_same_digest():
    text = """
    [problem]
    means = {high = 0.9, low = 0.1}
    sensitivities = {high = 0.8, low = 0.2, drawn = true}
    arms = 3
    [random]
    tests = [1, 2]
    drift.step = {from = 0.01, to = 0.02}
    [grid]
    agents = [1, 2, 3]
    horizon = [10, 20]
    """
    other = """
    seed = 0
    grid.agents = {steps = 3, to = 3, from = 1}
    grid.horizon = [10, 20]
    random.drift.step = {to = 0.02, from = 0.01, scale = "even"}
    random.tests = [1, 2]
    checkpoints = [7, 3, 7]
    reference = "min-width"
    [problem]
    sensitivities = {drawn = true, low = 0.2, high = 0.8}
    arms = 3
    means = {low = 0.1, high = 0.9}
    """
    head = f"{HEAD}draws = 3\n"
    assert digest(spec(text, f"{head}checkpoints = [3, 7]\n")) == digest(spec(other, head))
    assert (
        "\n".join(json.dumps(spec(text, head).to_dict(), indent=1).splitlines()).count("tests") == 1
    )


def test_specifications_that_differ_have_other_digests():
    full = f"{HEAD}title = 'a'\nseed = 1\ncheckpoints = 2\nconfidence = 0.9\ndraws = 2\n"
    text = f"{PROBLEM}[grid]\ntests = [1, 2]\nhorizon = [5, 6]\n[random]\n"
    text += "arms_per_agent = {from = 2, to = 4}\n"
    changes = {
        "trials = 10": "trials = 11",
        '"cucb"': '"min-ucb"',
        "title = 'a'": "title = 'b'",
        "seed = 1": "seed = 2",
        "checkpoints = 2": "checkpoints = [2]",
        "confidence = 0.9": "confidence = 0.99",
        "draws = 2": "draws = 3",
        "agents = 2": "agents = 3",
        "low = 0.2": "low = 0.3",
        "tests = [1, 2]\nhorizon = [5, 6]": "horizon = [5, 6]\ntests = [1, 2]",
        "tests = [1, 2]": "tests = [2, 1]",
        "to = 4": "to = 4.0",
        "from = 2": "from = 3",
        "title =": "reference = 'cucb'\ntitle =",
        "seed =": "precision = 0.1\nseed =",
    }
    found = [digest(Spec.from_toml(full + text))]
    for old, new in changes.items():
        assert (full + text).count(old) == 1, old
        found.append(digest(Spec.from_toml((full + text).replace(old, new))))
    assert len(set(found)) == len(changes) + 1


@given(
    st.integers(0, 10**4), st.sampled_from(sorted(path for path in SCALAR_CHECKS if "." in path))
)
def test_to_dict_stands_in_json_as_it_is(seed, path):
    name, leaf = path.split(".")
    lines = {
        "sensitivities": "sensitivities = 0.5",
        "means": "means = 0.5",
        "agents": "agents = 2",
        "arms": "arms = 3",
    }
    lines.pop(name, None)
    partner = {
        "low": "high",
        "high": "low",
        "centre": "spread",
        "spread": "centre",
        "a": "b",
        "b": "a",
    }.get(leaf)
    value = 1 if path == "drift.seed" else 0.5
    also = f"{name}.{partner} = [0.5]\n" if partner else ""
    text = "[problem]\n" + "\n".join(lines.values()) + f"\n[grid]\n{path} = [{value}]\n{also}"
    made = spec(text, f"{HEAD}seed = {seed}\n")
    assert json.loads(json.dumps(made.to_dict())) == made.to_dict()
    assert made.to_dict()["seed"] == seed
    assert [path, [value]] in made.to_dict()["grid"]


@pytest.mark.parametrize("name", ["closing-question", "drift", "misbelief"])
def test_examples_load_and_can_be_run(name):
    path = example_specs()[name]
    assert path.read_text(encoding="utf-8").startswith("# ")
    assert "minute" in path.read_text(encoding="utf-8").split("\n\n")[0]
    made = Spec.load(path)
    assert made.title
    assert made.check() is None
    for i in range(0, len(made), 7):
        assert made[i].rounds[-1] == made[i].horizon


def test_all_examples_are_known_here():
    assert list(example_specs()) == ["closing-question", "drift", "misbelief"]


def test_the_closing_question_asks_the_papers_plane():
    made = Spec.load(example_specs()["closing-question"])
    assert made.axes == ("sensitivities.spread", "arms_per_agent", "draw")
    assert {entry.name for entry in made.policies} >= {"min-width", "cucb"}
    few, many = made[0], made[-1]
    assert few.problem.means == made[7 * made.draws].problem.means[:4]
    assert (few.problem.arms, many.problem.arms) == (4, 16)
    assert few.problem.sensitivities == (0.5,) * 4
    assert many.problem.sensitivities == (0.1, 0.366667, 0.633333, 0.9)


def test_draws_have_luck_of_their_own_and_cells_share_it():
    made = spec(
        PROBLEM + "[grid]\nagents = [1, 2]\n[random]\nmeans.low = {from = 0.0, to = 0.1}",
        f"{HEAD}seed = 5\ndraws = 3\n",
    )
    seeds = [made.seed_of(made[i]) for i in range(6)]
    assert seeds[:3] == seeds[3:]
    assert len(set(seeds)) == 3
    assert seeds[0] == 5
    last = spec(
        PROBLEM + "[random]\nmeans.low = {from = 0.0, to = 0.1}",
        f"{HEAD}seed = {2**64 - 1}\ndraws = 2\n",
    )
    assert 0 <= last.seed_of(last[1]) < 2**64


def test_what_a_module_prints_is_no_result(folder, capsys):
    (folder / "own_sweep_loud.py").write_text(
        "from heterobandits import Policy\nprint('hello')\nmine = Policy('mine', index=len)\n",
        "utf-8",
    )
    path = folder / "loud.toml"
    path.write_text(
        f'{HEAD}policies = [{{python = "own_sweep_loud:mine"}}]\n{PROBLEM}'.replace(
            'policies = ["min-width", "cucb"]\n', "", 1
        ),
        "utf-8",
    )
    assert Spec.load(path).policies[0].name == "mine"
    assert capsys.readouterr().out == ""


def test_a_module_that_ends_the_program_is_refused(folder):
    (folder / "own_sweep_exit.py").write_text("raise SystemExit(7)\n", "utf-8")
    path = folder / "exit.toml"
    path.write_text(
        f'{HEAD}policies = [{{python = "own_sweep_exit:mine"}}]\n{PROBLEM}'.replace(
            'policies = ["min-width", "cucb"]\n', "", 1
        ),
        "utf-8",
    )
    with pytest.raises(InvalidInput, match="cannot be imported: SystemExit: 7"):
        Spec.load(path)


def test_means_are_quantiles_or_draws_of_a_beta():
    """Three quantiles of Beta(1, b) at 1/6, 1/2 and 5/6: 1 - (1 - q)^(1/b)."""
    problem = "[problem]\nagents = 2\narms = 3\nsensitivities = 0.9\nmeans = {a = 1, b = 9%s}\n"
    wanted = [1 - (1 - q) ** (1 / 9) for q in (1 / 6, 1 / 2, 5 / 6)]
    assert spec(problem % "")[0].problem.means == pytest.approx(wanted, abs=1e-6)
    drawn = spec(problem % ", drawn = true", f"{HEAD}draws = 400\n")
    means = np.array([drawn[i].problem.means for i in range(400)])
    assert abs(means.mean() - 0.1) < 6 * math.sqrt(0.1 * 0.9 / 11 / 1200)


def test_the_prior_goes_by_name():
    problem = "[problem]\nagents = 2\narms = 3\nsensitivities = 0.9\nmeans = {a = 2, b = 60}\n"
    found = spec(problem + "[grid]\nprior = ['uniform', 'learned', 'true']\n")
    priors = [found[i].problem.prior for i in range(3)]
    assert [one.is_uniform for one in priors] == [True, False, False]
    assert priors[1].learned
    assert priors[2].shapes == ((2.0, 60.0),) * 3
    said = refusal("[problem]\nagents = 2\nsensitivities = 0.9\nmeans = [0.1, 0.2]\nprior = 'true'")
    assert said.endswith("prior is 'true', which is the Beta of means = {a, b}: there is none")
