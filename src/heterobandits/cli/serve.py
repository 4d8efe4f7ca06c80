"""`heterobandits serve`: campaigns over HTTP."""

import ipaddress
import os
import signal
import socket
import sys
import time
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from heterobandits.cli import interrupts
from heterobandits.cli.workers import supervised
from heterobandits.errors import InvalidInput
from heterobandits.web import COUNTED

DATABASE = "campaigns.db"
PORT = 8765
WAITING = 1024  # connections that wait to be accepted
LAST_SECONDS = 20  # that requests have to come to an end


def serve(
    database: Annotated[
        str,
        typer.Option(
            envvar="HETEROBANDITS_DATABASE",
            help="The file with the campaigns, or postgresql://user:password@host/database.",
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
) -> int:
    """Serve the campaigns of a database over HTTP, until Ctrl-C.

    Example: heterobandits serve --database rangers.db
    """
    try:
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            f"serve needs {error.name}: pip install 'heterobandits[campaigns]'"
        ) from None
    with listening(host, port) as place, ExitStack() as end:
        if workers > 1:  # which count their requests together, in files
            os.environ[COUNTED] = end.enter_context(TemporaryDirectory(prefix="heterobandits-"))
        from heterobandits.campaigns.databases import name_of
        from heterobandits.campaigns.store import Store
        from heterobandits.web.access import VARIABLE, owner_of
        from heterobandits.web.warming import load_kernels

        with Store(database) as store:  # and no connection crosses a fork
            note(
                "loading kernels; the first time on a machine they are compiled, which takes minutes"
            )
            began = time.monotonic()
            load_kernels()
            note(f"loaded in {time.monotonic() - began:.1f} s")
            owner_hash, token = owner_of(store, os.environ.get(VARIABLE))
        base = f"http://{written(host)}:{place.getsockname()[1]}"
        if not is_loopback(host):
            note(
                f"warning: {base} is open to the network without TLS, and whoever listens there reads the tokens; "
                "put a server with TLS in front of it"
            )
        print(f"{name_of(database)} is served at {base}", flush=True)
        if token is not None:
            print(f"the owner's link, which is shown this once: {base}/enter/{token}", flush=True)
        if workers == 1:
            check = interrupts.raised()
            answer(place, database, owner_hash)
            check()
        else:
            taken = place.getsockname()[1]
            place.close()  # each has one of its own, and the system deals the connections evenly

            def work() -> None:
                with listening(host, taken, shared=True) as own:
                    answer(own, database, owner_hash)

            supervised(workers, work, note)
    return 0


def answer(place: socket.socket, database: str, owner_hash: str) -> None:
    """Answer requests until a signal comes; those that have begun come to their end."""
    import uvicorn

    from heterobandits.campaigns.log import Log
    from heterobandits.campaigns.store import Store
    from heterobandits.web.app import create_app

    # uvicorn ends in order at a signal, and then raises it once more for whoever was there before
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    with Store(database) as store:
        settings = uvicorn.Config(
            create_app(Log(store), owner_hash),
            access_log=False,  # the address of a link is its key
            log_level="warning",
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=LAST_SECONDS,
        )
        uvicorn.Server(settings).run(sockets=[place])


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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def written(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def note(text: str) -> None:
    """A line for whoever started it."""
    print(f"heterobandits: {text}", file=sys.stderr, flush=True)
