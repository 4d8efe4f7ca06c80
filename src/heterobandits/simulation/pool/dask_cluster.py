"""The processes of a Dask cluster: batches travel there as bytes, and each comes back once, whatever is lost on the way.

All that speaks with Dask is one thread with one loop, where every batch is a coroutine that ends with what came of it.
A worker that dies is Dask's care. Where the scheduler is gone a new client is made, and what was not back is sent again.
Which piece it is that workers die of is found by playing it alone.
"""

import asyncio
import importlib.util
import json
import logging
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import partial
from io import BytesIO
from multiprocessing import resource_tracker
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from heterobandits.errors import InvalidInput, whole_number
from heterobandits.policies.policy import Policy
from heterobandits.simulation import engine
from heterobandits.simulation.pool.pieces import Piece, made_with_versions
from heterobandits.simulation.pool.threads import (
    Batch,
    Failure,
    Outcome,
    error_in_words,
    play_batch,
)

ANSWER_SECONDS = 10.0  # in which a scheduler answers for the first time
ATTEMPT_SECONDS = 3.0  # of one attempt to reach it
SILENCE_SECONDS = 30.0  # after which one that was there is gone
CHECK_SECONDS = 60.0  # in which workers say what they are, and import numba for it
WATCH_SECONDS = 1.0
CLOSE_SECONDS = 0.5
MOST_TRIES = 3  # of a batch that comes to nothing although the scheduler is there
LOCAL_DEATHS = 1  # of workers of our own, that a batch may see before it is suspected
SILENCE = logging.CRITICAL + 1


class Unlike(InvalidInput):
    """A worker that would compute other numbers, or none."""


def connect(
    address: str | None = None,
    scheduler_file: Path | None = None,
    local_workers: int | None = None,
    patience: float = 600.0,
    note: Callable[[str], None] = lambda words: None,
    tls: tuple[Path, Path, Path] | None = None,
) -> "Cluster":
    """A cluster: at an address, at the one that a scheduler's file says, or of so many processes of our own.

    `tls` are the files of the authority, of a certificate and of its key, for a scheduler that lets in nobody without them.
    Processes of our own have a certificate that is made for them and lies in no file.

    A scheduler that is gone is waited for with `patience`, in seconds. `note` is told what a person should know
    meanwhile, in the thread that calls `finished`.
    """
    if sum(way is not None for way in (address, scheduler_file, local_workers)) != 1:
        raise InvalidInput("a cluster is one of these: address, scheduler_file, local_workers")
    if importlib.util.find_spec("distributed") is None:
        raise InvalidInput("a cluster needs Dask: pip install 'heterobandits[dask]'")
    if local_workers is not None:
        whole_number(local_workers, "local_workers", 1)
        if tls is not None:
            raise InvalidInput("tls is for a scheduler of others: local workers have their own")
        if importlib.util.find_spec("cryptography") is None:
            raise InvalidInput("local workers need cryptography: pip install 'heterobandits[dask]'")
    for path in tls or ():
        if not path.is_file():
            raise InvalidInput(f"there is no file {path}")
    return Cluster(address, scheduler_file, local_workers or 0, patience, note, tls)


def security_of(dask: Any, own: int, tls: tuple[Path, Path, Path] | None) -> Any:
    """What a client shows to its scheduler; what Dask's own settings say, if that is None."""
    if own:
        return dask.Security.temporary()
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
        self,
        address: str | None,
        file: Path | None,
        own: int,
        patience: float,
        note: Any,
        tls: tuple[Path, Path, Path] | None,
    ) -> None:
        self._address, self._file, self._own = address, file, own
        self._patience, self._note = patience, note
        self._dask: Any = importlib.import_module("distributed")
        self._security = security_of(self._dask, own, tls)
        self._client: Any = None
        self._identity: dict[str, Any] = {}
        self._link = ""
        self._playing: dict[Future[list[Outcome]], Batch] = {}
        self._notes: list[str] = []
        self._gone: InvalidInput | None = None
        self._by_value: set[str] = set()
        self._mending = asyncio.Lock()
        self._company = asyncio.Condition()
        self._together = 0
        self._opened: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()  # the client of this time
        self._life = self._loop.create_task(self._live())
        self._thread = Thread(target=self._run, name="cluster", daemon=True)
        self._thread.start()
        try:
            self._opened.result()
        except BaseException:
            self.stop()
            raise

    @property
    def workers(self) -> int:
        """The threads of all workers, a moment ago."""
        return max(1, int(self._identity["total_threads"]))

    @property
    def where(self) -> str:
        """How many workers there are, and where to watch them."""
        workers, threads = self._identity["n_workers"], self._identity["total_threads"]
        more = f" with {threads} threads" if threads != workers else ""
        return f"{workers} worker{'s' * (workers != 1)}{more} at {self._address}{self._link}"

    def submit(self, batch: Batch) -> None:
        """Play a batch when there is room."""
        self._playing[asyncio.run_coroutine_threadsafe(self._play(batch), self._loop)] = batch

    @property
    def waiting(self) -> int:
        """How many batches are not given back."""
        return len(self._playing)

    def finished(self, seconds: float) -> list[tuple[Batch, list[Outcome]]]:
        """The batches that are finished."""
        ready = wait(self._playing, seconds, FIRST_COMPLETED).done
        while self._notes:
            self._note(self._notes.pop(0))
        came = {future: future.result() for future in ready}  # or an error, and all stay for `stop`
        return [(self._playing.pop(future), outcomes) for future, outcomes in came.items()]

    def stop(self) -> list[Outcome]:
        """Leave the workers, and end those that are our own in the middle of what they do."""
        ready = [future for future in self._playing if not future.cancel()]
        self._playing.clear()
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it may have ended just now
                self._loop.call_soon_threadsafe(self._life.cancel)
            self._thread.join()
        return [one for future in ready if not future.exception() for one in future.result()]

    def _run(self) -> None:
        if self._own:
            # Ctrl-C strikes a terminal's whole group. Of a signal that this thread blocks, the processes that it starts
            # hear nothing, from their first moment. The tracker unblocks it when it is started: it must be there before.
            resource_tracker.ensure_running()
            if hasattr(signal, "pthread_sigmask"):
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda loop, context: None)
        silence = self._dask.utils.silence_logging_cmgr(SILENCE)
        # a worker that takes a while to be started again would be given up by then
        patient = {"distributed.deploy.lost-worker-timeout": "1000 days"}
        with silence, importlib.import_module("dask").config.set(patient):
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._life)
            if rest := asyncio.all_tasks(self._loop):
                for task in rest:
                    task.cancel()
                self._loop.run_until_complete(asyncio.wait(rest, timeout=CLOSE_SECONDS))
        self._loop.close()

    async def _live(self) -> None:
        """Open everything, watch until this is cancelled, and close everything."""
        local: Any = None
        try:
            if self._own:
                local = self._dask.LocalCluster(
                    n_workers=self._own,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    memory_limit=0,
                    silence_logs=SILENCE,
                    scheduler_kwargs={"allowed_failures": LOCAL_DEATHS},
                    security=self._security,  # whoever reaches a scheduler runs code there
                    asynchronous=True,
                )
                await local
                self._address = local.scheduler_address
            self._client = await self._reach(ANSWER_SECONDS)
            await self._check_workers()
            self._opened.set_result(None)
            await self._watch()
        except Exception as error:
            self._opened.set_exception(error)
        finally:
            if local is not None:
                await kill_workers(local)
            await close_quietly(self._client)
            await close_quietly(local)
            cloudpickle: Any = importlib.import_module("cloudpickle")
            for name in self._by_value & cloudpickle.list_registry_pickle_by_value():
                cloudpickle.unregister_pickle_by_value(sys.modules[name])

    async def _reach(self, seconds: float) -> Any:
        """A client of the scheduler; an error if it does not answer in so many seconds."""
        until = time.monotonic() + seconds
        while True:
            left = max(0.1, min(ATTEMPT_SECONDS, until - time.monotonic()))
            client: Any = None
            try:
                if self._file is not None:
                    self._address = json.loads(self._file.read_text(encoding="utf-8"))["address"]
                how = {"asynchronous": True, "timeout": left, "set_as_default": False}
                client = self._dask.Client(self._address, security=self._security, **how)
                await asyncio.wait_for(client, left)  # its own limit is not for all that it does
                asked = client.scheduler.identity(n_workers=0)
                self._identity = await asyncio.wait_for(asked, left)
                self._link = await dashboard(str(self._address), self._identity["services"])
                return client
            except Exception as error:
                await close_quietly(client)
                if time.monotonic() + 0.2 > until:
                    said = f"{self._address}, as {self._file} says" if self._file else self._address
                    words = f"the scheduler is {said}: nobody answered there in {seconds:g} seconds"
                    raise InvalidInput(f"{words} ({type(error).__name__}: {error})") from error
                await asyncio.sleep(0.2)

    async def _check_workers(self) -> None:
        asked = self._client.run(made_with_versions, on_error="return")
        with suppress(TimeoutError):  # they look for themselves before they play
            answers = await asyncio.wait_for(asked, CHECK_SECONDS)
            wrong = [
                unlike(made_with_versions(), there, worker) for worker, there in answers.items()
            ]
            if any(wrong):
                raise Unlike("; ".join(filter(None, wrong)))

    async def _watch(self) -> None:
        """See every second whether the scheduler is there, and who works for it."""
        told = False
        while True:
            with suppress(InvalidInput):  # whoever waits for a batch hears of it
                await self._mend(self._client)
            empty = self._identity["n_workers"] == 0
            if empty and not told:
                self._notes.append(f"no workers yet at {self._address}")
            told = empty
            await asyncio.sleep(WATCH_SECONDS)

    async def _mend(self, client: Any) -> None:
        """Make a new client in the place of this one, if it does not reach its scheduler any more."""
        async with self._mending:
            if self._gone is not None:
                raise self._gone
            if client is not self._client or await self._answers(client):
                return
            self._lost.set_result(None)
            self._lost = self._loop.create_future()
            await close_quietly(client)
            words = f"waiting up to {self._patience / 60:g} minutes for one"
            self._notes.append(f"the scheduler at {self._address} is gone: {words}")
            try:
                self._client = await self._reach(self._patience)
            except InvalidInput as error:
                self._gone = error
                raise

    async def _answers(self, client: Any) -> bool:
        with suppress(Exception):
            asked = client.scheduler.identity(n_workers=0)
            identity = await asyncio.wait_for(asked, SILENCE_SECONDS)
            if client.status == "running" and identity["id"] == self._identity["id"]:
                self._identity = identity
                return True
        return False

    async def _play(self, batch: Batch) -> list[Outcome]:
        async with self._company:
            self._together += 1
        came = await self._ask(batch)
        self._together -= 1
        async with self._company:
            self._company.notify_all()
        if isinstance(came, list):
            return came
        # One of the pieces is to blame or, where workers died, perhaps one of another batch that was beside it.
        async with self._company:
            await self._company.wait_for(lambda: self._together == 0)
            outcomes: list[Outcome] = []
            for piece in batch:
                came = await self._ask([piece])
                if isinstance(came, Exception):
                    came = [Failure(piece.place, piece.definition, error_in_words(came))]
                outcomes += came
            return outcomes

    async def _ask(self, batch: Batch) -> list[Outcome] | Exception:
        """What came of a batch, or why it comes to nothing although the scheduler is there."""
        tries = 0
        while True:
            async with self._mending:
                client, lost, scheduler = self._client, self._lost, self._identity["id"]
            try:
                errand = pickle.dumps(
                    Errand(pack_batch(batch, self._by_value), made_with_versions())
                )
                key = f"play-{uuid4().hex}"
                future = client.submit(pickle.loads, errand, key=key, pure=False)
                gathered = asyncio.ensure_future(client.gather(future))
                await asyncio.wait({gathered, lost}, return_when=FIRST_COMPLETED)
                if not gathered.done():  # a scheduler that is silent does not say that it is gone
                    gathered.cancel()
                    raise ConnectionError
                outcomes = pickle.loads(gathered.result())
                return [at_home(*both) for both in zip(batch, outcomes, strict=True)]
            except Unlike:
                raise
            except self._dask.KilledWorker as error:
                killed: Exception = error
                return killed
            except Exception as error:
                if isinstance(error, ImportError) and str(error.name).startswith("heterobandits"):
                    raise Unlike(f"a worker at {self._address} cannot play: {error}") from error
                await self._mend(client)
                tries += self._identity["id"] == scheduler
                if tries == MOST_TRIES:
                    return error


class Errand:
    """What plays a batch where it is unpickled, and is then what came of it.

    So the task is to unpickle something, and the scheduler, who looks at tasks, need not import anything of ours.
    """

    def __init__(self, batch: bytes, like: Mapping[str, str]) -> None:
        self.what = batch, like

    def __reduce__(self) -> Any:
        return play_there, self.what


def play_there(batch: bytes, like: Mapping[str, str]) -> bytes:
    """What came of a batch, played by a worker if it is like that."""
    worker: Any = importlib.import_module("distributed").get_worker()
    if words := unlike(like, made_with_versions(), worker.address):
        raise Unlike(words)
    return pickle.dumps(play_batch(pickle.loads(batch), engine.new_control()))


def unlike(here: Mapping[str, str], there: Mapping[str, str] | Exception, worker: str) -> str:
    """In what a worker differs from what it should be, in words; nothing if it does not."""
    if isinstance(there, OSError):
        return ""  # it is gone
    if isinstance(there, Exception):
        return f"the worker {worker} cannot play: {error_in_words(there)}"
    words = [
        f"{name} {there.get(name)} where it should have {here.get(name)}"
        for name in {**here, **there}
        if here.get(name) != there.get(name)
    ]
    return f"the worker {worker} has {', '.join(words)}" if words else ""


def at_home(piece: Piece, outcome: Outcome) -> Outcome:
    """What came of a piece, named as here: a function may have another fingerprint where it arrives."""
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


async def dashboard(address: str, services: Mapping[str, int]) -> str:
    """Where a scheduler's dashboard is, in words; nothing if it has none."""
    host = address.rpartition("://")[2].rpartition(":")[0]
    utils: Any = importlib.import_module("distributed.utils")
    link = utils.format_dashboard_link(host, services.get("dashboard", 0))
    with suppress(Exception):  # a port is named in any case: the page may not be found there
        client: Any = importlib.import_module("tornado.httpclient").AsyncHTTPClient()
        page = await client.fetch(link, raise_error=False, method="HEAD", request_timeout=1.0)
        return "" if page.code == 404 else f", dashboard {link}"
    return f", dashboard {link}" if "dashboard" in services else ""


async def close_quietly(one: Any) -> None:
    """Close a client or a cluster, whatever state it is in."""
    with suppress(Exception):
        await one.close(timeout=CLOSE_SECONDS)
    if isinstance(getattr(one, "status", None), str):
        one.status = "closed"  # a client that could not take leave would try again when forgotten


async def kill_workers(local: Any) -> None:
    """End the processes of a local cluster, whatever they do."""
    nannies = list(local._created)  # not `workers`, where those being started are missing
    for nanny in nannies:
        nanny.close_gracefully()  # it would start another
        if nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGTERM)
    with suppress(Exception):
        await asyncio.gather(*(nanny.close(timeout=1.0) for nanny in nannies))
