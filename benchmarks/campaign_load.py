"""Whether the service holds: `python benchmarks/campaign_load.py [load | kills] [--workers 2] [--seconds 60] [--kills 100]`.

    load    50 reporters and 5 planners over 100 campaigns, each asking again as soon as it is answered, or after up to
            `--pause` seconds
    kills   the same crowd, and `kill -9` at a random moment, again and again

The database is an SQLite file in a temporary folder, or `--database URL`; `--postgresql` starts a server of its own. The last
figures stand in docs/campaigns.md.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "web"))

import postgres as postgresql
from crowds import Crowd, Server, lost


def load(database: str, workers: int, seconds: float, kills: int, pause: float) -> None:
    """Print how long requests took, and whether everything is there."""
    server = Server(database, workers)
    crowd = Crowd(server, pause=pause)
    crowd.run(planners=5, reporters=50, seconds=seconds)
    server.stop()
    for what, times in crowd.times.items():
        quantiles = ", ".join(
            f"p{100 * q:.0f} {1000 * crowd.quantile(what, q):.0f} ms" for q in (0.5, 0.95, 0.99)
        )
        print(
            f"{what}: {len(times):,} in {seconds:g} s ({len(times) / seconds:.0f} a second), {quantiles}"
        )
    print(f"answers: {dict(crowd.statuses)}")
    print(f"unexpected: {crowd.unexpected[:3]} ({len(crowd.unexpected)})")
    begin = time.perf_counter()
    print(f"lost: {lost(crowd, database)}; all replayed in {time.perf_counter() - begin:.1f} s")


def kill(database: str, workers: int, seconds: float, kills: int, pause: float) -> None:
    """Print how many acknowledged writes there were, and which are not there."""
    server = Server(database, workers)
    crowd = Crowd(server, campaigns=20, pause=pause)
    for number in range(kills):
        crowd.run(planners=2, reporters=8, seconds=random.uniform(0.05, 1.5), end=server.kill)
        server.start()
        if (number + 1) % 10 == 0:
            print(
                f"{number + 1} kills: {len(crowd.rounds):,} rounds and {len(crowd.outcomes):,} outcomes acknowledged, "
                f"lost: {lost(crowd, database)}",
                flush=True,
            )
    server.stop()


def main() -> None:
    """Run a part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=["load", "kills"])
    parser.add_argument("--database")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--kills", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        postgres = postgresql.Server(postgresql.binaries()) if given.postgresql else None
        try:
            fresh = postgres.fresh() if postgres else str(Path(folder) / "load.db")
            part = {"load": load, "kills": kill}[given.part]
            place = given.database or fresh
            part(place, given.workers, given.seconds, given.kills, given.pause)
        finally:
            if postgres:
                postgres.remove()


if __name__ == "__main__":
    main()
