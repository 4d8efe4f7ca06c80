"""How long a large campaign takes: to plan a round, to read its state, to verify all of it.

    python benchmarks/campaign_size.py [--agents 200] [--arms 1000] [--rounds 500] [--policy posterior-sorted] [--database FILE]

The default is 100,000 outcomes. The log is made by the service itself, with outcomes of random means, and is kept if a file is named.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from heterobandits.campaigns import service
from heterobandits.campaigns.audit.verification import verify_log
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.reducer import fold_events
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store

ME = Author("benchmark")


def made(log: Repository, agents: int, arms: int, rounds: int, policy: str) -> str:
    """The id of a campaign of this size."""
    luck = np.random.default_rng(1)
    sensitivities = luck.uniform(0.3, 0.95, agents).round(3)
    means = luck.uniform(0.0, 0.6, arms)
    done = service.create(
        log,
        ME,
        name="large",
        agents=[{"name": f"ranger {i}", "sensitivity": s} for i, s in enumerate(sensitivities)],
        arms=[f"area {n}" for n in range(arms)],
        policy=policy,
        season=2 * rounds,
    )
    campaign = done.state.campaign
    for number in range(1, rounds + 1):
        state = service.plan_round(log, campaign, ME).state
        sent = state.rounds[-1].sent
        found = luck.uniform(size=len(sent)) < [sensitivities[a] * means[n] for a, n in sent]
        outcomes = {f"agent-{a + 1}": int(k) for (a, _), k in zip(sent, found, strict=True)}
        report_outcomes(log, campaign, ME, number, outcomes)
    return campaign


def timed(what: str, function, *arguments):
    """What the function returns; how long it took is printed."""
    begin = time.perf_counter()
    result = function(*arguments)
    print(f"{what}: {time.perf_counter() - begin:.3f} s", flush=True)
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name, default in (("agents", 200), ("arms", 1000), ("rounds", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--policy", default="posterior-sorted")
    parser.add_argument("--database", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = given.database or str(Path(folder) / "large.db")
        store = Store(place)
        heads = store.heads()
        if heads:
            campaign = heads[0].campaign
        else:
            sizes = (given.agents, given.arms, given.rounds)
            campaign = timed("made", made, Repository(store), *sizes, given.policy)
        state = timed("state, all events folded", lambda: fold_events(store.read(campaign)))
        log = Repository(store)
        log.keep(state)
        print(
            f"{state.number:,} events, {len(state.rounds)} rounds, {state.pulls.sum():,} outcomes"
        )
        timed("state from the snapshot", lambda: Repository(store).state(campaign))
        timed("plan of a round, previewed", lambda: service.preview(log.state(campaign)))
        timed("plan of a round, recorded", service.plan_round, log, campaign, ME)
        timed("verified", verify_log, log, campaign)


if __name__ == "__main__":
    main()
