"""What is kept of pieces: exactly, whole or not at all, and by whoever runs."""

import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterobandits import InvalidInput, Policy, Problem, simulate
from heterobandits.policies.policy import parse_policies
from heterobandits.simulation import engine
from heterobandits.simulation.pool import pieces as module
from heterobandits.simulation.pool import shards
from heterobandits.simulation.pool.pieces import PIECE_MIN_TRIALS, PieceResult, Point
from heterobandits.simulation.pool.shards import ShardStore

pytestmark = pytest.mark.smoke

LARGE = st.integers(-(2**240), 2**240)
ROWS = st.lists(
    st.builds(
        PieceResult,
        st.text("0123456789abcdef", min_size=1, max_size=4),
        st.integers(0, 3),
        st.integers(4, 6),
        st.text(max_size=8).filter(lambda text: text.isprintable()),
        st.lists(LARGE, max_size=4),
        st.lists(LARGE, max_size=4),
        st.lists(st.floats(0, 1e9), max_size=3),
        st.lists(st.floats(allow_nan=False), max_size=3),
        st.lists(st.floats(0, 1e9), max_size=3),
        st.lists(st.integers(0, 10**6), max_size=3),
    ),
    max_size=6,
    unique_by=lambda row: row.place,
)


def row(key="a", first=0, last=5, sums=(1, 2)):
    return PieceResult(key, first, last, "{}", [*sums], [7], [0.5], [0.25], [9.5], [1])


def point(trials=20, policies=("min-width", "cucb"), kept=0):
    problem = Problem([0.1, 0.5, 0.3], [0.2, 0.9])
    return Point(problem, parse_policies(policies), 30, (10, 30), 3, kept)


class TestStore:
    """Rows come back as they were, from this process or another, or not at all."""

    @given(rows=ROWS)
    def test_what_is_written_is_read(self, rows, tmp_path_factory):
        folder = tmp_path_factory.mktemp("store")
        kept = ShardStore(folder)
        for one in rows:
            kept.add(one)
        assert {place: kept.row(place) for place in kept} == {one.place: one for one in rows}
        kept.write()
        for again in (kept, ShardStore(folder)):
            assert {place: again.row(place) for place in again} == {one.place: one for one in rows}
        assert len(list(folder.iterdir())) == bool(rows)

    def test_other_tools_read_the_sums(self, tmp_path):
        kept = ShardStore(tmp_path)
        kept.add(row(sums=[2**100, -3]))
        kept.write()
        (path,) = tmp_path.glob("*.parquet")
        table = pq.read_table(path).to_pylist()
        assert [int(number) for number in table[0]["sums"]] == [2**100, -3]
        assert table[0]["key"] == "a"

    def test_a_file_is_named_by_what_is_in_it(self, tmp_path):
        names = []
        for folder, keys in (("a", "xy"), ("b", "yx"), ("c", "xz")):
            kept = ShardStore(tmp_path / folder)
            for key in keys:
                kept.add(row(key))
            kept.write()
            names += [path.name for path in (tmp_path / folder).iterdir()]
        assert names[0] == names[1] != names[2]

    def test_two_writers_do_not_harm_each_other(self, tmp_path):
        one, other = ShardStore(tmp_path), ShardStore(tmp_path)
        for kept, keys in ((one, "ab"), (other, "bc")):
            for key in keys:
                kept.add(row(key))
            kept.write()
        both = ShardStore(tmp_path)
        assert sorted(both) == [(key, 0, 5) for key in "abc"]
        assert [both.row(place).key for place in sorted(both)] == ["a", "b", "c"]

    def test_what_is_not_there(self, tmp_path):
        kept = ShardStore(tmp_path / "nowhere")
        assert list(kept) == []
        assert kept.row(("a", 0, 1)) is None
        kept.write()
        assert not (tmp_path / "nowhere").exists()

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[: len(data) // 2],
            lambda data: data[:-1],
            lambda data: b"\xff\xfe" + data,
            lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
            lambda data: b"PAR1",
        ],
        ids=["empty", "half", "a byte short", "moved", "a bit", "a mark"],
    )
    def test_a_damaged_file_is_said_and_set_aside(self, tmp_path, damage):
        kept = ShardStore(tmp_path)
        kept.add(row())
        kept.write()
        (path,) = tmp_path.iterdir()
        path.write_bytes(damage(path.read_bytes()))
        notes = []
        again = ShardStore(tmp_path, notes.append)
        assert [again.row(place) for place in again] in ([], [None])
        (note,) = notes
        assert str(path) in note
        assert "run again" in note
        assert "\n" not in note
        assert [p.suffix for p in tmp_path.iterdir()] == [".damaged"]
        again.add(row())
        again.write()
        last = ShardStore(tmp_path, notes.append)
        assert [last.row(place) for place in last] == [row()]
        assert len(notes) == 1

    def test_a_file_of_somebody_else_is_left_alone(self, tmp_path):
        named = tmp_path / f"{'a' * 32}.parquet"
        for path in (tmp_path / "other.parquet", named):
            pq.write_table(pa.table({"a": [1]}), path)
        (tmp_path / "text.parquet").write_text("mine", "utf-8")
        (tmp_path / f"{'b' * 32}.parquet").mkdir()
        os.mkfifo(tmp_path / f"{'c' * 32}.parquet")
        before = sorted(tmp_path.iterdir())
        notes = []
        kept = ShardStore(tmp_path, notes.append)
        assert list(kept) == []
        assert notes == [f"{named} is no shard of this version, and is left alone"]
        kept.clear()
        assert sorted(tmp_path.iterdir()) == before

    def test_what_the_killed_left_half_written_goes_after_a_while(self, tmp_path):
        old, new, mine = (
            tmp_path / name
            for name in (
                f"{'a' * 32}.parquet.0123abcd",
                f"{'b' * 32}.parquet.0123abcd",
                "x.parquet.0123abcd",
            )
        )
        for path in (old, new, mine):
            path.write_text("half", "utf-8")
        for path in (old, mine):
            os.utime(path, (time.time() - 7200,) * 2)
        ShardStore(tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted([new, mine])

    def test_a_row_that_is_not_as_it_was_written_is_damage(self, tmp_path):
        """Whole as a file, and with checksums that are right."""
        kept = ShardStore(tmp_path)
        kept.add(row(sums=[1, 2]))
        kept.write()
        (path,) = tmp_path.iterdir()
        table = pq.read_table(path)
        kept_column = pa.array([[0.5]], table.schema.field("kept").type)
        changed = table.set_column(
            table.column_names.index("kept"), table.schema.field("kept"), kept_column
        )
        pq.write_table(changed, path)
        notes = []
        again = ShardStore(tmp_path, notes.append)
        assert [again.row(place) for place in again] == [None]
        assert "not as it was written" in notes[0]

    def test_a_full_disk_loses_nothing_that_was_written(self, tmp_path, monkeypatch):
        kept = ShardStore(tmp_path)
        kept.add(row("a"))
        kept.write()
        write = shards._write_shard

        def full(path, rows):
            write(path, rows)
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(shards, "_write_shard", full)
        kept.add(row("b"))
        with pytest.raises(InvalidInput, match=r"cannot write to .*: No space left on device"):
            kept.write()
        assert len(list(tmp_path.iterdir())) == 1
        monkeypatch.undo()
        kept.write()  # when there is room again
        assert sorted(ShardStore(tmp_path)) == [("a", 0, 5), ("b", 0, 5)]

    def test_files_do_not_become_many(self, tmp_path, monkeypatch):
        """A file every two seconds at first, and every hundredth of the time later on."""
        clock = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        kept = ShardStore(tmp_path)
        written = []
        for i in range(10_000):
            clock[0] = 0.1 * i
            kept.add(row(f"{i}"))
            kept.write_if_due()
            written.append(len(list(tmp_path.iterdir())) if i % 1000 == 0 or i < 30 else 0)
        assert written[:21] == [0] * 20 + [1]
        # 100 files in 200 s; then ln(1000 / 200) / ln(1.01) = 162 more in 1000 s
        assert 200 < len(list(tmp_path.iterdir())) < 300


class TestPoints:
    """A point's pieces make what one run would have made."""

    @pytest.mark.parametrize("kept", [0, 1, 2])
    def test_pieces_add_up_to_a_simulation(self, kept):
        whole = point(kept=kept)
        cuts = [range(7), range(7, 12), range(12, 20)]
        control = engine.new_control()
        rows = [module.TrialsPiece(whole, trials).play(control) for trials in reversed(cuts)]
        keep = ("moments", "final", "all")[kept]
        made = whole.totals(rows).results()
        wanted = simulate(
            whole.problem, whole.policies, 30, 20, seed=3, checkpoints=[10, 30], keep=keep
        )
        assert made.sums.tolist() == wanted.sums.tolist()
        assert made.products.tolist() == wanted.products.tolist()
        assert made.spans == wanted.spans
        assert (made.kept is None) == (wanted.kept is None)
        if kept:
            assert made.kept.tobytes() == wanted.kept.tobytes()
        assert made.kept_rounds == wanted.kept_rounds
        assert made.to_frame().equals(wanted.to_frame())

    @pytest.mark.parametrize("trials", [1, 127, 128, 1000, 10**6])
    def test_pieces_are_the_trials(self, trials):
        pieces = point().pieces(range(3, 3 + trials))
        spans = [piece.place[1:] for piece in pieces]
        assert [first for first, _ in spans[1:]] == [last for _, last in spans[:-1]]
        assert (spans[0][0], spans[-1][1]) == (3, 3 + trials)
        assert sum(piece.rounds for piece in pieces) == trials * 30 * 2
        sizes = {last - first for first, last in spans}
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) < 2 * max(PIECE_MIN_TRIALS, module.PIECE_MAX_ROUNDS // 60)

    def test_keys_tell_points_apart(self):
        own = Policy("own", index=lambda known: known.pulls[0])
        other = Policy("own", index=lambda known: -known.pulls[0])
        seen = [
            point(),
            point(policies=("cucb", "min-width")),
            point(kept=1),
            point(policies=(own,)),
            point(policies=(other,)),
        ]
        assert len({one.key for one in seen}) == len(seen)
        assert point().key == point().key
        assert seen[0].key in {module.short_digest(seen[0].definition)}

    def test_they_travel_without_what_was_computed(self):
        import pickle

        one = point()
        assert one.worlds[0].arrays is not None
        assert "worlds" in vars(one)
        again = pickle.loads(pickle.dumps(one))
        assert "worlds" not in vars(again)
        assert again == one
        assert again.key == one.key


@pytest.mark.parametrize("moment", [0.0, 0.3])
def test_killed_at_any_moment(tmp_path, moment):
    """A process that writes as fast as it can is killed: what is there can be read, and nothing else lies about."""
    code = (
        "import sys; from pathlib import Path; from heterobandits.simulation.pool.shards import ShardStore;"
        "from heterobandits.simulation.pool.pieces import PieceResult;"
        "kept = ShardStore(Path(sys.argv[1]));"
        "print('ready', flush=True);"
        "[(kept.add(PieceResult(f'{i:x}', 0, 1, 'x' * 50_000, [i] * 50, [], [], [], [], [])), kept.write()) for i in range(10**6)]"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        while not list(tmp_path.glob("*.parquet")):
            time.sleep(0.01)
        time.sleep(moment)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    notes = []
    kept = ShardStore(tmp_path, notes.append)
    numbers = sorted(int(place[0], 16) for place in kept)
    assert numbers == list(range(len(numbers)))
    assert numbers
    assert all(kept.row(place).sums == [int(place[0], 16)] * 50 for place in kept)
    assert notes == []
