"""The report: one HTML file that opens offline, prints, and reads on a phone.

It starts with the verdict, then shows every claim, table and figure, the published number beside
ours, and ends with what made it.
"""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from heterobandits.experiments.claims import Judged
from heterobandits.experiments.tables import Cell, Percent, Ranking
from heterobandits.results import style_of

STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --pass: #14713d; --fail: #b3261e; --unclear: #8a5a00; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink); background: #fff;
  margin: 0 auto; max-width: 72rem; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
p { max-width: 46rem; }
.soft, figcaption, td small { color: var(--soft); }
.quick { background: #fff4d6; border: 1px solid #e7c35a; padding: .5rem .75rem; border-radius: .4rem; }
.verdict { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.verdict li { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 9rem; flex: 1; }
.verdict b { display: block; font-size: 1.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.mark { font-weight: 600; white-space: nowrap; }
.pass, .match, .yes { color: var(--pass); } .fail, .mismatch, .no { color: var(--fail); } .unclear, .tied { color: var(--unclear); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figure img { width: 100%; height: auto; }
figcaption { font-size: .85rem; }
pre { overflow-x: auto; background: #f5f7f9; padding: .75rem; border-radius: .4rem; font-size: .8rem; }
@media (max-width: 40rem) {
  body { padding: .75rem; }
  table.claims thead { display: none; }
  table.claims tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  table.claims td { display: block; border: 0; padding: .1rem 0; }
}
@media print { body { max-width: none; font-size: 10pt; } .scroll { overflow: visible; } tr { break-inside: avoid; } }
"""

MARKS = {"pass": "✓ pass", "fail": "✗ fail", "unclear": "? unclear", "match": "✓ match", "tied": "≈ tied", "mismatch": "✗ mismatch"}  # fmt: skip


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
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Reproduction: Combining Diverse Information</title><style>{STYLE}</style>",
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
            *(_figure(*figure) for figure in figures),
            "</div>",
        ]
    parts += ["<h2>How it was made</h2>", f"<pre>{escape(provenance)}</pre>", "</html>"]
    return "\n".join(parts)


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
    boxes = []
    if claims:
        boxes.append((f"{sum(c.verdict == 'pass' for c in claims)} / {len(claims)}", "claims hold"))
    if rankings:
        boxes.append(
            (
                f"{sum(r.verdict != 'mismatch' for r in rankings)} / {len(rankings)}",
                "rankings match or tie",
            )
        )
    if regrets:
        boxes.append(
            (f"{sum(c.agrees for c in regrets)} / {len(regrets)}", "regrets within their errors")
        )
    if percent:
        boxes.append(
            (
                f"{sum(c.agrees for c in percent)} / {len(percent)}",
                "percent changes within their errors",
            )
        )
    items = "".join(f"<li><b>{number}</b>{escape(text)}</li>" for number, text in boxes)
    return f"<ul class='verdict'>{items}</ul>"


def mark(verdict: str) -> str:
    """A verdict in its colour."""
    return f"<span class='mark {verdict}'>{MARKS[verdict]}</span>"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = (), kind: str = ""
) -> str:
    """An HTML table; the columns in `numeric` are set to the right."""
    right = set(numeric)

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if i in right else ''}>{text}</{tag}>" for i, text in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f"<div class='scroll'><table class='{kind}'><thead><tr>{cells('th', head)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


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


def _figure(title: str, caption: str, svg: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return (
        f"<figure><img alt='{escape(title, quote=True)}' src='data:image/svg+xml;base64,{data}'>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def claims_rows(claims: Sequence[Judged]) -> list[dict[str, Any]]:
    """The claims as they stand in JSON and CSV."""
    return [
        {"id": c.claim.id, "text": c.claim.text, "verdict": c.verdict, "evidence": c.evidence}
        for c in claims
    ]
