"""A small run of three policies, and what in it is a number."""

from heterobandits import Problem, simulate

PROBLEM = Problem(
    [0.9, 0.2, 0.6],
    [0.5, 0.8],
    arm_names=["Ebene 1", "日本", 'a "quoted", one'],
    agent_names=["Ann", "Bo"],
)
NAMES = ("min-width", "cucb", "random")


def run(trials=40, keep="all", policies=NAMES, **options):
    return simulate(PROBLEM, policies, 30, trials, seed=7, keep=keep, checkpoints=4, **options)


def bits(results):
    """Everything in results that is a number, but for the time it took."""
    numbers = [results.spans, results.sums.tolist(), results.products.tolist(), results.partial]
    for label in results.policies:
        numbers += [results.mean(label).tobytes(), results.se(label).tobytes()]
        numbers += [d.tobytes() for d in results.difference(label, results.policies[0])]
    if results.kept is not None:
        numbers += [results.kept_rounds, results.kept.tobytes()]
    return numbers
