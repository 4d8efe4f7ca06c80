"""The conformance checks: every policy of the catalogue passes, and each check can fail."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from heterobandits import CATALOGUE, InvalidInput, Policy
from heterobandits.testing import (
    CONFORMANCE_CHECKS,
    check_agents_alike,
    check_arms_alike,
    check_numbers,
    check_policy,
    check_pure,
    check_real_tables,
    check_trials_apart,
)


@pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_conforms(name: str, check: Callable[[Policy], None]) -> None:
    check(CATALOGUE[name])


def mean_of_outcomes(known):
    return known.successes.sum(axis=0) / np.maximum(1, known.pulls.sum(axis=0))


def own_mean(known):
    return known.successes / np.maximum(1, known.pulls) / known.team.slope[:, None, None]


@pytest.mark.parametrize(
    "policy",
    [
        Policy("pooled", index=mean_of_outcomes),
        Policy("pooled, random turns", index=mean_of_outcomes, first="random"),
        Policy("own", index=own_mean, index_per="agent"),
    ],
    ids=lambda policy: policy.name,
)
def test_sound_policies_of_ones_own_conform(policy: Policy) -> None:
    check_policy(policy)


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"gave an index of shape \(2,\)"):
        check_numbers(Policy("flat", index=lambda known: mean_of_outcomes(known)[:, 0]))


def test_nan_is_refused() -> None:
    def divides_by_nothing(known):
        with np.errstate(invalid="ignore"):
            return known.successes.sum(axis=0) / known.pulls.sum(axis=0)

    with pytest.raises(InvalidInput, match="NaN"):
        check_numbers(Policy("nan", index=divides_by_nothing))


def test_a_policy_with_a_memory_is_found() -> None:
    calls = []

    def remembers(known):
        calls.append(known.rounds)
        return mean_of_outcomes(known) + len(calls)

    with pytest.raises(AssertionError, match="two answers"):
        check_pure(Policy("remembers", index=remembers))


def test_a_policy_that_mixes_trials_is_found() -> None:
    def centred(known):
        index = mean_of_outcomes(known)
        return index - index.mean()

    with pytest.raises(AssertionError, match="played alone"):
        check_trials_apart(Policy("centred", index=centred))


def test_a_policy_that_takes_tables_for_whole_numbers_is_found() -> None:
    def shifted(known):
        return np.right_shift(known.pulls, 1).sum(axis=0)

    with pytest.raises(TypeError):
        check_real_tables(Policy("shifted", index=shifted))

    def halved(known):
        half = 0.5 if known.pulls.dtype.kind == "f" else 0.0
        return known.pulls.sum(axis=0) + half

    with pytest.raises(AssertionError, match="halved gives another index where the same numbers"):
        check_real_tables(Policy("halved", index=halved))


def test_a_policy_that_likes_the_first_arm_is_found() -> None:
    def partial(known):
        index = mean_of_outcomes(known)
        return index + np.arange(len(index), 0, -1)[:, None]

    with pytest.raises(AssertionError, match="prefers some arms"):
        check_arms_alike(Policy("partial", index=partial))


def test_a_policy_that_trusts_the_first_agent_is_found() -> None:
    def trusting(known):
        return known.successes[0] / np.maximum(1, known.pulls[0])

    with pytest.raises(AssertionError, match="by their number"):
        check_agents_alike(Policy("trusting", index=trusting))


def test_a_policy_that_changes_its_tables_is_found() -> None:
    def greedy_hands(known):
        index = mean_of_outcomes(known)
        for table in (known.pulls, known.successes):
            table.flags.writeable = True  # numpy lets the owner of the memory do so
            table[:] += 1
        return index

    with pytest.raises(AssertionError, match="changed the table of pulls"):
        check_policy(Policy("greedy hands", index=greedy_hands))


def test_the_tables_cannot_be_written_to_by_mistake() -> None:
    def careless(known):
        known.pulls[0] += 1
        return mean_of_outcomes(known)

    with pytest.raises(ValueError, match="read-only"):
        check_policy(Policy("careless", index=careless))


def test_the_checks_work_without_assertions() -> None:
    code = (
        "import numpy as np\nfrom heterobandits import Policy\nfrom heterobandits.testing import check_policy\n"
        "calls = []\n"
        "def remembers(known):\n    calls.append(0)\n"
        "    return known.pulls.sum(axis=0) + float(len(calls))\n"
        "try:\n    check_policy(Policy('remembers', index=remembers))\n"
        "except AssertionError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True
    )
    assert "gave two answers for the same tables" in done.stdout
