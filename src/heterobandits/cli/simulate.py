"""`heterobandits simulate`: many trials of chosen policies, and their regret."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
    PriorOption,
    ProblemOption,
    QuietOption,
    SeedOption,
    SensitivitiesOption,
    TestsOption,
    ThreadsOption,
    parse_folder,
    problem_of_options,
)
from heterobandits.cli.terminal import print_numbers
from heterobandits.errors import InvalidInput, repr_of
from heterobandits.limits import DEFAULT_DELTA

if TYPE_CHECKING:
    from heterobandits.simulation.results import Results


def simulate_command(
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
    prior: PriorOption = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy (see `heterobandits policies`), as often as you like; "
            "'all' is the paper's five, and the default.",
            metavar="NAME",
        ),
    ] = None,
    horizon: HorizonOption = None,
    trials: Annotated[int, typer.Option(help="How many trials.")] = 500,
    seed: SeedOption = 0,
    delta: DeltaOption = DEFAULT_DELTA,
    policy_horizon: Annotated[
        str,
        typer.Option(
            help="What stands in the policies' logarithms: 'anytime' for the rounds elapsed, "
            "as in the paper's experiments, or a number of rounds, as in its theory.",
            metavar="anytime|ROUNDS",
        ),
    ] = "anytime",
    memory: Annotated[
        int | None,
        typer.Option(
            help="How many rounds a policy that forgets remembers: its window, or where a round counts for 1/e; 300 by default.",
            metavar="ROUNDS",
            show_default=False,
        ),
    ] = None,
    delay: Annotated[
        int,
        typer.Option(help="By how many rounds outcomes come late.", metavar="ROUNDS"),
    ] = 0,
    under_way: Annotated[
        Literal["counted", "ignored"],
        typer.Option(
            help="What policies make of visits whose outcomes are not known yet: counted as made, with what is expected of them, or ignored."
        ),
    ] = "counted",
    checkpoints: Annotated[
        int, typer.Option(help="At how many evenly spaced rounds to note the regret.")
    ] = 30,
    threads: ThreadsOption = None,
    format: Annotated[
        Literal["table", "json", "csv"], typer.Option(help="How to print the result.")
    ] = "table",
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results.json, results.csv, results.parquet and regret.png.",
            metavar="DIR",
            parser=parse_folder,
        ),
    ] = None,
    quiet: QuietOption = False,
) -> int:
    """Simulate policies on the same luck and print their regret.

    Example: heterobandits simulate --problem covid --policy all --trials 500 --seed 7
    """
    from heterobandits.cli.progress import show_progress
    from heterobandits.inference.bounds import lower_bound
    from heterobandits.output.files import check_writable
    from heterobandits.policies.catalogue import PAPER
    from heterobandits.policies.policy import forgetting_policies
    from heterobandits.policies.policy import policy as catalogued
    from heterobandits.simulation import simulation

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
        prior=prior,
    )
    names = [n for given in policy or ["all"] for n in (PAPER if given == "all" else [given])]
    log_rounds = parse_policy_horizon(policy_horizon)
    entries = [catalogued(name, delta, log_rounds) for name in dict.fromkeys(names)]
    if memory is not None:
        if not any(entry.forgets for entry in entries):
            raise InvalidInput(
                f"--memory is for policies that forget, {', '.join(forgetting_policies())}: choose one of them"
            )
        entries = [catalogued(e, memory=memory) if e.forgets else e for e in entries]
    limit = lower_bound(stated) if stated.drift is None else None
    if output is not None:
        check_writable(output)
    with show_progress("simulating", entries, quiet) as progress:
        results = simulation.simulate(
            stated,
            entries,
            rounds,
            trials,
            seed,
            checkpoints=checkpoints,
            delay=delay,
            under_way=under_way,
            threads=threads,
            progress=progress,
        )
    try:
        written = [] if output is None else results.save(output, title, limit)
    finally:  # what cannot be saved is at least shown
        if format == "json":
            print(json.dumps(json_of_results(results)))
        elif format == "csv":
            print(results.to_frame().to_csv(index=False), end="")
        else:
            print_regrets(results, title)
    for path in written:
        if not quiet:
            print(f"wrote {path}", file=sys.stderr)
    if results.partial:
        print(
            f"heterobandits: {results.trials:,} of {trials:,} trials are complete",
            file=sys.stderr,
        )
    return 130 if results.partial else 0


def parse_policy_horizon(text: str) -> int | Literal["anytime"]:
    """What `--policy-horizon` says."""
    if text == "anytime":
        return "anytime"
    try:
        if not text.isdecimal():
            raise ValueError
        return int(text)
    except ValueError:  # no number, or one of thousands of digits
        raise InvalidInput(
            f"--policy-horizon is {repr_of(text)}: 'anytime' or a number of rounds"
        ) from None


def json_of_results(results: "Results") -> dict[str, object]:
    """What `--format json` prints."""
    from heterobandits.output.files import replace_nan

    return {
        "problem": results.problem.to_dict(),
        "horizon": results.horizon,
        "trials": results.trials,
        "seed": results.seed,
        **({"delay": results.delay, "under_way": results.under_way} if results.delay else {}),
        "partial": results.partial,
        "results": [
            {
                "policy": label,
                "rounds": list(results.rounds),
                "mean": results.mean(label).tolist(),
                "se": replace_nan(results.se(label)),
                "seconds": seconds,
                "rounds_per_second": results.rounds_per_second(label),
            }
            for label, seconds in zip(results.policies, results.seconds, strict=True)
        ],
    }


def print_regrets(results: "Results", title: str) -> None:
    """Regret at the horizon, best first, with the paired difference to the best."""
    ranked = sorted(results.policies, key=lambda label: float(results.mean(label)[-1]))
    one = results.trials == 1  # which says nothing of its error
    rows = []
    for label in ranked:
        pair = results.difference(label, ranked[0])
        within = "" if one else f" [{pair.lower[-1]:.2f}, {pair.upper[-1]:.2f}]"
        more = "" if label == ranked[0] else f"{pair.mean[-1]:.2f}{within}"
        rows.append((
            label,
            f"{results.mean(label)[-1]:.2f}",
            "" if one else f"{results.se(label)[-1]:.2f}",
            more,
            f"{results.rounds_per_second(label) / 1e6:.1f}",
        ))  # fmt: skip
    if title:
        print(title)
    print_numbers(("policy", "regret", "± SE", "more than the best", "M rounds/s"), rows)
    print(
        f"after {results.horizon:,} rounds, 1 trial{results.delay_text}, on the same luck"
        if one
        else f"after {results.horizon:,} rounds, {results.trials:,} trials{results.delay_text}; SE: standard error; "
        "differences by pairs on the same luck, with 95 % intervals"
    )
