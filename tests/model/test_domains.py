"""The domains: that of those who rank is what its source says, and all can be named on the command line."""

import re

import pytest
from typer.main import get_command

from heterobandits.cli.commands import app
from heterobandits.model.domains import DOMAINS, domain_of_name

# query "1" of data/param_KDD.txt, github.com/gaudel/ranking_bandits at commit 0dd7831c4b16539f20cb2d7bd85a45556dd5f222
EXAMINATION = [1.0, 0.4734820998829569, 0.32780710414209807]
ATTRACTION = [
    0.026731124700266784, 0.1494391661040619, 0.051707253892390316, 0.0702260715803677,
    0.0791864699364669, 0.08871839553852724, 0.0499234205849619, 0.10326291175000955,
    0.021697899156967182, 0.029145053675412588, 0.02831429684695356,
]  # fmt: skip


def test_slots_are_what_was_fitted_to_the_log():
    problem = domain_of_name("slots").problem
    assert problem.sensitivities == tuple(round(kappa, 4) for kappa in EXAMINATION)
    assert problem.means == tuple(round(theta, 4) for theta in ATTRACTION)


def test_the_best_list_has_the_most_attractive_ads_in_order():
    problem = domain_of_name("slots").problem
    best = sorted(range(len(ATTRACTION)), key=lambda k: -ATTRACTION[k])[:3]
    assert [problem.arm_names[n] for n in problem.optimum] == [f"ad {k + 1}" for k in best]
    assert problem.agent_names == ("slot 1", "slot 2", "slot 3")


@pytest.mark.parametrize("command", ["simulate", "bounds"])
def test_the_help_names_every_domain(command):
    (option,) = (p for p in get_command(app).commands[command].params if p.name == "problem")
    named = set(re.findall(r"[a-z]+(?:-\w+)?", option.help))
    assert set(DOMAINS) <= named
