"""The report of the reproduction, on one page.

It starts with the verdict, then shows every claim, table and figure, the published number beside
ours, and ends with what made it.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from heterobandits.experiments.claims import Judged
from heterobandits.experiments.page import boxes, figure, mark, page, table
from heterobandits.experiments.tables import Cell, Percent, Ranking
from heterobandits.plots import style_of


def headline(claims: Sequence[Judged]) -> str:
    """The verdict in a sentence."""
    count = {
        verdict: sum(c.verdict == verdict for c in claims)
        for verdict in ("pass", "unclear", "fail")
    }
    if not claims:
        return "No claim of the text is about these experiments alone."
    return (
        f"{count['pass']} of {len(claims)} claims hold, {count['unclear']} "
        f"{'is' if count['unclear'] == 1 else 'are'} unclear, {count['fail']} "
        f"{'is' if count['fail'] == 1 else 'are'} contradicted."
    )


def render(
    claims: Sequence[Judged],
    regrets: Sequence[Cell],
    percent: Sequence[Percent],
    rankings: Sequence[Ranking],
    figures: Sequence[tuple[str, str, str]],
    provenance: str,
    quick: bool,
) -> str:
    """The whole page. `figures` are (title, caption, SVG text)."""
    parts = [
        "<h1>Does the paper reproduce?</h1>",
        "<p class='soft'>Gordon, Rolf, Tambe: <em>Combining Diverse Information for Coordinated Action: "
        "Stochastic Bandit Algorithms for Heterogeneous Agents</em>, ECAI 2024; run with heterobandits.</p>",
    ]
    if quick:
        parts.append("<p class='quick'><b>Quick run:</b> few trials; take no verdict from it.</p>")
    parts += [
        f"<p><b>{escape(headline(claims))}</b></p>",
        summary(claims, regrets, percent, rankings),
    ]
    if claims:
        parts += ["<h2>Claims of the text</h2>", claims_table(claims)]
    if regrets:
        parts += ["<h2>Regret with misjudged sensitivities</h2>", regret_table(regrets)]
    if percent:
        parts += ["<h2>Percent change of regret</h2>", percent_table(percent), PERCENT_NOTE]
    if rankings:
        parts += ["<h2>Rankings of the synthetic settings</h2>", rankings_table(rankings)]
    if figures:
        parts += [
            "<h2>Figures</h2><div class='figures'>",
            *(figure(*shown) for shown in figures),
            "</div>",
        ]
    parts += ["<h2>How it was made</h2>", f"<pre>{escape(provenance)}</pre>"]
    return page("Reproduction: Combining Diverse Information", parts)


PERCENT_NOTE = (
    "<p>The paper's statistic is the mean over trials of (estimated − true) / true, with runs paired that share "
    "no luck. It is biased upwards, because the mean of 1/X exceeds 1 over the mean of X: it shows a rise even for "
    "No-Sharing, whose every trial is the same to the bit as long as the order of the agents is kept. The ratio "
    "of the mean regrets, on the same luck, has no such bias.</p>"
)


def summary(
    claims: Sequence[Judged],
    regrets: Sequence[Cell],
    percent: Sequence[Percent],
    rankings: Sequence[Ranking],
) -> str:
    """The numbers that fit on one screen."""
    numbers = []
    if claims:
        numbers.append(
            (f"{sum(c.verdict == 'pass' for c in claims)} / {len(claims)}", "claims hold")
        )
    if rankings:
        numbers.append(
            (
                f"{sum(r.verdict != 'mismatch' for r in rankings)} / {len(rankings)}",
                "rankings match or tie",
            )
        )
    if regrets:
        numbers.append(
            (f"{sum(c.agrees for c in regrets)} / {len(regrets)}", "regrets within their errors")
        )
    if percent:
        numbers.append(
            (
                f"{sum(c.agrees for c in percent)} / {len(percent)}",
                "percent changes within their errors",
            )
        )
    return boxes(numbers)


def claims_table(claims: Sequence[Judged]) -> str:
    """Every claim with its verdict and the numbers behind it."""
    rows = [
        (
            mark(c.verdict),
            f"{escape(c.claim.text)}<br><small>{escape(c.claim.section)} · {escape(c.claim.id)}</small>",
            escape(c.evidence),
        )
        for c in claims
    ]
    return table(("verdict", "claim", "evidence"), rows, kind="claims")


def _case(case: str) -> str:
    return {"covid-over": "overestimated", "covid-under": "underestimated", "covid-mix": "mix"}[
        case
    ]


def _agrees(cell: Cell) -> str:
    return "<span class='mark yes'>✓</span>" if cell.agrees else "<span class='mark no'>✗</span>"


def regret_table(cells: Sequence[Cell]) -> str:
    """Published regret beside ours."""
    rows = [
        (
            style_of(c.policy).title,
            _case(c.case),
            f"{c.published:.1f} ± {c.published_se:.1f}",
            f"{c.ours:.2f} ± {c.ours_se:.2f}",
            _agrees(c),
        )
        for c in cells
    ]
    return table(("policy", "sensitivities", "published", "ours", "agrees"), rows, (2, 3))


def percent_table(cells: Sequence[Percent]) -> str:
    """Published percent change beside the same statistic of ours, and the ratio of means."""
    rows = [
        (
            style_of(c.policy).title,
            _case(c.case),
            f"{c.published:.1f} ± {c.published_se:.1f}",
            f"{c.ours:.1f} ± {c.ours_se:.1f}",
            _agrees(c),
            f"{c.ratio:+.1f} ± {c.ratio_se:.1f}" if c.ratio_se else f"{c.ratio:.0f} exactly",
        )
        for c in cells
    ]
    head = (
        "policy",
        "sensitivities",
        "published, %",
        "the same statistic, %",
        "agrees",
        "ratio of means, %",
    )
    return table(head, rows, (2, 3, 5))


def regret(value: float) -> str:
    """A regret with as many digits as tell neighbours apart."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def rankings_table(rows: Sequence[Ranking]) -> str:
    """Published order beside ours with the regrets behind it."""
    numbers = [
        (
            ", ".join(f"{m:g}" for m in row.experiment.problem.means),
            ", ".join(f"{s:g}" for s in row.experiment.problem.sensitivities),
            ", ".join(style_of(p).title for p in row.experiment.ranking),
            ", ".join(
                f"{style_of(p).title}&nbsp;{regret(m)}"
                for p, m in zip(row.ours, row.means, strict=True)
            ),
            mark(row.verdict),
        )
        for row in rows
    ]
    return table(
        ("means", "sensitivities", "published, best first", "ours, with regret", "verdict"), numbers
    )


def claims_rows(claims: Sequence[Judged]) -> list[dict[str, Any]]:
    """The claims as they stand in JSON and CSV."""
    return [
        {"id": c.claim.id, "text": c.claim.text, "verdict": c.verdict, "evidence": c.evidence}
        for c in claims
    ]
