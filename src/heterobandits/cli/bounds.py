"""`heterobandits bounds`: what theory promises for a problem, and whether simulation agrees."""

import json
import math
from typing import Annotated, Any

import typer

from heterobandits.cli.options import (
    BelievedFalsePositivesOption,
    BelievedOption,
    CalibrationOption,
    DeltaOption,
    DriftOption,
    FalsePositiveCalibrationOption,
    FalsePositivesOption,
    HorizonOption,
    MeansOption,
    ProblemOption,
    SeedOption,
    SensitivitiesOption,
    TableOrJson,
    TestsOption,
    problem_of_options,
)
from heterobandits.cli.terminal import print_table
from heterobandits.errors import parse_integer
from heterobandits.limits import DEFAULT_DELTA


def bounds_command(
    problem: ProblemOption = None,
    means: MeansOption = None,
    sensitivities: SensitivitiesOption = None,
    believed: BelievedOption = None,
    false_positives: FalsePositivesOption = None,
    believed_false_positives: BelievedFalsePositivesOption = None,
    tests: TestsOption = None,
    calibration: CalibrationOption = None,
    false_positive_calibration: FalsePositiveCalibrationOption = None,
    drift: DriftOption = None,
    horizon: HorizonOption = None,
    delta: DeltaOption = DEFAULT_DELTA,
    coverage: Annotated[
        int,
        typer.Option(help="Check the promises by this many simulated trials.", metavar="TRIALS"),
    ] = 0,
    seed: SeedOption = 0,
    format: TableOrJson = "table",
) -> None:
    """Print the optimum, the log terms and widths, and the theorem's bound on Min-Width's regret."""
    import numpy as np

    from heterobandits.inference import bounds as theory
    from heterobandits.simulation import coverage as measured

    stated, rounds, title = problem_of_options(
        problem,
        horizon,
        means=means,
        sensitivities=sensitivities,
        believed=believed,
        false_positive_rates=false_positives,
        believed_false_positive_rates=believed_false_positives,
        tests=tests,
        calibration=calibration,
        false_positive_calibration=false_positive_calibration,
        drift=drift,
    )
    coverage = parse_integer(coverage, "--coverage", 0)
    most = rounds * max(stated.tests)  # tests of an arm
    once = np.ones((stated.agents, stated.arms))
    widths = {
        name: theory.widths(name, once, stated.team, rounds, delta)
        for name in theory.POLICIES_WITH_WIDTHS
    }
    bound = theory.regret_bound(stated, rounds, delta)
    found: dict[str, Any] = {
        "problem": stated.to_dict(),
        "horizon": rounds,
        "delta": delta,
        "optimum": list(stated.optimum),
        "expected_reward": stated.expected_reward(stated.optimum),
        "ln_G": theory.ln_G(most, stated.agents),
        "log_terms": {
            name: theory.log_term(name, stated.agents, stated.arms, most, delta)
            for name in theory.POLICIES_WITH_WIDTHS
        },
        "width_after_one_pull_each": {
            "min-width": float(widths["min-width"][0]),
            "min-ucb": float(widths["min-ucb"][0]),
            "no-sharing": widths["no-sharing"][:, 0].tolist(),
        },
        "regret_bound": bound if math.isfinite(bound) else None,
        "lower_bound": theory.lower_bound(stated) if stated.drift is None else None,
    }
    if coverage:
        study = measured.coverage(stated, rounds, coverage, seed, delta=delta)
        found["coverage"] = {**study._asdict(), "regret_bound": found["regret_bound"]}
    if format == "json":
        print(json.dumps(found))
        return
    print_bounds(found, title)


def print_bounds(found: dict[str, Any], title: str) -> None:
    """Print the bounds for a person: one line per number, with its meaning."""
    from heterobandits.model.problem import Problem
    from heterobandits.policies.policy import ASSUMPTIONS

    stated = Problem.from_dict(found["problem"])
    rows: list[tuple[str, str]] = []
    for agent, arm in zip(stated.agent_names, stated.optimum, strict=True):
        rows.append((f"best place for {agent}", stated.arm_names[arm]))
    rows.append(("expected successes in a best round", f"{found['expected_reward']:.4g}"))
    most = found["horizon"] * max(stated.tests)
    rows.append((f"ln G({most}, {stated.agents})", f"{found['ln_G']:.6g}"))
    for name, term in found["log_terms"].items():
        rows.append((f"log term of {name}", f"{term:.6g}"))
    for name, width in found["width_after_one_pull_each"].items():
        values = width if isinstance(width, list) else [width]
        shown = ", ".join(f"{value:.4g}" for value in values)
        rows.append((f"width of {name}, arm pulled once by all", shown))
    bounded = found["regret_bound"] is not None
    if bounded:
        certainty = f"with probability {1 - found['delta']:g}"
        rows.append((f"min-width's regret is below, {certainty}", f"{found['regret_bound']:,.1f}"))
    if found["lower_bound"] is not None:
        rows.append(("no good policy can stay below, per ln T", f"{found['lower_bound']:.4g}"))
    study = found.get("coverage")
    if isinstance(study, dict):
        count = f"of {study['trials']:,} trials"
        for name, share in study["failed"].items():
            rows.append((f"share {count}: {name} fails", f"{share:.4f}"))
        if bounded:
            over = f"{study['over_regret_bound']:.4f}"
            rows.append((f"share {count}: regret over the bound", over))
        rows.append(("largest regret seen", f"{study['worst_regret']:,.1f}"))
    print_table((title or "problem", "value"), rows)
    note = (
        f"Widths and bounds are those of policies with this horizon set, and hold if {ASSUMPTIONS}."
    )
    if not bounded:
        why = (
            "the means change"
            if "drift" in found["problem"]
            else "the planner does not know the truth about the agents"
        )
        note += f" Here there is no bound on min-width's regret: {why}."
    print(f"\n{note}")
