"""The commands ``mutator bridge …``: what they take, and what they answer. ``cli`` prints it.

mutator bridge export --from PATH|--table DB.NAME --to DIR                    a table as delimited text
mutator bridge import --from DIR --to PATH|--table DB.NAME --format KIND      the text as a table again
mutator bridge run --from PATH|--table DB.NAME --text DIR --feed PATH …       both, with a merge in between
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from mutator.cli.options import Answer
from mutator.errors import error
from mutator.errors.redact import without_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mutator.bridge.contract import Table

__all__ = ["bridge_commands", "bridge_options", "export_options", "import_options", "run_options"]

_KINDS = ("orc", "parquet", "avro")


def bridge_commands(commands: Any) -> None:
    """Add the command ``bridge`` to the others."""
    parser = commands.add_parser(
        "bridge",
        help="merge into tables of other formats by way of delimited text",
        description="Export a table to delimited text, import it again, or do both with a merge in between.",
    )
    bridge_options(parser)


def bridge_options(parser: argparse.ArgumentParser) -> None:
    """Add the commands of the bridge."""
    inner = parser.add_subparsers(title="commands", required=True)
    for name, options, what in (
        ("export", export_options, "write a table as delimited text"),
        ("import", import_options, "write delimited text that was exported as a table"),
        ("run", run_options, "export what has changed, merge feed files, and import the result"),
    ):
        options(inner.add_parser(name, help=what, description=f"{what.capitalize()}."))


def export_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an export."""
    _table(parser, "--from", "PATH", "directory of ORC, Parquet or Avro files")
    parser.add_argument("--to", required=True, metavar="DIR", help="directory that must not exist")
    _settings(parser)
    parser.set_defaults(command=_export)


def import_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an import."""
    parser.add_argument(
        "--from", dest="source", required=True, metavar="DIR", help="what was exported, or merged since"
    )
    _table(parser, "--to", "PATH", "directory that must not exist")
    parser.add_argument(
        "--format", choices=_KINDS, help="of the files; a table of the metastore has its own, and needs none"
    )
    _settings(parser)
    parser.set_defaults(command=_import)


def run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run."""
    _table(parser, "--from", "PATH", "directory of ORC, Parquet or Avro files, which is replaced")
    parser.add_argument("--text", required=True, metavar="DIR", help="where the text copy is kept from run to run")
    parser.add_argument(
        "--feed", action="append", required=True, metavar="PATH", help="feed directory, file or pattern; repeatable"
    )
    parser.add_argument(
        "--engine", choices=("auto", "blocks", "records"), default="auto", help="as mutator run has it (auto)"
    )
    _settings(parser)
    parser.set_defaults(command=_run)


def _table(parser: argparse.ArgumentParser, option: str, metavar: str, what: str) -> None:
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument(option, dest="path", metavar=metavar, help=what)
    one.add_argument("--table", metavar="DB.NAME", help="a table of the metastore")


def _settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help=".properties or .toml")
    parser.add_argument(
        "-D", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="a setting; wins over the file"
    )
    parser.add_argument("--json", action="store_true", help="answer with JSON on stdout")


def _spark(arguments: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    from mutator.engine.spark.session import spark_session

    return spark_session("mutator bridge", hive=arguments.table is not None)


def _opened(arguments: argparse.Namespace, spark: SparkSession, codec: str | None = None) -> Table:
    from mutator.bridge import MetastoreTable, PathTable
    from mutator.engine.spark.shuffle import each_on

    if arguments.table is not None:
        return MetastoreTable(spark, arguments.table)
    return PathTable(arguments.path, each_on(spark.sparkContext), codec)


def _export(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.bridge import export, one_byte
    from mutator.rules.file_names import new_run_id

    started = time.monotonic()
    delimiter = one_byte(_looking(arguments))
    run = new_run_id(time.time())
    with _spark(arguments) as spark:
        table = _opened(arguments, spark)
        done = export(table, arguments.to, run, delimiter=delimiter)
        told = {
            "run": run,
            "table": table.given,
            "kind": table.kind,
            "text": without_secrets(arguments.to),
            "fields": len(table.schema),
            "partitioned_by": list(table.partition_fields),
            "rows": done.rows,
            "files": len(done.manifest.files),
            "bytes": done.bytes,
            "litter": list(done.litter),
            "seconds": round(time.monotonic() - started, 3),
        }
    text = "exported {rows:,} rows of {table} ({kind}) to {text}: {files:,} files, {bytes:,} bytes; {seconds:.1f} s"
    yield Answer(json.dumps(told, indent=1) if arguments.json else text.format(**told))


def _import(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.bridge import import_to_path, import_to_table
    from mutator.engine.spark.shuffle import each_on
    from mutator.rules.file_names import new_run_id

    started = time.monotonic()
    run = new_run_id(time.time())
    if arguments.table is None and arguments.format is None:
        raise error("usage", what=f"--format is missing; choose one of {', '.join(_KINDS)}")
    codec = _looking(arguments).output_codec
    with _spark(arguments) as spark:
        if arguments.table is None:
            each = each_on(spark.sparkContext)
            done = import_to_path(arguments.source, arguments.path, arguments.format, run, each, codec=codec)
        else:
            done = import_to_table(spark, arguments.source, arguments.table, arguments.format, run)
    told = {
        "run": run,
        "text": without_secrets(arguments.source),
        "table": without_secrets(arguments.path if arguments.table is None else arguments.table),
        "rows": done.rows,
        "files": done.files,
        "bytes": done.bytes,
        "litter": list(done.litter),
        "seconds": round(time.monotonic() - started, 3),
    }
    text = "imported {rows:,} rows of {text} into {table}: {files:,} files, {bytes:,} bytes; {seconds:.1f} s"
    yield Answer(json.dumps(told, indent=1) if arguments.json else text.format(**told))


def _run(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator import config
    from mutator.bridge import run
    from mutator.engine.spark.progress import show_progress
    from mutator.engine.spark.session import is_submitted
    from mutator.engine.spark.shuffle import each_on
    from mutator.pipeline.merge import on_spark

    read = config.load(arguments.config, arguments.settings)
    # spark-submit sends stderr down stdout, where nothing but the report may stand; it has the warnings, too.
    quiet = arguments.json and is_submitted()
    with _spark(arguments) as spark:
        merge_on = on_spark(lambda: nullcontext(spark.sparkContext), None if quiet else show_progress)
        done = run(
            _opened(arguments, spark, read.output_codec),
            arguments.text,
            read,
            arguments.feed,
            merge_on,
            each_on(spark.sparkContext),
            engine=arguments.engine,
        )
    yield Answer(done.json() if arguments.json else done.shown(), warnings=() if quiet else done.merged.warnings)


def _looking(arguments: argparse.Namespace) -> Any:
    """Read the configuration of a command that merges nothing, and so can do without the ID."""
    from mutator import config

    layout = ["id.field.ordinals=0"] if arguments.config is None else []
    return config.load(arguments.config, [*layout, *arguments.settings])
