"""`heterobandits serve`: campaigns over HTTP."""

import os
import signal
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from heterobandits.cli import interrupts
from heterobandits.cli.campaign.options import DATABASE_HELP, warn_of_password
from heterobandits.cli.workers import supervised
from heterobandits.errors import InvalidInput
from heterobandits.web import COUNTED

if TYPE_CHECKING:
    from heterobandits.campaigns.storage.store import Store

DATABASE = "campaigns.db"
PORT = 8765
WAITING = 1024  # connections that wait to be accepted
MOST_FILES = 65_536  # that a server asks to have open at once
LAST_SECONDS = 20  # that requests have to come to an end


def serve_command(
    context: typer.Context,
    database: Annotated[
        str,
        typer.Option(
            envvar="HETEROBANDITS_DATABASE",
            help=DATABASE_HELP,
            callback=warn_of_password,
            metavar="FILE|URL",
            show_envvar=True,
        ),
    ] = DATABASE,
    host: Annotated[
        str, typer.Option(help="The address to listen at.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen at; 0 takes one that is free.", min=0, max=65535)
    ] = PORT,
    workers: Annotated[int, typer.Option(help="How many processes answer.", min=1, max=64)] = 1,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="A made-up half season to look at, in a database that is gone when the server stops.",
        ),
    ] = False,
) -> int:
    """Serve the campaigns of a database as pages and over HTTP, until Ctrl-C.

    Example: heterobandits serve --database rangers.db
    """
    try:
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            f"serve needs {error.name}: pip install 'heterobandits[campaigns]'"
        ) from None
    source = context.get_parameter_source("database")
    if demo and source is not None and source.name == "COMMANDLINE":
        raise InvalidInput("--demo has a database of its own: leave out --database")
    with listening(host, port) as place, ExitStack() as end:
        if demo:
            folder = end.enter_context(TemporaryDirectory(prefix="heterobandits-demo-"))
            database = str(Path(folder) / "demo.db")
        if workers > 1:  # which count their requests together, in files
            os.environ[COUNTED] = end.enter_context(TemporaryDirectory(prefix="heterobandits-"))
        from heterobandits.campaigns.storage.database import name_of
        from heterobandits.campaigns.storage.store import Store
        from heterobandits.web.auth import VARIABLE, is_loopback, owner_of
        from heterobandits.web.warmup import load_kernels

        with Store(database) as store:  # and no connection crosses a fork
            print_line(
                "loading kernels; the first time on a machine they are compiled, which takes minutes"
            )
            began = time.monotonic()
            load_kernels()
            print_line(f"loaded in {time.monotonic() - began:.1f} s")
            owner_hash, token = owner_of(store, None if demo else os.environ.get(VARIABLE))
            links = demo_links(store) if demo else []
        base = f"http://{host_in_url(host)}:{place.getsockname()[1]}"
        if not is_loopback(host):
            print_line(
                f"warning: {base} is open to the network without TLS, and whoever listens there reads the tokens; "
                "put a server with TLS in front of it"
            )
        print(f"{'A demo' if demo else name_of(database)} is served at {base}", flush=True)
        if token is not None:
            print(f"the owner's link, which is shown this once: {base}/enter/{token}", flush=True)
        for whose, opens in links:
            print(f"{whose}: {base}/enter/{opens}", flush=True)
        if workers == 1:
            check = interrupts.raised()
            answer(place, database, owner_hash, demo)
            check()
        else:
            taken = place.getsockname()[1]
            place.close()  # each has one of its own, and the system deals the connections evenly

            def work() -> None:
                with listening(host, taken, shared=True) as own:
                    answer(own, database, owner_hash, demo)

            supervised(workers, work, print_line)
    return 0


def demo_links(store: "Store") -> list[tuple[str, str]]:
    """A made-up half season in the database, and who else may look at it: whose a link is, and its token."""
    from heterobandits.campaigns import service
    from heterobandits.campaigns.files.demo import PLANNER, begin_demo
    from heterobandits.campaigns.storage.repository import Log, Request

    log = Log(store)
    campaign = begin_demo(log)
    made = []
    for role, name, agent in (("reporter", "Femi", "Femi"), ("viewer", "the wall", None)):
        _, token = service.issue_link(
            log, campaign, Request(PLANNER), role=role, name=name, agent=agent
        )
        made.append((f"the link of {name}, a {role}", token))
    return made


def answer(place: socket.socket, database: str, owner_hash: str | None, demo: bool) -> None:
    """Answer requests until a signal comes; those that have begun come to their end."""
    import uvicorn

    from heterobandits.campaigns.storage.repository import Log
    from heterobandits.campaigns.storage.store import Store
    from heterobandits.web.app import create_app
    from heterobandits.web.connections import Bounded, Limits

    class Connection(Bounded):
        """One of this server's."""

        limits = Limits(connections=open_files() // 2)

        @property
        def ending(self) -> bool:  # type: ignore[override]
            return server.should_exit

    with Store(database) as store:
        settings = uvicorn.Config(
            create_app(Log(store), owner_hash, demo),
            http=Connection,
            ws="none",  # or what is installed beside it would take connections over, and bound none
            access_log=False,  # the address of a link is its key
            log_level="error",  # of less it speaks for anybody who asks, as often as they ask
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=LAST_SECONDS,
        )
        server = uvicorn.Server(settings)

        def end(number: int, frame: object) -> None:
            server.should_exit = True  # a signal may come before it has begun

        # uvicorn ends in order at a signal, and then raises it once more for whoever was there before
        signal.signal(signal.SIGTERM, end)
        server.run(sockets=[place])


def open_files() -> int:
    """How many files and connections this process may have open at once: as many as it is allowed to allow itself."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST_FILES if most == resource.RLIM_INFINITY else min(most, MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return allowed


def listening(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket that listens there; alone, or beside others that share what comes in."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        place = socket.socket(family, kind, protocol)
        try:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            place.bind(address)
            place.listen(WAITING)
        except OSError:
            place.close()
            raise
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"cannot listen at {host}:{port}: {why}; choose another --port or --host"
        ) from None
    return place


def host_in_url(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def print_line(text: str) -> None:
    """A line for whoever started it."""
    print(f"heterobandits: {text}", file=sys.stderr, flush=True)
