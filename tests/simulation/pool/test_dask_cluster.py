"""Clusters of real processes on loopback: the same rows come back, each once, whatever is killed on the way."""

import importlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec

import numpy as np
import pytest

from heterobandits import Problem
from heterobandits.errors import InvalidInput
from heterobandits.policies.policy import Policy, policy
from heterobandits.simulation.engine import new_control
from heterobandits.simulation.pool import dask_cluster as module
from heterobandits.simulation.pool.dask_cluster import connect
from heterobandits.simulation.pool.pieces import PieceResult, Point, versions_of_results
from heterobandits.simulation.pool.threads import Failure, play_batch
from heterobandits.sweeps.spec import Spec
from heterobandits.sweeps.sweep import sweep

if find_spec("distributed") is None:
    assert os.environ.get("CI") != "true", "distributed is not installed: nothing is tested"
    pytest.skip("distributed is not installed", allow_module_level=True)
psutil = importlib.import_module("psutil")  # distributed brings it

pytestmark = [pytest.mark.usefixtures("ends"), pytest.mark.smoke]

PROBLEM = Problem([0.1, 0.5, 0.3], [0.2, 0.9])
ROUNDS = 40


def piece(*policies, seed=0):
    (one,) = Point(PROBLEM, policies, ROUNDS, (10, ROUNDS), seed, kept=1).pieces(range(20))
    return one


def greedy(known):
    return known.successes.sum(axis=0) / np.maximum(1, known.pulls.sum(axis=0))


def own(index=greedy):
    return Policy("own", index=index)


def slow(known):
    time.sleep(0.01)
    return greedy(known)


def poison(known):
    raise ValueError("this one is poisoned")


def deadly(known):
    os.kill(os.getpid(), signal.SIGKILL)


def plain(outcomes):
    """What does not depend on when it was played."""
    return [one._replace(seconds=[]) if isinstance(one, PieceResult) else one for one in outcomes]


def played_here(batch):
    return plain(play_batch(batch, new_control()))


def all_of(cluster, seconds=120.0):
    """What comes back of everything that waits; the first time, workers compile kernels."""
    until = time.monotonic() + seconds
    found = []
    while cluster.waiting:
        assert time.monotonic() < until, f"{cluster.waiting} batches did not come back"
        found += cluster.finished(0.2)
    return found


def outcomes_of(cluster, batch):
    """What comes back of a batch, in pieces or whole."""
    found = {one.place: one for _, outcomes in all_of(cluster) for one in outcomes}
    assert len(found) == len(batch)
    return [found[piece.place] for piece in batch]


def soon(condition, seconds=20.0):
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return value


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Processes:
    """Schedulers and workers, each in a process of its own and in a folder where none of the tests' files lie."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.running = []

    def start(self, *arguments, **environment):
        command = [sys.executable, "-m", "dask", *map(str, arguments)]
        log = (self.folder / f"{len(self.running)}.log").open("w")
        with log:
            process = subprocess.Popen(
                command, cwd=self.folder, env={**os.environ, **environment}, stdout=log, stderr=log
            )
        self.running.append(process)
        return process

    def scheduler(self, *arguments, port=0):
        self.file.unlink(missing_ok=True)
        there = ("--host", "127.0.0.1", "--port", port, "--scheduler-file", self.file)
        bare = (
            self.folder / "bare"
        )  # a scheduler needs Dask alone: here it cannot import heterobandits
        bare.mkdir(exist_ok=True)
        (bare / "heterobandits.py").write_text("raise ImportError('not for a scheduler')\n")
        how = arguments or ["--no-dashboard"]
        process = self.start("scheduler", *there, *how, PYTHONPATH=str(bare))
        soon(self.address)
        return process

    def address(self):
        try:
            return json.loads(self.file.read_text())["address"]
        except (FileNotFoundError, ValueError):
            return None

    def worker(self, **environment):
        how = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        return self.start("worker", self.address(), *how, **environment)

    def end(self):
        for process in self.running:
            process.kill()
            process.wait(10)


@pytest.fixture
def processes(tmp_path):
    there = Processes(tmp_path)
    yield there
    there.end()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A scheduler with two workers, which no test harms."""
    there = Processes(tmp_path_factory.mktemp("served"))
    try:
        there.scheduler()
        there.worker()
        there.worker()
        soon(lambda: workers_there(there.address()) == 2)  # a cluster without any is told so
        yield there
    finally:
        there.end()


@pytest.fixture(scope="module")
def shared(served):
    cluster = connect(served.address())
    yield cluster
    cluster.stop()


@pytest.fixture
def connected():
    """`connect`, with whatever it gave stopped in the end."""
    clusters = []

    def make(*arguments, **options):
        clusters.append(connect(*arguments, **options))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.stop()


def test_rows_are_the_same_as_here(shared, served):
    soon(lambda: shared.workers == 2)
    assert shared.where.startswith(f"2 workers at {served.address()}, dashboard http://127.0.0.1:")
    assert shared.rounds == 0
    two = policy("min-width"), policy("posterior-sorted")
    batches = [
        [piece(*two, seed=seed), piece(policy("min-width", horizon=50), own(), seed=seed)]
        for seed in range(3)
    ]
    for batch in batches:
        shared.submit(batch)
    assert shared.waiting == 3
    found = all_of(shared)
    assert len(found) == 3
    for batch, outcomes in found:
        assert batch in batches
        assert plain(outcomes) == played_here(batch)


def test_what_is_finished_is_given_back_at_once_and_waiting_costs_nothing(shared):
    def seconds_of_a_batch():
        begin = time.perf_counter()
        shared.submit([piece(own())])
        assert len(shared.finished(20.0)) == 1
        return time.perf_counter() - begin

    assert min(seconds_of_a_batch() for _ in range(6)) < 0.1
    shared.submit([piece(own(slow), Policy("too", index=slow))])
    begin, work = time.perf_counter(), time.process_time()
    assert shared.finished(0.6) == []
    assert 0.59 < time.perf_counter() - begin < 1.0
    assert time.process_time() - work < 0.15
    assert len(all_of(shared)) == 1


def test_a_poisoned_piece_fails_and_no_other(shared):
    batch = [piece(own()), piece(own(poison)), piece(own(), seed=1)]
    shared.submit(batch)
    ((_, (first, failure, last)),) = all_of(shared)
    assert plain([first, last]) == played_here([batch[0], batch[2]])
    assert isinstance(failure, Failure)
    assert (failure.place, failure.definition) == (batch[1].place, batch[1].definition)
    assert "ValueError: this one is poisoned" in failure.error


def test_functions_travel_from_modules_that_workers_do_not_have(
    connected, served, tmp_path, monkeypatch
):
    (tmp_path / "at_home_alone.py").write_text("def arms(known): return known.pulls.sum(axis=0)\n")
    (tmp_path / "beside_the_spec.py").write_text(
        "import at_home_alone\n"
        "def part(known): return -known.pulls.sum(axis=0)\n"
        "def index(known): return part(known)\n"
        "def other(known): return at_home_alone.arms(known)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    beside = importlib.import_module("beside_the_spec")
    cluster = connected(served.address())
    good, bad = [piece(own(beside.index))], [piece(own(beside.other)), piece(own(), seed=1)]
    cluster.submit(good)
    assert [plain(outcomes) for _, outcomes in all_of(cluster)] == [played_here(good)]
    cluster.submit(bad)
    failure, row = outcomes_of(cluster, bad)
    assert "No module named 'at_home_alone'" in failure.error
    assert plain([row]) == played_here(bad[1:])

    import cloudpickle

    assert "beside_the_spec" in cloudpickle.list_registry_pickle_by_value()
    cluster.stop()
    assert cloudpickle.list_registry_pickle_by_value().isdisjoint({"beside_the_spec", "numpy"})


class Odd:
    """An index with another fingerprint wherever it is."""

    def __call__(self, known):
        return greedy(known)

    def __repr__(self):
        return f"odd at {id(self)} of {os.getpid()}"


def test_rows_bear_the_names_of_their_pieces(shared):
    lock = threading.Lock()
    batch = [piece(own(Odd())), piece(own(lambda known: lock and greedy(known)))]
    shared.submit(batch)
    row, failure = outcomes_of(shared, batch)
    assert (row.place, row.definition) == (batch[0].place, batch[0].definition)
    assert isinstance(failure, Failure), "a lock cannot travel"
    assert failure.place == batch[1].place
    assert "cannot pickle" in failure.error


def on_scheduler(address, function):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return client.run_on_scheduler(function)


def workers_there(address):
    return on_scheduler(address, lambda dask_scheduler: len(dask_scheduler.workers))


def tasks_there(address):
    return on_scheduler(address, lambda dask_scheduler: len(dask_scheduler.tasks))


def test_stop_gives_back_what_is_here_and_cancels_the_rest(connected, served):
    cluster = connected(served.address())
    cluster.submit([piece(own())])
    soon(lambda: all(future.done() for future in cluster._playing))  # and nobody has taken it
    for seed in range(20):
        cluster.submit([piece(own(slow), seed=seed)])
    time.sleep(0.1)
    begin = time.perf_counter()
    outcomes = cluster.stop()
    assert time.perf_counter() - begin < 1.0
    assert plain(outcomes) == played_here([piece(own())])
    assert cluster.waiting == 0
    assert cluster.stop() == []
    soon(lambda: not tasks_there(served.address()))


@pytest.mark.nightly
def test_a_worker_that_is_killed_loses_nothing(processes, connected):
    processes.scheduler()
    first = processes.worker()
    cluster = connected(scheduler_file=processes.file)
    begun = processes.folder / "begun"
    path = str(begun)

    def marking(known):
        open(path, "w").close()
        return slow(known)

    batches = [
        [piece(own(marking), seed=2 * k), piece(own(slow), seed=2 * k + 1)] for k in range(3)
    ]
    for batch in batches:
        cluster.submit(batch)
    soon(begun.exists)
    processes.worker()
    first.kill()
    found = all_of(cluster)
    time.sleep(0.3)
    assert cluster.finished(0.0) == []
    assert sorted(batches.index(batch) for batch, _ in found) == [0, 1, 2]
    assert all(plain(outcomes) == played_here(batch) for batch, outcomes in found)


SPEC = """
seed = 1
horizon = 20_000
policies = ["min-width", "cucb"]
trials = 20
draws = 40
[problem]
arms = 4
sensitivities = [0.5, 0.9]
means = {low = 0.1, high = 0.9, drawn = true}
"""
# every piece goes to the disk at once, so that there is something to keep after a moment
EAGER = (
    "import sys; from heterobandits.simulation.pool.shards import ShardStore;"
    "ShardStore.write_if_due = ShardStore.write;"
    "from heterobandits.cli import main; main(sys.argv[1:])"
)


def start_sweep(processes, *options):
    command = [sys.executable, "-c", EAGER, "sweep", processes.folder / "spec.toml"]
    return subprocess.Popen(
        [*command, "--output", processes.folder / "out", "--format", "json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_sweep_whose_scheduler_is_lost_goes_on_when_it_is_run_again(processes):
    (processes.folder / "spec.toml").write_text(SPEC)
    scheduler = processes.scheduler()
    processes.worker()
    address = processes.address()
    lost = start_sweep(processes, "--scheduler", address)
    shards = processes.folder / "out" / "shards"
    soon(lambda: list(shards.glob("*.parquet")), 60.0)
    scheduler.kill()
    out, err = lost.communicate(timeout=30)
    assert (lost.returncode, out) == (2, "")
    assert "Traceback" not in err
    words = (
        f"the scheduler at {address} is lost; run the same command again: what is finished is kept"
    )
    assert err.splitlines()[-1] == f"heterobandits: {words}"
    processes.scheduler()
    processes.worker()
    again = start_sweep(processes, "--scheduler-file", processes.file)
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert 0 < json.loads(out)["rounds"] < 40 * 20 * 20_000 * 2  # not all of them once more
    sweep(Spec.load(processes.folder / "spec.toml"), processes.folder / "here")
    for table in ("results.parquet", "pairs.parquet"):
        there, here = (processes.folder / folder / table for folder in ("out", "here"))
        assert there.read_bytes() == here.read_bytes()


@pytest.mark.slow
def test_without_workers_it_waits(processes, connected):
    processes.scheduler("--dashboard-address", "127.0.0.1:0")
    notes = []
    cluster = connected(processes.address(), note=notes.append)
    assert cluster.where.startswith(f"0 workers at {processes.address()}, dashboard http://127.0")
    assert cluster.where.endswith("/status")
    assert cluster.workers == 1
    cluster.submit([piece(own())])
    words = f"no workers yet at {processes.address()}"
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        assert cluster.finished(0.5) == []
    assert notes == [words]
    worker = processes.worker()
    assert len(all_of(cluster)) == 1
    soon(lambda: cluster.finished(0.1) or cluster.where.startswith("1 worker at "))
    worker.kill()
    soon(lambda: cluster.finished(0.1) or notes == [words, words])


def test_workers_of_another_version_are_refused(processes, connected):
    """Another version is installed there: what says so lies before the right one in the path."""
    other = processes.folder / "other" / "heterobandits-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: heterobandits\nVersion: 9.9.9\n")
    processes.scheduler()
    cluster = connected(processes.address())
    cluster.submit([piece(own())])
    processes.worker(PYTHONPATH=f"{other.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    version = versions_of_results()["heterobandits"]
    words = rf"the worker tcp://127\.0\.0\.1:\d+ has heterobandits 9\.9\.9 where it should have {version}$"
    with pytest.raises(InvalidInput, match=words):
        all_of(cluster)


@pytest.mark.nightly
def test_a_piece_that_kills_its_workers_fails_and_no_other(connected):
    cluster = connected(local_workers=2)
    batch = [piece(own()), piece(own(deadly)), piece(own(), seed=1)]
    beside = [[piece(own(slow), seed=seed)] for seed in range(4)]
    cluster.submit(batch)
    for one in beside:
        cluster.submit(one)
    found = {one.place: one for _, outcomes in all_of(cluster, 90.0) for one in outcomes}
    bad = batch.pop(1)
    failure = found.pop(bad.place)
    assert isinstance(failure, Failure)
    assert "all those workers died while running it" in failure.error
    pieces = [*batch, *(one for batch in beside for one in batch)]
    assert plain(found.values()) == played_here(
        [next(p for p in pieces if p.place == place) for place in found]
    )


LONG = """
import sys, time
import psutil
from heterobandits import Problem
from heterobandits.policies.policy import policy
from heterobandits.simulation.pool.dask_cluster import connect
from heterobandits.simulation.pool.pieces import Point


def busy(count):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        workers = [one for one in psutil.Process().children() if "resource" not in str(one.cmdline())]
        if len(workers) == count and all(one.cpu_percent(1.0) > 5 for one in workers):
            return workers
    raise TimeoutError


if __name__ == "__main__":
    cluster = connect(local_workers=2)
    point = Point(Problem([0.1, 0.5, 0.3], [0.2, 0.9]), (policy("min-width"),), 10**9, (10**9,), 0)
    for _ in range(4):
        cluster.submit(point.pieces(range(64)))
    busy(2)[0].kill()  # another takes its place
    time.sleep(0.5)
    workers = busy(2)
    try:
        print(*(one.pid for one in workers), flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.5)
        alive = [one.is_running() for one in workers]
        begin = time.perf_counter()
        outcomes = cluster.stop()
        quick = time.perf_counter() - begin < 15.0  # and not the minute that is left of a batch
        print(alive, outcomes, quick, [one.is_running() for one in workers], flush=True)
"""


@pytest.mark.nightly
def test_an_interrupt_of_the_group_leaves_the_workers_to_stop_which_leaves_nothing(tmp_path):
    script = tmp_path / "long.py"
    script.write_text(LONG)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, script], start_new_session=True, **pipes)
    try:
        pids = [int(word) for word in process.stdout.readline().split()]
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert err == ""
    assert out == "[True, True] [] True [False, False]\n"
    assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))


STARTING = """
import time
import psutil
from heterobandits.simulation.pool.dask_cluster import connect

if __name__ == "__main__":
    cluster = None
    print("now", flush=True)
    try:
        cluster = connect(local_workers=2)
        time.sleep(60)
    except KeyboardInterrupt:
        if cluster is not None:  # this process was quicker than the one that interrupts it
            cluster.stop()
        workers = [one for one in psutil.Process().children() if "resource" not in str(one.cmdline())]
        print("interrupted", workers)
"""


def test_an_interrupt_while_workers_are_started_leaves_none(tmp_path):
    script = tmp_path / "starting.py"
    script.write_text(STARTING)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, script], start_new_session=True, **pipes)
    try:
        process.stdout.readline()
        there = psutil.Process(process.pid)
        soon(lambda: len(there.children()) == 3)  # two workers, and who keeps track of resources
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (out, err) == ("interrupted []\n", "")


def test_nobody_else_reaches_workers_of_our_own(connected):
    """Neither who speaks in the clear is answered nor who has no certificate."""
    cluster = connected(local_workers=1)
    scheme, _, host, port = re.fullmatch(r"(\w+)://((.+):(\d+))", cluster._address).groups()
    assert (scheme, host) == ("tls", "127.0.0.1")
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port)), timeout=10) as plain_text:
        plain_text.sendall(bytes(64))
        with suppress(ConnectionError):
            assert plain_text.recv(1) == b""
    with (
        socket.create_connection((host, int(port)), timeout=10) as bare,
        anyone.wrap_socket(bare) as stranger,
        pytest.raises((ssl.SSLError, ConnectionError), match=r"certificate|reset"),
    ):
        stranger.recv(1)
    batch = [piece(policy("min-width"))]
    cluster.submit(batch)
    assert [plain(outcomes) for _, outcomes in all_of(cluster)] == [played_here(batch)]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate and its key, in files."""
    from distributed import Security

    folder = tmp_path_factory.mktemp("tls")
    made = Security.temporary()
    (folder / "tls.pem").write_text(made.tls_client_cert)
    (folder / "tls.key").write_text(made.tls_client_key)
    return folder / "tls.pem", folder / "tls.pem", folder / "tls.key"


@pytest.mark.slow
def test_a_sweep_on_a_scheduler_that_asks_for_certificates(processes, certificate, monkeypatch):
    safe = [
        word
        for option, path in zip(("ca-file", "cert", "key"), certificate, strict=True)
        for word in (f"--tls-{option}", str(path))
    ]
    processes.scheduler("--no-dashboard", "--protocol", "tls", *safe)
    address = processes.address()
    assert address.startswith("tls://")
    how = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--host", "tls://127.0.0.1")
    processes.start("worker", address, *how, *safe)
    spec = processes.folder / "spec.toml"
    spec.write_text(
        'horizon = 20\npolicies = ["cucb"]\ntrials = 4\n[problem]\nmeans = [0.1, 0.5]\nsensitivities = [0.5]\n'
    )
    command = [sys.executable, "-m", "heterobandits", "sweep", str(spec), "--scheduler", address]
    done = subprocess.run(
        [*command, "--output", str(processes.folder / "out"), *safe, "--format", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rounds"] == 4 * 20
    monkeypatch.setattr(module, "SCHEDULER_ANSWER_TIMEOUT_S", 1.0)
    with pytest.raises(InvalidInput, match="nobody answered"):
        connect(address)
    for wrong, said in ((safe[:4], "all three of them"), ([*safe[:5], "none"], "no file none")):
        done = subprocess.run([*command, *wrong], capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_nobody_at_the_address(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "SCHEDULER_ANSWER_TIMEOUT_S", 1.0)
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(InvalidInput, match=f"{address}: nobody answered there in 1 seconds"):
        connect(address)
    with pytest.raises(InvalidInput, match=r"has written its address to .*missing\.json"):
        connect(scheduler_file=tmp_path / "missing.json")


def test_a_client_that_failed_is_closed_at_once():
    """It is not left to the garbage collector, which may close it while another starts: both would wait for ever."""
    before = threading.active_count()
    with pytest.raises(InvalidInput, match=r"nobody answered there .*ssl_context"):
        connect("tls://127.0.0.1:1")  # without a certificate
    assert threading.active_count() == before


def test_there_is_one_way_to_a_cluster(monkeypatch):
    for arguments in ({}, {"address": "tcp://127.0.0.1:1", "local_workers": 2}):
        with pytest.raises(InvalidInput, match="one of these: address, scheduler_file, local"):
            connect(**arguments)
    with pytest.raises(InvalidInput, match="local_workers is 0: a whole number"):
        connect(local_workers=0)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        InvalidInput, match=r"a cluster needs Dask: pip install 'heterobandits\[dask\]'"
    ):
        connect(local_workers=2)
