"""How much a link may write: everything written stays for ever, so nobody shall fill a log by mistake or on purpose."""

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable

from fastapi import Request

from heterobandits.campaigns.events import SERVER_LINK
from heterobandits.campaigns.state import State, find_member_number
from heterobandits.web.errors import TooManyWrites

BUDGET_HOUR_S = 3600.0  # seconds
REPORTER_HOURLY_WRITES = 600  # writes of a reporter's link in an hour
AGENT_HOURLY_WRITES = (
    10  # the same for each agent of the campaign, if that is more: all may report by one link
)
PLANNER_WRITES_FACTOR = 10  # times as many for planners and owners
VISIT_HOURLY_WRITES = 50  # writes of a link in an hour about one visit
BYTES = 20_000_000  # of events that a link writes in an hour: 130 plans of a thousand agents
REFUSAL_PAUSE_S = 0.5  # seconds before somebody is told so: who asks on and on is in nobody's way
BUDGETS_MAX_ENTRIES = 10_000  # budgets of links and visits that are remembered


class Budgets:
    """How much is left of each budget, which fills again evenly within a period. Any number of threads may use it."""

    def __init__(self, period_s: float = BUDGET_HOUR_S) -> None:
        self._period = period_s
        self._spent: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def spend(self, whose: Hashable, most: int, amount: int = 1) -> float:
        """Take an amount of so many a period, an hour unless said otherwise; the seconds until there is as much, if there is not."""
        moment = time.monotonic()
        with self._lock:
            spent, last = self._spent.pop(whose, (0.0, moment))
            spent = max(0.0, spent - (moment - last) * most / self._period)
            wait = max(0.0, (spent + amount - most) * self._period / most)
            self._spent[whose] = (spent if wait else spent + amount, moment)
            if len(self._spent) > BUDGETS_MAX_ENTRIES:
                self._spent.popitem(last=False)
        return wait

    def __len__(self) -> int:
        return len(self._spent)


async def refuse_too_many(request: Request) -> None:
    """Refuse a write by a link that has written too much, after a pause."""
    try:
        spend_write(request)
    except TooManyWrites:
        await asyncio.sleep(REFUSAL_PAUSE_S)
        raise


def spend_write(request: Request) -> None:
    """Charge a write to the budgets of a link; the server's owner has no limit."""
    caller = request.state.asked.caller
    if caller.role == SERVER_LINK:
        return
    budgets: Budgets = request.app.state.budgets
    state = request.state.asked.state
    usual = max(REPORTER_HOURLY_WRITES, AGENT_HOURLY_WRITES * len(state.agents))
    most = usual if caller.role == "reporter" else PLANNER_WRITES_FACTOR * usual
    link = (state.campaign, caller.link)
    wait = budgets.spend(link, most)
    if wait:
        raise TooManyWrites(
            f"this link has written {most:,} times within an hour: wait a moment, or ask an owner of the campaign for a link of "
            "your own",
            wait,
        )
    which = visit_of_request(request, state)
    if which is None:
        return
    wait = budgets.spend((*link, *which), VISIT_HOURLY_WRITES)
    if wait:
        raise TooManyWrites(
            f"this link has reported one visit {VISIT_HOURLY_WRITES} times within an hour: look at what stands there, and wait {render_minutes(wait)} "
            "before you change it again",
            wait,
        )


def spend_bytes(request: Request, size: int) -> None:
    """Take the bytes of what is about to be written from the budget of a link, likewise; give them back if they are fewer than none."""
    caller = request.state.asked.caller
    if caller.role == SERVER_LINK:
        return
    budgets: Budgets = request.app.state.budgets
    wait = budgets.spend((caller.campaign, caller.link, "bytes"), BYTES, size)
    if wait:
        raise TooManyWrites(
            f"this link has written {BYTES / 1e6:g} MB within an hour: wait {render_minutes(wait)}",
            wait,
        )


def visit_of_request(request: Request, state: State) -> tuple[int, int] | None:
    """The round and agent of the visit that a request names, if there may be such a visit."""
    if "/outcomes/" not in request.url.path:
        return None
    try:
        number = int(request.path_params["round"])
        agent = find_member_number(request.path_params["agent"], "agent", state.agent_numbers)
    except (ValueError, KeyError):  # which is refused elsewhere, with what is wrong
        return None
    return None if agent is None else (number, agent)


def render_minutes(seconds: float) -> str:
    """A time to wait, in words.

    >>> render_minutes(72.0), render_minutes(20.0)
    ('2 minutes', 'a minute')
    """
    whole = math.ceil(seconds / 60)
    return "a minute" if whole == 1 else f"{whole} minutes"
