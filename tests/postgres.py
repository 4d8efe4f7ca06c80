"""A real PostgreSQL server on loopback, in a folder of its own, and a fresh database of either kind for the tests that ask."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PASSWORD = "se:cr/et@"  # with letters that a URL has to escape
ESCAPED = "se%3Acr%2Fet%40"
WHO = "postgres"
MOST = 4  # databases, as long as they are not in use


def binaries():
    """The folder of the server's programs, of the newest version there is; None without one."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[4])
    )
    on_path = shutil.which("postgres")
    found += [Path(on_path)] if on_path else []
    return found[-1].parent if found else None


class Server:
    """A server with a database for whoever wants one. It can be stopped and started again at the same port."""

    def __init__(self, programs):
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.databases = []
        self.process = None
        # The server refuses to run as root: then it runs as the user that its package has made.
        self.user = {"user": WHO, "group": WHO, "extra_groups": []} if os.getuid() == 0 else {}
        if self.user:
            os.chown(self.folder, pwd.getpwnam(WHO).pw_uid, -1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self.call("initdb", "-U", WHO, "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8")
        self.start()

    def call(self, program, *arguments):
        data = ("-D", self.folder / "data", *arguments)
        subprocess.run(
            [self.programs / program, *data],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self.user,
        )

    def start(self):
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "fsync": "on",
            "shared_buffers": "32MB",
        }
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *given],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self.user,
            )
        until = time.monotonic() + 60
        while True:
            try:
                return self.connect("postgres").close()
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        """End the server, and with SIGINT its connections; with SIGQUIT at once, as in a crash."""
        self.process.send_signal(how)
        self.process.wait(60)

    def restart(self, how=signal.SIGINT):
        self.stop(how)
        self.start()

    def connect(self, database):
        """A connection of psycopg's own, without our code."""
        import psycopg

        try:
            return psycopg.connect(
                host="127.0.0.1",
                port=self.port,
                user=WHO,
                password=PASSWORD,
                dbname=database,
                autocommit=True,
            )
        except psycopg.OperationalError as error:
            raise ConnectionError(str(error)) from None

    def url(self, database):
        return f"postgresql://{WHO}:{ESCAPED}@127.0.0.1:{self.port}/{database}"

    def fresh(self):
        """The URL of an empty database: a new one, or one of long ago that is emptied, which is quicker.

        And hundreds of databases would take half a minute to write to the disk at the next stop.
        """
        with self.connect("postgres") as connection:
            used = {name for (name,) in connection.execute("SELECT datname FROM pg_stat_activity")}
            if len(self.databases) < MOST or self.databases[0] in used:
                name = f"fresh_{len(self.databases)}"
                connection.execute(f"CREATE DATABASE {name}")
            else:
                name = self.databases.pop(0)
                with self.connect(name) as emptied:
                    emptied.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        self.databases.append(name)
        return self.url(name)

    def remove(self):
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def postgres():
    """A server for the whole session, started when the first test asks for it."""
    programs = binaries()
    if programs is None:
        assert os.environ.get("CI") != "true", "PostgreSQL is not installed: nothing is tested"
        pytest.skip("PostgreSQL is not installed")
    server = Server(programs)
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """A database that nobody has used."""
    if request.param == "sqlite":
        return str(tmp_path / "campaigns ü %41?.db")
    return request.getfixturevalue("postgres").fresh()
