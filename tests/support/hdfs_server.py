"""A real HDFS on loopback: a NameNode and two DataNodes, each a process of its own, in a temporary directory.

    with hdfs_server() as url:  # hdfs://127.0.0.1:PORT
        HdfsStorage().make_directory(f"{url}/base")

`make hadoop` fetches the one jar that pyspark does not bring; where it is missing, the tests that ask are skipped.
Nothing outlives its `with`: each JVM waits behind a shell that ends it when this process is gone, kill -9 included.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest
from hdfs_native import Client

from tests.support.cluster import GUARD, ROOT, environment
from tests.support.patience import PATIENCE

__all__ = ["Hdfs", "admin", "hdfs", "hdfs_server"]

JARS = Path(pyspark.__file__).parent / "jars"
NAMENODE = "namenode.NameNode"
DATANODE = "datanode.DataNode"
SECOND = "datanode.DataNode 2"  # with only one, closing a file usually waits half a second for its report
# For a short life: only the fast compiler, and a garbage collector without threads of its own.
JAVA = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# The jars of pyspark that the two servers need.
NEEDED = ("hadoop-client-api-", "hadoop-client-runtime-", "slf4j-api-", "log4j-", "jcl-over-slf4j-", "commons-logging-")
LOGGING = """<Configuration status="error">
<Appenders><Console name="out"><PatternLayout pattern="%d %-5p %c{1}: %m%n"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@contextmanager
def hdfs_server() -> Iterator[str]:
    """Start a NameNode and two DataNodes, and yield their address once a file can be written."""
    with tempfile.TemporaryDirectory(prefix="mutator-hdfs-") as directory:
        server = Hdfs(Path(directory))
        try:
            server.start_all()
            yield server.url
        finally:
            server.stop_all()


@pytest.fixture(scope="session")
def hdfs() -> Iterator[str]:
    """Yield the address of one server for all the tests of a process."""
    with hdfs_server() as url:
        yield url


def admin(url: str, *words: str) -> None:
    """Carry out a command of Hadoop's DFSAdmin, such as ``-setQuota 1 /directory``; this takes seconds."""
    command = [*_java(), "org.apache.hadoop.hdfs.tools.DFSAdmin", "-fs", url, *words]
    subprocess.run(command, env=environment(), capture_output=True, timeout=PATIENCE, check=True)


class Hdfs:
    """The processes and their address; a test may kill one of them and start it again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # The DataNode needs this port before the NameNode is up, so it cannot be 0 like the others.
        self.url = f"hdfs://127.0.0.1:{_free_port()}"
        self._configure(
            {
                "fs.defaultFS": self.url,
                "hadoop.tmp.dir": directory / "tmp",
                "dfs.namenode.name.dir": f"file://{directory}/name",
                "dfs.namenode.http-address": "127.0.0.1:0",
                "dfs.datanode.address": "127.0.0.1:0",
                "dfs.datanode.ipc.address": "127.0.0.1:0",
                "dfs.datanode.http.address": "127.0.0.1:0",
                "dfs.replication": 2,
                "dfs.namenode.safemode.extension": 0,
                # The DataNode is up before the NameNode: it asks again at once, and not after a second.
                "ipc.client.connect.retry.interval": 50,
                "ipc.client.connect.max.retries": 1200,
                "dfs.heartbeat.interval": 1,
                # The minimum: HDFS refuses to write if less than this would be left.
                "dfs.datanode.du.reserved": 0,
                "dfs.namenode.resource.du.reserved": 0,
            }
        )
        self._java = _java(directory / "conf", f"-Djava.io.tmpdir={directory}")

    def start_all(self) -> None:
        """Create the NameNode's directory, start all servers, and wait until a file can be written."""
        self.start(DATANODE)  # most of its start does not need the NameNode
        self.start(SECOND)
        self._format()
        self.start(NAMENODE)
        self.wait()

    def start(self, role: str) -> None:
        """Start the NameNode or a DataNode."""
        name, _, number = role.partition(" ")
        options = [] if role == NAMENODE else ["-D", f"dfs.datanode.data.dir=file://{self._directory}/data{number}"]
        with self._log(role).open("ab") as sink:
            self._processes[role] = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "guard", *self._java, f"org.apache.hadoop.hdfs.server.{name}", *options],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, role: str) -> None:
        """Kill the NameNode or a DataNode, as a power failure does."""
        process = self._processes.pop(role)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def stop_all(self) -> None:
        """Kill all running processes."""
        for role in list(self._processes):
            self.stop(role)

    def wait(self) -> None:
        """Wait until a file can be written."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                client = Client(self.url)
                with client.create("/ready") as stream:
                    stream.write(b"1")
                client.delete("/ready")
                return
            except (OSError, RuntimeError) as fault:
                with suppress(OSError, RuntimeError):
                    client.delete("/ready")
                ended = [role for role, process in self._processes.items() if process.poll() is not None]
                if ended or time.monotonic() > deadline:
                    logs = "\n".join(self._log(role).read_text()[-3000:] for role in ended or self._processes)
                    raise TimeoutError(f"HDFS did not come up: {fault}\n{logs}") from None
            time.sleep(0.05)

    def _configure(self, settings: dict[str, object]) -> None:
        conf = self._directory / "conf"
        conf.mkdir()
        rows = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
        for name in ("core-site.xml", "hdfs-site.xml"):
            (conf / name).write_text(f"<configuration>{''.join(rows)}</configuration>")
        (conf / "log4j2.xml").write_text(LOGGING)
        # Comes before the classes in the jar, which take seconds to unpack.
        for name in ("static", "hdfs", "datanode"):
            (conf / "webapps" / name).mkdir(parents=True)

    def _format(self) -> None:
        with self._log("format").open("wb") as sink:
            subprocess.run(
                [*self._java, f"org.apache.hadoop.hdfs.server.{NAMENODE}", "-format", "-nonInteractive"],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE,
                check=True,
            )

    def _log(self, role: str) -> Path:
        return self._directory / f"{role}.log"


def _java(conf: Path | None = None, *options: str) -> list[str]:
    """Return the command that runs a class of Hadoop; conf: a directory before the jars."""
    jars = [_minicluster(), *(jar for jar in JARS.iterdir() if jar.name.startswith(NEEDED))]
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    return [java, *JAVA, *options, "-cp", ":".join(map(str, [*([] if conf is None else [conf]), *jars]))]


def _minicluster() -> Path:
    """Return the jar with the two servers, for the Hadoop version that pyspark includes."""
    name = next(JARS.glob("hadoop-client-api-*.jar")).name.replace("client-api", "client-minicluster")
    jar = ROOT / "build" / "hadoop" / name
    if not jar.exists():
        pytest.skip("Hadoop's jars are not here: make hadoop")
    return jar


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
