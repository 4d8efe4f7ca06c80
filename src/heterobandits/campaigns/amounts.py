"""How many tests a visit may have: as many as planned, or as many as a report may give.

The rule is for what is written from now on, and not in the fold: a log keeps what it has.
"""

from heterobandits.campaigns.rounds import PlannedRound
from heterobandits.campaigns.state import State
from heterobandits.campaigns.validation import InvalidFields
from heterobandits.limits import REPORT_MAX_TESTS
from heterobandits.planner.matching import AgentArm
from heterobandits.planner.visits import Outcome

REPORTER_MAX_TIMES_PLANNED = 10  # the tests of a visit that a reporter may report, by those planned


def planned_tests_of(state: State, agent: int, round: PlannedRound) -> int:
    """The number of tests that an agent makes in one visit of this round."""
    return state.rows[state.row_in(agent, round.number)].reports.tests


def check_amount(
    state: State, round: PlannedRound, pair: AgentArm, counts: Outcome | None, role: str = "owner"
) -> None:
    """Refuse a report of more tests than somebody in this role may give for one visit."""
    if counts is None:
        return
    planned, tests = planned_tests_of(state, pair[0], round), counts[1]
    most = REPORTER_MAX_TIMES_PLANNED * planned if role == "reporter" else REPORT_MAX_TESTS
    if tests <= most:
        return
    why = f"tests of {state.agents[pair[0]].name!r} is {tests:,}, and {planned:,} planned: at most {most:,}"
    if role == "reporter" and tests <= REPORT_MAX_TESTS:
        why += " can be reported with this link; if it is right, ask a planner to report it"
    raise InvalidFields([("tests", why)])
