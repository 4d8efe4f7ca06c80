"""The contract of the store, on every database it may be kept in: each event once, in order, whole, and never lost."""

import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace

import psycopg
import pytest

from heterobandits.campaigns import events
from heterobandits.campaigns.events import (
    GENESIS_HASH,
    Draft,
    Event,
    NotInOrder,
    canonical_json,
    check_chain,
    seal_events,
    utc_now,
)
from heterobandits.campaigns.storage import store as module
from heterobandits.campaigns.storage.store import (
    KeyedWrite,
    Snapshot,
    Store,
    StoreUnavailable,
    UnknownCampaign,
    WriteConflict,
)
from heterobandits.errors import InvalidInput
from logs import events_of, notes, run_sql
from postgres import ESCAPED, PASSWORD

pytestmark = [pytest.mark.usefixtures("ends"), pytest.mark.smoke]

BODIES = [
    {},
    {"name": "Fährte 🐾", "lists": [[], [1, [2.5]], {"b": None, "a": True}]},
    {"numbers": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 2**70, -1]},
    {"text": "a\\u0000b \\ \" \t\n\u2028 </script> '; DROP TABLE events; -- %s ? :id"},
    {"long": "x" * 100_000},
]

EACH = 15  # appends of each process that writes

# Writes notes to one campaign, each after what is there; says which are written, and goes on after a conflict.
WRITER = """
import sys
from heterobandits.campaigns.events import Draft, GENESIS_HASH, utc_now, seal_events
from heterobandits.campaigns.storage.store import WriteConflict, Store, UnknownCampaign

database, campaign, who, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
store = Store(database)
print("ready", flush=True)
sys.stdin.readline()
written = conflicts = 0
while written < count:
    try:
        head = store.head(campaign)
        after, previous = head.number, head.hash
    except UnknownCampaign:
        after, previous = 0, GENESIS_HASH
    drafts = [Draft("note", {"text": f"{who} {written}", "part": part}) for part in range(2)]
    events = seal_events(drafts, campaign, after=after, previous=previous, time=utc_now(), who=who)
    try:
        store.append(events, scope=who, key=str(written), digest=events[-1].hash)
    except WriteConflict:
        conflicts += 1
        continue
    written += 1
    print(events[0].number, events[0].hash, flush=True)
print("conflicts", conflicts, flush=True)
"""


@pytest.fixture
def store(database):
    with Store(database) as opened:
        yield opened


def started(*arguments):
    """A process that writes, as soon as it is told to."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(*processes):
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


class TestReading:
    """What was appended is read as it was, by anybody, in order."""

    def test_what_is_appended_is_read(self, database, store):
        drafts = [Draft("note", body) for body in BODIES]
        made = events_of(drafts, who="Zoë", key="k\\u0000")
        store.append(made)
        with Store(database, create=False) as other:
            for reader in (store, other):
                assert reader.read("c") == made
        assert list(check_chain(store.read("c"))) == made
        assert repr(store.read("c")[2].body["numbers"][1]) == "-0.0"

    def test_an_event_that_was_sealed_here_is_written_and_hashed_once(self, store, monkeypatch):
        written, hashed = [], []
        text_of, hash_of = events.canonical_json, events.hash_of_event
        monkeypatch.setattr(
            events, "canonical_json", lambda one: written.append(one) or text_of(one)
        )
        monkeypatch.setattr(events, "hash_of_event", lambda one: hashed.append(one) or hash_of(one))
        (made,) = seal_events(
            [Draft("note", {"text": "a"})],
            "c",
            after=0,
            previous=GENESIS_HASH,
            time=utc_now(),
            who="A",
        )
        store.append([made])
        assert (written.count(made.body), len(hashed)) == (1, 1)
        list(check_chain(store.read("c")))  # which has it from elsewhere
        assert (written.count(made.body), len(hashed)) == (2, 2)

    def test_the_latest_about_each_subject(self, store):
        visits = [(1, 1), (2, 1), (1, 11), (1, 1), (1, 1), (2, 1), (1, 1)]
        bodies = [{"agent": f"agent-{agent}", "round": round} for agent, round in visits]
        drafts = [Draft("corrected", body) for body in bodies]
        made = events_of([*drafts, Draft("note", bodies[0])])
        store.append(made)

        def latest(after, *wanted):
            about = [(f'"agent":"agent-{agent}"', f'"round":{round}') for agent, round in wanted]
            found = store.latest("c", after, about, ["corrected"], 2)
            return [(count, [event.number for event in events]) for count, events in found]

        asked = [(2, 1), (1, 1), (3, 1), (1, 11)]
        assert latest(0, *asked) == [(2, [2, 6]), (4, [5, 7]), (0, []), (1, [3])]
        assert latest(5, *asked) == [(1, [6]), (1, [7]), (0, []), (0, [])]
        (one,) = store.latest("c", 6, [('"round":1',)], ["corrected"], 2)
        assert one == (1, [made[6]])

    def test_the_bytes_of_a_body_stay(self, database, store):
        store.append(events_of([Draft("note", body) for body in BODIES]))
        rows = run_sql(database, "SELECT body FROM events ORDER BY number")
        assert [body for (body,) in rows] == [canonical_json(body) for body in BODIES]

    @pytest.mark.parametrize(
        ("after", "upto"),
        [
            (0, None),
            (3, None),
            (0, 4),
            (3, 5),
            (5, 5),
            (6, 3),
            (-2, 3),
            (9, None),
            (10**30, None),
            (2, 10**30),
            (0, -5),
        ],
    )
    def test_a_part_is_what_lies_between(self, store, after, upto):
        made = notes(7)
        store.append(made)
        between = [e for e in made if e.number > after and (upto is None or e.number <= upto)]
        assert store.read("c", after, upto) == between

    def test_campaigns_do_not_mix(self, store):
        first, second = notes(2, "c"), notes(3, "C")
        store.append(first)
        store.append(second)
        assert store.read("c") == first
        assert store.read("C") == second
        assert store.read("d") == []

    def test_a_damaged_body_is_named(self, tmp_path):
        path = str(tmp_path / "a.db")
        with Store(path) as store:
            store.append(notes(3))
            run_sql(
                path,
                "DROP TRIGGER events_are_not_changed",
                "UPDATE events SET body = '{' WHERE number = 2",
            )
            with pytest.raises(
                NotInOrder, match="event 2 is not what its hash says: its body is no JSON"
            ):
                store.read("c")
            run_sql(path, "UPDATE events SET body = '{},{}' WHERE number = 2")
            with pytest.raises(NotInOrder, match="event 2 is not"):
                store.read("c")


class TestHeads:
    """Where campaigns stand, without a look at all their events."""

    def test_a_head_is_the_last_event(self, store):
        made = notes(3, time="2026-03-01T09:30:00.000000Z")
        later = notes(2, after=made, time="2026-03-02T00:00:00.000000Z")
        store.append(made)
        store.append(later)
        head = store.head("c")
        assert head == ("c", 5, later[-1].hash, later[-1].time, made[0].time)

    def test_heads_stand_by_creation(self, store):
        assert store.heads() == []
        for campaign, day in (("b", 2), ("a", 3), ("c", 1)):
            store.append(notes(day, campaign, time=f"2026-03-0{day}T00:00:00.000000Z"))
        store.append(notes(1, "c", after=store.read("c"), time="2026-04-01T00:00:00.000000Z"))
        assert [head.campaign for head in store.heads()] == ["c", "b", "a"]
        assert store.heads() == [store.head(name) for name in "cba"]

    @pytest.mark.parametrize("campaign", ["d", "", "C", "\0", "\ud800", "c' OR '1'='1"])
    def test_an_unknown_campaign_is_named(self, store, campaign):
        store.append(notes(1))
        with pytest.raises(UnknownCampaign, match="there is no campaign"):
            store.head(campaign)
        assert store.read(campaign) == []
        assert store.snapshot(campaign) is None

    def test_no_query_reads_all_events(self, tmp_path):
        path = str(tmp_path / "a.db")
        with Store(path) as store:
            for query in (module.HEADS_QUERY, module.LAST_EVENT_QUERY, module.EVENTS_QUERY):
                text = str(
                    query.compile(store._place.engine, compile_kwargs={"literal_binds": False})
                )
                plan = run_sql(path, f"EXPLAIN QUERY PLAN {text.replace('?', '1')}")
                steps = [step for *_, step in plan]
                assert steps
                assert not [s for s in steps if s.startswith("SCAN") and "events_first" not in s]


class TestAppending:
    """Events follow on what is there, all or none."""

    def test_an_event_of_the_past_is_a_conflict(self, store):
        made = notes(3)
        store.append(made)
        others = notes(2, after=made[:1], who="Ben")
        later = notes(2, after=notes(1, after=made), who="Ben")
        strange = [replace(one) for one in notes(1, after=notes(3, who="Ben"))]
        for wrong in (
            made,
            made[:1],
            notes(1, who="Ben"),
            others,
            later,
            strange,
            notes(2, "d")[1:],
        ):
            with pytest.raises(
                WriteConflict, match=f"event {wrong[0].number} of campaign '[cd]' does not"
            ):
                store.append(wrong)
        assert store.read("c") == made
        assert [head.campaign for head in store.heads()] == ["c"]

    @pytest.mark.parametrize(
        "spoilt",
        [
            lambda made: [made[0], replace(made[1], body={"text": "else"}), made[2]],
            lambda made: [made[0], made[2]],
            lambda made: [made[0], made[1], replace(made[2], campaign="d")],
            lambda made: [made[1], made[0], made[2]],
            lambda made: [replace(made[0], hash="0" * 64)],
            lambda made: [],
        ],
    )
    def test_what_is_no_chain_is_not_written(self, store, spoilt):
        with pytest.raises(InvalidInput):
            store.append(spoilt(notes(3)))
        assert store.heads() == []

    @pytest.mark.parametrize("text", ["a\0b", "\ud83d"])
    def test_texts_that_no_database_keeps_are_refused(self, store, text):
        known = {"time": utc_now(), "after": 0, "previous": GENESIS_HASH}
        fine = seal_events([Draft("note", {"text": "a"})], "c", who="A", **known)[0]
        spoilt = [
            replace(fine, body={"deep": [{text: 1}]}),
            replace(fine, campaign=text),
            replace(fine, who=text),
            replace(fine, key=text),
        ]
        for event in spoilt:
            with pytest.raises(InvalidInput, match="no character zero and no half characters"):
                store.append([event])
        for words in ({"scope": text, "key": "k"}, {"key": text}, {"key": "k", "digest": text}):
            with pytest.raises(InvalidInput, match="no character zero and no half characters"):
                store.append([fine], **words)
        for call in (
            lambda: store.settle(text, "v"),
            lambda: store.settle("n", text),
            lambda: store.keep_snapshot(text, Snapshot(1, "v", b"")),
            lambda: store.keep_snapshot("c", Snapshot(1, text, b"")),
        ):
            with pytest.raises(InvalidInput, match="no character zero and no half characters"):
                call()
        assert store.keyed(text, "k") is store.keyed("s", text) is store.setting(text) is None
        assert store.heads() == []

    def test_the_database_refuses_to_change_events(self, database, store):
        made = notes(2)
        store.append(made)
        statements = ["UPDATE events SET who = 'Eve'", "DELETE FROM events WHERE number = 2"]
        if database.startswith("postgresql"):
            statements.append("TRUNCATE events CASCADE")
        else:
            values = "SELECT campaign, number, time, 'Eve', kind, version, body, key, previous, hash, link FROM events"
            statements.append(f"INSERT OR REPLACE INTO events {values}")
        for statement in statements:
            with pytest.raises((sqlite3.IntegrityError, psycopg.Error), match="events are never"):
                run_sql(database, statement)
        assert store.read("c") == made


class TestKeys:
    """What a request has written is kept under its key, in the same transaction."""

    def test_a_key_tells_what_it_has_written(self, database, store):
        made = notes(3)
        store.append(made[:1])
        store.append(made[1:], scope="link 1", key="k", digest="d")
        assert store.keyed("link 1", "k") == KeyedWrite("d", "c", 2, 3)
        assert (
            store.keyed("link 2", "k") is store.keyed("link 1", "K") is store.keyed("", "") is None
        )
        with Store(database) as other:
            assert other.keyed("link 1", "k") == KeyedWrite("d", "c", 2, 3)

    def test_a_key_is_used_once(self, store):
        made = notes(1)
        store.append(made, scope="s", key="k", digest="d")
        with pytest.raises(WriteConflict, match="the key 'k' was used before"):
            store.append(notes(2, after=made), scope="s", key="k", digest="e")
        with pytest.raises(WriteConflict, match="the key 'k' was used before"):
            store.append(notes(2, "d"), scope="s", key="k")
        assert store.read("c") == made
        assert [head.campaign for head in store.heads()] == ["c"]
        assert store.keyed("s", "k") == KeyedWrite("d", "c", 1, 1)
        store.append(notes(2, "d"), scope="t", key="k")

    def test_a_key_of_events_that_are_refused_is_free(self, store):
        store.append(notes(1))
        with pytest.raises(WriteConflict):
            store.append(notes(1, who="Ben"), key="k")
        assert store.keyed("", "k") is None


class TestSnapshots:
    """A snapshot is replaced by a newer one alone."""

    def test_the_newest_stays(self, store):
        store.append(notes(9))
        data = bytes(range(256)) * 1000
        assert store.snapshot("c") is None
        for number, made_with, kept in (
            (5, "1", 5),
            (4, "1", 5),
            (5, "2", 5),
            (9, "1", 9),
            (8, "9", 9),
        ):
            store.keep_snapshot("c", Snapshot(number, made_with, data))
            assert store.snapshot("c").number == kept
            assert store.snapshot("c").data == data
        store.keep_snapshot("c", Snapshot(9, "2", b""))
        assert store.snapshot("c") == Snapshot(9, "2", b"")

    @pytest.mark.parametrize(("campaign", "number"), [("c", 2), ("d", 1), ("c", 0)])
    def test_a_snapshot_is_of_an_event_that_is_there(self, store, campaign, number):
        store.append(notes(1))
        with pytest.raises(InvalidInput, match=f"no event {number} of campaign '{campaign}'"):
            store.keep_snapshot(campaign, Snapshot(number, "1", b"a"))
        assert store.snapshot(campaign) is None


class TestSettings:
    """The first to settle something decides it for all."""

    def test_the_first_decides(self, database, store):
        assert store.setting("owner") is None
        assert store.settle("owner", "a") == "a"
        assert store.settle("owner", "b") == "a"
        assert store.settle("other", "b") == "b"
        with Store(database) as other:
            assert other.setting("owner") == other.settle("owner", "c") == "a"

    def test_all_threads_hear_the_same(self, database):
        stores = [Store(database) for _ in range(6)]
        start = threading.Barrier(len(stores))
        heard = []

        def settle(number):
            start.wait()
            heard.append(stores[number].settle("owner", str(number)))

        threads = [threading.Thread(target=settle, args=(i,)) for i in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(heard) == len(stores)
        assert set(heard) == {stores[0].setting("owner")}
        for one in stores:
            one.close()


class TestWriters:
    """Two writers are decided by the number of the event: one has it, the other is told."""

    def test_threads_share_one_store(self, store):
        start = threading.Barrier(8)
        written, conflicts, wrong = [], [], []

        def write(who):
            start.wait()
            try:
                for _ in range(10):
                    made = notes(1, after=store.read("c")[-1:], who=who)
                    try:
                        store.append(made)
                        written.extend(made)
                    except WriteConflict:
                        conflicts.append(who)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=write, args=(f"w{i}",)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert conflicts
        assert len(written) + len(conflicts) == 80
        assert list(check_chain(store.read("c"))) == sorted(written, key=lambda event: event.number)

    def test_threads_on_campaigns_of_their_own_never_conflict(self, store):
        wrong = []

        def write(campaign):
            made: list[Event] = []
            try:
                for _ in range(5):
                    made += notes(1, campaign, after=made)
                    store.append(made[-1:])
                assert store.read(campaign) == made
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=write, args=(f"c{i}",)) for i in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert [head.number for head in store.heads()] == [5] * 24

    @pytest.mark.slow
    def test_processes_share_one_database(self, database):
        # none has made the database yet: they do that at once, too
        writers = [started(database, "c", f"w{i}", EACH) for i in range(3)]
        go(*writers)
        said = [writer.communicate(timeout=60)[0].splitlines() for writer in writers]
        assert [writer.returncode for writer in writers] == [0, 0, 0]
        with Store(database, create=False) as store:
            log = list(check_chain(store.read("c")))
            keys = [store.keyed(f"w{i}", str(n)) for i in range(3) for n in range(EACH)]
        assert len(log) == 3 * EACH * 2
        assert {f"{e.number} {e.hash}" for e in log[::2]} == {
            line for one in said for line in one[:-1]
        }
        assert sorted((e.who, e.body["text"]) for e in log[::2]) == sorted(
            (f"w{i}", f"w{i} {n}") for i in range(3) for n in range(EACH)
        )
        assert {(k.first, k.last, k.digest) for k in keys} == {
            (a.number, b.number, b.hash) for a, b in zip(log[::2], log[1::2], strict=True)
        }

    @pytest.mark.slow
    def test_whoever_is_killed_has_lost_nothing_it_was_told_of(self, database):
        said = []
        for attempt in range(2):
            writer = started(database, "c", f"w{attempt}", 10**9)
            go(writer)
            for _ in range(20 + 7 * attempt):
                said.append(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            said += writer.communicate()[0].splitlines(keepends=True)
            with Store(database, create=False) as store:
                log = list(check_chain(store.read("c")))
            told = {line.strip() for line in said if line.endswith("\n")}
            there = {f"{event.number} {event.hash}" for event in log[::2]}
            assert len(log) % 2 == 0
            assert told <= there
            assert len(there - told) <= attempt + 1  # written, and killed before it could say so
        assert len(told) >= 47


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for little."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(store, made):
    """Append until it is refused, and give back the error."""
    while True:
        new = events_of([Draft("note", {"text": "x" * 5000})] * 3, made[-1] if made else None)
        try:
            store.append(new, key=str(len(made)))
        except StoreUnavailable as error:
            assert store.keyed("", str(len(made))) is None
            return str(error)
        made += new


class TestDisk:
    """A disk that is full, a file that is locked, gone or damaged: said in one line, and nothing is half written."""

    def test_a_full_disk_is_said_and_nothing_is_half_written(self, small_disk):
        made = []
        filler = small_disk / "filler"
        filler.write_bytes(b"x" * 400_000)
        with Store(small_disk / "a.db") as store:
            assert fill(store, made).endswith("a.db: the disk is full")
            assert made
            assert list(check_chain(store.read("c"))) == made
            filler.unlink()
            made += (more := notes(2, after=made))
            store.append(more)
        with Store(small_disk / "a.db", create=False) as store:
            assert list(check_chain(store.read("c"))) == made

    def test_a_disk_that_is_full_from_the_beginning_is_said(self, small_disk):
        with suppress(OSError):
            (small_disk / "filler").write_bytes(b"x" * 2_000_000)
        with pytest.raises(StoreUnavailable, match=r"cannot use the database .*a\.db: the disk"):
            Store(small_disk / "a.db")
        (small_disk / "filler").unlink()
        with Store(small_disk / "a.db") as store:
            store.append(notes(1))

    def test_a_file_that_may_not_grow_is_said(self, tmp_path):
        made = []
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with Store(tmp_path / "a.db") as store:
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
            try:
                assert "a.db: the disk" in fill(store, made)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            store.append(more := notes(1, after=made))
            assert list(check_chain(store.read("c"))) == made + more

    def test_a_lock_is_waited_for_and_then_said(self, tmp_path, monkeypatch):
        path = tmp_path / "a.db"
        lock = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        with closing(lock), Store(path) as store:
            lock.execute("BEGIN IMMEDIATE")
            release = threading.Timer(0.3, lock.execute, ["COMMIT"])
            release.start()
            store.append(made := notes(1))
            release.join()
            monkeypatch.setattr("heterobandits.campaigns.storage.database.DB_LOCK_TIMEOUT_S", 0.3)
            with Store(path) as hasty:
                lock.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreUnavailable, match=r"a\.db: it is locked by another"):
                    hasty.append(notes(1, after=made))
                assert hasty.read("c") == made  # reading needs no turn

    def test_a_file_that_is_gone_is_said(self, tmp_path):
        with Store(tmp_path / "a.db") as store:
            store.append(notes(1))
            store.close()
            for path in tmp_path.iterdir():
                path.unlink()
            with pytest.raises(StoreUnavailable, match=r"a\.db: the file or its -wal"):
                store.heads()
        assert not list(tmp_path.iterdir())

    def test_a_damaged_file_is_said(self, tmp_path):
        path = tmp_path / "a.db"
        with Store(path) as store:
            store.append(events_of([Draft("note", {"t": "x" * 9000})] * 50))
        data = bytearray(path.read_bytes())
        data[4096 * 9 :] = b"\xaa" * (len(data) - 4096 * 9)
        path.write_bytes(data)
        with (
            Store(path) as store,
            pytest.raises(StoreUnavailable, match=r"a\.db: the file is damaged"),
        ):
            store.read("c")


class Proxy:
    """Stands between a store and its server, and cuts the line at the next COMMIT."""

    def __init__(self, port):
        self.to = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cut = None
        self.ends = []
        self.threads = [threading.Thread(target=self.listen)]
        self.threads[0].start()

    def listen(self):
        with self.listener, suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                for ends in ((client, server), (server, client)):
                    self.threads.append(threading.Thread(target=self.pump, args=ends))
                    self.threads[-1].start()
                self.ends += [client, server]

    def pump(self, source, sink):
        with suppress(OSError):
            while data := source.recv(65536):
                if b"COMMIT\0" in data and self.cut is not None:  # and not READ COMMITTED
                    cut, self.cut = self.cut, None
                    cut(source, sink, data)
                    break
                sink.sendall(data)
        hang_up(source, sink)

    def close(self):
        hang_up(self.listener, *self.ends)
        for thread in self.threads:
            thread.join()
        for end in self.ends:
            end.close()


def hang_up(*ends):
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxied(postgres):
    """A proxy, a store behind it, and one with a line of its own."""
    url = postgres.fresh()
    proxy = Proxy(postgres.port)
    with Store(url) as direct, Store(url.replace(f":{postgres.port}/", f":{proxy.port}/")) as store:
        yield proxy, store, direct
        proxy.close()


class TestServer:
    """A server that goes and comes back: nothing acknowledged is lost, nothing written is called failed."""

    def test_a_commit_whose_answer_is_lost_is_acknowledged(self, proxied):
        proxy, store, direct = proxied
        made = notes(3)

        def cut(client, server, data):
            client.shutdown(socket.SHUT_WR)  # no answer gets through
            server.sendall(data)
            until = time.monotonic() + 10
            while not direct.read("c") and time.monotonic() < until:
                time.sleep(0.01)

        proxy.cut = cut
        store.append(made, scope="s", key="k", digest="d")
        assert proxy.cut is None
        assert direct.read("c") == made
        assert direct.keyed("s", "k") == KeyedWrite("d", "c", 1, 3)
        store.append(notes(1, after=made))

    def test_a_commit_that_is_lost_itself_is_made_again(self, proxied):
        proxy, store, direct = proxied
        made = notes(3)
        proxy.cut = lambda client, server, data: None
        store.append(made, scope="s", key="k", digest="d")
        assert proxy.cut is None
        assert direct.read("c") == made
        assert direct.keyed("s", "k") == KeyedWrite("d", "c", 1, 3)

    def test_a_lost_commit_that_somebody_else_precedes_is_a_conflict(self, proxied):
        proxy, store, direct = proxied
        others = notes(1, who="Ben")

        def cut(client, server, data):
            server.shutdown(socket.SHUT_RDWR)
            direct.append(others)

        proxy.cut = cut
        with pytest.raises(WriteConflict):
            store.append(notes(2), key="k")
        assert direct.read("c") == others
        assert direct.keyed("", "k") is None

    def test_what_cannot_be_found_out_is_said(self, proxied, monkeypatch):
        proxy, store, direct = proxied
        monkeypatch.setattr(module, "DB_LOCK_TIMEOUT_S", 0.5)
        proxy.cut = lambda client, server, data: hang_up(proxy.listener)
        with pytest.raises(
            StoreUnavailable, match="not known whether events 1 to 2 of campaign 'c'"
        ):
            store.append(notes(2))
        assert direct.read("c") == []

    @pytest.mark.slow
    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
    def test_a_server_that_restarts_loses_nothing(self, postgres, how):
        acknowledged, failed, unsure = [], [], []
        over = threading.Event()
        with Store(postgres.fresh()) as store:

            def write(campaign):
                while not over.is_set():
                    new = []
                    try:
                        new = notes(1, campaign, after=store.read(campaign)[-1:])
                        store.append(new)
                        acknowledged.extend(new)
                    except StoreUnavailable as error:
                        (unsure if "not known" in str(error) else failed).extend(new)
                        time.sleep(0.02)

            threads = [threading.Thread(target=write, args=(f"c{i}",)) for i in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            postgres.restart(how)
            before = len(acknowledged)
            until = time.monotonic() + 30
            while len(acknowledged) < before + 30 and time.monotonic() < until:
                time.sleep(0.02)
            over.set()
            for thread in threads:
                thread.join()
            log = [
                event for head in store.heads() for event in check_chain(store.read(head.campaign))
            ]
        there, told = ({event.hash for event in some} for some in (log, acknowledged))
        assert len(told) >= before + 30 > 30
        assert told <= there <= told | {event.hash for event in unsure}
        assert not there & {event.hash for event in failed}

    def test_who_rests_meanwhile_does_not_notice_a_restart(self, postgres):
        with Store(postgres.fresh()) as store:
            store.append(made := notes(1))
            postgres.restart()
            assert store.read("c") == made
            postgres.restart()
            store.append(notes(1, after=made))

    def test_a_server_that_is_gone_is_said_without_the_password(self, postgres):
        url = postgres.fresh()
        wrong = [
            url.replace(ESCAPED, "another"),
            url.replace("fresh_", "missing_"),
            url.replace(f":{postgres.port}", ":1"),
            url.replace(ESCAPED, PASSWORD),
            url.replace("postgresql:", "mysql:"),
            url.replace("://", ":"),
            url.rpartition("/")[0],
            url + "?nonsense=1",
            url.replace(str(postgres.port), "port"),
        ]
        for database in wrong:
            with pytest.raises(InvalidInput) as error:
                Store(database)
            assert "\n" not in str(error.value)
            for secret in (PASSWORD, ESCAPED, "another", "se:cr", "et@"):
                assert secret not in str(error.value)
