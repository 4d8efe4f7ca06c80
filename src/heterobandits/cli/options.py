"""Options that several commands share, and how their texts become numbers and problems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from heterobandits.errors import InvalidInput, parse_path, repr_of

if TYPE_CHECKING:
    from heterobandits.model.problem import Problem

ProblemOption = Annotated[
    str | None,
    typer.Option(
        "--problem",
        help="A .json or .toml file, or a domain: of the paper covid, covid-over, covid-under, "
        "covid-mix, hotel, poaching-2, poaching-3, poaching-5; of those who rank slots.",
        metavar="FILE|DOMAIN",
    ),
]
MeansOption = Annotated[
    str | None, typer.Option(help="True means of the arms, such as 0.1,0.5,0.3.", metavar="LIST")
]
SensitivitiesOption = Annotated[
    str | None,
    typer.Option(help="True sensitivities of the agents, such as 0.2,0.9.", metavar="LIST"),
]
BelievedOption = Annotated[
    str | None,
    typer.Option(
        help="What the planner believes them to be; the truth if not given.", metavar="LIST"
    ),
]
FalsePositivesOption = Annotated[
    str | None,
    typer.Option(
        help="How often each agent reports a success where there is nothing, such as 0.05,0.",
        metavar="LIST",
    ),
]
BelievedFalsePositivesOption = Annotated[
    str | None,
    typer.Option(help="What the planner believes of that; the truth if not given.", metavar="LIST"),
]
TestsOption = Annotated[
    str | None,
    typer.Option(help="How many tests each agent makes in a visit, such as 1,12.", metavar="LIST"),
]
CalibrationOption = Annotated[
    str | None,
    typer.Option(
        help="What each agent found of what was planted, such as 17/20,19/20, or - if its sensitivity is "
        "known: what the planner knows of them instead.",
        metavar="LIST",
    ),
]
FalsePositiveCalibrationOption = Annotated[
    str | None,
    typer.Option(help="Its false alarms in empty places, likewise: 0/20,1/20.", metavar="LIST"),
]
DriftOption = Annotated[
    str | None,
    typer.Option(
        help="How the means change: 151=0.5,0.1,0.3;301=0.1,0.1,0.9 (from these rounds on), wave=0.2/100 (amplitude and "
        "period), walk=0.02 or walk=0.02/7 (step and seed), or a .csv file with a row of means for each round.",
        metavar="CHANGES",
    ),
]
PriorOption = Annotated[
    str | None,
    typer.Option(
        help="What the planner believes of the means beforehand: learned, or a and b of a Beta, such as 2,60, which counts like 1 "
        "found in 60 tests.",
        metavar="learned|A,B",
    ),
]
HorizonOption = Annotated[
    int | None,
    typer.Option(help="Rounds in a trial; a domain's own by default.", metavar="ROUNDS"),
]
SeedOption = Annotated[
    int, typer.Option(help="Determines all luck: the same seed gives the same bits.")
]
DeltaOption = Annotated[
    float, typer.Option(help="Probability with which the policies' bounds may fail.")
]
ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads; all cores by default.", metavar="N", show_default=False)
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on from what an earlier run in DIR has finished.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
TableOrJson = Annotated[
    Literal["table", "json"], typer.Option("--format", help="How to print the result.")
]


PROBLEM_OPTIONS = {  # of the fields of a problem
    "means": "--means",
    "sensitivities": "--sensitivities",
    "believed": "--believed",
    "false_positive_rates": "--false-positives",
    "believed_false_positive_rates": "--believed-false-positives",
    "tests": "--tests",
    "calibration": "--calibration",
    "false_positive_calibration": "--false-positive-calibration",
    "drift": "--drift",
    "prior": "--prior",
}


def parse_folder(text: str | Path) -> Path:
    """The folder that an option names; an empty text, as from an unset variable, is none."""
    try:
        return parse_path(text, "the folder")
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from None


def parse_numbers(text: str, option: str, kind: type[float] = float) -> list[float]:
    """A list of numbers separated by commas, whole ones if `kind` is int."""
    values = []
    for item in text.split(","):
        try:
            values.append(kind(item))
        except ValueError:
            what = "whole numbers" if kind is int else "numbers"
            raise InvalidInput(
                f"{option} has {repr_of(item)}: {what} separated by commas"
            ) from None
    return values


def parse_calibration(text: str, option: str) -> list[list[int]]:
    """Calibration results, written as 17/20 with commas; a dash for none."""
    pairs = []
    for item in text.split(","):
        found, _, of = item.strip().partition("/")
        try:
            pairs.append([] if item.strip() == "-" else [int(found), int(of)])
        except ValueError:
            raise InvalidInput(
                f"{option} has {repr_of(item)}: how many of how many, such as 17/20, or -"
            ) from None
    return pairs


def parse_drift_option(text: str) -> dict[str, Any]:
    """What `--drift` gives, as fields of a problem: a drift, or every round's means from a file."""
    if text.lower().endswith(".csv"):
        return {"means": read_rows(text), "drift": None}
    kind, _, rest = text.partition("=")
    drift: dict[str, Any]
    try:
        if kind == "wave":
            amplitude, period = rest.split("/")
            drift = {"amplitude": float(amplitude), "period": float(period)}
        elif kind == "walk":
            step, _, seed = rest.partition("/")
            drift = {"step": float(step), "seed": int(seed or "0")}
        else:
            parts = [part.partition("=") for part in text.split(";")]
            changes = [[int(first), list(map(float, row.split(",")))] for first, _, row in parts]
            drift = {"changes": changes}
    except ValueError:
        raise InvalidInput(
            f"--drift is {repr_of(text)}: such as 151=0.5,0.1,0.3 or wave=0.2/100 or walk=0.02 or means.csv"
        ) from None
    return {"drift": drift}


def read_rows(path: str) -> list[list[float]]:
    """The rows of numbers of a file."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not any(line.strip() for line in lines):
        raise InvalidInput(f"{path} is empty: a row of means for each round")
    return [
        parse_numbers(line, f"line {i + 1} of {path}")
        for i, line in enumerate(lines)
        if line.strip()
    ]


def problem_of_options(
    problem: str | None, horizon: int | None, **lists: str | None
) -> "tuple[Problem, int, str]":
    """The problem, horizon and title that the options give; `lists` are fields of a problem as texts.

    Beside a problem that has a name or a file, they stand in place of what it says.
    """
    from heterobandits.model.domains import domain_of_name
    from heterobandits.model.prior import LEARNED
    from heterobandits.model.problem import Problem

    title = ""
    given: dict[str, Any] = {
        field: parse_calibration(text, PROBLEM_OPTIONS[field])
        if field.endswith("calibration")
        else text
        if text == LEARNED and field == "prior"
        else parse_numbers(text, PROBLEM_OPTIONS[field], int if field == "tests" else float)
        for field, text in lists.items()
        if text is not None and field != "drift"
    }
    drift = lists.get("drift")
    changes = {} if drift is None else parse_drift_option(drift)
    if "means" in given and "means" in changes:
        raise InvalidInput("--drift has the means of every round already: leave --means out")
    if problem is not None:
        if "means" in given or "sensitivities" in given:
            raise InvalidInput(
                "--problem already has means and sensitivities: give one or the other"
            )
        if Path(problem).suffix.lower() in (".json", ".toml"):
            stated = Problem.load(problem)
        else:
            known = domain_of_name(problem)
            stated, title = known.problem, known.title
            horizon = known.horizon if horizon is None else horizon
        changed = given | changes
        stated = Problem.from_dict(stated.to_dict() | changed) if changed else stated
    else:
        given |= changes
        if "means" not in given or "sensitivities" not in given:
            raise InvalidInput("--means and --sensitivities are needed, or --problem")
        stated = Problem.from_dict(given)
    if horizon is None:
        raise InvalidInput("--horizon is needed: the number of rounds")
    return stated, horizon, title
