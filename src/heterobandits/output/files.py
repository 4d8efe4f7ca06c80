"""Results as files: JSON without loss, CSV and Parquet with their provenance, and the folder of a run."""

import json
import math
import secrets
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from heterobandits.errors import (
    InvalidInput,
    UnsupportedVersion,
    parse_integer,
    parse_json,
    parse_path,
    repr_of,
)
from heterobandits.limits import COUNT_MAX
from heterobandits.model.problem import Problem
from heterobandits.output.plots import draw_regret, move_legend_beside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from heterobandits.arrays import BigIntegers, Floats
    from heterobandits.simulation.results import Results

RESULTS_FORMAT = 1
FIGURE_FORMATS: dict[str, dict[str, None]] = {  # and what is not to be noted in them
    "svg": {"Date": None},
    "png": {},
    "pdf": {"CreationDate": None},
}
PRINT_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "heterobandits",  # the same figure gives the same bytes
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}

Restored = TypeVar("Restored")


def render_results(results: "Results") -> str:
    """The results without loss. Large sums are written as text."""
    payload = {
        "heterobandits_results": RESULTS_FORMAT,
        **results.provenance(),
        "labels": list(results.policies),
        "rounds": list(results.rounds),
        "mean": {label: results.mean(label).tolist() for label in results.policies},
        "se": {label: replace_nan(results.se(label)) for label in results.policies},
        "seconds": list(results.seconds),
        "sums": [[str(value) for value in row] for row in results.sums],
        "products": [[[str(v) for v in row] for row in block] for block in results.products],
        "kept_rounds": list(results.kept_rounds),
        "kept": None if results.kept is None else results.kept.tolist(),
    }
    return json.dumps(payload, indent=1, ensure_ascii=False)


def parse_results(text: str, make: Callable[..., Restored]) -> Restored:
    """What `make` builds from the fields that `render_results` wrote; anything it refuses counts as damage to the text."""
    try:
        payload = parse_json(text)
        format_ = payload["heterobandits_results"]
    except InvalidInput as error:
        raise InvalidInput(f"results that are damaged: {error}") from None
    except (AttributeError, ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput(f"not the results of heterobandits: {repr_of(text)}") from None
    if type(format_) is not int or not 1 <= format_ <= RESULTS_FORMAT:
        raise UnsupportedVersion(
            f"results of format {repr_of(format_)}: this version reads up to {RESULTS_FORMAT}"
        )
    try:
        return make(
            problem=Problem.from_dict(payload["problem"]),
            policies=tuple(payload["labels"]),
            parameters=tuple(payload["policies"]),
            horizon=parse_integer(payload["horizon"], "horizon", 1, COUNT_MAX),
            seed=parse_integer(payload["seed"], "seed", 0),
            rounds=tuple(payload["rounds"]),
            spans=tuple((start, stop) for start, stop in payload["trial_spans"]),
            sums=_parse_integers(payload["sums"]),
            products=_parse_integers(payload["products"]),
            seconds=tuple(payload["seconds"]),
            partial=payload["partial"],
            versions=dict(payload["versions"]),
            kept_rounds=tuple(payload["kept_rounds"]),
            kept=None if payload["kept"] is None else np.array(payload["kept"], np.float64),
            delay=payload.get("delay", 0),
            under_way=payload.get("under_way", "counted"),
        )
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise InvalidInput(f"results that are damaged: {error}") from None


def write_csv(results: "Results", path: str | Path) -> None:
    """The table as CSV, with the provenance in a first line that starts with '#'."""
    text = "# " + json.dumps(results.provenance()) + "\n" + results.to_frame().to_csv(index=False)
    write_atomic(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def write_parquet(results: "Results", path: str | Path) -> None:
    """The table as Parquet, with the provenance in the file's metadata under 'heterobandits'."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(results.to_frame(), preserve_index=False)
    note = {b"heterobandits": json.dumps(results.provenance()).encode()}
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **note})

    def write(aside: Path) -> None:
        with aside.open("wb") as file:  # pyarrow takes no path that is not UTF-8
            pq.write_table(table, file)

    write_atomic(path, write)


def save_results(
    results: "Results", folder: str | Path, title: str = "", limit: float | None = None
) -> list[Path]:
    """The paths of results.json, results.csv, results.parquet and regret.png, written into `folder`."""
    from matplotlib.figure import Figure

    folder = parse_path(folder, "folder")
    figure = Figure(figsize=(7, 4), layout="constrained")
    move_legend_beside(draw_regret(results, figure.subplots(), title, limit))
    written = [
        folder / name for name in ("results.json", "results.csv", "results.parquet", "regret.png")
    ]
    text = render_results(results)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(written[0], lambda aside: aside.write_text(text, encoding="utf-8"))
        write_csv(results, written[1])
        write_parquet(results, written[2])
        write_atomic(written[3], lambda aside: figure.savefig(aside, dpi=200, format="png"))
    return written


def save_figure(
    draw: "Callable[[], Figure]", folder: Path, name: str, fonts: dict[Any, Any]
) -> str:
    """Draw a figure with these fonts and write it in all formats; its SVG text is returned for a page."""
    import matplotlib as mpl

    with mpl.rc_context({**PRINT_SETTINGS, **fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name may have any letters
        figure = draw()
        for kind, note in FIGURE_FORMATS.items():

            def write(aside: Path, kind: str = kind, note: dict[str, None] = note) -> None:
                figure.savefig(aside, format=kind, dpi=300, metadata=note)

            write_atomic(folder / f"{name}.{kind}", write)
            figure.set_layout_engine("none")  # it is laid out once, and alike in all formats
    return (folder / f"{name}.svg").read_text(encoding="utf-8")


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Within this context, write errors of the system name the folder."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}") from None


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be created or written to, before any work is done; leaves nothing behind."""
    with explain_write_errors(folder):
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    for place in made:
        with suppress(OSError):  # somebody else uses it already
            place.rmdir()


def write_atomic(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in place: never half a file under that name.

    It may be read by whom the process's umask allows.
    """
    path = parse_path(path)
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    aside.open("xb").close()
    try:
        write(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def replace_nan(values: "Floats") -> list[float | None]:
    """The values as JSON can hold them: None in place of NaN."""
    return [None if math.isnan(value) else float(value) for value in values]


def _parse_integers(nested: Any) -> "BigIntegers":
    return np.asarray(np.vectorize(int, otypes=[object])(np.array(nested, dtype=object)))
