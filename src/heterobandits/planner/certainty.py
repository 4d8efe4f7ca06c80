"""What the two tables say of all arms: posteriors, intervals and the order. Each is worked out once, when it is first asked for."""

from dataclasses import dataclass

from heterobandits.arrays import LearningTable
from heterobandits.caches import cached_property
from heterobandits.inference.intervals import (
    RANKING_MAX_ARMS,
    Intervals,
    Posteriors,
    Profiles,
    Ranking,
    certain_intervals,
    certain_order,
    exact_posteriors,
)
from heterobandits.model.prior import Prior
from heterobandits.model.team import Team
from heterobandits.planner.knowledge import clear_arms


@dataclass(frozen=True, eq=False)
class Certainty:
    """What is known of all arms from these tables.

    Of the arms that are `left_out`, which have changed, the posteriors go by all that was seen, and nothing is certain. The prior is
    one that was stated before anything was seen.
    """

    team: Team
    tables: tuple[LearningTable, LearningTable]
    delta: float
    left_out: tuple[int, ...] = ()
    prior: Prior | None = None

    @cached_property
    def posteriors(self) -> Posteriors:
        """Of all means, with the agents as they are believed to be."""
        return Posteriors.of(self.team, *self.tables, self.prior)

    @cached_property
    def intervals(self) -> Intervals:
        """For all means at once; the estimates are 0.5 where an arm is left out."""
        return certain_intervals(*self._compared)

    @cached_property
    def order(self) -> Ranking | None:
        """What is certain of the order of all arms; None if they are too many for a table of pairs."""
        many = self.tables[0].shape[1] > RANKING_MAX_ARMS
        return None if many else certain_order(*self._compared)

    @cached_property
    def _compared(self) -> tuple[Posteriors | Profiles, float]:
        if self.left_out:
            tables = clear_arms(self.tables, self.left_out)
            return exact_posteriors(self.team, *tables, self.delta, prior=self.prior)
        return exact_posteriors(self.team, *self.tables, self.delta, self.posteriors)
