"""Pages: whatever is put into them is text, and nothing may be missing."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from heterobandits import Problem
from heterobandits.experiments import leaderboard, report
from heterobandits.experiments.catalogue import SYNTHETIC, Experiment
from heterobandits.experiments.claims import CLAIMS, JudgedClaim
from heterobandits.experiments.comparison import Comparison, judge_policies
from heterobandits.experiments.tables import PercentCell, PublishedRanking, RegretCell
from heterobandits.output.pages import render_template
from heterobandits.simulation.simulation import simulate
from markup import Page
from reference import PAPER

HOSTILE = "<script>x</script> {{ 7*7 }} {% if %} {# no #} & &amp; \"two\" 'one' --> </style>"
FIGURE = (HOSTILE, "caption " + HOSTILE, "<svg>" + HOSTILE + "</svg>")


def check(text, times):
    """The page shows the hostile text so many times, as it was given, and nothing of it is markup."""
    page = Page(text)
    assert page.text.count(HOSTILE) == times
    assert not page.tags["script"]
    assert page.tags["style"] == 1
    assert [image["alt"] for image in page.all("[alt]")] == [HOSTILE]
    (reference,) = page.references
    assert base64.b64decode(reference.partition("base64,")[2]).decode() == FIGURE[2]


def test_a_report_of_hostile_names():
    claim = replace(CLAIMS[0], id=HOSTILE, text=HOSTILE, section=HOSTILE)
    cell = (HOSTILE, "covid-mix", 1.0, 0.1, 1.0, 0.1)
    order = (HOSTILE, *PAPER[1:])
    ranking = PublishedRanking(replace(SYNTHETIC[0], ranking=order), order, (1, 2, 3, 4, 5), "tied")
    page = report.render_report(
        [JudgedClaim(claim, "pass", HOSTILE)],
        [RegretCell(*cell)],
        [PercentCell(*cell, 0.0, 0.1)],
        [ranking],
        [FIGURE],
        HOSTILE,
        False,
    )
    check(page, 4 + 2 + 2 + 1 + 1)


def test_a_leaderboard_of_hostile_names():
    problem = Problem([0.1, 0.9, 0.5], [0.9, 0.4])
    policies = (*PAPER, "mixture-width", "random")
    experiment = Experiment("p", HOSTILE, problem, 400, 80, "", policies=policies)
    rows = judge_policies(
        experiment, "settings", simulate(problem, policies, 400, 80, seed=4, keep="final")
    )
    made = Comparison(rows, dict.fromkeys(policies, 1.0), 0.0, True, Path())
    lost = [row for row in rows if row.policy == "random"]
    assert [row.verdict for row in lost] == ["behind"]
    page = leaderboard.render_leaderboard(made, [FIGURE], HOSTILE)
    # the worst case of each policy, the loss of random, the table's line, the caption, the provenance
    check(page, len(policies) + 1 + 1 + 1 + 1)


@pytest.mark.parametrize("template", ["report.html", "leaderboard.html"])
def test_what_is_missing_is_not_shown_as_nothing(template):
    with pytest.raises(UndefinedError):
        render_template(template, quick=False, headline="", numbers=[], figures=[], provenance="")
