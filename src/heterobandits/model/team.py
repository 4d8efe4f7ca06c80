"""What a rule needs to know of the agents: how they report, who is alike, who picks first.

Agents stand as the user listed them, everywhere. Agent a reports 1 about an arm of mean mu with
probability offset_a + slope_a mu: its false positive rate is the offset, its sensitivity offset + slope.
Agents with the same slope and offset are of one kind: what two of them saw can be counted together. The
order in which they pick says who goes first, and lays out no table.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Floats, Integers
from heterobandits.caches import cached_property
from heterobandits.errors import (
    InvalidInput,
    parse_list,
    parse_names,
    parse_rates,
    parse_sensitivities,
    parse_tests,
)
from heterobandits.model.calibration import (
    CalibrationBox,
    Trial,
    calibration_box,
    estimate_of_trial,
    estimates_of_trials,
    parse_trials,
)

ArrayScalar = TypeVar("ArrayScalar", bound=np.generic)


def lock_array(array: npt.NDArray[ArrayScalar]) -> npt.NDArray[ArrayScalar]:
    """The array, made read-only before a user's own policy sees it."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, init=False)
class Team:
    """The agents, as a planner believes them to be.

    Parameters
    ----------
    sensitivities
        Of each agent, in (0, 1]: how often it reports 1 where there is something. None if all are calibrated: then what
        that makes them most probably, (found + 1)/(planted + 2).
    agent_names
        Their names; "agent 1", "agent 2", ... if not given.
    false_positive_rates
        Of each agent, below its sensitivity: how often it reports 1 where there is nothing; 0 if not given.
    tests
        How many tests each agent makes in a visit; 1 if not given.
    calibration
        Of each agent how many of how many things it found that were known to be there, such as (17, 20), or
        None if its sensitivity is known exactly.
    false_positive_calibration
        How many false alarms it gave in how many places known to be empty, likewise.

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
    calibration: tuple[Trial, ...]
    false_positive_calibration: tuple[Trial, ...]

    def __init__(
        self,
        sensitivities: Any,
        agent_names: Any = None,
        *,
        false_positive_rates: Any = None,
        tests: Any = None,
        calibration: Any = None,
        false_positive_calibration: Any = None,
    ) -> None:
        s, called, found = agents_from_calibration(sensitivities, agent_names, calibration)
        alarms = parse_trials(false_positive_calibration, "false_positive_calibration", called)
        if false_positive_rates is None:
            false_positive_rates = estimates_of_trials(alarms, [0.0] * len(s))
        set_ = object.__setattr__
        set_(self, "sensitivities", s)
        set_(self, "names", called)
        set_(self, "false_positive_rates", parse_rates(false_positive_rates, s, called))
        set_(self, "tests", parse_tests(tests, called))
        set_(self, "calibration", found)
        set_(self, "false_positive_calibration", alarms)

    @classmethod
    def of(cls, agents: Any) -> "Team":
        """A team as it is, or agents of these sensitivities."""
        return agents if isinstance(agents, Team) else cls(agents)

    def picked(self, agents: Any) -> "Team":
        """The team of these agents, by number, in this order."""
        return Team(**{name: [column[a] for a in agents] for name, column in self.columns.items()})

    @property
    def columns(self) -> dict[str, Any]:
        """Everything that is known of the agents, by the names it is given with."""
        names_ = {"names": "agent_names"}
        return {names_.get(f.name, f.name): getattr(self, f.name) for f in fields(self)}

    @property
    def is_calibrated(self) -> bool:
        """Whether something of how the agents report is only known from calibration."""
        return any(
            trial is not None for trial in self.calibration + self.false_positive_calibration
        )

    def boxed(self, delta: float) -> Any:
        """The arrays of the kernels with sets that hold what was calibrated, with probability 1 - delta.

        What is believed is in them, too, whatever calibration says: what it makes likely then is possible.
        """
        sets, arrays = self.box(delta), self.arrays
        return arrays._replace(
            s_low=np.minimum(sets.s_low, arrays.s_low),
            s_high=np.maximum(sets.s_high, arrays.s_high),
            phi_low=np.minimum(sets.phi_low, arrays.phi_low),
            phi_high=np.maximum(sets.phi_high, arrays.phi_high),
        )

    def box(self, delta: float) -> CalibrationBox:
        """Sets that hold what was calibrated, with probability 1 - delta; what is known where nothing was."""
        reports = (self.sensitivities, self.false_positive_rates)
        return calibration_box(*reports, self.calibration, self.false_positive_calibration, delta)

    def __len__(self) -> int:
        return len(self.sensitivities)

    @cached_property
    def slope(self) -> Floats:
        """How much more often each agent reports 1 where there is something to report."""
        return lock_array(np.array(self.sensitivities) - self.offset)

    @cached_property
    def offset(self) -> Floats:
        """How often each agent reports 1 where there is nothing."""
        return lock_array(np.array(self.false_positive_rates))

    @cached_property
    def worth(self) -> Floats:
        """What a visit by each agent finds where there is something: its tests times its sensitivity."""
        return lock_array(np.array(self.tests) * np.array(self.sensitivities))

    @cached_property
    def order(self) -> Integers:
        """The agents in the order in which they pick: whose visit finds most first, of equals the first listed."""
        falling = np.argsort(-self.worth, kind="stable")
        return lock_array(falling.astype(np.int64))

    @cached_property
    def kinds(self) -> list[tuple[float, float]]:
        """The slope and offset of each kind, by falling slope / (1 - offset)."""
        alike = set(zip(self.slope.tolist(), self.offset.tolist(), strict=True))
        return sorted(alike, key=lambda kind: (-kind[0] / (1.0 - kind[1]), kind[1]))

    @cached_property
    def kind(self) -> Integers:
        """The kind of each agent."""
        pairs = zip(self.slope.tolist(), self.offset.tolist(), strict=True)
        return lock_array(np.array([self.kinds.index(pair) for pair in pairs], np.int64))

    @cached_property
    def arrays(self) -> Any:
        """The same for the kernels: an `Agents`."""
        from heterobandits.core.seen import Agents

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
            s_low=np.array(self.sensitivities),
            s_high=np.array(self.sensitivities),
            phi_low=self.offset.copy(),
            phi_high=self.offset.copy(),
        )


def agents_from_calibration(
    sensitivities: Any, agent_names: Any, calibration: Any
) -> tuple[tuple[float, ...], tuple[str, ...], tuple[Trial, ...]]:
    """Sensitivities, names and calibration of the agents; the first may follow from the last."""
    if sensitivities is not None:
        s = parse_sensitivities(sensitivities)
        called = parse_names(agent_names, "agent_names", len(s), "agent")
        return s, called, parse_trials(calibration, "calibration", called)
    if calibration is None:
        raise InvalidInput("sensitivities is None: a list of numbers, unless all are calibrated")
    count = len(parse_list(calibration, "calibration", "pairs, one for each agent"))
    called = parse_names(agent_names, "agent_names", count, "agent")
    found = parse_trials(calibration, "calibration", called)
    for agent, trial in zip(called, found, strict=True):
        if trial is None:
            raise InvalidInput(f"{agent!r} has neither a sensitivity nor a calibration")
    return tuple(estimate_of_trial(trial) for trial in found if trial is not None), called, found
