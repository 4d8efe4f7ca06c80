"""Checksums of what a change of shape must not change: `python benchmarks/checksums.py > before`, then again, then `diff`.

Each line is a name and the SHA-256 of what came out: simulations of every policy, plans and what a planner knows, a sweep's
tables, the events and the audit of half a season. Stamps of versions and sources are taken out first. It takes two
minutes, most of them for compiling.
"""

import contextlib
import hashlib
import io
import json
import re
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

import heterobandits
from heterobandits import CATALOGUE, Changes, Planner, Problem, Walk, Wave, policy, simulate
from heterobandits.campaigns.audit.report import render_audit
from heterobandits.campaigns.events import render_event_line
from heterobandits.campaigns.files.demo import demo_events
from heterobandits.cli import main

END = datetime(2026, 3, 1, 12, tzinfo=UTC)
ARMS = ["north", "east", "south", "west"]
STAMPS = ("made_with", "digest")
SWEEP = """
title = "Small"
seed = 3
horizon = 200
checkpoints = 3
policies = ["min-width", "cucb", "posterior-sorted"]
reference = "min-width"
trials = 32
most_trials = 128
separate = 0.9
draws = 2
[problem]
agents = 3
arms = 6
sensitivities = {low = 0.4, high = 0.9}
means = {low = 0.1, high = 0.9, drawn = true}
[grid]
arms = [4, 6]
"""


def say(name, *parts):
    """A line for these texts, bytes, arrays and numbers."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(repr((part.dtype.str, part.shape)).encode() + part.tobytes())
        elif isinstance(part, bytes):
            digest.update(part)
        else:
            digest.update(repr(part).encode())
    print(f"{name}  {digest.hexdigest()}", flush=True)


def problems():
    """Problems with everything that one can have."""
    means, sensitivities = [0.05, 0.1, 0.12, 0.15, 0.25, 0.3], [0.8, 0.8, 0.8, 0.95, 0.95]
    few = {"means": [0.2, 0.5, 0.45, 0.05], "sensitivities": [0.9, 0.6]}
    return {
        "covid": Problem(means=means, sensitivities=sensitivities),
        "misjudged": Problem(**few, believed=[0.7, 0.8]),
        "false alarms": Problem(**few, false_positive_rates=[0.05, 0.1]),
        "several tests": Problem(**few, tests=[3, 1]),
        "calibrated": Problem(**few, calibration=[(45, 50), None]),
        "a change": Problem(**few, drift=Changes([(100, [0.9, 0.5, 0.45, 0.05])])),
        "a walk": Problem(**few, drift=Walk(0.01, 1)),
        "a wave": Problem(**few, drift=Wave(0.1, 60)),
    }


def simulations():
    """Every policy on every problem that it takes."""
    for title, problem in problems().items():
        for name in CATALOGUE:
            for seed in (0, 7):
                try:
                    found = simulate(
                        problem, [name], horizon=150, trials=24, seed=seed, keep="final"
                    )
                except heterobandits.InvalidInput as error:
                    print(f"simulate {title} {name}  refused: {error}")
                    break
                say(
                    f"simulate {title} {name} {seed}",
                    found.mean(name), found.se(name), found.regrets(name),
                )  # fmt: skip


def plans():
    """A season of a planner for every policy: plans, explanations, and all that is known in the end."""
    for name in CATALOGUE:
        try:
            planner = Planner([0.95, 0.8, 0.6], arms=ARMS, seed=5, policy=policy(name))
        except heterobandits.InvalidInput as error:
            print(f"planner {name}  refused: {error}")
            continue
        with contextlib.suppress(heterobandits.InvalidInput):
            planner.lasts(12)
        said = []
        for turn in range(1, 11):
            how = {"absent": ["agent 2"]} if turn == 4 else {}
            how |= {"closed": ["west"], "forbidden": [("agent 1", "north")]} if turn == 6 else {}
            plan = planner.ask(**how)
            said += [plan.assignment, plan.index, str(plan), *map(str, planner.explain(plan))]
            planner.accept(plan)
            found = {f"agent {a + 1}": (turn + a) % 3 == 0 for a in range(3)}
            planner.tell(
                turn,
                {
                    who: int(is_so)
                    for who, is_so in found.items()
                    if who not in how.get("absent", ())
                },
            )
        said += [
            str(planner),
            str(planner.intervals()),
            str(planner.ranking()),
            str(planner.changes()),
        ]
        saved = without_stamps(json.loads(planner.to_json()))
        say(f"planner {name}", *said, json.dumps(saved, sort_keys=True))


def sweep(folder):
    """The tables of a sweep."""
    spec = Path(folder, "small.toml")
    spec.write_text(SWEEP, encoding="utf-8")
    out = Path(folder, "sweep")
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["sweep", str(spec), "--output", str(out), "--quiet"])
    for path in sorted(out.glob("*.parquet")):
        frame = pd.read_parquet(path)
        frame = frame.drop(columns=[c for c in frame if "digest" in c])
        columns = [(name, frame[name].tolist()) for name in frame]
        say(f"sweep {path.name}", *columns)


def campaign():
    """The events of half a season, and its audit."""
    events = demo_events("d3e05ea50000", END)
    say(
        "events, hashes and stamps of core/ as well",
        *(render_event_line(event) for event in events),
    )
    say("events", *(json.dumps(without_stamps(event.body), sort_keys=True) for event in events))
    page = render_audit(events)
    page = re.sub(r"sources [0-9a-f]{16}", "", page)
    say("audit, with stamps of core/ in its events", page)
    say("audit", re.sub(r'[0-9a-f]{64}|"made_with":\{[^}]*\}|[0-9a-f]{8,16}\u2026?', "", page))


def without_stamps(value):
    """The same JSON without what made it."""
    match value:
        case dict():
            return {k: without_stamps(v) for k, v in value.items() if k not in STAMPS}
        case list():
            return [without_stamps(part) for part in value]
    return value


if __name__ == "__main__":
    print(f"heterobandits in {Path(heterobandits.__file__).parent}", file=sys.stderr)
    simulations()
    plans()
    with tempfile.TemporaryDirectory() as folder:
        sweep(folder)
    campaign()
