"""The page of a comparison: who is ahead of the paper's five, by how much, and where each policy loses."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from heterobandits.experiments.page import boxes, figure, page, table
from heterobandits.plots import style_of
from heterobandits.policies import CATALOGUE, PAPER

if TYPE_CHECKING:
    from heterobandits.experiments.comparison import Comparison, Row

GROUPS = {
    "settings": "the paper's 36 settings",
    "domains": "its five domains",
    "random": "random problems",
}
NOUNS = {"settings": "settings of the paper", "domains": "domains", "random": "random problems"}
PROVEN = {"nothing": "nothing", "intervals": "intervals", "regret": "intervals and regret"}
MARKS = {"ahead": "yes", "unclear": "unclear", "behind": "no"}
MOST_LOSSES = 8


def render(made: "Comparison", figures: Sequence[tuple[str, str, str]], provenance: str) -> str:
    """The whole page. `figures` are (title, caption, SVG text)."""
    standings = made.standings()
    rows = [row for row in made.rows if row.policy not in PAPER]
    parts = ["<h1>Which policy should I use?</h1>"]
    if made.quick:
        parts.append("<p class='quick'><b>Quick run:</b> few trials; take no verdict from it.</p>")
    parts += [
        f"<p><b>{escape(headline(made))}</b></p>",
        boxes(numbers(made)),
        "<p class='soft'>All ratios are of mean regrets at the horizon, on the same luck, to the best of the paper's "
        "five (Min-Width, Min-UCB, No-Sharing, CUCB, UCB) on the same problem; below 1 is better. Ahead and behind: the "
        "99 % interval of the paired difference excludes zero. Means of ratios are geometric; under each stands on how "
        "many problems the policy is <span class='yes'>ahead</span> · unclear · <span class='no'>behind</span>. C ln T is "
        "the least regret possible in the long run; the last ratios are medians over all problems.</p>",
        "<h2>Leaderboard</h2>",
        leaders_table(standings),
        "<h2>Where each policy loses</h2>",
        losses(made),
    ]
    if figures:
        parts += [
            "<h2>How far from the best possible</h2>",
            "<p class='soft'>The limit is a law for the long run: in the first rounds a policy may be below it.</p>",
            "<div class='figures'>",
            *(figure(*shown) for shown in figures),
            "</div>",
        ]
    for group, title in GROUPS.items():
        mine = [row for row in rows if row.group == group]
        if mine and group != "random":
            parts += [f"<h2>{escape(title[0].upper() + title[1:])}</h2>", problems_table(mine)]
    parts += ["<h2>How it was made</h2>", f"<pre>{escape(provenance)}</pre>"]
    return page("heterobandits: which policy should I use?", parts)


def winner(made: "Comparison") -> str:
    """The policy with the least regret on the whole among those with a guarantee for it."""
    proven = [name for name in made.policies if CATALOGUE[name].proven == "regret"]
    return (proven or made.policies)[0]


def headline(made: "Comparison") -> str:
    """The answer in a sentence."""
    name = winner(made)
    said = []
    for group, noun in NOUNS.items():
        rows = [row for row in made.of(name) if row.group == group]
        if rows:
            said.append(f"{sum(row.verdict == 'ahead' for row in rows)} of {len(rows)} {noun}")
    where = " and ".join((", ".join(said[:-1]), said[-1]) if len(said) > 1 else said)
    answer = f"{style_of(name).title} is ahead of the best of the paper's five on {where}."
    first = made.policies[0]
    if first != name:
        least = style_of(first).title
        answer += f" {least} has less regret on the whole, but no bound on it is proven."
    return answer


def numbers(made: "Comparison") -> list[tuple[str, str]]:
    """The winner's figures that fit on one screen."""
    name = winner(made)
    title = style_of(name).title
    whole = made.standings()[made.policies.index(name)]["all"]
    found = [
        (f"{whole['ratio']:.2f}", f"{title}'s regret over that of the best of the five"),
        (f"{whole['to_min_width']:.2f}", "over Min-Width's, in the median"),
        (f"{whole['behind']} / {whole['problems']}", "problems where it is behind"),
    ]
    if whole["to_limit"] is not None:
        found.append((f"{whole['to_limit']:.2f}", "over C ln T, the limit, in the median"))
    return found


def leaders_table(standings: Sequence[dict[str, Any]]) -> str:
    """One line for each policy, best first."""
    groups = [group for group in GROUPS if any(group in entry["groups"] for entry in standings)]
    head = ["policy", "proven", *(GROUPS[group] for group in groups)]
    head += ["over Min-Width's", "over C ln T", "worst case", "M rounds/s"]
    rows = []
    for entry in standings:
        whole = entry["all"]
        name = entry["policy"]
        row = [f"<b>{style_of(name).title}</b>", PROVEN[CATALOGUE[name].proven]]
        for group in groups:
            part = entry["groups"].get(group)
            row.append("" if part is None else f"{part['ratio']:.2f}<br>{score(part)}")
        limit = whole["to_limit"]
        row += [
            f"{whole['to_min_width']:.2f}",
            "" if limit is None else f"{limit:.2f}",
            f"{whole['worst_ratio']:.2f}<br><small>{escape(whole['worst_problem'])}</small>",
            f"{entry['million_rounds_per_second']:.1f}",
        ]
        rows.append(row)
    return table(head, rows, (*range(2, len(groups) + 4), len(head) - 1))


def score(part: dict[str, Any]) -> str:
    """How often ahead, unclear and behind."""
    return (
        f"<small><span class='yes'>{part['ahead']}</span> · {part['unclear']} · "
        f"<span class='no'>{part['behind']}</span></small>"
    )


def losses(made: "Comparison") -> str:
    """For each policy beyond the paper's five, the problems where it is behind the best of them."""
    items = []
    for name in made.policies:
        if name in PAPER:
            continue
        behind = sorted(
            (row for row in made.of(name) if row.verdict == "behind"), key=lambda row: -row.ratio
        )
        said = "; ".join(
            f"{escape(row.title)}: {row.ratio:.2f} [{row.lower:.2f}, {row.upper:.2f}] times "
            f"{style_of(row.best).title}'s"
            for row in behind[:MOST_LOSSES]
        )
        more = f"; and {len(behind) - MOST_LOSSES} more" if len(behind) > MOST_LOSSES else ""
        items.append(f"<li><b>{style_of(name).title}</b>: {said + more or 'nowhere'}.</li>")
    return f"<ul>{''.join(items)}</ul>"


def problems_table(rows: "Sequence[Row]") -> str:
    """A line for each problem, a column for each policy."""
    problems = dict.fromkeys(row.problem for row in rows)
    policies = list(dict.fromkeys(row.policy for row in rows))
    found = {(row.problem, row.policy): row for row in rows}
    lines = []
    for problem in problems:
        first = found[problem, policies[0]]
        line = [escape(first.title), f"{style_of(first.best).title}"]
        for name in policies:
            row = found[problem, name]
            line.append(
                f"<span class='{MARKS[row.verdict]}'>{row.ratio:.2f}</span>"
                f"<br><small>{row.lower:.2f} – {row.upper:.2f}</small>"
            )
        lines.append(line)
    head = ["problem", "best of the five", *(style_of(name).title for name in policies)]
    return table(head, lines, range(2, len(head)))
