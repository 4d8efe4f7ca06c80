"""Databases: which one a text names, how to open it, which schema it has, and what to say when it fails.

A plain path is an SQLite file; `postgresql://...` is a database of a PostgreSQL server. In SQLite a transaction that writes
begins as one, so that two writers wait for each other and neither fails half way.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from heterobandits.errors import InvalidInput, UnsupportedVersion, parse_path, repr_of

DATABASE_VARIABLE = "HETEROBANDITS_DATABASE"
SCHEMA_REVISION = "0003"  # of the schema that this version reads and writes
VERSION_TABLE = "heterobandits_version"
SQLITE_APPLICATION_ID = 0x48426E64  # HBnd, in the head of an SQLite file
MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
MIGRATION_LOCK_ID = 4_801_101  # the advisory lock of PostgreSQL under which one process migrates
DB_LOCK_TIMEOUT_S = 10.0  # seconds that one waits for another writer, or for a server to come back
NEW_FILE_MODE = 0o600  # the mode of new files: names, notes and outcomes are in them
FREE_DISK_MIN_BYTES = 100_000  # bytes that are free on a disk which is not full
SQLITE_MIN_BYTES = 100  # bytes of a file that SQLite has begun
DB_LOCK_POLL_S = 0.001  # seconds, at a file that another writes to
POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
DATABASE_FORMS_TEXT = "the path of an SQLite file, or postgresql://user@host:port/database"
CONNECTION_POOL: dict[str, Any] = {"poolclass": sa.QueuePool, "pool_size": 5, "max_overflow": 15}

SQLITE_REASONS = {
    sqlite3.SQLITE_BUSY: f"it is locked by another program for more than {DB_LOCK_TIMEOUT_S:.0f} s",
    sqlite3.SQLITE_LOCKED: "it is locked by another program",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a backup",
    sqlite3.SQLITE_NOTADB: "the file is damaged; restore a backup",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written to",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
}
POSTGRES_REASONS = {
    "53100": "the disk of the server is full",
    "53300": "the server has too many connections",
    "55P03": f"it is locked by another program for more than {DB_LOCK_TIMEOUT_S:.0f} s",
    "3D000": "the server has no database of that name; make it with createdb",
}


class StoreUnavailable(InvalidInput):
    """A database that cannot be used now; the message says which one and why.

    `why` is for those too who are not to know which, as far as it has no place, user or word of the database in it.
    """

    def __init__(self, message: str, why: str | None = None) -> None:
        super().__init__(message)
        self.why = why


class Database(NamedTuple):
    """An open database: its name in messages, and its engine."""

    name: str
    engine: sa.Engine

    @property
    def reading(self) -> sa.Engine:
        """The same engine for single statements that read, each a transaction of its own."""
        if self.engine.dialect.name == "sqlite":
            return self.engine.execution_options(begins=False)
        return self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @property
    def writing(self) -> sa.Engine:
        """The same engine for transactions that write."""
        return self.engine.execution_options(writes=True)

    @property
    def still(self) -> sa.Engine:
        """The same engine for transactions that see nothing of what is written meanwhile, as all of SQLite's do."""
        if self.engine.dialect.name == "sqlite":
            return self.engine
        return self.engine.execution_options(isolation_level="REPEATABLE READ")


def is_database_url(database: str | Path) -> bool:
    """Whether a text is a URL and not a path."""
    scheme, colon, _ = str(database).partition(":")
    return bool(colon) and ("://" in str(database) or scheme in POSTGRES_SCHEMES)


def address_of_database(database: str | Path) -> Path | sa.URL:
    """The path of an SQLite file, or the URL of a PostgreSQL database. No message has a password in it."""
    if not isinstance(database, str) or not is_database_url(database):
        return parse_path(database, "database")
    if database.startswith("sqlite:///"):
        return parse_path(database.removeprefix("sqlite:///"), "database")
    scheme, _, _ = database.partition(":")
    try:
        url = sa.make_url(database)
    except (SQLAlchemyError, ValueError):
        raise InvalidInput(
            f"database is a URL that cannot be read: {DATABASE_FORMS_TEXT}"
        ) from None
    if scheme not in POSTGRES_SCHEMES:
        raise InvalidInput(f"database is a URL of {repr_of(scheme)}: {DATABASE_FORMS_TEXT}")
    if "@" in (url.host or ""):
        raise InvalidInput("database is a URL with two @: an @ in a password is written %40")
    if not url.database:
        raise InvalidInput(
            f"database is a URL without the name of a database: {DATABASE_FORMS_TEXT}"
        )
    return url.set(drivername="postgresql+psycopg")


def name_of_database(database: str | Path) -> str:
    """What a database is called in a message: its path, or its URL without user and password."""
    where = address_of_database(database)
    if isinstance(where, Path):
        return str(where)
    port = f":{where.port}" if where.port else ""
    return f"postgresql://{where.host or ''}{port}/{where.database}"


def connect_database(database: str | Path) -> Database:
    """Connect to a database without reading from it; an SQLite file has to exist."""
    where, name = address_of_database(database), name_of_database(database)
    if isinstance(where, sa.URL):
        return Database(name, _postgresql_engine(where))
    if not where.is_file():
        raise InvalidInput(f"there is no database {name}: {DATABASE_FORMS_TEXT}")
    return Database(name, _sqlite_engine(where))


def create_database(database: str | Path) -> Database:
    """Connect to a database without reading from it; an SQLite file is created empty if there is none."""
    where = address_of_database(database)
    if isinstance(where, Path):
        try:
            # what SQLite puts beside it has the same mode
            where.touch(NEW_FILE_MODE, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot write to {where}: {error.strerror or error}") from None
    return connect_database(database)


def _sqlite_engine(path: Path) -> sa.Engine:
    """An engine on an SQLite file that is there."""
    address = f"{path.absolute().as_uri()}?mode=rw"
    files = _Files(path)

    def connect() -> sqlite3.Connection:
        files.check()
        connection = sqlite3.connect(
            address,
            uri=True,
            timeout=DB_LOCK_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")  # on the disk when it is acknowledged
            # reads, and so opens what is beside the file
            connection.execute("PRAGMA schema_version")
            files.open()
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, **CONNECTION_POOL)

    @sa.event.listens_for(engine, "checkout")
    def check_again(*_: object) -> None:
        files.check()

    @sa.event.listens_for(engine, "checkin")
    def look(*_: object) -> None:
        files.look()

    @sa.event.listens_for(engine, "close")
    def forget(*_: object) -> None:
        files.close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        options = connection.get_execution_options()
        if options.get("writes", False):
            patience = options.get("patience", DB_LOCK_TIMEOUT_S)
            begin_writing(connection.connection.driver_connection, patience)
            files.check()  # the wait may have been long
        elif options.get("begins", True):
            connection.exec_driver_sql("BEGIN")

    return engine


def check_room(place: Database) -> None:
    """Refuse a database that can be read but not written to, as far as one can tell without writing."""
    with explain_refusals(place.name), place.reading.connect() as connection:
        if place.engine.dialect.name == "postgresql":
            if connection.exec_driver_sql("SHOW transaction_read_only").scalar_one() == "on":
                raise StoreUnavailable(f"{place.name} takes no writes", "it takes no writes")
            return
        path = connection.exec_driver_sql("PRAGMA database_list").first()[2]  # type: ignore[index]
        disk = os.statvfs(path)
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < FREE_DISK_MIN_BYTES:
            full = SQLITE_REASONS[sqlite3.SQLITE_FULL]
            raise StoreUnavailable(f"cannot use the database {place.name}: {full}", full)


class _Files:
    """An SQLite file and the files SQLite keeps beside it: a write to a file that was renamed or deleted is lost.

    SQLite itself deletes what is beside it when the last connection is closed, and at no other time; so as long as one of
    ours is open it has to stay.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        real = path.resolve()
        self._others = [real.with_name(real.name + end) for end in ("-wal", "-shm")]
        self._same = _identity_of_file(path)
        self._beside: list[tuple[int, int] | None] | None = None
        self._connections = 0
        self._lock = Lock()

    def check(self) -> None:
        """Refuse if something was deleted, emptied or replaced."""
        with self._lock:
            if self._whole():
                return
        raise sqlite3.OperationalError(
            "the file or its -wal or -shm was deleted, or another is in its place; stop whoever uses it, then start anew"
        )

    def _whole(self) -> bool:
        """Whether everything is as the connections have it open."""
        if _identity_of_file(self._path) != self._same:
            return False
        if self._beside is None:
            return True
        try:
            begun = self._path.stat().st_size >= SQLITE_MIN_BYTES
        except OSError:
            return False
        return begun and self._found() == self._beside

    def _found(self) -> list[tuple[int, int] | None]:
        """What is beside the file now."""
        return [_identity_of_file(other) for other in self._others]

    def look(self) -> None:
        """Remember what is beside the file, once a connection has it open: a new file has nothing there at first."""
        with self._lock:
            if self._beside is None and self._connections:
                found = self._found()
                self._beside = found if all(found) else None

    def open(self) -> None:
        """One more connection has them open; refuse if they are not those that the others have."""
        with self._lock:
            self._connections += 1
        try:
            self.look()
            self.check()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """One less; after the last SQLite may delete what is beside the file, but what was lost before stays lost."""
        with self._lock:
            self._connections -= 1
            if self._connections == 0 and self._whole():
                self._beside = None


def _identity_of_file(path: Path) -> tuple[int, int] | None:
    """What tells the file at a path from earlier and later files of that name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def begin_writing(connection: Any, patience: float = DB_LOCK_TIMEOUT_S) -> None:
    """Begin a transaction that writes, when all others have ended: SQLite itself would look only every 100 ms in the end."""
    until = time.monotonic() + patience
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > until:
                    raise
            else:
                return
            time.sleep(DB_LOCK_POLL_S)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {DB_LOCK_TIMEOUT_S * 1000:.0f}")


def _postgresql_engine(url: sa.URL) -> sa.Engine:
    """An engine for a PostgreSQL database that notices when the server was restarted."""
    settings = f"-c synchronous_commit=on -c lock_timeout={DB_LOCK_TIMEOUT_S * 1000:.0f}"
    defaults = {"connect_timeout": f"{DB_LOCK_TIMEOUT_S:.0f}", "options": settings}
    return sa.create_engine(
        url,
        connect_args={name: value for name, value in defaults.items() if name not in url.query},
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        hide_parameters=True,
        use_native_hstore=False,  # or every new connection would ask the server about it
        **CONNECTION_POOL,
    )


@contextmanager
def explain_refusals(name: str) -> Iterator[None]:
    """Within this context, errors of the named database become one-line messages."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:
        message = f"cannot use the database {name}: {reason_of_error(error)}"
        raise StoreUnavailable(message, worded_reason_of(error)) from None


def reason_of_error(error: Exception) -> str:
    """Why a database cannot be used, in one line: in our words, or else in its own."""
    cause = cause_of(error)
    return worded_reason_of(error) or " ".join(str(cause).split())[:300] or type(cause).__name__


def cause_of(error: Exception) -> BaseException:
    """The error that the database itself raised."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def worded_reason_of(error: Exception) -> str | None:
    """Our own words for why a database cannot be used, if we have any."""
    cause = cause_of(error)
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(cause, UnicodeDecodeError):  # SQLite names what is wrong in the words of the file
        code = sqlite3.SQLITE_CORRUPT
    if code is not None and code & 0xFF in SQLITE_REASONS:
        return SQLITE_REASONS[code & 0xFF]
    state = getattr(cause, "sqlstate", None)
    if state in POSTGRES_REASONS:
        return POSTGRES_REASONS[state]
    if isinstance(error, sa.exc.TimeoutError):
        return "too many are using it at once"
    return None


@contextmanager
def close_afterwards(place: Database) -> Iterator[Database]:
    """The database, closed at the end; its errors become one-line messages."""
    try:
        with explain_refusals(place.name):
            yield place
    finally:
        place.engine.dispose()


def open_database(database: str | Path, *, create: bool) -> Database:
    """Open a database of campaigns that has this version's schema; create it if allowed."""
    place = create_database(database) if create else connect_database(database)
    try:
        with explain_refusals(place.name):
            found = schema_revision_of(place)
            if found is None and not create:
                raise InvalidInput(f"{place.name} is an empty database: no campaigns are kept here")
            if found is None:
                with place.writing.begin() as connection:
                    upgrade_schema(connection, place.name, SCHEMA_REVISION)
            elif found < SCHEMA_REVISION:
                raise InvalidInput(
                    f"{place.name} has the older schema {found}, and this version needs {SCHEMA_REVISION}: "
                    "run `heterobandits db upgrade`"
                )
            _enable_write_ahead(place)
    except BaseException:
        place.engine.dispose()
        raise
    return place


def schema_revision_of(place: Database) -> str | None:
    """The schema of a database, or None if it is empty; refuses a foreign or newer one."""
    try:
        with place.engine.connect() as connection:
            return _revision_of_connection(connection, place.name)
    except sa.exc.DatabaseError as error:
        if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise InvalidInput(f"{place.name} is not a database of heterobandits") from None
        raise


def _revision_of_connection(connection: sa.Connection, name: str) -> str | None:
    tables = sa.inspect(connection).get_table_names()
    marked = True
    if connection.dialect.name == "sqlite":
        mark = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        marked = mark == (SQLITE_APPLICATION_ID if tables else 0)
    if not tables and marked:
        return None
    if VERSION_TABLE not in tables or not marked:
        raise InvalidInput(
            f"{name} is not a database of heterobandits, but of another program: {DATABASE_FORMS_TEXT}, "
            "empty or of campaigns"
        )
    versions = sa.table(VERSION_TABLE, sa.column("version_num"))
    found = str(connection.execute(sa.select(versions.c.version_num)).scalar_one())
    if found > SCHEMA_REVISION:
        raise UnsupportedVersion(
            f"{name} has the schema {found}: this version knows up to {SCHEMA_REVISION}; "
            "use the newer heterobandits that made it"
        )
    return found


def upgrade_schema(connection: sa.Connection, name: str, to: str) -> str | None:
    """Upgrade the schema, and return the one before; None if the database was empty."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK_ID)))
    before = _revision_of_connection(connection, name)  # now that nobody else changes it
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, to)
    except CommandError:
        raise InvalidInput(
            f"{name} has the schema {repr_of(before)}, which no version has"
        ) from None
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {SQLITE_APPLICATION_ID}")
    return before


def _enable_write_ahead(place: Database) -> None:
    """Let an SQLite file be read while it is written. SQLite may not wait by itself for a moment to change that."""
    if place.engine.dialect.name != "sqlite":
        return
    until = time.monotonic() + DB_LOCK_TIMEOUT_S
    while True:
        try:
            with place.engine.connect() as connection:
                cursor = connection.connection.cursor()  # it cannot be changed in a transaction
                cursor.execute("PRAGMA journal_mode = WAL")
                return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > until:
                raise
        time.sleep(0.02)
