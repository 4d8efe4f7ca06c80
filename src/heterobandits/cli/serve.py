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
from heterobandits.cli.workers import supervise_workers
from heterobandits.errors import InvalidInput
from heterobandits.web import METRICS_FOLDER_VARIABLE

if TYPE_CHECKING:
    from heterobandits.campaigns.storage.store import Store

DEFAULT_DATABASE = "campaigns.db"
DEFAULT_PORT = 8765
SERVER_BACKLOG_CONNECTIONS = 1024  # connections that wait to be accepted
SERVER_MAX_FILES = 65_536  # that a server asks to have open at once
SERVER_SHUTDOWN_TIMEOUT_S = 20  # that requests have to come to an end


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
    ] = DEFAULT_DATABASE,
    host: Annotated[
        str, typer.Option(help="The address to listen at.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen at; 0 takes one that is free.", min=0, max=65535)
    ] = DEFAULT_PORT,
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
    with listen_on(host, port) as place, ExitStack() as end:
        if demo:
            folder = end.enter_context(TemporaryDirectory(prefix="heterobandits-demo-"))
            database = str(Path(folder) / "demo.db")
        if workers > 1:  # which count their requests together, in files
            os.environ[METRICS_FOLDER_VARIABLE] = end.enter_context(
                TemporaryDirectory(prefix="heterobandits-")
            )
        from heterobandits.campaigns.storage.database import name_of_database
        from heterobandits.campaigns.storage.store import Store
        from heterobandits.web.auth import OWNER_TOKEN_VARIABLE, establish_owner, is_loopback
        from heterobandits.web.warmup import load_kernels

        with Store(database) as store:  # and no connection crosses a fork
            if store.link_keys.warning is not None:
                print_line(f"warning: {store.link_keys.warning}")
            print_line(
                "loading kernels; the first time on a machine they are compiled, which takes minutes"
            )
            began = time.monotonic()
            load_kernels()
            print_line(f"loaded in {time.monotonic() - began:.1f} s")
            owner_hash, token = establish_owner(
                store, None if demo else os.environ.get(OWNER_TOKEN_VARIABLE)
            )
            links = demo_links(store) if demo else []
        base = f"http://{render_host(host)}:{place.getsockname()[1]}"
        if not is_loopback(host):
            print_line(
                f"warning: {base} is open to the network without TLS, and whoever listens there reads the tokens; "
                "put a server with TLS in front of it"
            )
        print(f"{'A demo' if demo else name_of_database(database)} is served at {base}", flush=True)
        if token is not None:
            print(f"the owner's link, which is shown this once: {base}/enter/{token}", flush=True)
        for whose, opens in links:
            print(f"{whose}: {base}/enter/{opens}", flush=True)
        if workers == 1:
            check = interrupts.raise_on_interrupts()
            run_server(place, database, owner_hash, demo)
            check()
        else:
            taken = place.getsockname()[1]
            place.close()  # each has one of its own, and the system deals the connections evenly

            def work() -> None:
                with listen_on(host, taken, shared=True) as own:
                    run_server(own, database, owner_hash, demo)

            supervise_workers(workers, work, print_line)
    return 0


def demo_links(store: "Store") -> list[tuple[str, str]]:
    """Fill the database with a made-up half season, and return links for others: each holder's name and token."""
    from heterobandits.campaigns import service
    from heterobandits.campaigns.files.demo import DEMO_PLANNER_NAME, create_demo
    from heterobandits.campaigns.storage.repository import Author, Repository

    log = Repository(store)
    campaign = create_demo(log)
    made = []
    for role, name, agent in (("reporter", "Femi", "Femi"), ("viewer", "the wall", None)):
        _, token = service.issue_link(
            log, campaign, Author(DEMO_PLANNER_NAME), role=role, name=name, agent=agent
        )
        made.append((f"the link of {name}, a {role}", token))
    return made


def run_server(place: socket.socket, database: str, owner_hash: str | None, demo: bool) -> None:
    """Serve requests until a signal comes, then finish those that have begun."""
    import uvicorn

    from heterobandits.campaigns.storage.repository import Repository
    from heterobandits.campaigns.storage.store import Store
    from heterobandits.web.app import create_app
    from heterobandits.web.connections import BoundedConnection, ConnectionLimits

    class Connection(BoundedConnection):
        """One of this server's."""

        limits = ConnectionLimits(connections=raise_file_limit() // 2)

        @property
        def ending(self) -> bool:  # type: ignore[override]
            return server.should_exit

    with Store(database) as store:
        settings = uvicorn.Config(
            create_app(Repository(store), owner_hash, demo),
            http=Connection,
            ws="none",  # or what is installed beside it would take connections over, and bound none
            access_log=False,  # the address of a link is its key
            log_level="error",  # of less it speaks for anybody who asks, as often as they ask
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=SERVER_SHUTDOWN_TIMEOUT_S,
        )
        server = uvicorn.Server(settings)

        def end(number: int, frame: object) -> None:
            server.should_exit = True  # a signal may come before it has begun

        # uvicorn ends in order at a signal, and then raises it once more for whoever was there before
        signal.signal(signal.SIGTERM, end)
        server.run(sockets=[place])


def raise_file_limit() -> int:
    """Raise this process's limit of open files and connections as far as it may, and return it."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = SERVER_MAX_FILES if most == resource.RLIM_INFINITY else min(most, SERVER_MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return allowed


def listen_on(host: str, port: int, shared: bool = False) -> socket.socket:
    """A socket that listens on this address, alone or beside others that share the connections."""
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
            place.listen(SERVER_BACKLOG_CONNECTIONS)
        except OSError:
            place.close()
            raise
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"cannot listen at {host}:{port}: {why}; choose another --port or --host"
        ) from None
    return place


def render_host(host: str) -> str:
    """A host as URLs write it."""
    return f"[{host}]" if ":" in host else host


def print_line(text: str) -> None:
    """Print a line for whoever started the server."""
    print(f"heterobandits: {text}", file=sys.stderr, flush=True)
