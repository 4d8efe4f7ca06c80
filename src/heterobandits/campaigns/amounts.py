"""How many tests a visit has: what was planned, and what a report may say.

The rule is for what is written from now on, and not in the fold: a log keeps what it has.
"""

from heterobandits.campaigns.rounds import Pair, PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import Wrong
from heterobandits.limits import MOST_REPORTED
from heterobandits.planner.history import Outcome

TIMES_PLANNED = 10  # the tests of a visit that a reporter may report, by those planned


def tests_planned(state: State, agent: int, round: PlannedRound) -> int:
    """How many tests an agent makes in a visit of a round."""
    return state.rows[state.row_in(agent, round.number)].reports.tests


def check_amount(
    state: State, round: PlannedRound, pair: Pair, counts: Outcome | None, role: str = "owner"
) -> None:
    """Refuse more tests of a visit than somebody of this role may report."""
    if counts is None:
        return
    planned, tests = tests_planned(state, pair[0], round), counts[1]
    most = TIMES_PLANNED * planned if role == "reporter" else MOST_REPORTED
    if tests <= most:
        return
    why = f"tests of {state.agents[pair[0]].name!r} is {tests:,}, and {planned:,} planned: at most {most:,}"
    if role == "reporter" and tests <= MOST_REPORTED:
        why += " can be reported with this link; if it is right, ask a planner to report it"
    raise Wrong([("tests", why)])
