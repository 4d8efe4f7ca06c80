"""How long pages take on the server: `python benchmarks/page_speed.py [--agents 20] [--arms 50] [--rounds 200] [--times 5]`.

A season is made up and played, then every page is asked for so many times, each time after something has changed, in this
process and without a network. The last figures stand in docs/web-pages.md.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from heterobandits.campaigns.outcomes import report_outcomes

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "web"))

from heterobandits.campaigns import service
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web.warmup import load_kernels
from serving import OWNER, Visitor, app_on

ME = Author("Vera")
PARTS = (
    "", "?from=51", "/wall", "/plan?absent=agent-1&closed=arm-2", "/plan?why=agent-1", "/report", "/rounds", "/rounds/{last}", "/rounds/{last}?why",
    "/rounds/{middle}?why", "/ahead", "/compare", "/history", "/team", "/team?agents=51&arms=101", "/team?agent=agent-1",
)  # fmt: skip


def season(log, agents, arms, rounds):
    """The id of a campaign in which so many rounds were planned and reported."""
    luck = random.Random(1)
    means = [luck.uniform(0.02, 0.6) for _ in range(arms)]
    team = [
        {"name": f"Ranger {i}", "sensitivity": round(luck.uniform(0.4, 0.9), 2)}
        for i in range(agents)
    ]
    places = [f"area {i}" for i in range(arms)]
    made = service.create(log, ME, name="Big park", agents=team, arms=places, season=rounds + 50)
    campaign = made.state.campaign
    for _ in range(rounds):
        state = service.plan_round(log, campaign, ME).state
        last = state.rounds[-1]
        found = {
            state.agents[a].name: int(luck.random() < means[n] * state.team.sensitivities[a])
            for a, n in last.sent
        }
        report_outcomes(log, campaign, ME, last.number, found)
    return campaign


def main() -> None:
    """Print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("agents", 20), ("arms", 50), ("rounds", 200), ("times", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    load_kernels()
    with tempfile.TemporaryDirectory() as folder:
        app, log = app_on(Path(folder) / "park.db")
        campaign = season(log, given.agents, given.arms, given.rounds)
        names = {"last": given.rounds, "middle": max(1, given.rounds // 2)}
        with Visitor(app, OWNER) as visitor:
            for part in PARTS:
                times = []
                for number in range(given.times):
                    service.add_note(log, campaign, ME, f"{part} {number}")
                    begin = time.perf_counter()
                    answer = visitor.get(f"/campaigns/{campaign}{part.format(**names)}")
                    times.append(1000 * (time.perf_counter() - begin))
                    assert answer.status_code == 200, answer.text
                times.sort()
                print(
                    f"{part or '/':36s} {times[len(times) // 2]:5.0f} ms (from {times[0]:.0f} to {times[-1]:.0f}), "
                    f"{len(answer.content) / 1000:.0f} kB",
                    flush=True,
                )
        log.store.close()


if __name__ == "__main__":
    main()
