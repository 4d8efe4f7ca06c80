"""Places that change: what forgetting costs when nothing changes, what it gains when things do, and how fast an alarm is.

    python benchmarks/drift.py [TRIALS [SEASONS]]

Prints the three tables of docs/model.md: regret of policies that forget and of those that do not, after 2,000 rounds; the delay of
the alarm in visits to the arm; and a planner that does nothing at an alarm, one that forgets the arm, and one whose policy forgets.
"""

import sys

import numpy as np

from heterobandits import Changes, Planner, Policy, Problem, Walk, Wave, policy, simulate
from heterobandits.inference.change_points import alarm_threshold, change_of_arm
from heterobandits.model.team import Team

trials = int(sys.argv[1]) if len(sys.argv) > 1 else 400
seasons = int(sys.argv[2]) if len(sys.argv) > 2 else 200
HORIZON = 2000
MEANS = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6]
S = [0.9, 0.7, 0.5]
MEMORIES = (100, 200, 400)

order = np.random.default_rng(1)
DRIFTS = {
    "nothing": None,
    "reversed once": Changes([(1001, MEANS[::-1])]),
    "one place, once": Changes([(1001, [0.8, *MEANS[1:]])]),
    "shuffled every 250": Changes(
        [(t, order.permutation(MEANS).tolist()) for t in range(251, HORIZON, 250)]
    ),
    "waves of 0.3 in 500": Wave(0.3, 500),
    "walks of 0.02": Walk(0.02, 1),
}


def regret_table() -> None:
    """Regret after HORIZON rounds of every policy under every drift."""
    entries: list[Policy] = []
    for base in ("min-width", "posterior-sorted"):
        entries.append(policy(base))
        for how in ("window", "discounted"):
            entries += [policy(f"{base}-{how}", memory=memory) for memory in MEMORIES]
    print(f"| policy, memory | {' | '.join(DRIFTS)} |")
    print(f"| --- | {' | '.join('---:' for _ in DRIFTS)} |")
    runs = [simulate(Problem(MEANS, S, drift=d), entries, HORIZON, trials) for d in DRIFTS.values()]
    for entry in entries:
        cells = [f"{r.mean(entry.label)[-1]:.0f} ± {2 * r.se(entry.label)[-1]:.0f}" for r in runs]
        memory = "" if entry.memory is None else f", {entry.memory}"
        print(f"| `{entry.name}`{memory} | {' | '.join(cells)} |")


def delay(before: int, low: float, high: float, random: np.random.Generator) -> float:
    """After how many visits to an arm that changed from `low` to `high` the alarm is raised; infinite after 300."""
    team, arms = Team(S), len(MEANS)
    agents = random.integers(0, len(S), before + 300)
    means = np.where(np.arange(len(agents)) < before, low, high)
    hits = random.random(len(agents)) < np.array(S)[agents] * means
    pulls, successes = np.zeros((2, len(S), len(agents) + 1), np.int32)
    pulls[agents, np.arange(1, len(agents) + 1)] = 1
    successes[agents, np.arange(1, len(agents) + 1)] = hits
    for after in range(2, 301, 2):
        seen = slice(before + after + 1)
        if change_of_arm(
            team, pulls[:, seen], successes[:, seen], 0.05
        ).evidence >= alarm_threshold(arms, 0.05):
            return after
    return np.inf


def delay_table() -> None:
    """The delay of the alarm: quartiles over seasons."""
    random = np.random.default_rng(2)
    sizes = (20, 50, 100, 200)
    print(f"\n| mean before, since | {' | '.join(f'{n} visits before' for n in sizes)} |")
    print(f"| --- | {' | '.join('---:' for _ in sizes)} |")
    for low, high in (
        (0.1, 0.3),
        (0.1, 0.6),
        (0.3, 0.6),
        (0.3, 0.05),
        (0.6, 0.3),
        (0.9, 0.1),
        (0.3, 0.3),
    ):
        cells = []
        for before in sizes:
            found = np.sort([delay(before, low, high, random) for _ in range(seasons)])
            quarters = [found[int(q * (len(found) - 1))] for q in (0.25, 0.5, 0.75)]
            told = " / ".join("never" if np.isinf(x) else f"{x:.0f}" for x in quarters)
            raised = 100 * np.isfinite(found).mean()
            cells.append(f"{told} ({raised:.0f} %)")
        print(f"| {low}, {high} | {' | '.join(cells)} |")


def planner_table() -> None:
    """Regret of planners in 300 rounds; a place becomes the worst, or the best, after 150."""
    drifts = {
        "nothing changes": None,
        "the best place empties": Changes([(151, [0.1, 0.2, 0.3, 0.05])]),
        "the worst place fills": Changes([(151, [0.9, 0.2, 0.3, 0.6])]),
    }
    kinds = {
        "an alarm does nothing": (policy("posterior-sorted"), "nothing"),
        "an alarm forgets the arm": (policy("posterior-sorted"), "forget"),
        "`posterior-sorted-discounted`, 100": (
            policy("posterior-sorted-discounted", memory=100),
            "nothing",
        ),
    }
    count = max(2, seasons // 5)
    print(f"\n| planner | {' | '.join(drifts)} |\n| --- | {' | '.join('---:' for _ in drifts)} |")
    for label, (name, on_change) in kinds.items():
        cells = []
        for drift in drifts.values():
            problem = Problem([0.1, 0.2, 0.3, 0.6], [0.9, 0.6], drift=drift)
            regrets, alarms = [], 0
            for trial in range(count):
                planner = Planner([0.9, 0.6], 4, name, trial=trial, on_change=on_change)
                regret, arms = 0.0, problem.at(1)
                for t in range(1, 301):
                    arms = problem.at(t) if t == 151 else arms
                    plan = planner.ask()
                    luck = np.random.default_rng([trial, t]).random(4)
                    chances = [
                        s * arms.means[n]
                        for s, n in zip(problem.sensitivities, plan.assignment, strict=True)
                    ]
                    planner.tell(
                        plan,
                        [int(luck[n] < p) for n, p in zip(plan.assignment, chances, strict=True)],
                    )
                    regret += arms.regret(plan.assignment)
                regrets.append(regret)
                alarms += len(planner.forgotten)
            error = 2 * np.std(regrets, ddof=1) / count**0.5
            cells.append(
                f"{np.mean(regrets):.1f} ± {error:.1f}"
                + f", {alarms / count:.2f} alarms" * (on_change == "forget")
            )
        print(f"| {label} | {' | '.join(cells)} |")


regret_table()
delay_table()
planner_table()
