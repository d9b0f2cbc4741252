"""Open the runner of a merge: Spark, or the processes of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mutator.engine import steps
from mutator.engine.local.fork_server import begin_processes
from mutator.engine.local.local_runner import local_runner, prepare_machine
from mutator.engine.local.processes import workers_for, workers_of
from mutator.engine.receipts import Receipts
from mutator.engine.runner import Runner
from mutator.engine.usable_cores import usable_cores
from mutator.errors import MutatorError
from mutator.plan.run_plan import Plan
from mutator.plan.runner_choice import RunnerChoice, choose_runner, configured_spark, is_connected, shared_processes_for
from mutator.plan.splits import INFLATED
from mutator.rules.file_names import COMPRESSIONS
from mutator.rules.known_formats import FORMATS
from mutator.storage import located, walk
from mutator.storage.progress import expected

if TYPE_CHECKING:
    from pyspark import SparkContext

    from mutator.engine.local.processes import Processes

_log = logging.getLogger(__name__)
_PACKED = (*COMPRESSIONS, *(known.suffix for known in FORMATS.values() if known.stores_schema))
Context = Callable[[], AbstractContextManager["SparkContext"]]  # makes a Spark context, which takes seconds
# Reads, shuffles, reduces and writes as a plan says, into a directory (None: nowhere).
Engine = Callable[[Plan, str | None], Receipts]


def engine_on(wanted: str, context: Context) -> Engine:
    """Return the engine of a run. wanted: one of ``runner_choice.RUNNERS``. context: called if Spark is chosen."""

    def merge_on(plan: Plan, staging: str | None) -> Receipts:
        choice = choice_for(wanted, plan.bytes_to_read, plan.stored_bytes_to_read)
        with open_runner(choice, context) as runner:
            return engine_of(runner, choice)(plan, staging)

    return merge_on


def engine_of(runner: Runner, choice: RunnerChoice) -> Engine:
    """Return the engine of a runner that is open."""

    def merge_on(plan: Plan, staging: str | None) -> Receipts:
        with expected(plan.stored_bytes_to_read, rewritten=plan.strategy.join == "shuffle"):
            return replace(steps.merge(runner, plan, staging), runner=choice)

    return merge_on


def choice_for(wanted: str, bytes_: int, stored: int | None = None) -> RunnerChoice:
    """Choose a runner in the environment of this process.

    bytes_: to be read, uncompressed. stored: bytes of the files; None for as many.
    """
    return choose_runner(wanted, bytes_, usable_cores(), configured_spark(), stored, connect=is_connected())


@contextmanager
def runner_for(wanted: str, context: Context, bytes_: int) -> Iterator[tuple[Runner, RunnerChoice]]:
    """Yield the runner that suits a number of bytes to read, and why. wanted, context: as for ``engine_on``."""
    choice = choice_for(wanted, bytes_)
    with open_runner(choice, context) as runner:
        yield runner, choice


def choice_for_paths(wanted: str, paths: Iterable[str]) -> RunnerChoice:
    """Choose a runner for files that no plan has counted: they are listed, unless it is Spark anyway."""
    is_spark = wanted == "spark" or (wanted == "auto" and configured_spark() is not None and not is_connected())
    return choice_for(wanted, 0 if is_spark else sum(map(bytes_at, paths)))


def begin_processes_for(wanted: str, paths: Iterable[str]) -> None:
    """Begin to start processes if the files of this machine are so large that their merge needs them.

    They are ready when the merge is planned. wanted: as for ``choose_runner``. paths: the inputs of the merge.
    """
    with suppress(MutatorError):  # the merge says what is wrong
        choice = choice_for_paths(wanted, [path for path in paths if located(path)[0].holds])
        if choice.runner == "local" and choice.processes > 1:
            begin_processes()


def bytes_at(path: str) -> int:
    """Return about how many bytes are to be read from a file, a directory or a pattern, uncompressed; 0 without files.

    Names show which files are packed: nothing is opened.
    """
    storage, path = located(path)
    path = storage.resolve(path)
    entry = storage.stat(path)
    found = [entry] if entry is not None else storage.glob(path)
    files = (file for one in found for file in (walk(one.path) if one.type == "directory" else [one]))
    return sum(file.bytes * (INFLATED if file.name.endswith(_PACKED) else 1) for file in files)


@contextmanager
def open_runner(choice: RunnerChoice, context: Context) -> Iterator[Runner]:
    """Yield the runner that was chosen. Raises the errors of the catalogue for faults of Spark."""
    _log.info("runner %s", choice.text())
    if choice.runner == "local":
        prepare_machine()
        with ExitStack() as stack:
            workers = stack.enter_context(workers_of(choice.processes, choice.threads))
            by_bytes = workers_for if choice.processes > 1 else None
            yield stack.enter_context(local_runner(workers, choice=by_bytes))
        return
    from mutator.engine.spark.jvm_log import spark_faults
    from mutator.engine.spark.spark_runner import opened

    with context() as sc, spark_faults(sc), opened(sc) as runner:
        yield runner


def shared_workers(bytes_: int) -> AbstractContextManager[Processes | None]:
    """Return processes that several merges share, which start when they are needed; None for this process.

    bytes_: that all of these merges read.
    """
    prepare_machine()
    count = shared_processes_for(bytes_, usable_cores())
    if count == 1:
        return nullcontext()
    from mutator.engine.local.processes import Processes  # loads multiprocessing

    return Processes(count)
