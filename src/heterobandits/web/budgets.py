"""How much a link may write: what is written stays for ever, so that nobody fills a log by mistake or on purpose."""

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable

from fastapi import Request

from heterobandits.campaigns.events import SERVER
from heterobandits.campaigns.state import State, number_if_known
from heterobandits.web.errors import TooMany

HOUR = 3600.0  # seconds
LEAST = 600  # writes of a reporter's link in an hour
BY_AGENT = (
    10  # the same for each agent of the campaign, if that is more: all may report by one link
)
TRUSTED = 10  # times as many for planners and owners
OF_VISIT = 50  # writes of a link in an hour about one visit
BYTES = 20_000_000  # of events that a link writes in an hour: 130 plans of a thousand agents
PAUSE = 0.5  # seconds before somebody is told so: who asks on and on is in nobody's way
MOST = 10_000  # budgets of links and visits that are remembered


class Budgets:
    """How much is left of each budget, which fills again evenly. Any number of threads may use it."""

    def __init__(self) -> None:
        self._spent: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def spend(self, whose: Hashable, most: int, amount: int = 1) -> float:
        """Take an amount of so many an hour; the seconds until there is as much, if there is not."""
        moment = time.monotonic()
        with self._lock:
            spent, last = self._spent.pop(whose, (0.0, moment))
            spent = max(0.0, spent - (moment - last) * most / HOUR)
            wait = max(0.0, (spent + amount - most) * HOUR / most)
            self._spent[whose] = (spent if wait else spent + amount, moment)
            if len(self._spent) > MOST:
                self._spent.popitem(last=False)
        return wait

    def __len__(self) -> int:
        return len(self._spent)


async def refuse_too_many(request: Request) -> None:
    """Refuse a write by a link that has written too much, after a pause."""
    try:
        spend(request)
    except TooMany:
        await asyncio.sleep(PAUSE)
        raise


def spend(request: Request) -> None:
    """Take a write from the budgets of a link; the server's owner may write without end."""
    caller = request.state.asked.caller
    if caller.role == SERVER:
        return
    budgets: Budgets = request.app.state.budgets
    state = request.state.asked.state
    usual = max(LEAST, BY_AGENT * len(state.agents))
    most = usual if caller.role == "reporter" else TRUSTED * usual
    link = (state.campaign, caller.link)
    wait = budgets.spend(link, most)
    if wait:
        raise TooMany(
            f"this link has written {most:,} times within an hour: wait a moment, or ask an owner of the campaign for a link of "
            "your own",
            wait,
        )
    which = visit_of_request(request, state)
    if which is None:
        return
    wait = budgets.spend((*link, *which), OF_VISIT)
    if wait:
        raise TooMany(
            f"this link has reported one visit {OF_VISIT} times within an hour: look at what stands there, and wait {minutes(wait)} "
            "before you change it again",
            wait,
        )


def spend_bytes(request: Request, size: int) -> None:
    """Take the bytes of what is about to be written from the budget of a link, likewise."""
    caller = request.state.asked.caller
    if caller.role == SERVER:
        return
    budgets: Budgets = request.app.state.budgets
    wait = budgets.spend((caller.campaign, caller.link, "bytes"), BYTES, size)
    if wait:
        raise TooMany(
            f"this link has written {BYTES / 1e6:g} MB within an hour: wait {minutes(wait)}", wait
        )


def visit_of_request(request: Request, state: State) -> tuple[int, int] | None:
    """The round and the agent of the visit that a request is about, if it is about one that may be there."""
    if "/outcomes/" not in request.url.path:
        return None
    try:
        number = int(request.path_params["round"])
        agent = number_if_known(request.path_params["agent"], "agent", state.agent_names)
    except (ValueError, KeyError):  # which is refused elsewhere, with what is wrong
        return None
    return None if agent is None else (number, agent)


def minutes(seconds: float) -> str:
    """A time to wait, in words.

    >>> minutes(72.0), minutes(20.0)
    ('2 minutes', 'a minute')
    """
    whole = math.ceil(seconds / 60)
    return "a minute" if whole == 1 else f"{whole} minutes"
