"""How far policies are from the best possible, exactly, in worlds so small that it can be computed   docs/limits.md (4), (5)"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from heterobandits.inference.bayes_optimum import is_computable
from heterobandits.inference.bounds import bayes_optimal, bayes_regret
from heterobandits.policies.policy import Policy


class TinyWorld(NamedTuple):
    """Some agents, a few arms whose means may be anything, and a few rounds."""

    sensitivities: tuple[float, ...]
    arms: int
    horizon: int

    @property
    def title(self) -> str:
        """As a heading."""
        agents = ", ".join(f"{s:g}" for s in self.sensitivities)
        return f"agents {agents}; {self.arms} arms, T = {self.horizon}"


TINY_WORLDS = (TinyWorld((0.7,), 2, 25), TinyWorld((0.7,), 3, 12), TinyWorld((0.9, 0.4), 2, 8), TinyWorld((0.9, 0.3), 3, 4))  # fmt: skip
QUICK_TINY_WORLDS = (TinyWorld((0.7,), 2, 10), TinyWorld((0.9, 0.4), 2, 5))


@dataclass(frozen=True)
class OptimumDistance:
    """The Bayes regret of a policy in a tiny world, over the least that is possible there."""

    world: str
    policy: str
    regret: float
    optimum: float

    @property
    def ratio(self) -> float:
        """1 for the best possible."""
        return self.regret / self.optimum


@cache
def least_regret(world: TinyWorld) -> float:
    """The Bayes regret of the optimal policy."""
    return bayes_optimal(*world).regret


@cache
def exact_regret(policy: Policy, world: TinyWorld) -> float:
    """The Bayes regret of a policy."""
    return bayes_regret(policy, *world).regret


def by_policy(found: Iterable[OptimumDistance]) -> dict[str, dict[str, float]]:
    """The ratios of each policy by world, the least on the average first."""
    ratios: dict[str, dict[str, float]] = {}
    for one in found:
        ratios.setdefault(one.policy, {})[one.world] = one.ratio
    return dict(sorted(ratios.items(), key=lambda item: sum(item[1].values())))


def distances_to_optimum(
    policies: Iterable[Policy], worlds: Iterable[TinyWorld]
) -> list[OptimumDistance]:
    """Of all policies whose regret can be computed; the others draw means, or are not of the catalogue."""
    computable = [policy for policy in policies if is_computable(policy)]
    return [
        OptimumDistance(world.title, policy.label, exact_regret(policy, world), least_regret(world))
        for world in worlds
        for policy in computable
    ]
