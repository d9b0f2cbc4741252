"""The choice of a runner: Spark, or the processes of this machine.

Spark takes seconds to start. A merge that reads little is done before that.
"""

import os
import sys

from mutator.errors.quick_dataclass import dataclass

RUNNERS = ("auto", "local", "spark")
# Bytes that this machine merges in half the time and memory of Spark on the same machine. No more has been measured.
_FASTER_HERE = 2 << 30
_ONE_PROCESS = 256 << 20  # bytes that the threads of one process merge before other processes would be done
_MANY = 48 << 20  # bytes of many tables that one process merges before others would be done; threads do not help there
_ONE_THREAD = 4 << 20  # bytes that one thread merges before others have started
_MOST_THREADS = 4  # they wait for each other where Python itself is at work


@dataclass(frozen=True)
class RunnerChoice:
    """A runner, and the reason for it."""

    runner: str  # "local" or "spark"
    processes: int  # of a local runner, at least 1; several start only for steps that read much
    why: str
    threads: int = 1  # of its only process

    def text(self) -> str:
        """Return a clause for a report.

        >>> RunnerChoice("local", 2, "it was asked for").text()
        'local, this process and up to 2 more: it was asked for'
        """
        one = "1 process" if self.processes == 1 else f"this process and up to {self.processes} more"
        tasks = f", {one}" if self.runner == "local" else ""
        return f"{self.runner}{tasks}: {self.why}"


def choose_runner(
    wanted: str, bytes_: int, cores: int, spark: str | None, stored: int | None = None, *, connect: bool = False
) -> RunnerChoice:
    """Choose a runner.

    wanted: one of ``RUNNERS``. bytes_: to be read, uncompressed. cores: of this machine. spark: how a Spark master is
    configured; None if it is not. stored: bytes of the files; if they are fewer, bytes_ is an estimate. connect: Spark
    of this process is Spark Connect, which runs no tasks of ours.

    >>> choose_runner("auto", 4096, 2, None)
    RunnerChoice(runner='local', processes=1, why='4,096 bytes are merged before Spark would have started', threads=1)
    >>> choose_runner("auto", 4096, 2, None, stored=512).why
    'about 4,096 bytes uncompressed are merged before Spark would have started'
    """
    size = f"{bytes_:,} bytes" if stored in (None, bytes_) else f"about {bytes_:,} bytes uncompressed"
    processes, threads = processes_for(bytes_, cores), threads_for(bytes_, cores)
    if wanted != "auto":
        return RunnerChoice(wanted, processes, "it was asked for", threads)
    if connect:
        return RunnerChoice("local", processes, "Spark Connect does not run merges", threads)
    if spark is not None:
        return RunnerChoice("spark", processes, spark)
    if bytes_ <= _FASTER_HERE:
        why = f"{size} are merged " + (
            "before Spark would have started" if bytes_ <= _ONE_PROCESS else "here in less time than by Spark"
        )
        return RunnerChoice("local", processes, why, threads)
    return RunnerChoice("spark", processes, f"{size} to read are more than {_FASTER_HERE:,}")


def processes_for(bytes_: int, cores: int) -> int:
    """Return the number of processes that merge some bytes on this machine.

    >>> processes_for(1 << 10, 4), processes_for(1 << 30, 4)
    (1, 4)
    """
    return 1 if bytes_ <= _ONE_PROCESS else max(cores, 1)


def threads_for(bytes_: int, cores: int) -> int:
    """Return the number of threads that merge some bytes in one process.

    >>> threads_for(1 << 10, 2), threads_for(1 << 30, 2), threads_for(1 << 30, 64)
    (1, 2, 4)
    """
    return 1 if bytes_ <= _ONE_THREAD else max(1, min(cores, _MOST_THREADS))


def shared_processes_for(bytes_: int, cores: int) -> int:
    """Return the number of processes that many merges share. bytes_: of all of them."""
    return 1 if bytes_ <= _MANY else max(cores, 1)


def is_connected() -> bool:
    """Return whether Spark of this process is Spark Connect: a session of it is running, or one is configured."""
    return "SPARK_CONNECT_MODE_ENABLED" in os.environ or "SPARK_REMOTE" in os.environ


def configured_spark() -> str | None:
    """Return how a Spark master is configured for this process; None if it is not."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "spark-submit started this process"
    if "MASTER" in os.environ:
        return "MASTER is set"
    spark = sys.modules.get("pyspark")  # it takes half a second to import
    running = spark is not None and spark.SparkContext._active_spark_context is not None
    return "a Spark session is running in this process" if running else None
