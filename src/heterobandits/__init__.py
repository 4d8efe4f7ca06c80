"""Send agents of unequal sensitivity to the right places, and learn from what they all see.

The public names are loaded when first used, so that importing the package costs nothing.
"""

TYPE_CHECKING = False  # what type checkers take for true; importing typing would take a while

if TYPE_CHECKING:
    from typing import Any

    from heterobandits.errors import InvalidInput, UnsupportedVersion
    from heterobandits.inference.bounds import ln_G, lower_bound, regret_bound, widths
    from heterobandits.model.drift import Changes, Walk, Wave
    from heterobandits.model.problem import Problem
    from heterobandits.planner.history import Round
    from heterobandits.planner.planner import Planner
    from heterobandits.planner.plans import Explanation, Plan, Reason
    from heterobandits.policies.catalogue import PAPER
    from heterobandits.policies.policy import CATALOGUE, Policy, policy
    from heterobandits.simulation.coverage import Coverage, coverage
    from heterobandits.simulation.results import Results
    from heterobandits.simulation.simulation import simulate
    from heterobandits.sweeps.reading import read_sweep

_HOME = {
    "inference.bounds": ("ln_G", "lower_bound", "regret_bound", "widths"),
    "model.drift": ("Changes", "Walk", "Wave"),
    "errors": ("InvalidInput", "UnsupportedVersion"),
    "planner.history": ("Round",),
    "planner.planner": ("Planner",),
    "planner.plans": ("Explanation", "Plan", "Reason"),
    "policies.catalogue": ("PAPER",),
    "policies.policy": ("CATALOGUE", "Policy", "policy"),
    "model.problem": ("Problem",),
    "simulation.results": ("Results",),
    "simulation.coverage": ("Coverage", "coverage"),
    "simulation.simulation": ("simulate",),
    "sweeps.reading": ("read_sweep",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "CATALOGUE",
    "PAPER",
    "Changes",
    "Coverage",
    "Explanation",
    "InvalidInput",
    "Plan",
    "Planner",
    "Policy",
    "Problem",
    "Reason",
    "Results",
    "Round",
    "UnsupportedVersion",
    "Walk",
    "Wave",
    "coverage",
    "ln_G",
    "lower_bound",
    "policy",
    "read_sweep",
    "regret_bound",
    "simulate",
    "widths",
]


def __getattr__(name: str) -> "Any":
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'heterobandits' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"heterobandits.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
