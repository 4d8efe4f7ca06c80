"""How results and policies are drawn."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from heterobandits import CATALOGUE, Policy
from heterobandits.output.plots import OTHER_COLOURS, style_of
from small_runs import NAMES, run

pytestmark = pytest.mark.smoke


@pytest.fixture(scope="module")
def results():
    return run()


class TestPlot:
    """The figure."""

    def test_a_line_and_a_band_for_each_policy(self, results):
        ax = results.plot(Figure().subplots(), title="Dormitory")
        assert len(ax.lines) == len(ax.collections) == len(NAMES)
        for line, band, label in zip(ax.lines, ax.collections, NAMES, strict=True):
            assert line.get_label() == CATALOGUE[label].title
            assert to_hex(line.get_color()) == CATALOGUE[label].colour
            assert line.get_xdata().tolist() == [0, *results.rounds]
            assert line.get_ydata().tolist() == [0, *results.mean(label)]
            corners = band.get_paths()[0].vertices
            mean, se = results.mean(label)[-1], results.se(label)[-1]
            at_end = corners[corners[:, 0] == results.horizon][:, 1]
            assert at_end.min() == pytest.approx(mean - 2 * se)
            assert at_end.max() == pytest.approx(mean + 2 * se)
        assert ax.get_xlabel() == "round"
        assert ax.get_ylabel() == "cumulative regret"
        assert ax.get_title() == "Dormitory"
        assert "40 trials" in ax.get_legend().get_title().get_text()
        titles = [text.get_text() for text in ax.get_legend().get_texts()]
        assert titles == [CATALOGUE[label].title for label in NAMES]

    def test_it_makes_axes_if_none_are_given(self, results):
        ax = results.plot()
        assert len(ax.lines) == 3
        plt.close(ax.figure)

    def test_own_policies_have_lines_of_their_own(self):
        own = [
            Policy(f"own {i}", index=lambda known: np.zeros(known.pulls.shape[1:]))
            for i in range(7)
        ]
        ax = run(trials=3, policies=["ucb", *own]).plot(Figure().subplots())
        assert [line.get_label() for line in ax.lines] == ["UCB", *(f"own {i}" for i in range(7))]

    def test_an_interrupted_run_says_so(self, results):
        ax = replace(results, partial=True).plot(Figure().subplots())
        assert "interrupted" in ax.get_legend().get_title().get_text()


class TestNames:
    """A policy's name is data: no mathematics, and never hidden."""

    NAMES = ("$\\frac{$", "_hidden", "a $1 bill, a $2 bill", "camp [north]")

    def test_legend_and_title_show_it_as_it_is(self, tmp_path):
        own = [
            Policy(name, index=lambda known: np.zeros(known.pulls.shape[1:])) for name in self.NAMES
        ]
        figure = Figure()
        ax = run(trials=3, policies=own).plot(figure.subplots(), title="for $\\frac{$ each")
        texts = ax.get_legend().get_texts()
        assert [text.get_text() for text in texts] == list(self.NAMES)
        assert not any(text.get_parse_math() for text in (*texts, ax.title))
        figure.savefig(tmp_path / "drawn.png")
        assert (tmp_path / "drawn.png").stat().st_size > 0


class TestLimit:
    """The least regret of the long run is drawn where the run is long enough for it."""

    def test_only_where_no_curve_ends_below_it(self, results):
        least = min(results.mean(label)[-1] for label in NAMES)
        for limit, drawn in (
            (0.0, False),  # regret can stay bounded: that is no line
            (0.01, True),
            (0.99 * least / np.log(30), True),
            (1.01 * least / np.log(30), False),
        ):
            ax = results.plot(Figure().subplots(), limit=limit)
            assert len(ax.lines) == len(NAMES) + drawn
            assert len(ax.get_legend().get_texts()) == len(ax.lines)


class TestStyles:
    """The catalogue says how its policies look; others are told apart."""

    def test_the_catalogue_is_drawn_as_its_records_say(self):
        for label, known in CATALOGUE.items():
            assert style_of(label) == (known.title, known.colour, known.dashes)
            assert all(style_of(label)), f"{label} has no title or colour"

    def test_no_two_policies_look_the_same(self):
        styles = [style_of(label) for label in CATALOGUE]
        assert len({style.title for style in styles}) == len(styles)
        assert len({style.colour for style in styles}) == len(styles)

    def test_others_take_the_next_colour_and_their_label(self):
        others = iter(OTHER_COLOURS)
        assert style_of("own", others) == ("own", OTHER_COLOURS[0], "-")
        assert style_of("min-width(delta=0.1)", others).title == "min-width(delta=0.1)"
        assert next(others) == OTHER_COLOURS[2]
