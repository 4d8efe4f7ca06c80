"""`heterobandits policies`: the catalogue."""

import json
from typing import Annotated, Literal

import typer

from heterobandits.cli.terminal import new_console

ORIGIN_TITLES = {
    "paper": "the paper's",
    "beyond": "beyond the paper",
    "forgetting": "for places that change",
    "baseline": "a baseline",
}


def policies_command(
    format: Annotated[
        Literal["table", "json", "markdown"],
        typer.Option(help="table for people, json for programs, markdown for documents."),
    ] = "table",
) -> None:
    """List the policies: equation, who picks first, guarantee and cost of a round."""
    from heterobandits.policies.catalogue import PAPER, RECOMMENDED, RECOMMENDED_FOR_HORIZON
    from heterobandits.policies.policy import ASSUMPTIONS, CATALOGUE

    fields = ("summary", "equation", "index_per", "first", "guarantee", "cost", "source")
    if format == "json":
        entries = [
            {
                "name": name,
                "paper": name in PAPER,
                "recommended": name == RECOMMENDED,
                "recommended_for_horizon": name == RECOMMENDED_FOR_HORIZON,
                **{f: getattr(entry, f) for f in fields},
            }
            for name, entry in CATALOGUE.items()
        ]
        print(json.dumps(entries))
        return
    if format == "markdown":
        print("| policy | what it ranks by | what is proven |\n| --- | --- | --- |")
        for name, entry in CATALOGUE.items():
            print(f"| `{name}` | {entry.summary} | {entry.guarantee} |")
        return
    from rich.text import Text

    bold = new_console()
    for name, entry in CATALOGUE.items():
        where = ORIGIN_TITLES[entry.origin]
        where = "recommended" if name == RECOMMENDED else where
        where = "recommended if the end is known" if name == RECOMMENDED_FOR_HORIZON else where
        heading = Text.assemble((name, "bold"), f" ({where}): {entry.summary}")
        bold.print(heading, soft_wrap=True)
        print(f"    index      {entry.equation}")
        print(f"    per        {entry.index_per}; picks first: {entry.first}")
        print(f"    guarantee  {entry.guarantee}")
        print(f"    cost       {entry.cost} per round")
        print(f"    source     {entry.source}\n")
    print(f"Guarantees hold if {ASSUMPTIONS}.\n")
    print(
        "A agents of sensitivity s, N arms, c pulls and y successes of an agent on an arm, "
        "t rounds elapsed,\nδ the probability with which the bounds may fail, "
        "G(t, A) = C(t + A, A) − 1,\n"
        "l the log-likelihood of an arm's mean: l(μ) = Σy·ln μ + Σ (c−y)·ln(1−sμ)."
    )
