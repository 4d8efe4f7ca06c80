"""The workers of a Dask cluster: batches travel there as bytes, and what came of them travels back.

Dask looks after its workers: when one dies, others play its batches, and new ones may join. If the scheduler is lost,
the command ends; run again, it goes on from what was kept. Dask says which batch killed its workers; which piece of that
batch it was shows when each piece is played while nothing else is.
"""

import importlib.util
import json
import logging
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import BytesIO
from multiprocessing import resource_tracker
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from heterobandits.errors import InvalidInput, parse_integer
from heterobandits.interrupts import hold_back_interrupts
from heterobandits.policies.policy import Policy
from heterobandits.simulation import engine
from heterobandits.simulation.pool.pieces import Piece, versions_of_results
from heterobandits.simulation.pool.threads import (
    Batch,
    Failure,
    PieceOutcome,
    play_batch,
    render_error,
)

SCHEDULER_ANSWER_TIMEOUT_S = 10.0  # in which a scheduler answers
CLUSTER_WATCH_INTERVAL_S = 1.0  # between two questions how many workers there are
CLUSTER_CLOSE_TIMEOUT_S = 1.0
LOCAL_WORKER_MAX_DEATHS = 1  # of workers of our own, that a batch may see before it is suspected
SILENT_LOG_LEVEL = logging.CRITICAL + 1

Tls = tuple[Path, Path, Path]


class UnlikeWorker(InvalidInput):
    """A worker that would compute different numbers, or none."""


def connect(
    address: str | None = None,
    scheduler_file: Path | None = None,
    local_workers: int | None = None,
    note: Callable[[str], None] = lambda words: None,
    tls: Tls | None = None,
) -> "Cluster":
    """Connect to a cluster: at an address, from a scheduler's file, or of so many local processes.

    `tls` are the files of the authority, of a certificate and of its key, for a scheduler that lets in nobody without them.
    Processes of our own have a certificate that is made for them and lies in no file.

    `note` is told what a person should know meanwhile, in the thread that calls `finished`.
    """
    if sum(way is not None for way in (address, scheduler_file, local_workers)) != 1:
        raise InvalidInput("a cluster is one of these: address, scheduler_file, local_workers")
    if importlib.util.find_spec("distributed") is None:
        raise InvalidInput("a cluster needs Dask: pip install 'heterobandits[dask]'")
    if local_workers is not None:
        parse_integer(local_workers, "local_workers", 1)
        if tls is not None:
            raise InvalidInput("tls is for a scheduler of others: local workers have their own")
        if importlib.util.find_spec("cryptography") is None:
            raise InvalidInput("local workers need cryptography: pip install 'heterobandits[dask]'")
    for path in tls or ():
        if not path.is_file():
            raise InvalidInput(f"there is no file {path}")
    if scheduler_file is not None:
        address = address_in(scheduler_file)
    return Cluster(address, local_workers, note, tls)


def address_in(file: Path) -> str:
    """The address that a scheduler has written into a file."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"no scheduler has written its address to {file} ({render_error(error)})"
        ) from error


def security_of(dask: Any, tls: Tls | None) -> Any:
    """The credentials a client shows its scheduler; those of Dask's own settings if None."""
    if tls is None:
        return None
    authority, certificate, key = map(str, tls)
    return dask.Security(
        require_encryption=True,
        tls_ca_file=authority,
        tls_client_cert=certificate,
        tls_client_key=key,
    )


class Cluster:
    """The workers of a scheduler: made by `connect`."""

    rounds = 0  # of what workers have not given back, nothing is known

    def __init__(
        self, address: str | None, own: int | None, note: Callable[[str], None], tls: Tls | None
    ) -> None:
        self._dask: Any = importlib.import_module("distributed")
        self._note = note
        self._playing: dict[Any, Batch] = {}  # by their futures
        self._done: SimpleQueue[Any] = SimpleQueue()  # futures that have come to something
        self._finished: list[tuple[Batch, list[PieceOutcome]]] = []
        self._suspects: list[Piece] = []  # to be played while nothing else is
        self._alone = False  # one of them is being played
        self._held: list[Batch] = []  # until it is not
        self._by_value: set[str] = set()
        self._end = ExitStack()
        self._end.callback(self._forget_modules)
        self._end.enter_context(self._dask.utils.silence_logging_cmgr(SILENT_LOG_LEVEL))
        self._looked = 0.0
        self._identity: dict[str, Any] = {"n_workers": 1}
        try:
            if own is None:
                assert address is not None
                self._address = address
                self._client = self._client_of(address, security_of(self._dask, tls))
            else:
                local = self._local_cluster(own)
                self._address = local.scheduler_address
                self._client = self._client_of(local)
            self._end.callback(self._client.close, timeout=CLUSTER_CLOSE_TIMEOUT_S)
            self._look()
        except BaseException:
            self.stop()
            raise

    def _local_cluster(self, count: int) -> Any:
        """Processes of our own, which do not hear of Ctrl-C."""
        # a worker that takes a while to be started again would be given up by then
        patient = {"distributed.deploy.lost-worker-timeout": "1000 days"}
        self._end.enter_context(importlib.import_module("dask").config.set(patient))
        with hold_back_interrupts(), block_interrupts():
            local = self._dask.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                silence_logs=SILENT_LOG_LEVEL,
                scheduler_kwargs={"allowed_failures": LOCAL_WORKER_MAX_DEATHS},
                security=self._dask.Security.temporary(),  # whoever reaches a scheduler runs code there
            )
            self._end.callback(local.close)
        return local

    def _client_of(self, place: Any, security: Any = None) -> Any:
        client = self._dask.Client.__new__(self._dask.Client)
        try:
            client.__init__(
                place, security=security, timeout=SCHEDULER_ANSWER_TIMEOUT_S, set_as_default=False
            )
            return client
        except Exception as error:
            # else the garbage collector closes it: where that happens while another client starts, both wait for ever
            with suppress(Exception):
                client.close(timeout=CLUSTER_CLOSE_TIMEOUT_S)
            words = f"the scheduler is {place}: nobody answered there in {SCHEDULER_ANSWER_TIMEOUT_S:g} seconds"
            raise InvalidInput(f"{words} ({type(error).__name__}: {error})") from error

    @property
    def workers(self) -> int:
        """The threads of all workers, a moment ago."""
        return max(1, int(self._identity["total_threads"]))

    @property
    def where(self) -> str:
        """How many workers there are, and where to watch them."""
        workers, threads = self._identity["n_workers"], self._identity["total_threads"]
        more = f" with {threads} threads" if threads != workers else ""
        return f"{workers} worker{'s' * (workers != 1)}{more} at {self._address}, dashboard {self._client.dashboard_link}"

    def submit(self, batch: Batch) -> None:
        """Play a batch when there is room."""
        if self._alone:
            self._held.append(batch)
            return
        try:
            errand = pickle.dumps(
                RemoteBatch(pack_batch(batch, self._by_value), versions_of_results())
            )
        except Exception as error:
            self._suspect(batch, error)
            return
        try:
            future = self._client.submit(
                pickle.loads, errand, key=f"play-{uuid4().hex}", pure=False
            )
        except Exception as error:
            raise self._lost() from error
        self._playing[future] = batch
        future.add_done_callback(self._done.put)

    @property
    def waiting(self) -> int:
        """How many batches are not given back."""
        return sum(map(len, (self._playing, self._finished, self._suspects, self._held)))

    def finished(self, seconds: float) -> list[tuple[Batch, list[PieceOutcome]]]:
        """The batches that are finished; one that came to nothing comes back in pieces."""
        if not self._playing:
            self._play_what_waits()
        with suppress(Empty):
            while self._playing and not self._finished:
                self._take(self._done.get(timeout=seconds))
            while True:
                self._take(self._done.get_nowait())
        if time.monotonic() - self._looked >= CLUSTER_WATCH_INTERVAL_S:
            self._look()
        ready, self._finished = self._finished, []
        return ready

    def stop(self) -> list[PieceOutcome]:
        """Leave the workers, and end those that are our own in the middle of what they do."""
        with suppress(Exception):  # whatever else went wrong
            while True:
                self._take(self._done.get_nowait())
        outcomes = [one for _, came in self._finished for one in came]
        for kept in (self._playing, self._finished, self._suspects, self._held):
            kept.clear()
        with suppress(Exception):
            self._end.close()
        return outcomes

    def _play_what_waits(self) -> None:
        """Play what was held back, or else one of the suspects, while nothing else is played."""
        self._alone = False
        held, self._held = self._held, []
        for batch in held:
            self.submit(batch)
        if not held and self._suspects:
            self.submit([self._suspects.pop(0)])
            self._alone = True

    def _take(self, future: Any) -> None:
        """Take what came of a batch."""
        try:
            came = future.result(SCHEDULER_ANSWER_TIMEOUT_S)
        except TimeoutError:  # whoever had it has died, and others play it again
            future.add_done_callback(self._done.put)
            return
        except self._dask.CancelledError as error:
            raise self._lost() from error
        except UnlikeWorker:
            raise
        except Exception as error:
            if isinstance(error, ImportError) and str(error.name).startswith("heterobandits"):
                words = f"a worker at {self._address} cannot play: {error}"
                raise UnlikeWorker(words) from error
            self._suspect(self._playing.pop(future), error)
            return
        batch = self._playing.pop(future)
        outcomes = [rename_outcome(*both) for both in zip(batch, pickle.loads(came), strict=True)]
        self._finished.append((batch, outcomes))

    def _suspect(self, batch: Batch, error: Exception) -> None:
        """A batch came to nothing, for one of its pieces or, where workers died, perhaps for another one beside it."""
        if len(batch) > 1 or (isinstance(error, self._dask.KilledWorker) and not self._alone):
            self._suspects += batch
            return
        (piece,) = batch
        failure = Failure(piece.place, piece.definition, render_error(error))
        self._finished.append((batch, [failure]))

    def _look(self) -> None:
        """See whether the scheduler is there, and who works for it."""
        before = self._identity["n_workers"]
        try:
            ask = self._client.scheduler.identity
            self._identity = self._client.sync(
                ask, n_workers=0, callback_timeout=SCHEDULER_ANSWER_TIMEOUT_S
            )
        except Exception as error:
            raise self._lost() from error
        if before and not self._identity["n_workers"]:
            self._note(f"no workers yet at {self._address}")
        self._looked = time.monotonic()

    def _lost(self) -> InvalidInput:
        words = "run the same command again: what is finished is kept"
        return InvalidInput(f"the scheduler at {self._address} is lost; {words}")

    def _forget_modules(self) -> None:
        cloudpickle: Any = importlib.import_module("cloudpickle")
        for name in self._by_value & cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(sys.modules[name])


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Within, threads and processes are started that hear nothing of Ctrl-C, which strikes a terminal's whole group.

    The tracker of resources unblocks it when it is started: it must be there before.
    """
    resource_tracker.ensure_running()
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class RemoteBatch:
    """A batch that is played where it is unpickled, and then stands for its results.

    So the task is to unpickle something, and the scheduler, who looks at tasks, need not import anything of ours.
    """

    def __init__(self, batch: bytes, like: Mapping[str, str]) -> None:
        self.what = batch, like

    def __reduce__(self) -> Any:
        return play_on_worker, self.what


def play_on_worker(batch: bytes, like: Mapping[str, str]) -> bytes:
    """The results of a batch, played on a worker if the worker is like `like`."""
    there = versions_of_results()
    if words := version_difference(like, there):
        worker: Any = importlib.import_module("distributed").get_worker()
        raise UnlikeWorker(f"the worker {worker.address} has {words}")
    return pickle.dumps(play_batch(pickle.loads(batch), engine.new_control()))


def version_difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """In what a worker differs from what it should be, in words; nothing if it does not."""
    return ", ".join(
        f"{name} {there.get(name)} where it should have {here.get(name)}"
        for name in {**here, **there}
        if here.get(name) != there.get(name)
    )


def rename_outcome(piece: Piece, outcome: PieceOutcome) -> PieceOutcome:
    """A piece's outcome under its local name: a function's fingerprint may change on the way."""
    if isinstance(outcome, Failure):
        return Failure(piece.place, piece.definition, outcome.error)
    key, first, last = piece.place
    return outcome._replace(key=key, first=first, last=last, definition=piece.definition)


def pack_batch(batch: Batch, by_value: set[str]) -> bytes:
    """A batch as bytes, with functions of one's own in full; their modules are added to `by_value`."""
    cloudpickle: Any = importlib.import_module("cloudpickle")
    registered = cloudpickle.list_registry_pickle_by_value

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, one: Any) -> Any:
            if isinstance(one, Policy) and one.index is not None:
                index: Any = one.index.func if isinstance(one.index, partial) else one.index
                name = str(index.__module__)
                common = name.split(".", maxsplit=1)[0] in ("heterobandits", "__main__")
                if name in sys.modules and not common and name not in registered():
                    cloudpickle.register_pickle_by_value(sys.modules[name])
                    by_value.add(name)
            return super().reducer_override(one)

    out = BytesIO()
    Packer(out).dump(batch)
    return out.getvalue()
