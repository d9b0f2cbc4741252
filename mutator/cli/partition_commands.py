"""The command ``mutator partition``: what it takes, and what it answers. ``cli`` prints it.

mutator partition --feed PATH [--feed PATH …] --by FIELDS --to DIR     a feed, split by partitions

And of the job ``partition_runs``, which merges what was split, with a run for each partition.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from mutator.cli.options import Answer
from mutator.errors import error
from mutator.errors.redact import without_secrets

if TYPE_CHECKING:
    from mutator.workflow.partitions.split import SplitFeed

__all__ = ["partition_command", "partition_options", "runs_options"]

_SHOWN = 5  # partitions in the text; the JSON has them all


def partition_command(commands: Any) -> None:
    """Add the command ``partition`` to the others."""
    what = "split feed files by partitions, into directories as Hive has them"
    parser = commands.add_parser("partition", help=what, description=f"{what.capitalize()}.")
    partition_options(parser)


def partition_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--config", metavar="FILE", help=".properties or .toml")
    parser.add_argument(
        "--feed", action="append", required=True, metavar="PATH", help="feed directory, file or pattern; repeatable"
    )
    parser.add_argument(
        "--by", required=True, metavar="FIELDS", help="for example store_id,day=date(ts) or bucket(0,16)"
    )
    parser.add_argument("--to", required=True, metavar="DIR", help="directory that must not exist")
    parser.add_argument(
        "-D", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="a setting; wins over the file"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON on stdout")
    parser.set_defaults(command=_partition)


def runs_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the job ``partition_runs``."""
    parser.add_argument("--config", metavar="FILE", help=".properties or .toml")
    parser.add_argument("--master", required=True, metavar="DIR", help="directory of partition directories")
    parser.add_argument("--feed", required=True, metavar="DIR", help="what mutator partition has written")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="directory that must not exist, or was begun and not ended"
    )
    parser.add_argument(
        "-D", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="a setting; wins over the file"
    )
    parser.add_argument(
        "--engine", choices=("auto", "blocks", "records"), default="auto", help="as mutator run has it (auto)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON on stdout")
    parser.set_defaults(command=_runs)


def _runs(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator import config
    from mutator.engine.spark.session import spark_context
    from mutator.pipeline.merge import on_spark
    from mutator.workflow.partitions.runs import run_partitions

    read = config.load(arguments.config, arguments.settings)
    with spark_context("mutator partition runs") as sc:  # one for all of them
        done = run_partitions(
            read,
            on_spark(lambda: nullcontext(sc)),
            master=arguments.master,
            feed=arguments.feed,
            output=arguments.output,
            engine=arguments.engine,
        )
    yield Answer(done.json() if arguments.json else done.text(), warnings=done.warnings)


def _partition(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator import config
    from mutator.engine.spark.session import spark_session
    from mutator.engine.spark.shuffle import each_on
    from mutator.rules.partition_transforms import parse_fields
    from mutator.workflow.partitions.split import split_feed

    layout = ["id.field.ordinals=0"] if arguments.config is None else []  # it merges nothing, and needs no ID
    read = config.load(arguments.config, [*layout, *arguments.settings])
    try:
        fields = parse_fields(arguments.by)
    except ValueError as fault:
        raise error("usage", what=f"--by {arguments.by}: {fault}") from None
    with spark_session("mutator partition") as spark:
        done = split_feed(read, fields, arguments.feed, arguments.to, each_on(spark.sparkContext))
    yield Answer(_json(done, arguments) if arguments.json else _text(done, arguments), warnings=read.warnings)


def _json(done: SplitFeed, arguments: argparse.Namespace) -> str:
    record = done.record
    told = {
        "run": record.run,
        "feed": [without_secrets(path) for path in arguments.feed],
        "by": record.by,
        "to": without_secrets(arguments.to),
        "rows": sum(file.rows for file in record.files),
        "rejected": sum(file.rejected for file in record.files),
        "ignored": sum(file.ignored for file in record.files),
        "partitions": record.rows_by_partition(),
        "files": [
            {
                "path": file.source,
                "bytes": file.bytes,
                "checksum": file.checksum,
                "rows": file.rows,
                "rejected": file.rejected,
                "ignored": file.ignored,
                "partitions": len(file.parts),
            }
            for file in record.files
        ],
        "rejects": list(done.rejects),
        "rejected_file": _rejected_file(done, arguments),
        "hidden": list(done.ignored),
        "litter": list(done.litter),
        "seconds": done.seconds,
    }
    return json.dumps(told, indent=1)


def _rejected_file(done: SplitFeed, arguments: argparse.Namespace) -> str | None:
    return next((f"{without_secrets(arguments.to)}/{part.path}" for part in done.record.beside), None)


def _text(done: SplitFeed, arguments: argparse.Namespace) -> str:
    record = done.record
    partitions = record.rows_by_partition()
    lines = [f"split {record.run} by {record.by}", ""]
    width = max((len(name) for name in [*partitions, *(file.name for file in record.files)]), default=0)
    for file in record.files:
        rejected = f", {file.rejected:,} rejected" if file.rejected else ""
        ignored = f", {file.ignored:,} blank or header lines" if file.ignored else ""
        lines.append(f"{file.name:<{width}}{file.rows:>12,} rows{rejected}{ignored}")
    lines.append("")
    lines += [f"{name:<{width}}{rows:>12,}" for name, rows in list(partitions.items())[:_SHOWN]]
    if len(partitions) > _SHOWN:
        lines.append(f"and {len(partitions) - _SHOWN:,} more partitions")
    lines.append("")
    lines += [f"rejected: {one['path']}: {one['place']}: {one['reason']}" for one in done.rejects]
    if done.record.beside:
        lines.append(f"all rejected rows: {_rejected_file(done, arguments)}")
    lines += [f"ignored, hidden name: {path}" for path in done.ignored]
    lines += [f"removed, left by a killed run: {path}" for path in done.litter]
    total = sum(partitions.values())
    files = sum(len(file.parts) for file in record.files)
    lines.append(f"wrote {total:,} rows in {files:,} files of {len(partitions):,} partitions; {done.seconds:.1f} s")
    return "\n".join(lines)
