"""`heterobandits serve`: campaigns over HTTP."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from heterobandits.cli import interrupts
from heterobandits.cli.campaign.options import DATABASE_HELP, warn_of_password
from heterobandits.cli.workers import supervise_workers
from heterobandits.errors import InvalidInput
from heterobandits.web import METRICS_FOLDER_VARIABLE

if TYPE_CHECKING:
    from heterobandits.campaigns.storage.store import Store
    from heterobandits.web.lan import LanServer
    from heterobandits.web.warmup import Warmup

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
    lan: Annotated[
        bool,
        typer.Option(
            "--lan",
            help="Serve phones on the office Wi-Fi, with a certificate that this machine makes.",
        ),
    ] = False,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="A made-up half season to look at, in a database that is gone when the server stops.",
        ),
    ] = False,
    new_owner_link: Annotated[
        bool,
        typer.Option(
            "--new-owner-link",
            help="Make a new link for the owner of the server, for who has lost theirs; the old one opens nothing any more.",
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
    if demo and is_stated(context, "database"):
        raise InvalidInput("--demo has a database of its own: leave out --database")
    if new_owner_link:
        check_new_owner_link(demo)
    local = prepare_lan_server(host if is_stated(context, "host") else None) if lan else None
    host = host if local is None else local.host
    with listen_on(host, port) as place, ExitStack() as end:
        trust = None if local is None else end.enter_context(listen_beside(place, host))
        if demo:
            folder = end.enter_context(TemporaryDirectory(prefix="heterobandits-demo-"))
            database = str(Path(folder) / "demo.db")
        if workers > 1:  # which count their requests together, in files
            os.environ[METRICS_FOLDER_VARIABLE] = end.enter_context(
                TemporaryDirectory(prefix="heterobandits-")
            )
        from heterobandits.campaigns.storage.database import name_of_database
        from heterobandits.campaigns.storage.store import Store
        from heterobandits.policies.catalogue import RECOMMENDED_FOR_HORIZON
        from heterobandits.web import warmup
        from heterobandits.web.auth import (
            OWNER_TOKEN_VARIABLE,
            establish_owner,
            is_loopback,
            renew_owner_token,
        )

        print_line("loading the rules that plans are made with")
        kernels = warmup.prepare_kernels(print_line)
        end.callback(kernels.end_compiler)
        with Store(database) as store:  # and no connection crosses a fork
            if store.link_keys.warning is not None:
                print_line(f"warning: {store.link_keys.warning}")
            owner_hash, token = establish_owner(
                store, None if demo else os.environ.get(OWNER_TOKEN_VARIABLE)
            )
            if demo:
                kernels.load_until(RECOMMENDED_FOR_HORIZON)  # the demo's
            if new_owner_link:
                token = renew_owner_token(store)
            links = demo_links(store) if demo else []
        base = f"http://{render_host(host)}:{place.getsockname()[1]}"
        if local is not None:
            base = f"https://{render_host(str(local.address))}:{place.getsockname()[1]}"
        elif not is_loopback(host):
            print_line(
                f"warning: {base} is open to the network without TLS, and whoever listens there reads the tokens; "
                "put a server with TLS in front of it, or start it with --lan"
            )
        print(f"{'A demo' if demo else name_of_database(database)} is served at {base}", flush=True)
        if token is not None:
            print(f"the owner's link, which is shown this once: {base}/enter/{token}", flush=True)
        if new_owner_link:
            print_line("the link that the owner had before opens nothing any more")
        for whose, opens in links:
            print(f"{whose}: {base}/enter/{opens}", flush=True)
        encryption = None
        if local is not None and trust is not None:
            encryption = Encryption(local, trust, base)
            page = f"http://{render_host(str(local.address))}:{trust.getsockname()[1]}/"
            print_trust_notice(local, page)
        if workers == 1:
            check = interrupts.raise_on_interrupts()
            run_server(place, database, owner_hash, demo, kernels, encryption)
            check()
        else:
            taken = place.getsockname()[1]
            place.close()  # each has one of its own, and the system deals the connections evenly

            def work() -> None:
                with listen_on(host, taken, shared=True) as own:
                    run_server(own, database, owner_hash, demo, kernels, encryption)

            supervise_workers(workers, work, print_line)
    return 0


def check_new_owner_link(demo: bool) -> None:
    """Refuse to make a link for the owner where it would open nothing."""
    from heterobandits.web.auth import OWNER_TOKEN_VARIABLE

    if demo:
        raise InvalidInput("--new-owner-link is for a database that stays: a demo prints a link")
    if os.environ.get(OWNER_TOKEN_VARIABLE):
        raise InvalidInput(
            f"--new-owner-link makes a link in place of the one that the database knows, but {OWNER_TOKEN_VARIABLE} is set, and the server "
            "then opens for that token alone: its link is the address of the server and /enter/ with the token; or unset it"
        )


def demo_links(store: "Store") -> list[tuple[str, str]]:
    """Fill the database with a made-up half season, and return links for others: each holder's name and token."""
    from heterobandits.campaigns.files.demo import DEMO_PLANNER_NAME, create_demo
    from heterobandits.campaigns.links import issue_link
    from heterobandits.campaigns.storage.repository import Author, Repository

    log = Repository(store)
    campaign = create_demo(log)
    made = []
    for role, name, agent in (("reporter", "Femi", "Femi"), ("viewer", "the wall", None)):
        _, token = issue_link(
            log, campaign, Author(DEMO_PLANNER_NAME), role=role, name=name, agent=agent
        )
        made.append((f"the link of {name}, a {role}", token))
    return made


class Encryption(NamedTuple):
    """With what connections are encrypted, where phones learn to trust it, and the address of what they trust."""

    lan: "LanServer"
    trust: socket.socket
    base: str


def prepare_lan_server(host: str | None) -> "LanServer":
    """The address and the certificate of a server for the local network."""
    try:
        from heterobandits.web.lan import prepare_lan
    except ImportError as error:
        raise InvalidInput(
            f"serve --lan needs {error.name}: pip install 'heterobandits[campaigns]'"
        ) from None
    return prepare_lan(host)


def print_trust_notice(lan: "LanServer", page: str) -> None:
    """Print what phones need to trust this server."""
    from heterobandits.web.lan import render_trust_notice

    print(render_trust_notice(lan, page, coloured=sys.stdout.isatty()), flush=True)


def is_stated(context: typer.Context, option: str) -> bool:
    """Whether an option was given on the command line."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def run_server(
    place: socket.socket,
    database: str,
    owner_hash: str | None,
    demo: bool,
    kernels: "Warmup",
    encryption: Encryption | None,
) -> None:
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

    if encryption is None:
        make_connection: Callable[..., asyncio.Protocol] = Connection
    else:
        from heterobandits.web.budgets import Budgets
        from heterobandits.web.encryption import (
            HANDSHAKE_PERIOD_S,
            EncryptedConnection,
            tls_context,
        )

        certificate = encryption.lan.certificate
        context = tls_context(certificate.certificate, certificate.key)
        handshakes = Budgets(HANDSHAKE_PERIOD_S)

        def make_connection(**given: Any) -> asyncio.Protocol:
            return EncryptedConnection(Connection(**given), context, handshakes)

    class Server(uvicorn.Server):
        """One that lets phones know its certificate."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Listen."""
            await super().startup(sockets)
            if encryption is not None:
                self.servers.append(await listen_for_trust(encryption))

    with Store(database) as store, kernels.loading(print_line):
        settings = uvicorn.Config(
            create_app(Repository(store), owner_hash, demo, kernels),
            http=cast(Any, make_connection),
            ws="none",  # or what is installed beside it would take connections over, and bound none
            access_log=False,  # the address of a link is its key
            log_level="error",  # of less it speaks for anybody who asks, as often as they ask
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=SERVER_SHUTDOWN_TIMEOUT_S,
        )
        server = Server(settings)

        def end(number: int, frame: object) -> None:
            server.should_exit = True  # a signal may come before it has begun

        # uvicorn ends in order at a signal, and then raises it once more for whoever was there before
        signal.signal(signal.SIGTERM, end)
        server.run(sockets=[place])


async def listen_for_trust(encryption: Encryption) -> asyncio.Server:
    """Answer those who want the certificate of the authority."""
    from heterobandits.web.trust import TrustAnswers, TrustConnection

    answers = TrustAnswers(encryption.lan.certificate.authority, encryption.base)
    return await asyncio.get_running_loop().create_server(
        lambda: TrustConnection(answers), sock=encryption.trust
    )


def listen_beside(place: socket.socket, host: str) -> socket.socket:
    """A socket that listens at the next port, or else at any that is free."""
    try:
        return listen_on(host, place.getsockname()[1] + 1)
    except (InvalidInput, OverflowError):
        return listen_on(host, 0)


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
