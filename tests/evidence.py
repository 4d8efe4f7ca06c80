"""Results made by hand, as published and as simulated, that tables and claims are judged from."""

import json
from dataclasses import replace

import numpy as np

from heterobandits import Problem, Results
from heterobandits.experiments.catalogue import Experiment
from heterobandits.experiments.runs import run_experiments
from heterobandits.simulation.engine import tally_regrets
from heterobandits.simulation.pool.pieces import integer_array, square_products
from heterobandits.simulation.pool.shards import ShardStore
from heterobandits.simulation.results import binary_places
from reference import PAPER

SMALL = Experiment("small", "a small one", Problem([0.1, 0.5], [0.1, 0.9]), 40, 20, "no figure")
OTHER = Experiment("other", "another one", Problem([0.2, 0.9], [0.5, 0.6]), 30, 20, "no figure")


def handmade(problem, horizon, rounds, regrets, policies=PAPER):
    """Results whose regrets[policy, checkpoint, trial] were not simulated but given."""
    sums, products = tally_regrets(regrets, binary_places(horizon, problem.agents))
    return Results(
        problem=problem,
        policies=policies,
        parameters=tuple({"name": name} for name in policies),
        horizon=horizon,
        seed=0,
        rounds=tuple(rounds),
        spans=((0, regrets.shape[-1]),),
        sums=sums,
        products=products,
        seconds=(0.0,) * len(policies),
        partial=False,
        versions={},
        kept_rounds=tuple(rounds[-1:]),
        kept=regrets[:, -1:],
    )


def with_means(problem, horizon, rounds, means, noise=0.01):
    """Handmade results with these mean regrets[policy][checkpoint], and a little noise that is no policy's alone."""
    luck = np.array([-1.0, 1.0, -2.0, 2.0, 3.0, -3.0])
    own = np.array([np.roll(luck, p) for p in range(len(PAPER))])
    regrets = np.array(means, float)[:, :, None] + noise * own[:, None, :]
    return handmade(problem, horizon, rounds, regrets)


def exchanged(results, one, other):
    """The same results with the numbers of two policies exchanged."""
    order = list(range(len(results.policies)))
    p, q = results.position(one), results.position(other)
    order[p], order[q] = q, p
    return replace(
        results,
        sums=results.sums[order],
        products=results.products[np.ix_(order, order)],
        kept=None if results.kept is None else results.kept[order],
    )


def run_fresh(experiments, seed):
    """The results of experiments, run here and now."""
    return run_experiments(experiments, seed, ShardStore(None)).results


def exchange(folder, experiment, one, other):
    """Exchange two policies' numbers of an experiment in what is kept in a folder."""
    store = ShardStore(folder)
    rows = [store.row(place) for place in store]
    store.clear()
    for row in rows:
        what = json.loads(row.definition)
        if what["problem"] == experiment.problem.to_dict() and "policies" in what:
            names = [entry["name"] for entry in what["policies"]]
            order = list(range(len(names)))
            p, q = names.index(one), names.index(other)
            order[p], order[q] = q, p
            P, K = len(names), len(what["rounds"])
            sums = integer_array(row.sums, (P, K))[order]
            products = square_products(row.products, P, K)[np.ix_(order, order)][np.triu_indices(P)]
            kept = np.reshape(row.kept, (P, -1))[order]
            row = row._replace(  # noqa: PLW2901
                sums=sums.ravel().tolist(),
                products=products.ravel().tolist(),
                kept=kept.ravel().tolist(),
            )
        store.add(row)
    store.write()


def as_published(experiment):
    """Handmade results in which a setting's policies come out as published, clearly apart.

    The gaps grow with the spread of the sensitivities, as the abstract has it.
    """
    s = experiment.problem.sensitivities
    step = 10 * (1 + max(s) - min(s))
    means = [[20 + step * experiment.ranking.index(name)] for name in PAPER]
    return with_means(experiment.problem, 1000, (1000,), means)
