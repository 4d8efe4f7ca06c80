"""Until when a link holds: a day, never a number of days; unless somebody says otherwise, a month after the season or a year from now."""

import calendar
from datetime import UTC, date, datetime

from heterobandits.campaigns.events import render_timestamp, utc_now
from heterobandits.campaigns.state import State, parse_time
from heterobandits.campaigns.validation import DAY_PATTERN
from heterobandits.errors import InvalidInput, repr_of

MONTHS_AFTER_SEASON = 1  # that a link holds after the last day of the season
MONTHS_WITHOUT_END = 12  # that a link holds if nobody has said when the season ends


def default_last_day(state: State) -> str:
    """The last day of a link of which nothing else is said."""
    today = datetime.now(UTC).date()
    if state.ends is None:
        return add_months(today, MONTHS_WITHOUT_END).isoformat()
    return add_months(max(today, date.fromisoformat(state.ends)), MONTHS_AFTER_SEASON).isoformat()


def add_months(day: date, months: int) -> date:
    """The same day so many months later, or the last of that month.

    >>> add_months(date(2027, 1, 31), 1).isoformat(), add_months(date(2026, 12, 5), 1).isoformat()
    ('2027-02-28', '2027-01-05')
    """
    years, month = divmod(day.month - 1 + months, 12)
    year = min(day.year + years, date.max.year)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def parse_last_day(text: str) -> str | None:
    """The time at which a link ends whose last day, in UTC, is this; None if that is blank: it holds until it is revoked."""
    text = text.strip()
    if not text:
        return None
    try:
        if not DAY_PATTERN.fullmatch(text):
            raise InvalidInput(text)
        until = parse_time(f"{text}T23:59:59Z")
    except InvalidInput:
        raise InvalidInput(
            f"{repr_of(text)} is not a day: its last day is such as 2030-12-31; blank for ever"
        ) from None
    if until <= parse_time(utc_now()):
        raise InvalidInput(f"{text} is over: today or a day to come")
    return render_timestamp(until)
