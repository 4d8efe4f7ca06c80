"""Problem: what it refuses, its optimum and regret, and its files."""

import itertools
import json
import math
import re
import unicodedata
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterobandits import InvalidInput, Planner, Policy, Problem

MEANS = [0.1, 0.5, 0.3]
SENSITIVITIES = [0.2, 0.9]
TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

# Few distinct values, so that ties between arms and between agents are common.
coarse_means = st.sampled_from([0.0, 0.25, 0.5, 1.0])
coarse_sensitivities = st.sampled_from([0.25, 0.5, 1.0])
fine_means = st.floats(0, 1)
fine_sensitivities = st.floats(1e-3, 1)


@st.composite
def sizes(draw):
    arms = draw(st.integers(1, 5))
    return draw(st.integers(1, arms)), arms


@st.composite
def problems(draw, means=fine_means, sensitivities=fine_sensitivities):
    agents, arms = draw(sizes())
    return Problem(
        draw(st.lists(means, min_size=arms, max_size=arms)),
        draw(st.lists(sensitivities, min_size=agents, max_size=agents)),
    )


def texts(count):
    """Names that try every corner: quotes, backslashes, brackets, accents apart from their letters, emoji."""
    allowed = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters=TURNING)
    text = st.text(allowed, min_size=1, max_size=8) | st.text(
        alphabet="\"'\\\ufeff=[]{}#,$_\U0001f98fée\u0301", min_size=1
    )
    return st.lists(text.filter(seen), min_size=count, max_size=count, unique_by=seen)


def seen(name):
    """What a person sees of a name."""
    composed = unicodedata.normalize("NFC", name)
    return " ".join("".join(c for c in composed if unicodedata.category(c) != "Cf").split())


@st.composite
def named_problems(draw):
    agents, arms = draw(sizes())
    return Problem(
        draw(st.lists(fine_means, min_size=arms, max_size=arms)),
        draw(st.lists(fine_sensitivities, min_size=agents, max_size=agents)),
        believed=draw(st.none() | st.lists(fine_sensitivities, min_size=agents, max_size=agents)),
        arm_names=draw(st.none() | texts(arms)),
        agent_names=draw(st.none() | texts(agents)),
    )


def every_assignment(problem):
    return itertools.permutations(range(problem.arms), problem.agents)


def earned(problem, assignment):
    """The expected reward of an assignment, summed without rounding until the end."""
    return math.fsum(
        s * problem.means[n] for s, n in zip(problem.sensitivities, assignment, strict=True)
    )


class TestWhatIsRefused:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.1, 1.2, "0.5", None, True])
    def test_a_mean_is_a_probability(self, value):
        with pytest.raises(InvalidInput, match=r"^means\[1\] is .*in \[0, 1\]"):
            Problem([0.1, value, 0.3], SENSITIVITIES)

    @pytest.mark.parametrize("value", [1e-51, 1e-200, 5e-324])
    def test_a_sensitivity_can_be_computed_with(self, value):
        with pytest.raises(InvalidInput, match=r"^sensitivities\[1\] is .*: at least 1e-50"):
            Problem([0.1, 0.5, 0.3], [0.2, value])
        with pytest.raises(InvalidInput, match=r"^believed\[0\] is .*: at least 1e-50"):
            Problem([0.1, 0.5, 0.3], [0.2, 0.9], believed=[value, 0.1])

    @pytest.mark.parametrize(
        "value",
        [
            *(0.0, math.nan, math.inf, -0.1, 1.2, "0.5", None, b"1", [1]),
            *(0.5 + 0j, np.complex64(0.5), np.complex128(0.5)),
        ],
    )
    def test_a_sensitivity_is_a_probability_that_is_not_zero(self, value):
        with pytest.raises(InvalidInput, match=r"^sensitivities\[2\] is .*in \(0, 1\]"):
            Problem([0.1, 0.5, 0.3], [0.2, 0.9, value])

    @pytest.mark.parametrize("value", [0.0, math.nan, math.inf, -0.1, 1.2, {}])
    def test_what_is_believed_is_a_sensitivity(self, value):
        with pytest.raises(InvalidInput, match=r"^believed\[0\] is .*in \(0, 1\]"):
            Problem(MEANS, SENSITIVITIES, believed=[value, 0.5])

    def test_the_message_shows_what_was_given(self):
        with pytest.raises(InvalidInput) as error:
            Problem(MEANS, [0.5, 0.5, 1.2])
        assert (
            str(error.value) == "sensitivities[2] is 1.2: a sensitivity is a probability in (0, 1]"
        )

    @pytest.mark.parametrize("field", ["means", "sensitivities", "believed"])
    @pytest.mark.parametrize("value", [[], (), np.array([])])
    def test_nothing_is_not_enough(self, field, value):
        with pytest.raises(InvalidInput, match=f"^{field} is empty"):
            Problem(**{"means": MEANS, "sensitivities": SENSITIVITIES, field: value})

    @pytest.mark.parametrize("field", ["means", "sensitivities", "believed"])
    @pytest.mark.parametrize("value", [0.5, "0.5 0.5", b"ab", np.array(0.5)])
    def test_one_value_is_not_a_list(self, field, value):
        with pytest.raises(InvalidInput, match=f"^{field} is .*a list of numbers"):
            Problem(**{"means": MEANS, "sensitivities": SENSITIVITIES, field: value})

    @pytest.mark.parametrize("field", ["means", "sensitivities"])
    def test_none_is_not_a_list(self, field):
        with pytest.raises(InvalidInput, match=f"^{field} is None"):
            Problem(**{"means": MEANS, "sensitivities": SENSITIVITIES, field: None})

    def test_every_agent_needs_an_arm(self):
        with pytest.raises(InvalidInput, match="3 agents and means has 2 arms"):
            Problem([0.1, 0.5], [0.5, 0.6, 0.7])

    @pytest.mark.parametrize("believed", [[0.5], [0.5, 0.6, 0.7]])
    def test_believed_has_one_entry_per_agent(self, believed):
        with pytest.raises(InvalidInput, match=f"believed has {len(believed)} entries.* 2 agents"):
            Problem(MEANS, SENSITIVITIES, believed=believed)

    @pytest.mark.parametrize(
        ("field", "given", "culprit"),
        [
            ("arm_names", ["a", "b"], "arm_names has 2 names: there are 3 arms"),
            ("arm_names", ["a", "b", "c", "d"], "arm_names has 4 names: there are 3 arms"),
            ("agent_names", [], "agent_names has 0 names: there are 2 agents"),
            ("agent_names", ["x", " \t"], r"agent_names\[1\] is ' \\t'.*not blank"),
            ("agent_names", ["", "x"], r"agent_names\[0\] is ''.*not blank"),
            ("arm_names", ["a", "b", "a"], r"arm_names\[2\] is 'a': names must differ"),
            ("arm_names", ["a", 2, "c"], r"arm_names\[1\] is 2: a name is a text"),
            ("arm_names", ["a", None, "c"], r"arm_names\[1\] is None: a name is a text"),
            ("arm_names", [b"a", "b", "c"], r"arm_names\[0\] is b'a': a name is a text"),
            ("arm_names", "abc", "arm_names is 'abc': a list of names"),
            ("arm_names", 3, "arm_names is 3: a list of names"),
        ],
    )
    def test_names(self, field, given, culprit):
        with pytest.raises(InvalidInput, match=f"^{culprit}"):
            Problem(MEANS, SENSITIVITIES, **{field: given})

    @pytest.mark.parametrize(
        "character",
        ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\ud800", *TURNING],
    )
    def test_a_name_is_one_line_that_shows_as_it_is_written(self, character):
        name = f"north{character}camp"
        wanted = re.escape(
            f"{name!r}: a name has no control, line-end or text-direction characters"
        )
        for field, names in (("arm_names", [name, "b", "c"]), ("agent_names", [name, "b"])):
            with pytest.raises(InvalidInput, match=rf"{field}\[0\] is {wanted}"):
                Problem(MEANS, SENSITIVITIES, **{field: names})
        with pytest.raises(InvalidInput, match=f"^name is {wanted}"):
            Policy(name, index=lambda known: known.pulls[0])

    def test_names_that_look_the_same_are_the_same(self):
        composed, apart = (unicodedata.normalize(form, "Río") for form in ("NFC", "NFD"))
        assert composed != apart
        problem = Problem(MEANS, SENSITIVITIES, arm_names=[apart, "b", "c"])
        assert problem == Problem(MEANS, SENSITIVITIES, arm_names=[composed, "b", "c"])
        assert problem.arm_names[0] == composed
        with pytest.raises(InvalidInput, match=r"arm_names\[1\] is .*names must differ"):
            Problem(MEANS, SENSITIVITIES, arm_names=[composed, apart, "c"])
        assert Policy(apart, index=lambda known: known.pulls[0]).name == composed
        planner = Planner(SENSITIVITIES, [composed, "b", "c"])
        assert planner.ask(closed=[apart]).assignment == planner.ask(closed=[0]).assignment

    @pytest.mark.parametrize(
        ("assignment", "culprit"),
        [
            ([0], "assignment has 1 arms: one for each of the 2 agents"),
            ([0, 1, 2], "assignment has 3 arms: one for each of the 2 agents"),
            ([0, 3], r"assignment\[1\] is 3"),
            ([-1, 0], r"assignment\[0\] is -1"),
            ([0.0, 1], r"assignment\[0\] is 0.0"),
            ([0, None], r"assignment\[1\] is None"),
            ([0, True], r"assignment\[1\] is True"),
            ([1, 1], r"assignment\[1\] is 1: arm 1 is taken"),
            ("01", "assignment is '01'"),
            (7, "assignment is 7"),
            (np.array(7), "assignment is "),
        ],
    )
    def test_assignments(self, assignment, culprit):
        problem = Problem(MEANS, SENSITIVITIES)
        for use in (problem.regret, problem.expected_reward):
            with pytest.raises(InvalidInput, match=f"^{culprit}"):
                use(assignment)

    @pytest.mark.parametrize("power", [400, 5000])
    def test_a_number_of_thousands_of_digits_is_refused_like_any_other(self, power):
        with pytest.raises(InvalidInput, match=r"^means\[0\] is "):
            Problem([10**power, 0.5], [0.5])
        with pytest.raises(InvalidInput, match=r"^assignment\[0\] is "):
            Problem(MEANS, [0.5]).regret([10**power])

    def test_messages_are_one_short_line(self):
        with pytest.raises(InvalidInput) as error:
            Problem(["x\n" * 10_000, 0.5], [0.5])
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 200


class TestValue:
    def test_any_list_of_numbers_will_do(self):
        plain = Problem([0.25, 0.5, 1], [0.5, 1])
        assert Problem(np.array([0.25, 0.5, 1.0]), np.array([0.5, 1], np.float32)) == plain
        assert Problem((m for m in (0.25, 0.5, 1)), (0.5, np.float64(1))) == plain
        assert all(type(m) is float for m in plain.means + plain.sensitivities)

    def test_frozen(self):
        problem = Problem(MEANS, SENSITIVITIES)
        for field in ("means", "sensitivities", "believed", "arm_names", "agent_names"):
            with pytest.raises(FrozenInstanceError):
                setattr(problem, field, ())
            assert isinstance(getattr(problem, field), tuple)

    def test_later_changes_of_the_lists_given_do_not_reach_it(self):
        means = np.array(MEANS)
        problem = Problem(means, SENSITIVITIES)
        means[:] = 0
        assert problem.means == tuple(MEANS)

    def test_equal_and_hashable(self):
        problem, same = Problem(MEANS, SENSITIVITIES), Problem(MEANS, SENSITIVITIES)
        assert problem == same
        assert hash(problem) == hash(same)
        others = {
            Problem(MEANS[::-1], SENSITIVITIES),
            Problem(MEANS, SENSITIVITIES[::-1]),
            Problem(MEANS, SENSITIVITIES, believed=[0.2, 0.8]),
            Problem(MEANS, SENSITIVITIES, arm_names=["a", "b", "c"]),
            Problem(MEANS, SENSITIVITIES, agent_names=["a", "b"]),
        }
        assert len(others) == 5
        assert problem not in others

    def test_believed_is_the_truth_unless_given(self):
        assert Problem(MEANS, SENSITIVITIES).believed == tuple(SENSITIVITIES)
        assert Problem(MEANS, SENSITIVITIES, believed=[0.3, 0.4]).believed == (0.3, 0.4)

    def test_names_are_made_up_unless_given(self):
        problem = Problem(MEANS, SENSITIVITIES)
        assert problem.arm_names == ("arm 1", "arm 2", "arm 3")
        assert problem.agent_names == ("agent 1", "agent 2")
        assert (problem.arms, problem.agents) == (3, 2)


class TestOptimumAndRegret:
    @given(problems(coarse_means, coarse_sensitivities) | problems())
    def test_optimum_earns_the_most_of_all_assignments(self, problem):
        best = max(earned(problem, f) for f in every_assignment(problem))
        assert sorted(set(problem.optimum)) == sorted(problem.optimum)
        assert earned(problem, problem.optimum) == pytest.approx(best, rel=1e-15, abs=1e-300)

    @given(problems(coarse_means, coarse_sensitivities))
    def test_regret_is_zero_exactly_for_the_best(self, problem):
        # Products of these values are exact in binary, so equality can be asked for.
        best = max(earned(problem, f) for f in every_assignment(problem))
        for f in every_assignment(problem):
            assert problem.expected_reward(f) == earned(problem, f)
            assert problem.regret(f) == best - earned(problem, f)
            assert (problem.regret(f) == 0.0) == (earned(problem, f) == best)

    @given(problems())
    def test_regret_is_never_negative(self, problem):
        best = max(earned(problem, f) for f in every_assignment(problem))
        assert problem.regret(problem.optimum) == 0.0
        for f in every_assignment(problem):
            assert problem.regret(f) >= 0.0
            assert problem.regret(f) == pytest.approx(best - earned(problem, f), abs=1e-14)

    def test_of_equals_the_first_comes_first(self):
        assert Problem([0.5, 0.5, 0.5], [0.3, 0.3]).optimum == (0, 1)
        assert Problem([0.1, 0.5, 0.5], [0.3, 0.9]).optimum == (2, 1)

    @given(problems(), st.data())
    def test_belief_changes_no_truth(self, problem, data):
        believed = data.draw(
            st.lists(fine_sensitivities, min_size=problem.agents, max_size=problem.agents)
        )
        other = Problem(problem.means, problem.sensitivities, believed=believed)
        assert other.optimum == problem.optimum
        for f in every_assignment(problem):
            assert other.expected_reward(f) == problem.expected_reward(f)
            assert other.regret(f) == problem.regret(f)


class TestFiles:
    @given(named_problems())
    def test_dict_json_and_toml_give_the_same_problem(self, problem):
        assert Problem.from_dict(problem.to_dict()) == problem
        assert Problem.from_json(problem.to_json()) == problem
        assert Problem.from_toml(problem.to_toml()) == problem

    @given(problem=named_problems())
    def test_files(self, problem, tmp_path_factory):
        folder = tmp_path_factory.getbasetemp()
        for name, text in (("p.json", problem.to_json()), ("p.TOML", problem.to_toml())):
            (folder / name).write_bytes(text.encode())
            assert Problem.load(folder / name) == problem
            assert Problem.load(str(folder / name)) == problem

    def test_json_is_plain_json(self):
        values = json.loads(Problem(MEANS, SENSITIVITIES).to_json())
        assert values["means"] == MEANS
        assert values["sensitivities"] == SENSITIVITIES

    def test_means_and_sensitivities_are_enough(self, tmp_path):
        (tmp_path / "p.toml").write_text("means = [0.1, 0.5, 0.3]\nsensitivities = [0.2, 0.9]\n")
        assert Problem.load(tmp_path / "p.toml") == Problem(MEANS, SENSITIVITIES)

    @pytest.mark.parametrize("missing", ["means", "sensitivities"])
    def test_less_is_not(self, missing):
        values = {"means": MEANS, "sensitivities": SENSITIVITIES}
        del values[missing]
        with pytest.raises(InvalidInput, match=f"a problem needs {missing}"):
            Problem.from_dict(values)

    @pytest.mark.parametrize(
        ("field", "nearest"),
        [("mean", "means"), ("sensitivites", "sensitivities"), ("belived", "believed")],
    )
    def test_an_unknown_field_gives_the_nearest(self, field, nearest):
        values = {"means": MEANS, "sensitivities": SENSITIVITIES, field: [0.5]}
        with pytest.raises(InvalidInput, match=f"'{field}': did you mean '{nearest}'"):
            Problem.from_dict(values)

    def test_an_unknown_field_unlike_any_other_lists_them(self):
        with pytest.raises(InvalidInput, match="'zzz': known are means, sensitivities, believed"):
            Problem.from_dict({"means": MEANS, "sensitivities": SENSITIVITIES, "zzz": 1})

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("p.json", ""),
            ("p.json", "{"),
            ("p.json", "[0.5]"),
            ("p.json", '"means"'),
            ("p.json", '{"means": [0.5], "sensitivities": [NaN]}'),
            ("p.json", '{"means": [1e999], "sensitivities": [0.5]}'),
            ("p.json", '{"means": [' + "9" * 5000 + '], "sensitivities": [0.5]}'),
            ("p.json", "[" * 100_000),
            ("p.toml", ""),
            ("p.toml", "means = [0.5"),
            ("p.toml", "means = [0.5]\nmeans = [0.5]"),
            ("p.toml", "[means]\na = 1\n[sensitivities]"),
            ("p.toml", "means = [nan]\nsensitivities = [0.5]"),
            ("p.toml", "means = [0x" + "f" * 6000 + "]\nsensitivities = [0.5]"),
            ("p.toml", "means = [1979-05-27]\nsensitivities = [0.5]"),
        ],
    )
    def test_a_damaged_file_is_named(self, tmp_path, name, text):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(InvalidInput) as error:
            Problem.load(path)
        assert str(path) in str(error.value)

    @pytest.mark.parametrize("name", ["p.json", "p.toml"])
    def test_bytes_that_are_no_text(self, tmp_path, name):
        (tmp_path / name).write_bytes(b'{"means": "\xff\xfe"}')
        with pytest.raises(InvalidInput, match=f"cannot read .*{name}"):
            Problem.load(tmp_path / name)

    @pytest.mark.parametrize("name", ["p.txt", "p", "p.json.gz"])
    def test_other_files(self, tmp_path, name):
        (tmp_path / name).write_text(Problem(MEANS, SENSITIVITIES).to_json())
        with pytest.raises(InvalidInput, match=r"neither a \.json nor a \.toml"):
            Problem.load(tmp_path / name)

    def test_no_file(self, tmp_path):
        with pytest.raises(InvalidInput, match=r"cannot read .*none\.json"):
            Problem.load(tmp_path / "none.json")
        (tmp_path / "folder.json").mkdir()
        with pytest.raises(InvalidInput, match=r"cannot read .*folder\.json"):
            Problem.load(tmp_path / "folder.json")

    @pytest.mark.parametrize("path", [None, 5, ["p.json"]])
    def test_what_is_no_path(self, path):
        with pytest.raises(InvalidInput):
            Problem.load(path)


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**400, -(10**400), np.array(0.5), np.float64(0.5), b"x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=8,
)
probable = st.lists(st.floats(0, 1), min_size=1, max_size=4)
huge = st.builds(pow, st.just(10), st.just(5000))  # too long for Python to print
anything = json_like | probable | st.lists(huge, min_size=1, max_size=2)


def problem_or_refusal(make):
    try:
        result = make()
    except InvalidInput as error:
        assert str(error)  # noqa: PT017 - either outcome is right, but a refusal says why
    else:
        assert isinstance(result, Problem)


class TestGarbage:
    @given(anything, anything, anything, anything, anything)
    def test_constructor(self, means, sensitivities, believed, arm_names, agent_names):
        problem_or_refusal(lambda: Problem(means, sensitivities, believed, arm_names, agent_names))

    @given(
        json_like
        | st.dictionaries(
            st.sampled_from(["means", "sensitivities", "believed", "arm_names", "agent_names", "x"])
            | st.integers(),
            anything,
        )
    )
    def test_from_dict(self, values):
        problem_or_refusal(lambda: Problem.from_dict(values))

    @given(st.text() | st.binary() | json_like)
    def test_from_text(self, text):
        problem_or_refusal(lambda: Problem.from_json(text))
        problem_or_refusal(lambda: Problem.from_toml(text))

    @given(json_like.map(lambda value: json.dumps(value, default=str)))
    def test_from_json_of_other_things(self, text):
        problem_or_refusal(lambda: Problem.from_json(text))

    @pytest.mark.parametrize("depth", [500, 5_000, 100_000])
    def test_lists_in_lists(self, depth):
        nested = []
        for _ in range(depth):
            nested = [nested]
        with pytest.raises(InvalidInput, match=r"^means\[0\]"):
            Problem(nested, [0.5])
        with pytest.raises(InvalidInput, match="a problem is a table"):
            Problem.from_dict(nested)


class TestFilesOfOthers:
    """What other programs write."""

    @pytest.mark.parametrize(
        ("name", "write"), [("p.json", Problem.to_json), ("p.toml", Problem.to_toml)]
    )
    def test_a_byte_order_mark_is_taken(self, tmp_path, name, write):
        problem = Problem(MEANS, SENSITIVITIES, arm_names=["Süd", "Río", "日本"])
        (tmp_path / name).write_text(write(problem), encoding="utf-8-sig")
        assert Problem.load(tmp_path / name) == problem

    def test_a_key_that_is_there_twice_is_refused(self):
        text = '{"means": [0.1, 0.5], "sensitivities": [0.5], "means": [0.2, 0.3]}'
        with pytest.raises(InvalidInput, match="not a problem in JSON: 'means' is there twice"):
            Problem.from_json(text)


@pytest.mark.parametrize("no_number", [np.True_, bytearray(b".3"), np.array("0.3"), np.array(True)])
def test_what_only_converts_to_a_number_is_none(no_number):
    with pytest.raises(InvalidInput, match=r"means\[0\] is"):
        Problem([no_number, 0.3], [0.5])


def test_a_range_longer_than_any_list():
    with pytest.raises(InvalidInput, match="means is range"):
        Problem(range(10**30), [0.5])
