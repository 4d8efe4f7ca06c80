"""When a link is used is noted once an hour, after its answer, and in nobody's way."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web import link_uses
from heterobandits.web.link_uses import LinkUseNotes
from parks import park
from serving import OWNER, Asker, app_on, calling

VERA = Author("Vera")


class World:
    """A campaign and a viewer's link of it."""

    def __init__(self, folder):
        self.path = folder / "campaigns.db"
        self.app, self.log = app_on(self.path)
        self.app.state.link_uses = LinkUseNotes()
        self.id = park(self.log)
        done, self.token = issue_link(self.log, self.id, VERA, role="viewer", name="the wall")
        self.link = done.events[0].body["link"]
        self.begun = self.log.state(self.id)

    def ask(self, token=None, path=""):
        """The answer, once what it leaves to be written is written."""

        async def answered():
            async with calling(self.app, token or self.token) as client:
                answer = await client.get(f"/api/campaigns/{self.id}{path}")
                await self.app.state.link_uses.finish()
                return answer

        return asyncio.run(answered())

    @property
    def uses(self):
        return self.log.store.uses(self.id)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_the_first_and_the_last_time(world, monkeypatch):
    assert world.uses == {}
    assert world.ask().status_code == 200
    first = world.uses[world.link]
    assert world.begun.changed < first.first == first.last
    world.ask("")
    assert world.uses[world.link] == first  # within the hour
    monkeypatch.setattr(world.app.state, "link_uses", LinkUseNotes())  # as an hour later
    world.ask()
    later = world.uses[world.link]
    assert later.first == first.first < later.last
    assert world.log.state(world.id).number == world.begun.number  # it is no event


def test_once_an_hour(monkeypatch):
    class Clock:
        moment = 1000.0

        def monotonic(self):
            return self.moment

    class Counted:
        noted = 0

        def note_use(self, *given):
            self.noted += 1
            return self.noted != 2

    clock, store, notes = Clock(), Counted(), LinkUseNotes()
    monkeypatch.setattr(link_uses, "time", clock)

    def used():
        if notes.is_due("c", "l"):
            asyncio.run(notes.note(store, "c", "l"))
        return store.noted

    assert used() == used() == 1
    clock.moment += 3599
    assert used() == 1
    clock.moment += 2
    assert used() == 2  # others are writing
    assert used() == 2
    clock.moment += 61
    assert used() == used() == 3


def test_the_servers_owner_holds_no_link(world):
    assert world.ask(OWNER).status_code == 200
    assert world.uses == {}


def test_what_a_link_may_not_open_is_answered_as_ever(world):
    assert world.ask(path="/events").status_code == 403
    assert world.ask("hb_" + "0" * 12 + "_" + "0" * 12 + "_x").status_code == 401


def test_while_somebody_else_writes_nobody_waits(world):
    """Another process has the database for as long as the answer takes."""
    with closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert world.ask().status_code == 200
        assert world.uses == {}
        other.execute("ROLLBACK")
    world.app.state.link_uses = LinkUseNotes()
    world.ask()
    assert world.link in world.uses


def test_a_database_that_takes_no_writes_is_read_all_the_same(world):
    with closing(sqlite3.connect(world.path)) as other, other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON link_uses BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    assert world.ask().status_code == 200
    assert world.uses == {}


def test_nobody_waits_for_the_note(world, monkeypatch):
    """The answer is there while the note still waits to be written."""
    wait = threading.Event()
    note_use = world.log.store.note_use

    def write(*given):
        wait.wait(30)
        return note_use(*given)

    monkeypatch.setattr(world.log.store, "note_use", write)

    async def answered():
        async with calling(world.app, world.token) as client:
            answer = await client.get(f"/api/campaigns/{world.id}")
            before = world.uses
            wait.set()
            await world.app.state.link_uses.finish()
            return answer.status_code, before

    assert asyncio.run(answered()) == (200, {})
    assert world.link in world.uses


def test_the_list_of_links_has_it(world):
    world.ask()
    with Asker(world.app) as owner:
        (link,) = owner.get(f"/api/campaigns/{world.id}/links").json()["links"]
    assert link["last_used"] == world.uses[world.link].last
    assert link["made"] == world.begun.changed
