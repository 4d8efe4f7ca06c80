"""What a rule needs to know of the agents: how they report, who is alike, who picks first.

Agents stand as the user listed them, everywhere. Agent a reports 1 about an arm of mean mu with
probability offset_a + slope_a mu: its false positive rate is the offset, its sensitivity offset + slope.
Agents with the same slope and offset are of one kind: what two of them saw can be counted together. The
order in which they pick says who goes first, and lays out no table.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from heterobandits.errors import names, rates_from, sensitivities_from, tests_from

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


def locked(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The array, which a policy of one's own is shown, made read-only."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, init=False)
class Team:
    """The agents, as a planner believes them to be.

    Parameters
    ----------
    sensitivities
        Of each agent, in (0, 1]: how often it reports 1 where there is something.
    agent_names
        Their names; "agent 1", "agent 2", ... if not given.
    false_positive_rates
        Of each agent, below its sensitivity: how often it reports 1 where there is nothing; 0 if not given.
    tests
        How many tests each agent makes in a visit; 1 if not given.

    Examples
    --------
    >>> team = Team([0.5, 0.9, 0.5])
    >>> team.order.tolist(), team.kind.tolist(), team.kinds
    ([1, 0, 2], [1, 0, 1], [(0.9, 0.0), (0.5, 0.0)])
    """

    sensitivities: tuple[float, ...]
    names: tuple[str, ...]
    false_positive_rates: tuple[float, ...]
    tests: tuple[int, ...]

    def __init__(
        self,
        sensitivities: Any,
        agent_names: Any = None,
        *,
        false_positive_rates: Any = None,
        tests: Any = None,
    ) -> None:
        s = sensitivities_from(sensitivities)
        called = names(agent_names, "agent_names", len(s), "agent")
        set_ = object.__setattr__
        set_(self, "sensitivities", s)
        set_(self, "names", called)
        set_(self, "false_positive_rates", rates_from(false_positive_rates, s, called))
        set_(self, "tests", tests_from(tests, called))

    @classmethod
    def of(cls, agents: Any) -> "Team":
        """A team as it is, or agents of these sensitivities."""
        return agents if isinstance(agents, Team) else cls(agents)

    def picked(self, agents: Any) -> "Team":
        """The team of these agents, by number, in this order."""
        columns = (self.sensitivities, self.names, self.false_positive_rates, self.tests)
        s, called, rates, tests = ([column[a] for a in agents] for column in columns)
        return Team(s, called, false_positive_rates=rates, tests=tests)

    def joined(self, other: "Team") -> "Team":
        """The team with these agents more."""
        return Team(
            self.sensitivities + other.sensitivities,
            self.names + other.names,
            false_positive_rates=self.false_positive_rates + other.false_positive_rates,
            tests=self.tests + other.tests,
        )

    def __len__(self) -> int:
        return len(self.sensitivities)

    @cached_property
    def slope(self) -> Floats:
        """How much more often each agent reports 1 where there is something to report."""
        return locked(np.array(self.sensitivities) - self.offset)

    @cached_property
    def offset(self) -> Floats:
        """How often each agent reports 1 where there is nothing."""
        return locked(np.array(self.false_positive_rates))

    @cached_property
    def worth(self) -> Floats:
        """What a visit by each agent finds where there is something: its tests times its sensitivity."""
        return locked(np.array(self.tests) * np.array(self.sensitivities))

    @cached_property
    def order(self) -> Places:
        """The agents in the order in which they pick: whose visit finds most first, of equals the first listed."""
        falling = np.argsort(-self.worth, kind="stable")
        return locked(falling.astype(np.int64))

    @cached_property
    def kinds(self) -> list[tuple[float, float]]:
        """The slope and offset of each kind, by falling slope / (1 - offset)."""
        alike = set(zip(self.slope.tolist(), self.offset.tolist(), strict=True))
        return sorted(alike, key=lambda kind: (-kind[0] / (1.0 - kind[1]), kind[1]))

    @cached_property
    def kind(self) -> Places:
        """The kind of each agent."""
        pairs = zip(self.slope.tolist(), self.offset.tolist(), strict=True)
        return locked(np.array([self.kinds.index(pair) for pair in pairs], np.int64))

    @cached_property
    def arrays(self) -> Any:
        """The same for the kernels: an `Agents`."""
        from heterobandits.core.indices import Agents

        d_k, phi_k = np.array(self.kinds).T.copy()
        r, root = np.unique(phi_k / d_k, return_inverse=True)
        return Agents(
            d=self.slope.copy(),  # a kernel takes no array that is locked
            phi=self.offset.copy(),
            kind=self.kind.copy(),
            by_kind=np.argsort(self.kind, kind="stable").astype(np.int64),
            order=self.order.copy(),
            d_k=d_k,
            phi_k=phi_k,
            s_k=d_k / (1.0 - phi_k),
            root=root.astype(np.int64),
            r=r,
        )
