"""The report of a sweep: winners known by construction, what is unclear, ties, axes, and hostile names."""

import json
import math
import re
import statistics
from base64 import b64decode

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import t as student

from heterobandits import InvalidInput
from heterobandits.sweeps.report.figures import ratio_ticks
from heterobandits.sweeps.report.page import write_report
from heterobandits.sweeps.report.text import axis_in_words, number_text
from heterobandits.sweeps.tables import SWEEP_FORMAT, SWEEP_METADATA_KEY
from markup import Page

HOSTILE = "<script>x</script> {{ 7*7 }} & $a_b$ \"two\" 'one' --> </style> \N{SNOWMAN}"


def written(folder, places, regrets, **own):
    """A finished sweep made by hand: `regrets` has a row for each point, a column for each policy.

    Verdicts are those of numbers without noise, unless they are given.
    """
    regrets = np.array(regrets, dtype=float)
    points, count = regrets.shape
    policies = own.get("policies", list("abcdefgh"[:count]))
    reference = policies[own.get("reference", 0)]
    width = own.get("width", 0.0)
    trials = np.broadcast_to(own.get("trials", 10), points)
    stopped = np.broadcast_to(own.get("stopped", "fixed"), points)
    rows = []
    for i in range(points):
        here = {name: values[i] for name, values in places.items()}
        horizon = here.get("horizon", 100)
        least = regrets[i].min()
        alone = (regrets[i] == least).sum() == 1
        for p, policy in enumerate(policies):
            base = regrets[i, policies.index(reference)]
            ratio = regrets[i, p] / base if base else math.nan
            verdict = "behind" if regrets[i, p] > least else "ahead" if alone else "same"
            apart = 0.0 if policy == reference else width
            ends = [ratio * math.exp(-apart), ratio * math.exp(apart)]
            given = own.get("verdicts", {}).get((i, p), verdict)
            seldom = [given in ("ahead", "behind"), 2 * trials[i], 3 * regrets[i, p], p]
            measured = [trials[i], regrets[i, p], 0.1, ratio, *ends, given, *seldom, stopped[i]]
            fixed = {"agents": 3, "arms": 5, "horizon": horizon}
            for round_ in own.get("rounds", ()):
                rows.append({"point": i, **fixed, **here, "policy": policy, "round": round_})
                rows[-1] |= dict(zip(MEASURED, [*measured[:1], 1e6, *measured[2:]], strict=True))
            rows.append({"point": i, **fixed, **here, "policy": policy, "round": horizon})
            rows[-1] |= dict(zip(MEASURED, measured, strict=True))
    said = {
        "format": SWEEP_FORMAT,
        "title": own.get("title", "a study"),
        "axes": list(places),
        "policies": policies,
        "reference": reference,
        "points": points + own.get("failed", 0),
        "failed": own.get("failed", 0),
        "confidence": own.get("confidence", 0.95),
        "separate": None,
        "precision": None,
        "made_with": {"heterobandits": "0.0.1"},
        "spec": {"title": own.get("title", "a study"), "seed": 17},
    }
    store(folder, own.get("change", lambda frame: frame)(pd.DataFrame(rows)), said)
    return folder


MEASURED = (
    *("trials", "mean", "se", "ratio", "ratio_lower", "ratio_upper", "verdict"),
    *("sure", "played", "largest", "failed", "stopped"),
)


def store(folder, frame, said):
    folder.mkdir(exist_ok=True)
    for name in ("policy", "verdict", "stopped"):
        frame[name] = frame[name].astype("category")  # whose order is that of the alphabet
    table = pa.Table.from_pandas(frame, preserve_index=False)
    note = {SWEEP_METADATA_KEY: json.dumps(said).encode()}
    pq.write_table(table.replace_schema_metadata(note), folder / "results.parquet")


def from_logs(rows):
    """Regrets whose logarithms these are."""
    return np.exp(np.array(rows, dtype=float))


def cells(folder, **chosen):
    """The lines of `cells.csv`."""
    return pd.read_csv(
        write_report(folder, **chosen).cells, dtype={"tied": str}, keep_default_na=False
    )


def only(folder, **chosen):
    """The one line of it."""
    (line,) = cells(folder, **chosen).to_dict("records")
    return line


PLANE = {"x.one": [1, 2, 1, 2], "x.two": [0.5, 0.5, 0.75, 0.75]}


@pytest.mark.slow
def test_a_cell_of_one_point_goes_by_its_verdict(tmp_path):
    regrets = [[1, 2, 3], [2, 1, 3], [2, 2, 3], [3, 2, 1]]
    written(tmp_path, PLANE, regrets, verdicts={(1, 1): "unclear"}, trials=[10, 20, 30, 40])
    found = cells(tmp_path)
    assert found["x.one"].tolist() == [1, 2, 1, 2]
    assert found["x.two"].tolist() == [0.5, 0.5, 0.75, 0.75]
    assert found["winner"].tolist() == ["a", "b", "a", "c"]
    assert found["state"].tolist() == ["clear", "unclear", "tied", "clear"]
    assert found["tied"].tolist() == ["", "", "a; b", ""]
    assert found["points"].tolist() == [1, 1, 1, 1]
    assert found["trials"].tolist() == [10, 20, 30, 40]
    assert found["ratio b"].tolist() == [2, 0.5, 1, 2 / 3]


def test_only_the_last_round_counts(tmp_path):
    made = written(tmp_path, PLANE, [[1, 2]] * 4, rounds=(25, 50))
    assert set(cells(made)["ratio b"]) == {2.0}


def test_the_headline_says_who_wins_where(tmp_path):
    regrets = [[1, 2, 3], [2, 1, 3], [2, 2, 3], [3, 2, 1]]
    made = write_report(written(tmp_path, PLANE, regrets, verdicts={(1, 1): "unclear"}))
    assert made.headline == (
        "a wins clearly in 1 of 4 cells and c in 1; 1 is unclear and in 1 the best are equal."
    )
    assert made.data["cells"] == {"all": 4, "clear": 2, "unclear": 1, "tied": 1}
    assert made.headline in Page(made.page.read_text(encoding="utf-8")).text


def test_nobody_wins(tmp_path):
    unsure = {(i, p): "unclear" for i in range(4) for p in range(2)}
    made = write_report(written(tmp_path, PLANE, [[1, 2]] * 4, verdicts=unsure))
    assert made.headline == "No policy wins clearly in any of 4 cells; 4 are unclear."


# mean -0.2, standard error sqrt(4 * 0.1^2 / 3 / 4) = 0.057735; Student's quantiles with 3 degrees of freedom are
# 3.18245 at 0.975 and 4.17653 at 0.9875: half widths 0.18374 and 0.24113
LOGS = [-0.3, -0.1, -0.3, -0.1]
DRAWS = {"x.one": [1, 1, 1, 1], "draw": [0, 1, 2, 3]}
UNSURE = {(i, p): "unclear" for i in range(4) for p in range(3)}


def test_several_points_are_judged_by_an_interval_over_them(tmp_path):
    regrets = from_logs([[3 + i, 3 + i + log] for i, log in enumerate(LOGS)])
    line = only(written(tmp_path, DRAWS, regrets, verdicts=UNSURE))
    assert (line["winner"], line["state"], line["points"], line["trials"]) == ("b", "clear", 4, 40)
    assert line["ratio b"] == pytest.approx(math.exp(-0.2))
    assert line["lower b"] == pytest.approx(math.exp(-0.38374), rel=1e-4)
    assert line["upper b"] == pytest.approx(math.exp(-0.01626), rel=1e-4)


def test_points_of_one_draw_count_once(tmp_path):
    """They share their luck: as many as one likes say no more than one."""
    regrets = from_logs([[3 + i, 3 + i + log] for i, log in enumerate(LOGS)])
    seeds = [1, 2, 3, 4]
    alone = {"x.one": [1, 1, 1, 1], "drift.seed": seeds}
    line = only(written(tmp_path / "alone", alone, regrets, verdicts=UNSURE))
    assert (line["winner"], line["state"], line["points"]) == ("b", "unclear", 4)
    assert line["ratio b"] == pytest.approx(math.exp(-0.2))
    # two draws with means -0.3 and -0.1, or twice -0.2: half widths 12.7062 times 0.1, or 0
    for draws, state in (([0, 1, 0, 1], "unclear"), ([0, 0, 1, 1], "clear")):
        places = {**alone, "draw": draws}
        line = only(written(tmp_path / state, places, regrets, verdicts=UNSURE))
        assert line["state"] == state


def test_points_where_two_have_no_regret_and_a_third_has_count(tmp_path):
    """Differences of a and b: 0 thirty-seven times, and 1 three times: 0.075, and 2.0227 standard errors of 0.0422."""
    regrets = [[0.0, 0.0, 5.0]] * 37 + [[1.0, 2.0, 5.0]] * 3
    places = {"x.one": [1] * 40, "draw": range(40)}
    unsure = {(i, p): "unclear" for i in range(40) for p in range(3)}
    line = only(written(tmp_path, places, regrets, verdicts=unsure))
    assert (line["winner"], line["state"]) == ("a", "unclear")


def test_a_third_policy_makes_the_intervals_wider(tmp_path):
    regrets = from_logs([[3, 3 + log, 9] for log in LOGS])
    assert only(written(tmp_path, DRAWS, regrets, verdicts=UNSURE))["state"] == "unclear"


def test_a_higher_confidence_makes_them_wider_too(tmp_path):
    regrets = from_logs([[3, 3 + log] for log in LOGS])
    made = written(tmp_path, DRAWS, regrets, verdicts=UNSURE, confidence=0.99)
    line = only(made)
    assert line["state"] == "unclear"
    # the quantile at 0.995 is 5.84091
    assert line["upper b"] == pytest.approx(math.exp(-0.2 + 5.84091 * 0.0577350), rel=1e-5)


def test_who_is_ahead_at_every_point_is_clearly_ahead(tmp_path):
    regrets = [[10, 1], [10, 9]]  # an interval over two points says nothing
    places = {"x.one": [1, 1], "draw": [0, 1]}
    assert only(written(tmp_path / "all", places, regrets))["state"] == "clear"
    one = written(tmp_path / "one", places, regrets, verdicts={(1, 1): "unclear"})
    assert only(one)["state"] == "unclear"


def test_the_winner_has_the_least_geometric_mean(tmp_path):
    """a: sqrt(1 * 100) = 10, b: sqrt(2 * 60) = 10.95, although b has the smaller mean."""
    places = {"x.one": [1, 1], "draw": [0, 1]}
    line = only(written(tmp_path, places, [[1, 2], [100, 60]]))
    assert (line["winner"], line["state"]) == ("a", "unclear")
    assert line["ratio b"] == pytest.approx(math.sqrt(1.2))


def test_where_some_regret_is_0_means_are_compared(tmp_path):
    places = {"x.one": [1, 1], "draw": [0, 1]}
    line = only(written(tmp_path, places, [[0, 2], [100, 60]]))
    assert (line["winner"], line["state"]) == ("b", "unclear")
    assert line["ratio b"] == pytest.approx(62 / 100)
    assert line["lower b"] == line["upper b"] == ""


def test_differences_can_be_clear_where_some_regret_is_0(tmp_path):
    """Differences 2, 3, 2, 3 of b to a: 2.5, and 3.18245 standard errors of 0.288675 are 0.92."""
    regrets = [[0, 2], [1, 4], [1, 3], [1, 4]]
    line = only(written(tmp_path / "less", DRAWS, regrets, verdicts=UNSURE))
    assert (line["winner"], line["state"]) == ("a", "clear")
    regrets[3] = [9, 4]
    assert only(written(tmp_path / "more", DRAWS, regrets, verdicts=UNSURE))["state"] == "unclear"


def test_points_where_nobody_has_regret_are_left_out(tmp_path):
    places = {"x.one": [1, 1, 1], "draw": [0, 1, 2]}
    line = only(written(tmp_path / "some", places, [[1, 2], [0, 0], [100, 60]]))
    assert (line["winner"], line["points"]) == ("a", 3)
    assert line["ratio b"] == pytest.approx(math.sqrt(1.2))
    sure = only(written(tmp_path / "sure", places, [[1, 2], [0, 0], [10, 60]]))
    assert sure["state"] == "clear"


def test_where_nobody_has_any_regret_all_are_equal(tmp_path):
    made = write_report(written(tmp_path, {"x.one": [1, 2]}, [[0, 0, 0], [1, 2, 3]]))
    line = pd.read_csv(made.cells).to_dict("records")[0]
    assert (line["state"], line["tied"]) == ("tied", "a; b; c")
    assert math.isnan(line["ratio b"])
    assert "a = b = c" in Page(made.page.read_text(encoding="utf-8")).text


def test_a_tie_at_some_points_is_none(tmp_path):
    """b is as good as a at one point, and worse at the other."""
    places = {"x.one": [1, 1], "draw": [0, 1]}
    line = only(written(tmp_path, places, [[1, 1], [1, 2]]))
    assert (line["winner"], line["state"], line["tied"]) == ("a", "unclear", "")


def test_equals_are_the_best_only_if_the_others_are_behind(tmp_path):
    """Two that are the same in every trial, beside a third: close, apart by the interval over the draws, and behind at every point."""
    draws = {"agents": np.repeat([2, 3, 4], 20), "draw": np.tile(range(20), 3)}
    third = np.tile(1 + 0.002 * np.arange(20), 3)
    third[20:40] += 0.5
    regrets = np.stack([np.ones(60), np.ones(60), third], axis=1)
    regrets[:20, 2] = np.where(np.arange(20) % 2, 0.99, 1.02)
    regrets[0, 2] = 3.0  # a mean that is higher, but not clearly so
    verdicts = {(i, p): "same" for i in range(60) for p in (0, 1)}
    verdicts |= {(i, 2): "behind" if i >= 40 else "unclear" for i in range(60)}
    found = cells(written(tmp_path, draws, regrets, verdicts=verdicts), x="agents")
    assert found["state"].tolist() == ["unclear", "tied", "tied"]
    assert found["tied"].tolist() == ["", "a; b", "a; b"]


def test_one_of_two_equals_is_not_said_to_be_the_best(tmp_path):
    """A third policy with 2 % less regret, whose mean is higher by chance in 41 % of the runs of 64 trials (seeded)."""
    chance = np.random.default_rng(5)
    said = []
    for run in range(20):
        one, third = chance.gamma(4, 5, (2, 64))
        regrets = [[one.mean(), one.mean(), 0.98 * third.mean()]]
        if regrets[0][2] > regrets[0][0]:
            verdicts = {(0, 0): "same", (0, 1): "same", (0, 2): "unclear"}
            folder = tmp_path / f"{run}"
            folder.mkdir()
            said.append(write_report(written(folder, {}, regrets, verdicts=verdicts)).headline)
    assert len(said) >= 4
    assert {re.sub("^.*; ", "", one) for one in said} == {"a has the least regret."}, said
    assert all(one.startswith("No policy is clearly ahead") for one in said)


def test_a_ratio_of_one_point_has_the_interval_of_the_point(tmp_path):
    made = written(tmp_path, PLANE, [[1, 2], [1, 1.1], [1, 0.5], [1, 1]], width=0.2)
    found = cells(made)
    np.testing.assert_allclose(found["lower b"], np.array([2, 1.1, 0.5, 1]) * math.exp(-0.2))
    np.testing.assert_allclose(found["upper b"], np.array([2, 1.1, 0.5, 1]) * math.exp(0.2))


def sides(made):
    """The marks of the ratios of the second policy in the page's table of cells."""
    table = made.page.read_text(encoding="utf-8").partition("<h2>Places on the axis")[2]
    return re.findall(r'<td class="n"><span class="(\w*)">', table)[1::2]


def test_ratios_are_marked_where_they_are_clear(tmp_path):
    """By the interval of the one point, or by those of all points."""
    places = {"x.one": [1, 2, 3, 4, 4, 5, 5], "draw": [0, 0, 0, 0, 1, 0, 1]}
    regrets = [[1, 2], [1, 1.1], [1, 0.5], [1, 1.5], [1, 9], [1, 1.1], [1, 9]]
    made = write_report(written(tmp_path, places, regrets, width=0.2))
    assert sides(made) == ["no", "", "yes", "no", ""]


def slowly(regrets, cell, confidence):
    """The winner of every cell and whether Student's intervals are clear, as plainly as can be."""
    found = {}
    for place in sorted(set(cell)):
        rows = [row for row, at in zip(regrets, cell, strict=True) if at == place and max(row) > 0]
        zero = any(value == 0 for row in rows for value in row)
        scores = [
            statistics.fmean([value if zero else math.log(value) for value in column])
            for column in zip(*rows, strict=True)
        ]
        winner = scores.index(min(scores))
        clear = len(rows) > 1
        for p in range(len(scores)):
            if p == winner or not clear:
                continue
            both = [(row[winner], row[p]) for row in rows if max(row[winner], row[p]) > 0]
            values = [a - b if zero else math.log(a / b) for a, b in both]
            tail = (1 - confidence) / 2 / (len(scores) - 1)
            half = student.ppf(1 - tail, len(values) - 1) * statistics.stdev(values)
            clear = statistics.fmean(values) + half / math.sqrt(len(values)) < 0
        found[place] = (winner, clear)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [0.0, 0.03])
def test_many_cells_are_summed_up_as_one_by_one(tmp_path, zeros):
    random = np.random.default_rng(5)
    cell = random.integers(0, 30, 400)
    regrets = np.exp(random.normal(0, 0.2, (400, 3)) + random.normal(0, 0.3, (30, 3))[cell])
    regrets[random.random(regrets.shape) < zeros] = 0.0
    unsure = {(i, p): "unclear" for i in range(400) for p in range(3)}
    places = {"x.one": cell % 6, "x.two": cell // 6, "draw": np.arange(400)}
    found = cells(written(tmp_path, places, regrets, verdicts=unsure), x="x.one", y="x.two")
    expected = slowly(regrets.tolist(), cell.tolist(), 0.95)
    assert found["x.two"].mul(6).add(found["x.one"]).tolist() == list(expected)
    assert found["winner"].tolist() == ["abc"[winner] for winner, _ in expected.values()]
    assert found["state"].eq("clear").tolist() == [clear for _, clear in expected.values()]
    assert 3 < found["state"].eq("clear").sum() < 27
    assert found["points"].tolist() == np.bincount(cell).tolist()


@pytest.mark.slow
def test_the_axes_with_the_most_values_span_the_plane(tmp_path):
    places = {
        "domain": ["covid", "hotel", "hotel", "covid"] * 2,
        "few": [1, 2] * 4,
        "many": [1, 2, 3, 4] * 2,
        "one": [1] * 8,
        "drift.seed": range(8),
        "draw": range(8),
    }
    written(tmp_path, places, [[1, 2]] * 8)
    made = write_report(tmp_path)
    assert (made.data["x"], made.data["y"]) == ("many", "few")
    assert write_report(tmp_path, x="domain").data["y"] == "many"
    assert write_report(tmp_path, y="many").data["x"] == "few"
    assert write_report(tmp_path, x="draw", y="arms").data["x"] == "draw"
    assert cells(tmp_path, x="domain", y="few")["domain"].tolist() == ["covid", "hotel"] * 2


def test_text_comes_after_numbers(tmp_path):
    places = {"domain": ["covid", "hotel", "poaching-2", "poaching-3"], "few": [1, 2, 2, 1]}
    made = write_report(written(tmp_path, places, [[1, 2]] * 4))
    assert (made.data["x"], made.data["y"]) == ("few", "domain")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"x": "x.oen"}, "unknown axis 'x.oen': did you mean 'x.one'?"),
        ({"y": "qqq"}, "unknown axis 'qqq': known are x.one, x.two, agents, arms, horizon"),
        ({"x": "x.one", "y": "x.one"}, "x and y are both 'x.one': two axes span a plane"),
    ],
)
def test_axes_that_are_none(tmp_path, chosen, message):
    written(tmp_path, PLANE, [[1, 2]] * 4)
    with pytest.raises(InvalidInput) as caught:
        write_report(tmp_path, **chosen)
    assert str(caught.value) == message


def test_one_axis_is_a_line(tmp_path):
    places = {"drift.step": [0.1, 0.01, 0.001], "drift.seed": [5, 6, 7], "draw": [0, 1, 2]}
    made = write_report(written(tmp_path, places, [[1, 2], [2, 1], [2, 1]], width=0.1))
    assert [path.name for path in made.figures] == ["ratios.svg", "ratios.png", "ratios.pdf"]
    assert (made.data["x"], made.data["y"]) == ("drift.step", None)
    assert made.headline == "b wins clearly in 2 of 3 places and a in 1."
    assert pd.read_csv(made.cells)["drift.step"].tolist() == [0.001, 0.01, 0.1]
    text = Page(made.page.read_text(encoding="utf-8")).text
    assert "step of the drift" in text
    assert "The winner of a cell has" in text


def test_an_axis_with_one_value_is_none(tmp_path):
    made = write_report(written(tmp_path, {"many": [1, 2], "one": [5, 5]}, [[1, 2]] * 2))
    assert (made.data["x"], made.data["y"]) == ("many", None)


def test_an_axis_of_texts_alone(tmp_path):
    made = write_report(written(tmp_path, {"domain": ["hotel", "covid"]}, [[1, 2], [2, 1]]))
    assert pd.read_csv(made.cells)["domain"].tolist() == ["hotel", "covid"]
    assert len(made.figures) == 3


@pytest.mark.parametrize(
    ("regrets", "verdicts", "headline"),
    [
        ([[1, 2]], {}, "a clearly has the least regret."),
        ([[2, 1]] * 2, {}, "b clearly has the least regret over the 2 points."),
        ([[2, 1]], {(0, 1): "unclear"}, "No policy is clearly ahead; b has the least regret."),
        ([[1, 2, 1]], {}, "a and c have the least regret, all the same."),
        ([[3]], {}, "a was run alone: there is nothing to compare it with."),
    ],
)
def test_no_axis_is_a_table(tmp_path, regrets, verdicts, headline):
    places = {} if len(regrets) == 1 else {"draw": range(len(regrets))}
    made = write_report(written(tmp_path, places, regrets, verdicts=verdicts))
    assert made.headline == headline
    assert made.figures == []
    assert len(pd.read_csv(made.cells)) == 1
    page = Page(made.page.read_text(encoding="utf-8"))
    assert page.tags["table"] == 1
    assert page.tags["img"] == 0


def test_one_policy_has_no_maps(tmp_path):
    assert write_report(written(tmp_path, PLANE, [[1], [2], [3], [4]])).figures == []


def test_a_plane_has_a_map_of_winners_and_one_for_each_policy_but_the_reference(tmp_path):
    made = write_report(written(tmp_path, PLANE, [[1, 2, 3]] * 4, reference=1))
    stems = ["winners", "ratio-1-a", "ratio-3-c"]
    assert [path.name for path in made.figures] == [
        f"{stem}.{kind}" for stem in stems for kind in ("svg", "png", "pdf")
    ]
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    for path in made.figures:
        assert path.read_bytes().startswith(starts[path.suffix[1:]])
    page = Page(made.page.read_text(encoding="utf-8"))
    drawn = [b64decode(reference.partition("base64,")[2]) for reference in page.references]
    assert drawn == [(tmp_path / f"figures/{stem}.svg").read_bytes() for stem in stems]


def test_the_same_sweep_gives_the_same_bytes(tmp_path):
    written(tmp_path, PLANE, [[1, 2, 3], [2, 1, 3], [2, 2, 3], [3, 2, 1]])
    made = write_report(tmp_path)
    files = [made.page, made.cells, *made.figures]
    first = [path.read_bytes() for path in files]
    write_report(tmp_path)
    assert [path.read_bytes() for path in files] == first


def test_many_values_stand_in_bins(tmp_path):
    """41 values of 8 points each: 12 bins, in which no value is split, and no point lost."""
    values = np.repeat(np.arange(41), 8)
    notes = []
    places = {"x.one": values, "draw": np.tile(range(8), 41)}
    made = write_report(written(tmp_path, places, [[1, 2]] * len(values)), note=notes.append)
    found = pd.read_csv(made.cells)
    assert len(found) == 12
    assert found["x.one"].tolist()[:2] == ["0 – 2", "3 – 5"]
    ends = [tuple(map(int, label.split(" – "))) for label in found["x.one"]]
    assert [high + 1 for _, high in ends[:-1]] == [low for low, _ in ends[1:]]
    assert ends[-1][1] == 40
    assert found["points"].tolist() == [8 * (high - low + 1) for low, high in ends]
    said = "x.one has 41 values: they stand in 12 bins with about as many points each"
    assert notes == [said]
    assert said[1:] in Page(made.page.read_text(encoding="utf-8")).text


def test_as_many_values_as_can_be_drawn_do_not(tmp_path):
    made = write_report(written(tmp_path, {"x.one": range(40)}, [[1, 2]] * 40))
    assert len(pd.read_csv(made.cells)) == 40


def test_a_plane_of_random_points_has_bins_though_there_are_few(tmp_path):
    random = np.random.default_rng(1)
    places = {"x.one": random.random(32), "x.two": random.random(32), "draw": range(32)}
    found = cells(written(tmp_path, places, [[1, 2]] * 32))
    assert len(found) <= 9
    assert found["points"].sum() == 32


def test_a_map_with_holes(tmp_path):
    """Three of four cells have points: they are drawn as they are."""
    made = write_report(written(tmp_path, {"x.one": [1, 2, 1], "x.two": [1, 1, 2]}, [[1, 2]] * 3))
    assert len(pd.read_csv(made.cells)) == 3
    assert len(made.figures) == 6


def test_standings(tmp_path):
    places = {"x.one": [1, 2, 3, 4], "domain": ["covid", "covid", "hotel", "hotel"]}
    regrets = [[1, 2], [4, 1], [2, 2], [1, 16]]
    stopped = ["told apart", "told apart", "narrow", "limit"]
    written(tmp_path, places, regrets, trials=[10, 20, 40, 80], stopped=stopped)
    made = write_report(tmp_path, x="x.one")
    first, second = made.data["policies"]
    assert (first["won"], first["won_unclear"], first["tied"]) == (2, 0, 1)
    assert (second["won"], second["won_unclear"], second["tied"]) == (1, 0, 1)
    assert second["ratio"] == pytest.approx((2 / 4 * 16) ** (1 / 4))
    assert first["over_best"] == pytest.approx(4 ** (1 / 4))
    assert second["over_best"] == pytest.approx(32 ** (1 / 4))
    assert (second["worst_ratio"], second["worst_point"]) == (16, 3)
    assert second["worst_at"] == {"x.one": 4, "domain": "hotel"}
    assert [second[key] for key in ("ahead", "same", "unclear", "behind")] == [1, 1, 0, 2]
    assert made.data["trials"] == {
        "least": 10,
        "median": 30.0,
        "most": 80,
        "again": True,
        "stopped": {"told apart": 2, "narrow": 1, "limit": 1},
    }
    # each of the verdicts is sure but for the equals'; policy b has a failure at every point, of 20, 40, 80 and 160 trials
    assert [second[key] for key in ("sure", "failed", "played", "largest")] == [3, 4, 300, 48]
    assert (first["failed"], first["largest"]) == (0, 12)
    text = Page(made.page.read_text(encoding="utf-8")).text
    assert "point 3: x.one = 4, domain = hotel" in text
    assert "A point took from 10 to 80 trials, 30 in the median." in text
    assert "1 at the limit" in text
    assert "Then as many again were played, and the numbers are of these." in text


def test_a_ratio_to_nothing_is_the_worst(tmp_path):
    made = write_report(written(tmp_path, {"x.one": [1, 2, 3]}, [[1, 2], [0, 1], [0, 0]]))
    assert made.data["policies"][1]["worst_point"] == 1
    assert made.data["policies"][1]["worst_ratio"] is None
    assert made.data["policies"][1]["ratio"] == 3  # of the means, 3 over 1
    assert "∞" in Page(made.page.read_text(encoding="utf-8")).text
    json.dumps(made.summary(), allow_nan=False)


def test_failed_points_are_said(tmp_path):
    notes = []
    made = write_report(written(tmp_path, PLANE, [[1, 2]] * 4, failed=7), note=notes.append)
    assert notes == ["7 points failed, and are not in the report"]
    assert "7 points failed" in Page(made.page.read_text(encoding="utf-8")).text


def test_many_cells_are_folded_away(tmp_path):
    x, y = np.divmod(np.arange(13 * 12), 12)
    made = write_report(written(tmp_path, {"x.one": x, "x.two": y}, [[1, 2]] * 156))
    page = Page(made.page.read_text(encoding="utf-8"))
    assert page.tags["details"] == 1
    assert page.tags["tr"] == 1 + 2 + 1 + 156
    assert "All 156 cells" in page.text


@pytest.mark.slow
@pytest.mark.parametrize("axes", [0, 1, 2])
def test_hostile_names(tmp_path, axes):
    places = dict(list({HOSTILE: [HOSTILE, "b", "b", HOSTILE], "x": [1, 2, 1, 2]}.items())[:axes])
    policies = [HOSTILE, "_hidden", "$x^$", "x" * 300]
    count = 4 if axes else 1
    written(tmp_path, places, [[1, 1, 2, 3]] * count, title=HOSTILE * 2, policies=policies)
    made = write_report(tmp_path)
    page = Page(made.page.read_text(encoding="utf-8"))
    assert not page.tags["script"]
    assert page.tags["style"] == 1
    assert HOSTILE + HOSTILE in page.text
    assert "$x^$" in page.text
    assert len(made.figures) == (0, 3, 12)[axes]
    assert all(path.parent == tmp_path / "figures" for path in made.figures)
    if axes:
        assert HOSTILE in pd.read_csv(made.cells)[HOSTILE].tolist()


@pytest.mark.slow
def test_policies_of_ones_own_have_colours_of_their_own(tmp_path):
    regrets = 2 - np.eye(8)
    x, y = np.divmod(np.arange(8), 4)
    made = write_report(written(tmp_path, {"x": x, "y": y}, regrets))
    drawing = made.figures[0].read_text(encoding="utf-8")
    fills = set(re.findall(r"fill: (#[0-9a-f]{6})", drawing))
    assert len(fills - {"#ffffff", "#f1f3f5"}) >= 8


def test_a_folder_without_a_sweep(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InvalidInput, match="no sweep"):
            write_report(folder)
    (tmp_path / "shards").mkdir()
    with pytest.raises(InvalidInput, match="not finished"):
        write_report(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_a_damaged_file(tmp_path):
    written(tmp_path, PLANE, [[1, 2]] * 4)
    path = tmp_path / "results.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidInput, match=r"cannot read .*results\.parquet") as caught:
        write_report(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.iloc[1:],
        lambda frame: pd.concat([frame, frame.iloc[:1]]),
        lambda frame: frame.replace({"policy": {"b": "z"}}),
        lambda frame: frame.replace({"verdict": {"ahead": "first"}}),
        lambda frame: frame.assign(mean=math.nan),
    ],
)
def test_rows_that_do_not_fit(tmp_path, change):
    written(tmp_path, PLANE, [[1, 2]] * 4, change=change)
    with pytest.raises(InvalidInput, match="is damaged"):
        write_report(tmp_path)


def test_a_column_that_is_missing(tmp_path):
    change = lambda frame: frame.drop(columns="x.one")  # noqa: E731
    with pytest.raises(InvalidInput, match=r"x\.one"):
        write_report(written(tmp_path, PLANE, [[1, 2]] * 4, change=change))


def test_no_point_was_run(tmp_path):
    written(tmp_path, PLANE, [[1, 2]] * 4, change=lambda frame: frame.iloc[:0])
    with pytest.raises(InvalidInput, match="nothing to report"):
        write_report(tmp_path)


def test_a_folder_that_cannot_be_written_to(tmp_path):
    written(tmp_path, PLANE, [[1, 2]] * 4)
    (tmp_path / "figures").write_text("a file")
    with pytest.raises(InvalidInput, match="cannot write to"):
        write_report(tmp_path)


def test_the_command_prints_a_table(tmp_path, called):
    written(tmp_path, PLANE, [[1, 2]] * 4, policies=["min-width", "[b]own"], failed=1)
    code, out, err = called("sweep-report", tmp_path)
    assert code == 0
    assert "[b]own" in out
    assert "Min-Width wins clearly in 4 of 4 cells." in out
    assert out.splitlines()[-1] == str(tmp_path / "report.html")
    assert err == "heterobandits: 1 point failed, and is not in the report\n"


@pytest.mark.slow
def test_the_command_prints_json(tmp_path, called):
    written(tmp_path, PLANE, [[1, 2]] * 4, failed=1)
    chosen = ("--x", "x.two", "--y", "arms")
    code, out, err = called("sweep-report", tmp_path, *chosen, "--format", "json", "--quiet")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert (told["x"], told["y"], told["failed"]) == ("x.two", "arms", 1)
    assert told["page"] == str(tmp_path / "report.html")
    assert told["cells_file"] == str(tmp_path / "cells.csv")
    assert len(told["figures"]) == 6


def test_the_command_refuses_in_one_line(tmp_path, called):
    written(tmp_path, PLANE, [[1, 2]] * 4)
    refused = called("sweep-report", tmp_path, "--y", "x.tow")
    assert refused == (2, "", "heterobandits: unknown axis 'x.tow': did you mean 'x.two'?\n")
    code, out, err = called("sweep-report", tmp_path / "none")
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sensitivities.spread", "spread of the sensitivities"),
        ("false_positive_rates.low", "low of the false positive rates"),
        ("arms_per_agent", "arms per agent"),
        ("believed.within", "believed.within"),
    ],
)
def test_names_of_axes(name, words):
    assert axis_in_words(name) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [(4096.0, "4,096"), (12345, "12,345"), (0.25, "0.25"), (1234.56, "1235"), (1e-7, "1e-07")],
)
def test_numbers_on_an_axis(value, text):
    assert number_text(value, 4) == text


def test_values_that_are_close_keep_their_digits(tmp_path):
    written(tmp_path, {"x.one": [0.12341, 0.12342]}, [[1, 2]] * 2)
    text = write_report(tmp_path).cells.read_text(encoding="utf-8")
    assert [line.split(",")[0] for line in text.splitlines()[1:]] == ["0.12341", "0.12342"]


@pytest.mark.parametrize("high", [1.1, 1.3, 2.0, 5.0, 30.0, 1000.0])
def test_ticks_of_ratios(high):
    ticks = ratio_ticks(1 / high, high)
    assert 1.0 in ticks
    assert 3 <= len(ticks) <= 9
    assert all(1 / high <= tick <= high for tick in ticks)
