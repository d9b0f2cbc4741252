"""Borrow a running Spark, or start one and stop it again."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from mutator.engine import malloc
from mutator.engine.spark.jvm_log import name_of_log, quiet_start
from mutator.engine.spark.jvm_start import quick_jvm, use_own_python
from mutator.errors import error
from mutator.errors.interrupts import deferred_signals

_log = logging.getLogger(__name__)
Starting = Callable[[], None]

# Settings of a Spark of our own.
_OWN = {
    "spark.master": "local[*,4]",  # a task that fails is tried again, as on a cluster
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Jobs that name no pool are served in turn, as by default; those of many tables have pools.
    "spark.scheduler.mode": "FAIR",
    # Over TCP a Python worker waits 40 ms for each task, because an acknowledgement is delayed (Spark 4.1 on).
    "spark.python.unix.domain.socket.enabled": "true",
    # Workers are forked from a process that has everything loaded.
    "spark.python.daemon.module": "mutator.engine.spark.daemon",
}


def _nothing() -> None:
    pass


@contextmanager
def spark_context(name: str, starting: Starting = _nothing) -> Iterator[SparkContext]:
    """Yield the Spark context of this process, or a new one that is stopped afterwards.

    A new one runs on this machine with all its cores, unless ``spark-submit`` started this process with other settings.
    starting: called before a new one starts, which takes seconds. Raises ConfigError where Spark cannot start, or the
    session has no RDDs.
    """
    if is_remote():  # a context in this process would be that of its server
        raise error("spark.connect.merge")
    session = SparkSession.getActiveSession()
    running = SparkContext._active_spark_context if session is None else _context(session)
    if running is None:
        with _own_context(name, {}, starting) as context:
            yield context
    else:
        use_own_python(running)
        yield running


@contextmanager
def spark_session(name: str, starting: Starting = _nothing) -> Iterator[SparkSession]:
    """Yield the session of this process, or a new one that is stopped afterwards, which has a metastore.

    starting: called before a new one starts.
    """
    running = SparkSession.getActiveSession()
    if running is None and SparkContext._active_spark_context is not None:
        running = SparkSession.builder.enableHiveSupport().getOrCreate()
    if running is not None:
        use_own_python(_context(running))
        _open_metastore(running)
        yield running
        return
    with _own_context(name, {"spark.sql.catalogImplementation": "hive"}, starting):
        session = SparkSession.builder.getOrCreate()
        try:
            _open_metastore(session)
            yield session
        finally:
            with contextlib.suppress(Py4JError, OSError):
                session.stop()


@contextmanager
def _own_context(name: str, settings: Mapping[str, str], starting: Starting) -> Iterator[SparkContext]:
    """Yield a new context. A merge needs no session, which takes a quarter of the start."""
    with contextlib.nullcontext() if is_submitted() else _quiet_gateway():
        starting()
        context = _start(name, settings)
        try:
            use_own_python(context)
            yield context
        except KeyboardInterrupt:
            with contextlib.suppress(Py4JError, OSError):
                context.setLogLevel("OFF")  # running tasks would fill the screen with the messages of their end
            raise
        finally:
            with contextlib.suppress(Py4JError, OSError):  # its JVM may be gone
                _stop(context)


def _stop(context: Any) -> None:
    """Stop a context, without the second that the server of its counters takes to end."""
    server, context._accumulatorServer = context._accumulatorServer, None
    context.stop()
    if server is not None:
        threading.Thread(target=server.shutdown, daemon=True).start()


def _open_metastore(session: SparkSession) -> None:
    """Make the first call to the metastore, which shows whether it can be reached."""
    if session.conf.get("spark.sql.catalogImplementation", "in-memory") != "hive":
        raise error("hive.session")
    jvm: Any = session._jvm
    if jvm.java.lang.System.getProperty("derby.stream.error.file") is None:  # or a file in the working directory
        jvm.java.lang.System.setProperty("derby.stream.error.file", os.devnull)
    own = not is_submitted()
    if own:
        _context(session).setLogLevel("OFF")  # Hive logs the same fault several times, with all its causes
    try:
        session._jsparkSession.sharedState().externalCatalog().databaseExists("default")
    except (Py4JError, PySparkException) as fault:
        text = _with_causes(fault)
        if "XSDB6" in text or "Another instance of Derby" in text:
            raise error("hive.derby") from None
        raise error("hive.metastore", table="default", why=text) from None
    finally:
        if own:
            with contextlib.suppress(Py4JError, OSError):
                _context(session).setLogLevel("ERROR")


def _with_causes(fault: Exception) -> str:
    """Return the messages of a fault and of its causes in the JVM."""
    cause: Any = getattr(fault, "java_exception", None) or getattr(fault, "_origin", None)
    lines = []
    while cause is not None:
        lines.append(str(cause.toString()).split("\n\tat ")[0])
        cause = cause.getCause()
    return "; ".join(dict.fromkeys(lines)) or str(fault)


def is_submitted() -> bool:
    """Return whether spark-submit started this process, with settings of its own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _start(name: str, settings: Mapping[str, str]) -> SparkContext:
    submitted = is_submitted()
    if not submitted and "SPARK_REMOTE" in os.environ:
        raise error("spark.connect.merge")
    own_master = not submitted and "MASTER" not in os.environ
    if own_master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {**settings, **_OWN, "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g")}
    try:
        if _is_local(submitted):
            # Workers of a local master must be this interpreter with this package, even if no virtual environment is
            # activated and nothing is installed.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            settings = {
                **settings,
                "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[3]),
                f"spark.executorEnv.{malloc.VARIABLE}": malloc.large_pages(),
            }
        # A JVM that is abandoned while it starts would run for ever.
        with contextlib.ExitStack() as stack:
            stack.enter_context(deferred_signals())
            if not submitted:
                stack.enter_context(quiet_start())
            if own_master:
                stack.enter_context(quick_jvm())
            context = SparkContext.getOrCreate(SparkConf().setAppName(name).setAll(list(settings.items())))
    except (RuntimeError, OSError, Py4JError, PySparkException) as fault:
        why = f"{fault}; Spark needs Java 17 or newer (JAVA_HOME); see {name_of_log()}"
        raise error("spark.missing", why=why) from None
    if _log.isEnabledFor(logging.INFO):
        where = "its log is that of spark-submit" if submitted else f"see {name_of_log()}"  # which is kept
        cores = context.defaultParallelism
        _log.info("Spark %s started: %s, %d tasks at once; %s", context.version, context.master, cores, where)
    if not submitted:
        context.setLogLevel("ERROR")
        # A JVM that dies breaks the connection for Spark's counters, and their server would show a traceback of it.
        server: Any = context._accumulatorServer
        server.handle_error = lambda request, address: None
    return context


@contextmanager
def _quiet_gateway() -> Iterator[None]:
    """Keep py4j from logging a traceback when its JVM dies in the middle of a call: the caller raises its error anyway.

    It logs some of that through a logger of its own, and some through the root logger.
    """
    gateway = logging.getLogger("py4j")
    level = gateway.level
    gateway.setLevel(logging.CRITICAL + 1)
    logging.root.addFilter(_is_not_py4j)
    try:
        yield
    finally:
        gateway.setLevel(level)
        logging.root.removeFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return record.module not in ("java_gateway", "clientserver")


def _is_local(submitted: bool) -> bool:
    if not submitted:
        return "MASTER" not in os.environ
    SparkContext._ensure_initialized()  # connects: the settings of spark-submit are known to its JVM alone
    return (SparkConf().get("spark.master") or "").startswith("local")


def _context(session: SparkSession) -> SparkContext:
    try:
        return session.sparkContext
    except (AttributeError, PySparkException):
        raise error("spark.connect") from None
