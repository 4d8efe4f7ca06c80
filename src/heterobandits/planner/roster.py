"""How agents report, and since when: an agent whose reports have changed for good has several rows in the tables.

What it found before counts as it was reported then. Its last row is the one it reports by now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from heterobandits.errors import appearance_of
from heterobandits.model.calibration import Trial
from heterobandits.model.team import Team

RevisedSince = Literal["now", "always"]
REVISED_SINCE_CHOICES = (
    "now",
    "always",
)  # that an agent has changed, or that it was stated wrongly
CALIBRATED_FIELDS = (
    ("sensitivity", "calibration"),
    ("false_positive_rate", "false_positive_calibration"),
)


@dataclass(frozen=True)
class Reports:
    """How an agent reports, as the planner believes: one row of `Team`."""

    sensitivity: float
    false_positive_rate: float = 0.0
    tests: int = 1
    calibration: Trial = None
    false_positive_calibration: Trial = None

    @property
    def body(self) -> dict[str, Any]:
        """The same for an event."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Reports":
        """The same from such a body."""
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in body.items()
        }
        return cls(**known)

    def revised(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is known with what is given, which does not stand beside what it was stated with."""
        had = self.body
        for one, trial in CALIBRATED_FIELDS:
            if one in given:
                had[trial] = None
            elif given.get(trial) is not None:
                had[one] = None
        return had | dict(given)


@dataclass(frozen=True)
class AgentRow:
    """How an agent reports, from some round on."""

    agent: int
    since: int
    reports: Reports


def reports_of_agents(team: Team) -> list[Reports]:
    """How each agent of a team reports."""
    columns = team.columns
    del columns["agent_names"]
    return [Reports(*row) for row in zip(*columns.values(), strict=True)]


def team_of_rows(names: Sequence[str], rows: Sequence[AgentRow]) -> Team:
    """The team that these agents make, with a row for each way to report."""
    reports = [row.reports for row in rows]
    return Team(
        [r.sensitivity for r in reports],
        row_names(names, rows),
        false_positive_rates=[r.false_positive_rate for r in reports],
        tests=[r.tests for r in reports],
        calibration=[r.calibration for r in reports],
        false_positive_calibration=[r.false_positive_calibration for r in reports],
    )


def row_names(
    names: Sequence[str], rows: Sequence[AgentRow], number: int | None = None
) -> list[str]:
    """The agents' names; a row that no longer holds has its number, too, as often as it takes to look like nobody's name.

    They are those of now, or as they were when the round of this number was held.
    """
    taken = {appearance_of(name) for name in names}
    last = {row.agent: i for i, row in enumerate(rows)}
    holds = {
        agent: now if number is None else find_row(rows, now, number) for agent, now in last.items()
    }
    made = []
    for i, row in enumerate(rows):
        name = names[row.agent]
        if holds[row.agent] != i:
            name += f" (row {i})"
            while appearance_of(name) in taken:
                name += f" (row {i})"
        made.append(name)
    return made


def find_row(rows: Sequence[AgentRow], now: int, number: int) -> int:
    """The row of an agent's visits in the round of this number, for an agent that reports by the row `now`."""
    if rows[now].since <= number:
        return now
    mine = [i for i, row in enumerate(rows) if row.agent == rows[now].agent]
    held = [i for i in mine if rows[i].since <= number]
    return held[-1] if held else mine[0]


def revise_rows(
    rows: Sequence[AgentRow],
    agent: int,
    reports: Reports,
    since: RevisedSince,
    next_round: int,
    went: bool,
) -> list[AgentRow]:
    """The rows after an agent was revised: from now on in a row of its own, if it ever went anywhere; or always, in all it has."""
    if since == "now" and went:
        return [*rows, AgentRow(agent, next_round, reports)]
    return [  # stated wrongly, or nobody has seen it report yet
        replace(row, since=next_round if since == "now" else row.since, reports=reports)
        if row.agent == agent
        else row
        for row in rows
    ]
