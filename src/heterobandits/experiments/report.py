"""The report of the reproduction, on one page.

It starts with the verdict, then shows every claim, table and figure, the published number beside
ours, and ends with what made it. What is our own alone stands under a heading that says so.
"""

from collections.abc import Sequence
from typing import Any

from heterobandits.experiments import calibration_study
from heterobandits.experiments.claims import JudgedClaim
from heterobandits.experiments.tables import PercentCell, PublishedRanking, RegretCell
from heterobandits.limits import DEFAULT_DELTA
from heterobandits.output.pages import render_template
from heterobandits.output.plots import style_of

MISJUDGEMENT_NAMES = {
    "covid-over": "overestimated",
    "covid-under": "underestimated",
    "covid-mix": "mix",
}


def report_headline(claims: Sequence[JudgedClaim], quick: bool = False) -> str:
    """The verdict in a sentence; of a quick run there is none."""
    count = {
        verdict: sum(c.verdict == verdict for c in claims)
        for verdict in ("pass", "unclear", "fail")
    }
    if not claims:
        return "No claim of the text is about these experiments alone."
    if quick:
        return f"A quick run judges none of {len(claims)} claims: it has too few trials."
    return (
        f"{count['pass']} of {len(claims)} claims hold, {count['unclear']} "
        f"{'is' if count['unclear'] == 1 else 'are'} unclear, {count['fail']} "
        f"{'is' if count['fail'] == 1 else 'are'} contradicted."
    )


def render_report(
    claims: Sequence[JudgedClaim],
    regrets: Sequence[RegretCell],
    percent: Sequence[PercentCell],
    rankings: Sequence[PublishedRanking],
    figures: Sequence[tuple[str, str, str]],
    provenance: str,
    quick: bool,
    calibrated: Sequence[calibration_study.StudyRow] = (),
) -> str:
    """The whole page. `figures` are (title, caption, SVG text)."""
    return render_template(
        "report.html",
        quick=quick,
        headline=report_headline(claims, quick),
        numbers=[] if quick else report_numbers(claims, regrets, percent, rankings),
        claims=claims,
        regrets=[cell_texts(c, digits=2) for c in regrets],
        percent=[{**cell_texts(c, digits=1), "ratio": percent_change_text(c)} for c in percent],
        calibrated=calibration_table(calibrated) if calibrated else None,
        rankings=[ranking_texts(row) for row in rankings],
        figures=figures,
        provenance=provenance,
    )


def report_numbers(
    claims: Sequence[JudgedClaim],
    regrets: Sequence[RegretCell],
    percent: Sequence[PercentCell],
    rankings: Sequence[PublishedRanking],
) -> list[tuple[str, str]]:
    """The numbers that fit on one screen, each with a few words."""
    counts = (
        ([c.verdict == "pass" for c in claims], "claims hold"),
        ([r.verdict != "mismatch" for r in rankings], "rankings match or tie"),
        ([c.agrees for c in regrets], "regrets within their errors"),
        ([c.agrees for c in percent], "percent changes within their errors"),
    )
    return [(f"{sum(good)} / {len(good)}", words) for good, words in counts if good]


def cell_texts(cell: RegretCell, digits: int) -> dict[str, Any]:
    """A published figure and ours, as texts."""
    return {
        "policy": style_of(cell.policy).title,
        "case": MISJUDGEMENT_NAMES[cell.case],
        "published": f"{cell.published:.1f} ± {cell.published_se:.1f}",
        "ours": f"{cell.ours:.{digits}f} ± {cell.ours_se:.{digits}f}",
        "agrees": cell.agrees,
    }


def percent_change_text(cell: PercentCell) -> str:
    """The percent change of the mean regret."""
    if cell.ratio_se == 0:
        return f"{cell.ratio:.0f} exactly"
    return f"{cell.ratio:+.1f} ± {cell.ratio_se:.1f}"


def regret_text(value: float) -> str:
    """A regret with as many digits as tell neighbours apart."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def ranking_texts(row: PublishedRanking) -> dict[str, str]:
    """The published order beside ours with the regrets behind it, as texts."""
    problem = row.experiment.problem
    regrets = zip(row.ours, row.means, strict=True)
    return {
        "means": ", ".join(f"{m:g}" for m in problem.means),
        "sensitivities": ", ".join(f"{s:g}" for s in problem.sensitivities),
        "published": ", ".join(style_of(p).title for p in row.experiment.ranking),
        "ours": ", ".join(
            f"{style_of(p).title}\N{NO-BREAK SPACE}{regret_text(m)}" for p, m in regrets
        ),
        "verdict": row.verdict,
    }


def calibration_table(rows: Sequence[calibration_study.StudyRow]) -> dict[str, Any]:
    """Our own table, as texts: one line per planner, with a single wide cell if it knows no calibration."""
    cells: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        cells.setdefault(row.planner, []).append(
            {
                "regret": f"{row.regret:.1f} ± {2 * row.regret_se:.1f}",
                "failed": f"{100 * row.failed:.1f} %",
                "width": f"{row.width:.2f}",
            }
        )
    sizes = [tests for tests in dict.fromkeys(row.tests for row in rows) if tests]
    return {
        "sizes": sizes,
        "lines": [
            {"planner": planner, "cells": line, "span": len(sizes) // len(line)}
            for planner, line in cells.items()
        ],
        "horizon": calibration_study.COVID.horizon,
        "every": calibration_study.INTERVAL_LOOK_ROUNDS,
        "allowed": f"{100 * DEFAULT_DELTA:g} %",
        "draws": rows[0].draws,
        "trials": rows[0].trials,
    }


def calibration_line(rows: Sequence[calibration_study.StudyRow]) -> str:
    """The same in a sentence: who plugs in what few and many tests say, beside who allows for what they do not."""
    regrets = {(row.planner, row.tests): row.regret for row in rows}
    few, many = min(calibration_study.STUDY_TESTS), max(calibration_study.STUDY_TESTS)
    parts = [
        f"{words}: {regrets['plugged in', tests]:.1f} plugged in, {regrets['calibrated', tests]:.1f} calibrated"
        for tests, words in ((few, f"with {few} tests of each agent"), (many, f"with {many}"))
    ]
    return f"beyond the paper, regret {'; '.join(parts)}"


def claims_rows(claims: Sequence[JudgedClaim]) -> list[dict[str, Any]]:
    """The claims as they stand in JSON and CSV."""
    return [
        {"id": c.claim.id, "text": c.claim.text, "verdict": c.verdict, "evidence": c.evidence}
        for c in claims
    ]
