"""Databases: what may be opened, how a schema comes up to date, and copies that are databases themselves."""

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from heterobandits.campaigns.events import (
    EVENT_KINDS,
    GENESIS_HASH,
    Draft,
    check_chain,
    seal_events,
)
from heterobandits.campaigns.links import issue_link, revoke_link
from heterobandits.campaigns.storage import database as storage
from heterobandits.campaigns.storage import maintenance
from heterobandits.campaigns.storage.database import (
    SCHEMA_REVISION,
    VERSION_TABLE,
    connect_database,
)
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import (
    KeyedWrite,
    Snapshot,
    Store,
    StoreUnavailable,
    WriteConflict,
)
from heterobandits.campaigns.storage.tables import METADATA
from heterobandits.cli.db import app
from heterobandits.errors import InvalidInput, UnsupportedVersion
from logs import notes, of_first_version, run_sql
from parks import park
from paths import TESTS

pytestmark = [pytest.mark.usefixtures("ends"), pytest.mark.smoke]

FIRST = TESTS / "fixtures" / "first-schema.sqlite"
LATER = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9000", "0003"


def upgrade():
    op.add_column("settings", sa.Column("note", sa.Text, nullable=False, server_default="later"))
    op.create_table("later", sa.Column("a", sa.Integer))
"""
FIRST_TIME = "2026-03-01T09:30:00.000000Z"


def first_events():
    """The events of the database of the first schema: one of every kind of then."""
    drafts = [
        Draft(kind, {"kind": kind, "number": i, "ü": [0.1, None]})
        for i, kind in enumerate(EVENT_KINDS[:18])
    ]
    place = {"after": 0, "previous": GENESIS_HASH, "time": FIRST_TIME, "who": "Ana"}
    return of_first_version(seal_events(drafts, "first", key="k1", **place))


def make_first(path=FIRST):
    """Make the database of the first schema; it was made by the version that had this schema, and stays."""
    assert SCHEMA_REVISION == "0001"
    path.parent.mkdir(exist_ok=True)
    with Store(path) as store:
        store.append(first_events(), scope="s", key="k1", digest="d")
        store.append(notes(2, "second", time=FIRST_TIME))
        store.keep_snapshot("first", Snapshot(7, "0.1.0", b"\x00\xff"))
        store.settle("owner", "somebody")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # one file, whole
        connection.execute("PRAGMA page_size = 512")
        connection.execute("VACUUM")


def db(*arguments):
    """The exit code of a command on databases."""
    return app([str(argument) for argument in arguments], standalone_mode=False) or 0


def everything(where):
    """All rows of a database, without our code."""
    tables = ("events", "keys", "snapshots", "settings", "link_uses")
    return {
        name: sorted([*map(repr, row)] for row in run_sql(str(where), f"SELECT * FROM {name}"))
        for name in tables
    }


@pytest.fixture
def filled(database):
    """A database with something in every table."""
    with Store(database) as store:
        store.append(first_events(), scope="s", key="k", digest="d")
        store.append(notes(1200, "c"))
        store.keep_snapshot("c", Snapshot(3, "v", bytes(range(256))))
        store.settle("owner", "ü")
        assert store.note_use("c", "0123456789ab", FIRST_TIME)
    return database


class TestOpening:
    """What is no database of ours is refused, and left as it is."""

    def test_a_new_database_is_made_only_if_it_may_be(self, database):
        with pytest.raises(InvalidInput, match=r"there is no database|is an empty database"):
            Store(database, create=False)
        Store(database).close()
        with Store(database, create=False) as store:
            assert store.heads() == []

    def test_an_empty_file_is_a_new_database(self, tmp_path):
        (tmp_path / "a.db").touch()
        with pytest.raises(InvalidInput, match="is an empty database"):
            Store(tmp_path / "a.db", create=False)
        with Store(tmp_path / "a.db") as store:
            assert store.heads() == []

    def test_another_program_s_database_is_left_alone(self, database):
        run_sql(database, "CREATE TABLE theirs (a integer)", "INSERT INTO theirs VALUES (1)")
        for create in (True, False):
            with pytest.raises(
                InvalidInput, match="not a database of heterobandits, but of another"
            ):
                Store(database, create=create)
        assert run_sql(database, "SELECT * FROM theirs") == [(1,)]
        if not database.startswith("postgresql"):
            assert run_sql(database, "PRAGMA journal_mode") == [("delete",)]
            assert run_sql(database, "SELECT count(*) FROM sqlite_master") == [(1,)]

    @pytest.mark.parametrize("mark", [0, 1])
    def test_a_file_with_another_mark_is_not_ours(self, tmp_path, mark):
        path = str(tmp_path / "a.db")
        Store(path).close()
        run_sql(path, f"PRAGMA application_id = {mark}")
        with pytest.raises(InvalidInput, match="not a database of heterobandits"):
            Store(path)

    def test_a_file_that_is_no_database_is_left_alone(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("Ana saw three of them. " * 100)
        with pytest.raises(InvalidInput, match=r"notes\.txt is not a database of heterobandits"):
            Store(path)
        assert path.read_text() == "Ana saw three of them. " * 100

    def test_places_where_no_file_can_be(self, tmp_path):
        (tmp_path / "folder").mkdir()
        for path in (tmp_path / "folder", tmp_path / "none" / "a.db", "", "a\0b"):
            with pytest.raises(InvalidInput) as error:
                Store(path)
            assert "\n" not in str(error.value)

    def test_a_newer_schema_is_refused(self, database):
        Store(database).close()
        run_sql(database, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
        with pytest.raises(
            UnsupportedVersion, match=f"schema 9999: this version knows up to {SCHEMA_REVISION}"
        ):
            Store(database)
        with pytest.raises(UnsupportedVersion):
            maintenance.upgrade_database(database)

    def test_an_older_schema_is_refused_until_it_is_upgraded(self, database):
        Store(database).close()
        run_sql(database, f"UPDATE {VERSION_TABLE} SET version_num = '0000'")
        with pytest.raises(
            InvalidInput, match=r"older schema 0000, .* run `heterobandits db upgrade`"
        ):
            Store(database)
        with pytest.raises(InvalidInput, match="has the schema '0000', which no version has"):
            maintenance.upgrade_database(database)

    def test_an_url_of_sqlite_is_a_path(self, tmp_path):
        with Store(f"sqlite:///{tmp_path / 'a.db'}") as store:
            store.append(notes(1))
        with Store(tmp_path / "a.db", create=False) as store:
            assert len(store.read("c")) == 1


class TestSchema:
    """The migrations lead to the tables that the code knows."""

    def test_the_last_migration_is_the_schema_known_here(self):
        assert ScriptDirectory(storage.MIGRATIONS_FOLDER).get_heads() == [SCHEMA_REVISION]

    def test_migrations_make_the_tables(self, database):
        Store(database).close()
        place = connect_database(database)
        with place.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, METADATA) == []
        place.engine.dispose()

    def test_a_new_file_is_its_owners_alone(self, tmp_path):
        path = tmp_path / "x.db"
        with Store(path) as store:
            store.append(notes(1))
            modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("x.db", "x.db-wal", "x.db-shm"), 0o600)
        assert (
            maintenance.backup_database(path, tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
        )
        path.chmod(0o640)
        with Store(path):
            assert path.stat().st_mode & 0o777 == 0o640  # as somebody wanted it

    @pytest.mark.parametrize("replaced", [False, True])
    def test_a_file_that_is_gone_takes_no_more_events(self, tmp_path, replaced):
        path = tmp_path / "x.db"
        with Store(path) as store:
            store.append(notes(1))
            if replaced:
                maintenance.backup_database(path, tmp_path / "copy.db")
            for one in tmp_path.glob("x.db*"):
                one.unlink()
            if replaced:
                maintenance.restore_database(tmp_path / "copy.db", path)
            for use in (lambda: store.append(notes(1, after=notes(1))), lambda: store.read("c")):
                with pytest.raises(StoreUnavailable, match="deleted, or another is in its place"):
                    use()
        with Store(path) as again:
            assert len(again.read("c")) == replaced

    @pytest.mark.parametrize("gone", [["-wal", "-shm"], ["-wal"], ["-shm"], []])
    def test_a_file_that_has_lost_a_part_takes_no_more_events(self, tmp_path, gone):
        path = tmp_path / "x.db"
        (tmp_path / "link.db").symlink_to(path)
        made = notes(9)
        with Store(path) as store, Store(tmp_path / "link.db") as other:
            store.append(made[:1])
            other.append(made[1:2])
            for end in gone:
                (tmp_path / f"x.db{end}").unlink()
            if not gone:
                path.write_bytes(b"")
            for one in (store, other):
                for use in (one.check, lambda one=one: one.append(made[2:3])):
                    with pytest.raises(StoreUnavailable, match="deleted, or another is in its pl"):
                        use()

    def test_a_file_that_is_gone_while_a_write_waits_for_it(self, tmp_path):
        """The lock is waited for longer than it takes to put another file in its place."""
        path = tmp_path / "x.db"
        with Store(path) as store:
            store.append(notes(1))
            Store(tmp_path / "new.db").close()
            other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(store.append, notes(1, after=notes(1)))
                time.sleep(0.3)
                assert not waiting.done()
                for end in ("-wal", "-shm"):
                    path.with_name(f"x.db{end}").unlink()
                (tmp_path / "new.db").rename(path)
                other.execute("COMMIT")
                with pytest.raises(StoreUnavailable, match="deleted, or another is in its place"):
                    waiting.result()
            other.close()

    def test_what_sqlite_itself_deletes_is_not_missed(self, tmp_path):
        path = tmp_path / "x.db"
        made = notes(9)
        with Store(path) as store, Store(path) as other:
            store.append(made[:1])
            other.append(made[1:2])
            other.close()
            store.append(made[2:3])
            store.close()
            assert not (tmp_path / "x.db-wal").exists()
            other.append(made[3:4])
            store.append(made[4:5])
            run_sql(str(path), "PRAGMA wal_checkpoint(TRUNCATE)")
            other.append(made[5:6])
            assert store.read("c") == made[:6]

    def test_a_database_that_takes_no_writes_is_said(self, postgres):
        url = postgres.fresh()
        with Store(url) as store:
            store.check()
        only_read = f"{url}?options=-c%20default_transaction_read_only%3Don"
        with (
            Store(only_read, create=False) as store,
            pytest.raises(StoreUnavailable, match="takes no writes"),
        ):
            store.check()

    def test_a_file_is_set_up_for_readers_and_power_cuts(self, tmp_path):
        path = tmp_path / "a.db"
        Store(path).close()
        assert run_sql(str(path), "PRAGMA journal_mode") == [("wal",)]
        assert run_sql(str(path), "PRAGMA application_id") == [(storage.SQLITE_APPLICATION_ID,)]
        place = connect_database(path)
        with place.engine.connect() as connection:
            for pragma, value in (("synchronous", 2), ("foreign_keys", 1)):
                assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar_one() == value
        place.engine.dispose()


class TestBackup:
    """A backup is a database with the same rows, taken at one moment, put in place whole."""

    def test_a_backup_has_all_rows(self, filled, tmp_path):
        target = tmp_path / "copies" / "a b.db"
        target.parent.mkdir()
        assert maintenance.backup_database(filled, target) == target
        assert everything(target) == everything(filled)
        assert [path.name for path in target.parent.iterdir()] == ["a b.db"]
        with Store(target, create=False) as copy:
            assert copy.read("first") == first_events()
            copy.append(notes(1, "c", after=copy.read("c")))

    def test_a_backup_overwrites_nothing(self, filled, tmp_path):
        target = tmp_path / "there.db"
        target.write_text("mine")
        with pytest.raises(InvalidInput, match=r"there\.db is there already"):
            maintenance.backup_database(filled, target)
        assert target.read_text() == "mine"

    def test_a_backup_that_cannot_be_written_leaves_nothing(self, filled, tmp_path):
        with pytest.raises(InvalidInput, match="cannot write to"):
            maintenance.backup_database(filled, tmp_path / "none" / "a.db")
        assert not (tmp_path / "none").exists()

    def test_a_backup_under_load_is_of_one_moment(self, filled, tmp_path):
        over = threading.Event()
        told = []

        def write():
            with Store(filled) as store:
                made = store.read("c")
                while not over.is_set():
                    new = notes(2, "c", after=made)
                    store.append(new, key=str(len(told)), digest=new[-1].hash)
                    made += new
                    told.append(new[-1].number)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            while not told:
                pass
            copies, least = [], []
            for number in range(3):
                least.append(told[-1])
                copies.append(maintenance.backup_database(filled, tmp_path / f"{number}.db"))
        finally:
            over.set()
            writer.join()
        for copy, before in zip(copies, least, strict=True):
            with Store(copy, create=False) as store:
                log = list(check_chain(store.read("c")))
                pairs = (len(log) - 1200) // 2
                last = store.keyed("", str(pairs - 1))
                assert len(log) % 2 == 0
                assert log[-1].number >= before
                assert (last.last, last.digest) == (log[-1].number, log[-1].hash)
                assert store.keyed("", str(pairs)) is None

    def test_a_backup_is_restored_into_any_empty_database(
        self, filled, database, tmp_path, request
    ):
        copy = maintenance.backup_database(filled, tmp_path / "copy.db")
        targets = [tmp_path / "new.db"]
        if database.startswith("postgresql"):
            targets.append(request.getfixturevalue("postgres").fresh())
        for target in targets:
            maintenance.restore_database(copy, target)
            assert everything(target) == everything(filled)
            with Store(target, create=False) as store:
                assert store.keyed("s", "k") == KeyedWrite("d", "first", 1, 18)
                with pytest.raises(WriteConflict):
                    store.append(first_events())

    def test_a_backup_is_restored_into_nothing_else(self, filled, tmp_path):
        copy = maintenance.backup_database(filled, tmp_path / "copy.db")
        before = everything(filled)
        with pytest.raises(InvalidInput, match="has campaigns already"):
            maintenance.restore_database(copy, filled)
        assert everything(filled) == before
        for file in (tmp_path / "none.db", tmp_path):
            with pytest.raises(InvalidInput, match="there is no database"):
                maintenance.restore_database(file, tmp_path / "other.db")
        (tmp_path / "empty.db").touch()
        with pytest.raises(InvalidInput, match="is an empty database"):
            maintenance.restore_database(tmp_path / "empty.db", tmp_path / "other.db")
        assert not (tmp_path / "other.db").exists()


class TestCheck:
    """The check reads everything, and names the first event that does not fit."""

    def test_a_whole_database_is_said_to_be(self, filled, capsys):
        assert db("check", "--database", filled) == 0
        last = "SELECT hash FROM events ORDER BY campaign, number"
        hashes = [row[0][:12] for row in run_sql(str(filled), last)]
        assert capsys.readouterr().out.splitlines() == [
            f"schema: {SCHEMA_REVISION}",
            "database: whole",
            "append-only: kept by triggers",
            f"campaign 'c': 1,200 events, whole, the last with hash {hashes[1199]}",
            f"campaign 'first': 18 events, whole, the last with hash {hashes[-1]}",
        ]

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (
                "UPDATE events SET who = 'Eve' WHERE campaign = 'c' AND number = 700",
                "event 700 is not what",
            ),
            (
                "UPDATE events SET body = '{' WHERE campaign = 'c' AND number = 700",
                "event 700 is not what",
            ),
            ("DELETE FROM events WHERE campaign = 'c' AND number = 700", "event 700 is missing"),
            ("DELETE FROM events WHERE campaign = 'c' AND number < 3", "event 1 is missing"),
            (
                "UPDATE events SET version = 9 WHERE campaign = 'c' AND number = 700",
                "event 700 is 'note' of version 9",
            ),
        ],
    )
    def test_the_first_event_that_does_not_fit_is_named(self, filled, capsys, change, says):
        off = ["DROP TRIGGER events_are_not_changed", "DROP TRIGGER events_are_not_deleted"]
        if filled.startswith("postgresql"):
            off = ["ALTER TABLE events DISABLE TRIGGER USER"]
        run_sql(filled, *off, change)
        assert db("check", "--database", filled, "--format", "json") == 1
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        wrong = {one["what"]: one["says"] for one in found if not one["fine"]}
        assert [*wrong] == ["append-only", "campaign 'c'"]
        assert "events_are_not_changed is missing" in wrong["append-only"]
        assert wrong["campaign 'c'"].startswith(says)

    def test_triggers_that_keep_nothing_are_found(self, filled, capsys):
        hollow = ["DROP TRIGGER events_are_not_deleted"]
        hollow += ["CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events WHEN 0 BEGIN SELECT 1; END"]  # fmt: skip
        named = ["events_are_not_deleted"]
        if filled.startswith("postgresql"):
            hollow = ["CREATE OR REPLACE FUNCTION refuse_change_of_events() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$"]  # fmt: skip
            named = ["events_are_not_changed", "events_are_not_truncated"]
        run_sql(filled, *hollow)
        assert db("check", "--database", filled) == 1
        says = ", ".join(f"{name} is another one" for name in named)
        assert f"append-only: {says}: events could be changed" in capsys.readouterr().out

    def test_a_trigger_that_was_added_is_found(self, filled, capsys):
        swallows = ["CREATE TRIGGER zz BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END"]
        if filled.startswith("postgresql"):
            swallows = [
                "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
                "CREATE TRIGGER zz BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION swallow()",
            ]
        run_sql(filled, *swallows)
        assert db("check", "--database", filled) == 1
        assert "append-only: zz was added: events could be" in capsys.readouterr().out

    def test_a_trigger_on_some_rows_is_found(self, postgres, capsys):
        url = postgres.fresh()
        Store(url).close()
        call = "FOR EACH ROW WHEN (OLD.number < 0) EXECUTE FUNCTION refuse_change_of_events()"
        run_sql(
            url,
            "DROP TRIGGER events_are_not_changed ON events",
            f"CREATE TRIGGER events_are_not_changed BEFORE DELETE OR UPDATE ON events {call}",
        )
        assert db("check", "--database", url) == 1
        assert "append-only: events_are_not_changed is another one:" in capsys.readouterr().out

    def test_a_key_of_a_lost_event_is_found(self, tmp_path, capsys):
        path = tmp_path / "a.db"
        with Store(path) as store:
            store.append(notes(3), key="k")
        run_sql(
            str(path), "DROP TRIGGER events_are_not_deleted", "DELETE FROM events WHERE number = 3"
        )
        assert db("check", "--database", path) == 1
        assert "database: a row of keys is of an event that is not there" in capsys.readouterr().out

    def test_a_damaged_file_is_found(self, tmp_path, capsys):
        path = tmp_path / "a.db"
        with Store(path) as store:
            store.append(notes(2000))
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 5000] = bytes(5000)
        path.write_bytes(data)
        assert db("check", "--database", path) == 1
        assert "database: damaged" in capsys.readouterr().out
        with pytest.raises(StoreUnavailable, match=r"a\.db: the file is damaged"):
            maintenance.backup_database(path, tmp_path / "copy.db")
        assert [one.name for one in tmp_path.iterdir() if "copy" in one.name] == []

    @pytest.mark.parametrize("command", [["check"], ["upgrade"], ["backup", "copy.db"]])
    def test_a_schema_that_is_no_text_is_damage(self, tmp_path, monkeypatch, command):
        monkeypatch.chdir(tmp_path)
        with Store("a.db") as store:
            store.append(notes(3))
        data = Path("a.db").read_bytes()
        Path("a.db").write_bytes(data.replace(b"CREATE TABLE events", b"CREATE \xffABLE events", 1))
        with pytest.raises(StoreUnavailable, match=r"a\.db: the file is damaged"):
            db(*command, "--database", "a.db")


class TestCommands:
    """The commands say what they did, and take the database from an option or a variable."""

    def test_backup_and_restore_say_what_they_did(self, filled, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("HETEROBANDITS_DATABASE", filled)
        assert db("backup", tmp_path / "copy.db") == 0
        assert db("restore", tmp_path / "copy.db", "--database", tmp_path / "new.db") == 0
        said = capsys.readouterr().out
        assert "copy.db is a backup of all campaigns" in said
        assert "new.db has all campaigns of" in said
        assert everything(tmp_path / "new.db") == everything(filled)

    def test_links_of_a_backup_open_again_unless_they_are_revoked(self, database, tmp_path, called):
        me = Author("Vera")
        with Store(tmp_path / "a.db") as store:
            log = Repository(store)
            parks = [park(log), park(log, name="South park")]
            made = [
                issue_link(log, one, me, role="owner", name=name)[0].events[0].body["link"]
                for one, name in zip(parks * 2, ("Eva", "Fay", "Gus", "Hal"), strict=True)
            ]
            revoke_link(log, parks[1], me, made[3])
            ida = {"link": "b" * 12, "role": "viewer", "name": "Ida", "agent": None, "expires": "2020-01-01T00:00:00Z", "token_hash": "0" * 64}  # fmt: skip
            log.write(parks[0], me, lambda state: [Draft("link issued", ida)])
            copy = maintenance.backup_database(tmp_path / "a.db", tmp_path / "copy.db")
            revoke_link(log, parks[0], me, made[0])
        code, _, err = called("db", "restore", copy, "--database", tmp_path / "as-it-was.db")
        assert code == 0
        assert "links that were revoked after the backup was made open again" in err
        assert "--revoke-links" in err
        assert "new-owner" in err
        code, out, err = called(
            "db", "restore", copy, "--database", database, "--revoke-links", "--who", "Vera"
        )
        assert code == 0
        assert "are revoked: 4" in out
        assert "open again" not in err
        with Store(tmp_path / "as-it-was.db") as before, Store(database) as after:
            assert not Repository(before).state(parks[0]).links[made[0]].revoked
            for one in parks:
                assert all(link.revoked for link in Repository(after).state(one).links.values())
            last = after.read(parks[0])[-1]
            assert (last.kind, last.who) == ("link revoked", "Vera")

    def test_what_cannot_be_read_is_in_nobodys_way_when_links_are_revoked(self, tmp_path, called):
        with Store(tmp_path / "a.db") as store:
            log = Repository(store)
            issue_link(log, park(log), Author("Vera"), role="owner", name="Eva")
            store.append(notes(1, "c"))  # without a first event that makes a campaign
        copy = maintenance.backup_database(tmp_path / "a.db", tmp_path / "copy.db")
        code, out, err = called(
            "db", "restore", copy, "--database", tmp_path / "b.db", "--revoke-links"
        )
        assert code == 0
        assert "are revoked: 1" in out
        assert "cannot be read" in err

    def test_upgrade_says_what_there_was_to_do(self, filled, capsys):
        assert db("upgrade", "--database", filled) == 0
        assert capsys.readouterr().out == f"schema {SCHEMA_REVISION} already\n"

    @pytest.mark.parametrize(
        "command",
        [
            ["db", "check", "--database"],
            ["campaign", "list"],
            ["serve", "--port", "0", "--database"],
        ],
    )
    @pytest.mark.parametrize(
        ("url", "warned"),
        [
            ("postgresql://hb:sekret@127.0.0.1:1/none", True),
            ("postgresql://127.0.0.1:1/none?user=hb&password=sekret", True),
            ("postgresql://hb@127.0.0.1:1/none", False),
        ],
    )
    def test_a_password_on_the_command_line_is_warned_of(self, called, command, url, warned):
        code, _, err = called(*command, url)
        assert code == 2  # nobody listens there
        assert err.count("warning: everybody on this machine can read a password") == warned
        assert "sekret" not in err

    def test_a_password_in_the_environment_is_not_warned_of(self, called, monkeypatch):
        monkeypatch.setenv("HETEROBANDITS_DATABASE", "postgresql://hb:sekret@127.0.0.1:1/none")
        code, _, err = called("db", "check")
        assert code == 2
        assert "warning" not in err
        assert "sekret" not in err

    def test_a_database_is_needed(self, tmp_path, monkeypatch):
        monkeypatch.delenv("HETEROBANDITS_DATABASE", raising=False)
        for arguments in (["check"], ["upgrade", "--database", ""], ["backup", tmp_path / "a"]):
            with pytest.raises(
                InvalidInput, match="--database is needed, or HETEROBANDITS_DATABASE"
            ):
                db(*arguments)


@pytest.fixture
def later(monkeypatch, tmp_path):
    """The schema of a version to come, which has one more migration: call it, and it is this version's."""
    folder = tmp_path / "migrations"
    shutil.copytree(storage.MIGRATIONS_FOLDER, folder)
    (folder / "versions" / "later.py").write_text(LATER)

    def arrive():
        monkeypatch.setattr(storage, "MIGRATIONS_FOLDER", folder)
        for module in (storage, maintenance):
            monkeypatch.setattr(module, "SCHEMA_REVISION", "9000")

    return arrive


class TestLaterSchema:
    """A database of today is not touched by a later version until it is told to upgrade it."""

    def test_it_is_upgraded_when_asked(self, filled, later, capsys):
        before = everything(filled)
        later()
        with pytest.raises(
            InvalidInput, match=r"older schema 0003, .* needs 9000: run `heterobandits db"
        ):
            Store(filled)
        assert db("check", "--database", filled) == 1
        assert (
            "campaigns: not read: run `heterobandits db upgrade` first" in capsys.readouterr().out
        )
        assert db("upgrade", "--database", filled) == 0
        assert capsys.readouterr().out == "from schema 0003 to 9000\n"
        assert run_sql(filled, "SELECT name, value, note FROM settings") == [
            ("owner", "ü", "later")
        ]
        run_sql(filled, "ALTER TABLE settings DROP COLUMN note")
        assert everything(filled) == before

    def test_a_backup_keeps_its_schema_and_is_upgraded_when_restored(self, filled, later, tmp_path):
        later()
        copy = str(maintenance.backup_database(filled, tmp_path / "copy.db"))
        assert run_sql(copy, f"SELECT version_num FROM {VERSION_TABLE}") == [("0003",)]
        assert everything(copy) == everything(filled)
        maintenance.restore_database(copy, tmp_path / "new.db")
        with Store(tmp_path / "new.db", create=False) as store:
            assert store.read("first") == first_events()

    def test_an_upgrade_that_fails_changes_nothing(self, filled, later):
        before = everything(filled)
        later()
        run_sql(filled, "CREATE TABLE later (a integer)")  # which the migration is going to make
        with pytest.raises(StoreUnavailable, match="already exists"):
            maintenance.upgrade_database(filled)
        assert run_sql(filled, f"SELECT version_num FROM {VERSION_TABLE}") == [("0003",)]
        assert everything(filled) == before


class TestFirstSchema:
    """A database of the first schema can be brought up and read by every version since."""

    def test_it_is_upgraded_and_read(self, tmp_path):
        path = tmp_path / "first.sqlite"
        path.write_bytes(FIRST.read_bytes())
        assert maintenance.upgrade_database(path) == ("0001", SCHEMA_REVISION)
        with Store(path, create=False) as store:
            assert store.read("first") == first_events()
            assert list(check_chain(store.read("second"))) == of_first_version(
                notes(2, "second", time=FIRST_TIME)
            )
            assert store.keyed("s", "k1") == KeyedWrite("d", "first", 1, 18)
            assert store.snapshot("first") == Snapshot(7, "0.1.0", b"\x00\xff")
            assert store.setting("owner") == "somebody"
            assert store.uses("first") == {}
        assert all(finding.fine for finding in maintenance.check_database(path))

    def test_it_is_of_the_first_schema(self):
        assert run_sql(str(FIRST), f"SELECT version_num FROM {VERSION_TABLE}") == [("0001",)]


def test_a_killed_backup_leaves_no_backup(tmp_path):
    path = tmp_path / "a.db"
    with Store(path) as store:
        store.append(notes(20_000))
    script = "import sys; from heterobandits.campaigns.storage.maintenance import backup_database; print('go', flush=True); backup_database(*sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", script, path, tmp_path / "copy.db"], stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.read(3) == b"go\n"
        while not list(tmp_path.glob("copy.db.*-journal")):
            assert process.poll() is None
        process.kill()
    assert not (tmp_path / "copy.db").exists()
