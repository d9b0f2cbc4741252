"""Real databases on loopback: PostgreSQL and MariaDB, each with its log of changes open to Debezium, for one test.

    with PostgreSql() as database:
        database.run(["CREATE TABLE t (id int)"])

`make debezium` installs them; where one is missing, the test fails. Each runs as the user nobody if this process is
root, which neither of them accepts, and ends with this process.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from tests.support.cluster import GUARD
from tests.support.patience import PATIENCE, wait_until

_USER = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
_DEBIAN = "/usr/lib/postgresql/*/bin"  # not in the PATH


def free_port() -> int:
    """Return a port that no server has."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def program(name: str) -> str:
    """Return the path of a program. Raises FileNotFoundError if it is not installed."""
    places = [str(one) for one in sorted(Path("/").glob(_DEBIAN[1:]), reverse=True)]
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *places, "/usr/sbin"]))
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: make debezium")
    return found


class Database(ABC):
    """A server with one database, in a temporary directory."""

    connector: ClassVar[str]  # as source.connector of its messages
    schema: ClassVar[str]  # of its tables, as messages name it
    insert: ClassVar[tuple[str, str]]  # before and after the rows of an insert that leaves out those whose key is there
    pause: ClassVar[str]  # a statement that takes a hundredth of a second
    first: ClassVar[Sequence[str]] = ()  # statements of a new server

    def __init__(self) -> None:
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Database:
        self._place = tempfile.TemporaryDirectory(prefix="mutator-database-")
        self.directory = Path(self._place.name)
        os.chown(self.directory, _USER.pw_uid, _USER.pw_gid)
        try:
            self._run(self.initialize())
            self._log = (self.directory / "log").open("w+")
            self._server = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "guard", *self.server()],
                cwd=self.directory,
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=_USER.pw_uid,
                group=_USER.pw_gid,
                extra_groups=[] if os.geteuid() == 0 else None,
            )
            wait_until(self._answers, otherwise=lambda: (self.directory / "log").read_text())
            self.run(self.first)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._server is not None:
            if self._server.poll() is None and self.stop():
                self._run(self.stop())
            self._server.communicate()  # closes its input, at which GUARD ends what runs
            self._log.close()
        self._place.cleanup()

    @abstractmethod
    def initialize(self) -> list[str]:
        """Return the command that makes a new database."""

    @abstractmethod
    def server(self) -> list[str]:
        """Return the command of the server."""

    def stop(self) -> list[str]:
        """Return the command that stops the server although it has clients; none if SIGTERM does."""
        return []

    @abstractmethod
    def client(self) -> list[str]:
        """Return the command of a client, which reads statements and carries on after an error."""

    @abstractmethod
    def literal(self, value: Any) -> str:
        """Return a value in SQL."""

    @abstractmethod
    def row(self, texts: Iterable[str]) -> str:
        """Return an expression of SQL: a JSON array of texts."""

    @abstractmethod
    def properties(self, number: int) -> Mapping[str, str]:
        """Return the properties of a connector. number: of the engine, from 1."""

    def run(self, statements: Iterable[str]) -> str:
        """Run statements in one session, and return the output. An error ends its transaction, and no more."""
        script = "".join(f"{one};\n" for one in statements)
        found = self._run(self.client(), script)
        return found.stdout

    def rows(self, query: str) -> list[Any]:
        """Return rows, each of which is a JSON text."""
        return [json.loads(line) for line in self.run([query]).split("\n") if line]

    def _answers(self) -> bool:
        if self._server is None or self._server.poll() is not None:
            raise RuntimeError(f"{self.connector} ended:\n{(self.directory / 'log').read_text()}")
        return subprocess.run(self.client(), input=b"SELECT 1;", capture_output=True).returncode == 0

    def _run(self, command: Sequence[str], script: str = "") -> subprocess.CompletedProcess[str]:
        found = subprocess.run(
            command,
            input=script,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            user=_USER.pw_uid,
            group=_USER.pw_gid,
            extra_groups=[] if os.geteuid() == 0 else None,
            check=False,
        )
        if found.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{found.stdout}{found.stderr}")
        return found


class PostgreSql(Database):
    """PostgreSQL."""

    connector = "postgresql"
    schema = "public"
    insert = ("INSERT INTO", "ON CONFLICT DO NOTHING")
    pause = "SELECT pg_sleep(0.01)"

    def initialize(self) -> list[str]:
        """Return the command of initdb."""
        own = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        return [program("initdb"), *own, str(self.directory / "data")]

    def server(self) -> list[str]:
        """Return the command of the server."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "fsync": "off",
            "deadlock_timeout": "20ms",
            "timezone": "UTC",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [program("postgres"), "-D", str(self.directory / "data"), *options]

    def stop(self) -> list[str]:
        """Return the command of pg_ctl."""
        return [program("pg_ctl"), "stop", "--mode=immediate", "--silent", "-D", str(self.directory / "data")]

    def client(self) -> list[str]:
        """Return the command of psql."""
        place = ["--host=127.0.0.1", f"--port={self.port}", "--username=postgres"]
        return [program("psql"), *place, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]

    def literal(self, value: Any) -> str:
        """Return a value in SQL."""
        return f"'\\x{value.hex()}'" if isinstance(value, bytes) else _literal(value)

    def row(self, texts: Iterable[str]) -> str:
        """Return an expression of SQL: a JSON array of texts."""
        return f"json_build_array({', '.join(texts)})"

    def properties(self, number: int) -> Mapping[str, str]:
        """Return the properties of a connector, with the decoder that PostgreSQL has."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": "postgres",
            "database.password": "any",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "slot.name": f"engine_{number}",
            "publication.name": "changes",
        }


class MariaDb(Database):
    """MariaDB."""

    connector = "mariadb"
    schema = "shop"
    insert = ("INSERT IGNORE INTO", "")
    pause = "DO SLEEP(0.01)"
    first = ("CREATE DATABASE shop", "CREATE USER debezium@'%' IDENTIFIED BY 'any'", "GRANT ALL ON *.* TO debezium@'%'")

    def initialize(self) -> list[str]:
        """Return the command of mariadb-install-db."""
        own = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        return [program("mariadb-install-db"), *own, f"--datadir={self.directory}/data"]

    def server(self) -> list[str]:
        """Return the command of the server."""
        settings = {
            "datadir": self.directory / "data",
            "socket": self._socket,
            "pid-file": self.directory / "pid",
            "bind-address": "127.0.0.1",
            "port": self.port,
            "log-bin": "changes",
            "binlog-format": "ROW",
            "server-id": 1,
            "innodb-flush-log-at-trx-commit": 0,
            "innodb-lock-wait-timeout": 1,
            "character-set-server": "utf8mb4",
            "default-time-zone": "+00:00",
            "sql-mode": "STRICT_ALL_TABLES,ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
        }
        return [program("mariadbd"), "--no-defaults", *(f"--{name}={value}" for name, value in settings.items())]

    @property
    def _socket(self) -> Path:
        return self.directory / "socket"

    def client(self) -> list[str]:
        """Return the command of mariadb, in the database once that is there."""
        own = ["--user=root", "--batch", "--raw", "--skip-column-names", "--force", "--default-character-set=utf8mb4"]
        database = ["shop"] if (self.directory / "data" / "shop").exists() else []
        return [program("mariadb"), "--no-defaults", f"--socket={self._socket}", *own, *database]

    def literal(self, value: Any) -> str:
        """Return a value in SQL."""
        return f"x'{value.hex()}'" if isinstance(value, bytes) else _literal(value)

    def row(self, texts: Iterable[str]) -> str:
        """Return an expression of SQL: a JSON array of texts."""
        return f"JSON_ARRAY({', '.join(texts)})"

    def properties(self, number: int) -> Mapping[str, str]:
        """Return the properties of a connector."""
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": "debezium",
            "database.password": "any",
            "database.ssl.mode": "disable",
            "database.server.id": str(100 + number),
            "database.include.list": "shop",
            "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        }


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


@contextmanager
def database(connector: str) -> Iterator[Database]:
    """Yield a new server."""
    with {"postgresql": PostgreSql, "mariadb": MariaDb}[connector]() as found:
        yield found
