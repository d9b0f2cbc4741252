"""The commands ``mutator bridge …``.

mutator bridge export --master PATH|--table DB.NAME --output DIR                  write a table as delimited text
mutator bridge import --text DIR --output PATH|--table DB.NAME --format FORMAT    write the text as a table again
mutator bridge run --master PATH|--table DB.NAME --text DIR --feed PATH…          both, with a merge in between
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from mutator.cli import options
from mutator.cli.command import Command, CommandReport, Group, Option, one_of, option
from mutator.errors import error
from mutator.errors.display import counted, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mutator.bridge.contract import BridgeTable
    from mutator.bridge.text_dataset import WrittenDataset
    from mutator.config.settings import EffortSpec, OutputSpec
    from mutator.engine.runner import Runner
    from mutator.plan.runner_choice import RunnerChoice

_NAME = "mutator bridge"  # of the Spark application
_FORMATS = ("orc", "parquet", "avro")


def _table(*names: str, old: str, text: str) -> Option:
    return one_of(
        option(*names, old=old, dest="path", metavar="PATH", help=text),
        option("--table", metavar="DB.NAME", help="a table of the metastore"),
    )


@contextmanager
def _opened(
    arguments: argparse.Namespace, output: OutputSpec, effort: EffortSpec, feed: Sequence[str] = ()
) -> Iterator[tuple[BridgeTable, Runner, RunnerChoice]]:
    """Yield the table, and the runner of its tasks. feed: the paths that the command reads beside it."""
    from mutator.bridge import PathTable
    from mutator.engine.runner import each_on
    from mutator.plan.runner_choice import RunnerChoice

    if arguments.table is None:
        with options.open_runner(effort.runner, [arguments.path, *feed], _NAME, arguments) as (runner, choice):
            yield PathTable(arguments.path, each_on(runner), output.codec), runner, choice
        return
    with _metastore(effort, arguments) as spark:
        from mutator.bridge.hive import MetastoreTable
        from mutator.engine.spark.spark_runner import SparkRunner

        choice = RunnerChoice("spark", 1, "the table is in the metastore")
        yield MetastoreTable(spark, arguments.table), SparkRunner(spark.sparkContext), choice


def _metastore(effort: EffortSpec, arguments: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    """Return a session that knows the metastore."""
    if effort.runner == "local":
        raise error("usage", what="a table of the metastore needs Spark: leave out --runner local, or name its path")
    from mutator.engine.spark.session import spark_session

    return spark_session(_NAME, options.starting(arguments))


def _export(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.bridge import export, one_byte
    from mutator.rules.file_names import new_run_id

    started = time.monotonic()
    config = options.config_without_id(arguments)
    delimiter = one_byte(config.rows.text)
    run = new_run_id(time.time())
    with _opened(arguments, config.output, config.effort) as (table, _, _):
        exported = export(table, arguments.output, run, delimiter=delimiter)
    names = {"run": run, "table": table.given, "kind": table.format, "text": without_secrets(arguments.output)}
    shape = {"fields": len(table.schema), "partitioned_by": list(table.partition_fields)}
    text = "exported {rows} of {table} ({kind}) to {text}"
    yield _answer(text, names | shape, exported, started, arguments)


def _import(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.bridge import import_to_path
    from mutator.engine.runner import each_on
    from mutator.rules.file_names import new_run_id

    started = time.monotonic()
    run = new_run_id(time.time())
    if arguments.table is None and arguments.format is None:
        raise error("usage", what=f"--format is missing; choose one of {', '.join(_FORMATS)}")
    config = options.config_without_id(arguments)
    source, codec = arguments.source, config.output.codec
    if arguments.table is None:
        with options.open_runner(config.effort.runner, [source], _NAME, arguments) as (runner, _):
            imported = import_to_path(source, arguments.path, arguments.format, run, each_on(runner), codec=codec)
    else:
        with _metastore(config.effort, arguments) as spark:
            from mutator.bridge.hive import import_to_table

            imported = import_to_table(spark, source, arguments.table, arguments.format, run)
    table = arguments.path if arguments.table is None else arguments.table
    names = {"run": run, "text": without_secrets(arguments.source), "table": without_secrets(table)}
    yield _answer("imported {rows} of {text} into {table}", names, imported, started, arguments)


def _answer(
    text: str, members: Mapping[str, Any], written: WrittenDataset, started: float, arguments: argparse.Namespace
) -> CommandReport:
    """Return the report of an export or import. text: of its first half. members: of the JSON, before the figures."""
    figures = {"rows": written.rows, "files": written.files, "bytes": written.bytes, "litter": list(written.litter)}
    report = {**members, **figures, "seconds": round(time.monotonic() - started, 3)}
    text += ": {files}, {bytes}; {seconds:.1f} s"
    shown = {name: counted(report[name], name.removesuffix("s")) for name in ("rows", "files", "bytes")}
    return CommandReport(json.dumps(report, indent=1) if arguments.json else text.format(**report | shown))


def _round_trip(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.bridge import run
    from mutator.engine.runner import each_on
    from mutator.pipeline.runners import engine_of

    config = options.loaded(arguments)
    with _opened(arguments, config.output, config.effort, arguments.feed) as (table, runner, choice):
        report = run(
            table,
            arguments.text,
            config,
            arguments.feed,
            options.warn_before(engine_of(runner, choice), arguments),
            each_on(runner),
            engine=arguments.engine,
        )
    yield CommandReport(options.shown(report, arguments), report.merged.warnings)


_STOPPED = "the table has either its old rows or its new ones; the next run finds out which"
EXPORT = Command(
    "export",
    "write a table as delimited text",
    (
        _table("--master", old="--from", text="directory of ORC, Parquet or Avro files"),
        options.new_directory(old="--to"),
        *options.CONFIG,
        options.RUNNER,
        options.JSON,
    ),
    _export,
    _STOPPED,
    (
        "mutator bridge export --master /warehouse/product --output /data/text",
        "mutator bridge export --table shop.product --output /data/text",
    ),
)
IMPORT = Command(
    "import",
    "write exported text as a table again",
    (
        option(
            "--text",
            old="--from",
            dest="source",
            required=True,
            metavar="DIR",
            help="an exported table, or the output of its merge",
        ),
        _table("-o", "--output", old="--to", text="output directory, which must not exist"),
        option(
            "--format",
            choices=_FORMATS,
            help="format of the files; not needed for a metastore table that exists already",
        ),
        *options.CONFIG,
        options.RUNNER,
        options.JSON,
    ),
    _import,
    _STOPPED,
    (
        "mutator bridge import --text /data/text --output /warehouse/new --format orc",
        "mutator bridge import --text /data/text --table shop.product",
    ),
)
ROUND_TRIP = Command(
    "run",
    "export what has changed, merge feed files, and import the result",
    (
        _table("--master", old="--from", text="directory of ORC, Parquet or Avro files, which is replaced"),
        option("--text", required=True, metavar="DIR", help="directory that keeps the text copy between runs"),
        options.FEED_FILES,
        *options.CONFIG,
        options.ENGINE,
        options.RUNNER,
        options.JSON,
    ),
    _round_trip,
    _STOPPED,
    (
        "mutator bridge run --master /warehouse/product --text /data/copy --feed incr --config product.toml",
        "mutator bridge run --table shop.product --text /data/copy --feed incr --config product.toml",
    ),
)
BRIDGE = Group(
    "bridge", "merge into ORC, Parquet and Avro tables by way of delimited text", (EXPORT, IMPORT, ROUND_TRIP)
)
