"""The page of a comparison: who is ahead of the paper's five, by how much, and where each policy loses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heterobandits.experiments.tiny_worlds import OptimumDistance, by_policy
from heterobandits.output.pages import render_template
from heterobandits.output.plots import style_of
from heterobandits.policies.catalogue import PAPER, RECOMMENDED, RECOMMENDED_FOR_HORIZON
from heterobandits.simulation.results import geometric_mean

if TYPE_CHECKING:
    from heterobandits.experiments.comparison import ComparedPolicy, Comparison

GROUP_TITLES = {
    "settings": "the paper's 36 settings",
    "domains": "its five domains",
    "random": "random problems",
}
GROUP_NOUNS = {
    "settings": "settings of the paper",
    "domains": "domains",
    "random": "random problems",
}
GUARANTEE_TEXTS = {"nothing": "nothing", "intervals": "intervals", "regret": "intervals and regret"}
VERDICT_TEXTS = {"ahead": "yes", "unclear": "unclear", "behind": "no"}
LEADERBOARD_MAX_LOSSES = 8


def render_leaderboard(
    made: "Comparison", figures: Sequence[tuple[str, str, str]], provenance: str
) -> str:
    """The whole page. `figures` are (title, caption, SVG text)."""
    standings = made.standings()
    groups = [
        group for group in GROUP_TITLES if any(group in entry["groups"] for entry in standings)
    ]
    beyond = [row for row in made.rows if row.policy not in PAPER]
    return render_template(
        "leaderboard.html",
        quick=made.quick,
        headline=leaderboard_headline(made),
        numbers=leaderboard_numbers(made),
        groups=[GROUP_TITLES[group] for group in groups],
        leaders=[
            leaderboard_line(entry, made.policy_of(entry["policy"]).proven, groups)
            for entry in standings
        ],
        losses=losses_texts(made),
        advice=advice_texts(made),
        tiny=tiny_worlds_table(made.distances),
        problems=[
            {
                "title": GROUP_TITLES[group][0].upper() + GROUP_TITLES[group][1:],
                **problems_table(rows),
            }
            for group in ("settings", "domains")  # the random problems are too many to list
            if (rows := [row for row in beyond if row.group == group])
        ],
        figures=figures,
        provenance=provenance,
    )


def winner_of(made: "Comparison") -> str:
    """The policy with the lowest regret overall among those with a regret guarantee."""
    proven = [name for name in made.policies if made.policy_of(name).proven == "regret"]
    return (proven or made.policies)[0]


def leaderboard_headline(made: "Comparison") -> str:
    """The answer in a sentence."""
    name = winner_of(made)
    said = []
    for group, noun in GROUP_NOUNS.items():
        rows = [row for row in made.of(name) if row.group == group]
        if rows:
            said.append(f"{sum(row.verdict == 'ahead' for row in rows)} of {len(rows)} {noun}")
    where = " and ".join((", ".join(said[:-1]), said[-1]) if len(said) > 1 else said)
    answer = f"{style_of(name).title} is ahead of the best of the paper's five on {where}."
    first = made.policies[0]
    if first != name:
        least = style_of(first).title
        answer += f" {least} has less regret on the whole, but no bound on it is proven that holds for every problem."
    return answer


def advice_texts(made: "Comparison") -> list[tuple[str, str]]:
    """What to take if the number of rounds is known and if it is not, of those compared: the case, and what there is to gain."""
    cases = {
        "If you know how many rounds there will be": RECOMMENDED_FOR_HORIZON,
        "If you do not": RECOMMENDED,
    }
    found = {case: name for case, name in cases.items() if made.of(name)}
    return [
        (f"{case}: {style_of(name).title}", gains_text(made, name, set(found.values()) - {name}))
        for case, name in found.items()
    ]


def gains_text(made: "Comparison", name: str, others: set[str]) -> str:
    """A policy's regret relative to the best of the five, to others, and to the least possible."""
    rows = made.of(name)
    said = [f"{geometric_mean(row.ratio for row in rows):.2f} of the best of the paper's five"]
    for other in others:
        theirs = {row.problem: row.regret for row in made.of(other)}
        ratios = [row.regret / regret for row in rows if (regret := theirs[row.problem]) > 0]
        said.append(f"{geometric_mean(ratios):.2f} of {style_of(other).title}'s")
    exact = [one.ratio for one in made.distances if one.policy == name]
    if exact:
        said.append(
            f"{min(exact):.3f} to {max(exact):.3f} of the least possible in {len(exact)} tiny worlds"
        )
    return f"regret is {', '.join(said)}"


def leaderboard_numbers(made: "Comparison") -> list[tuple[str, str]]:
    """The winner's figures that fit on one screen."""
    name = winner_of(made)
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


def leaderboard_line(entry: dict[str, Any], proven: str, groups: Sequence[str]) -> dict[str, Any]:
    """A policy's line on the leaderboard, as texts; None for groups it was not run on."""
    whole = entry["all"]
    parts = [entry["groups"].get(group) for group in groups]
    return {
        "policy": style_of(entry["policy"]).title,
        "proven": GUARANTEE_TEXTS[proven],
        "groups": [part and {**part, "ratio": f"{part['ratio']:.2f}"} for part in parts],
        "sure": f"{whole['sure']} of {whole['ahead'] + whole['behind']}",
        "failed": f"{whole['failed']:,}",
        "played": f"{whole['played']:,}",
        "to_min_width": f"{whole['to_min_width']:.2f}",
        "to_limit": "" if whole["to_limit"] is None else f"{whole['to_limit']:.2f}",
        "worst_ratio": f"{whole['worst_ratio']:.2f}",
        "worst_problem": whole["worst_problem"],
        "speed": f"{entry['million_rounds_per_second']:.1f}",
    }


def losses_texts(made: "Comparison") -> list[tuple[str, str]]:
    """For each policy beyond the paper's five, the problems where it is behind the best of them."""
    found = []
    for name in made.policies:
        if name in PAPER:
            continue
        behind = sorted(
            (row for row in made.of(name) if row.verdict == "behind"), key=lambda row: -row.ratio
        )
        said = [
            f"{row.title}: {row.ratio:.2f} [{row.lower:.2f}, {row.upper:.2f}] times "
            f"{style_of(row.best).title}'s{', for sure' * row.sure}"
            for row in behind[:LEADERBOARD_MAX_LOSSES]
        ]
        if len(behind) > LEADERBOARD_MAX_LOSSES:
            said.append(f"and {len(behind) - LEADERBOARD_MAX_LOSSES} more")
        found.append((style_of(name).title, "; ".join(said) or "nowhere"))
    return found


def tiny_worlds_table(distances: Sequence[OptimumDistance]) -> dict[str, Any]:
    """The tiny worlds as a table of texts: one line per policy, best first, and one cell per world."""
    return {
        "worlds": list(dict.fromkeys(one.world for one in distances)),
        "rows": [
            {
                "policy": style_of(name).title,
                "ratios": [f"{ratio:.3f}" for ratio in ratios.values()],
            }
            for name, ratios in by_policy(distances).items()
        ],
    }


def problems_table(rows: "Sequence[ComparedPolicy]") -> dict[str, Any]:
    """A line for each problem, a cell for each policy, as texts."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    found = {(row.problem, row.policy): row for row in rows}
    lines = []
    for problem in dict.fromkeys(row.problem for row in rows):
        line = [found[problem, name] for name in policies]
        cells = [
            {
                "mark": VERDICT_TEXTS[row.verdict],
                "ratio": f"{row.ratio:.2f}",
                "interval": f"{row.lower:.2f} – {row.upper:.2f}",
                "failures": f"{row.largest:,.0f}; {row.failed:,} of {row.played:,}",
                "sure": row.sure,
            }
            for row in line
        ]
        lines.append({"title": line[0].title, "best": style_of(line[0].best).title, "cells": cells})
    return {"policies": [style_of(name).title for name in policies], "rows": lines}
