"""One Spark with a metastore for many tests: each case runs in a child process, which can be killed.

Spark's JVM and its embedded metastore take seconds to start, so they stay; only the Python processes that use them come
and go. A kill of a Python process between two calls leaves exactly the same state as a kill of both.
"""

import os
import pickle
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from pyspark import cloudpickle

from tests.support.cluster import ROOT, environment
from tests.support.patience import PATIENCE

__all__ = ["Hive", "connect", "hive", "started"]

# Starts the JVM, and prints how to reach it; ends with its input.
JVM = """
import sys
from mutator.engine.spark.session import spark_session
with spark_session("hive") as spark:
    java = spark.sparkContext._gateway.java_parameters
    print(java.port, java.auth_token, flush=True)
    sys.stdin.read()
"""
# Forks for every case, which is as good as a new process and does not import everything again.
CASES = """
import os, pickle, struct, sys, traceback
from tests.support.hive_server import connect
import mutator.bridge.hive.table
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
while size := stdin.read(8):
    point, address, function, arguments = pickle.loads(stdin.read(struct.unpack("q", size)[0]))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            if point:
                os.environ["MUTATOR_FAILPOINT"] = point
            outcome = (True, pickle.loads(function)(connect(*address), *arguments))
        except BaseException as fault:
            outcome = (False, "".join(traceback.format_exception(fault)))
        with os.fdopen(writer, "wb") as stream:
            stream.write(pickle.dumps(outcome))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        outcome = stream.read()
    how = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    answer = pickle.dumps((how, outcome))
    stdout.write(struct.pack("q", len(answer)) + answer)
    stdout.flush()
"""


def connect(port, token):
    """Return a new session of the Spark that another process has started."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = port, token
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    running = jvm.org.apache.spark.SparkContext.getOrCreate()
    jsc = jvm.org.apache.spark.api.java.JavaSparkContext(running)
    sc = SparkContext(gateway=SparkContext._gateway, jsc=jsc, conf=None)
    active = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    return SparkSession(sc, active.newSession())


class Hive:
    """A directory with tables, and the Spark whose metastore knows them."""

    def __init__(self, root):
        self.root = root
        self.conf = root / "conf"
        self.conf.mkdir()
        self.conf.joinpath("spark-defaults.conf").write_text(
            f"spark.sql.warehouse.dir {root}/warehouse\n"
            f"spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={root}/metastore;create=true\n"
            "spark.sql.shuffle.partitions 2\n"
            # Nothing here runs long enough to be worth compiling.
            "spark.sql.codegen.wholeStage false\n"
            "spark.sql.codegen.factoryMode NO_CODEGEN\n"
        )
        self.environment = environment(
            SPARK_CONF_DIR=str(self.conf), PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable
        )
        self.jvm = self.cases = None

    def start(self):
        """Start the JVM, and the process that forks for every case."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": self.root, "env": self.environment}
        if self.cases is None:
            self.cases = subprocess.Popen([sys.executable, "-c", CASES], **pipes)
        self.jvm = subprocess.Popen([sys.executable, "-c", JVM], start_new_session=True, **pipes)
        self.address = self.jvm.stdout.readline().decode().split()
        assert len(self.address) == 2, "Spark does not start"

    def stop(self):
        """Stop both normally."""
        for process in (self.cases, self.jvm):
            process.stdin.close()
            process.wait(PATIENCE)
            process.stdout.close()
        self.cases = self.jvm = None

    def kill(self):
        """Kill the JVM, as the kernel does when memory runs out."""
        os.killpg(self.jvm.pid, signal.SIGKILL)
        self.jvm.wait()
        self.jvm.stdin.close()
        self.jvm.stdout.close()

    def run(self, case, *arguments, point=""):
        """Return ``case(spark, *arguments)``, called in a child process, or None if that was killed."""
        how, answer = self._ask(case, arguments, point)
        if point and how == -signal.SIGKILL:
            return None
        assert how == 0, how
        worked, value = pickle.loads(answer)
        assert worked, value
        assert not point, f"the case does not come to {point}"
        return value

    def run_anyhow(self, case, *arguments):
        """Call a case, however it ends."""
        self._ask(case, arguments, "")

    def _ask(self, case, arguments, point):
        cloudpickle.register_pickle_by_value(sys.modules[case.__module__])
        asked = pickle.dumps((point, self.address, cloudpickle.dumps(case), arguments))
        self.cases.stdin.write(len(asked).to_bytes(8, "little") + asked)
        self.cases.stdin.flush()
        size = int.from_bytes(self.cases.stdout.read(8), "little")
        return pickle.loads(self.cases.stdout.read(size))


@contextmanager
def started(root):
    """Yield a new directory with a Spark."""
    hive = Hive(root)
    hive.start()
    try:
        yield hive
    finally:
        hive.stop()


@pytest.fixture(scope="session")
def hive(tmp_path_factory):
    """Yield one server for all tests of its group."""
    with started(tmp_path_factory.mktemp("hive")) as server:
        yield server
