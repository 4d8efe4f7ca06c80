"""What tests of campaigns share: sealed notes, and a look into a database without our code."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import psycopg

from heterobandits.campaigns.events import GENESIS_HASH, Draft, hash_of_event, seal_events, utc_now


def events_of(drafts, last=None, campaign="c", time=None, who="Vera", **more):
    """Sealed events that follow on an event or on what a campaign was then, or that begin one."""
    after, previous = (last.number, last.hash) if last else (0, GENESIS_HASH)
    campaign = last.campaign if last else campaign
    return seal_events(
        drafts, campaign, after=after, previous=previous, time=time or utc_now(), who=who, **more
    )


def notes(count, campaign="c", after=(), who="Ana", time=None):
    """Sealed notes that follow on other events."""
    drafts = [Draft("note", {"text": f"{who} {i}"}) for i in range(count)]
    return events_of(drafts, after[-1] if after else None, campaign, time, who)


def of_first_version(events):
    """The same events as version 1 had them: without a link, and sealed without one."""
    made, previous = [], events[0].previous
    for event in events:
        first = replace(event, version=1, link=None, previous=previous)
        made.append(replace(first, hash=hash_of_event(first)))
        previous = made[-1].hash
    return made


def run_sql(database, *statements):
    """Run SQL without our code, and give back the rows of the last statement."""
    if database.startswith("postgresql"):
        connection = psycopg.connect(database, autocommit=True)
    else:
        connection = sqlite3.connect(database, isolation_level=None)
    with closing(connection):
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else None
