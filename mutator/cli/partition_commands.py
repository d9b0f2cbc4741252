"""The commands ``mutator partition``, and ``mutator partition-runs``, which merges its result.

mutator partition --feed PATH… --partitioned-by FIELDS --output DIR
mutator partition-runs --config FILE --master DIR --feed DIR --output DIR
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.command import Command, CommandReport, option, option_type
from mutator.errors.display import counted, text_of, without_secrets
from mutator.rules.partition_fields import parse_fields

if TYPE_CHECKING:
    from mutator.workflow.partitions.split import SplitFeed

_SHOWN = 5  # partitions in the text; the JSON has all of them


def _partition(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.engine.runner import each_on
    from mutator.workflow.partitions.split import split_feed

    config = options.config_without_id(arguments)
    with options.open_runner(config.effort.runner, arguments.feed, "mutator partition", arguments) as (runner, _):
        split = split_feed(config, arguments.by, arguments.feed, arguments.output, each_on(runner))
    yield CommandReport(_json(split, arguments) if arguments.json else _text(split, arguments), split.warnings)


def _json(split: SplitFeed, arguments: argparse.Namespace) -> str:
    from mutator.pipeline.report import reject_members

    record = split.record
    report = {
        "run": record.commit.run,
        "feed": [without_secrets(path) for path in arguments.feed],
        "by": record.by,
        "to": without_secrets(arguments.output),
        "rows": sum(file.rows for file in record.files),
        "rejected": sum(file.rejected for file in record.files),
        "ignored": sum(file.ignored for file in record.files),
        "partitions": dict(split.partitions),
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
        "rejects": [reject_members(*sample) for sample in split.rejects],
        "rejected_file": _rejected_file(split, arguments),
        "hidden": list(split.ignored),
        "litter": list(split.litter),
        "warnings": list(split.warnings),
        "seconds": split.seconds,
    }
    return json.dumps(report, indent=1)


def _rejected_file(split: SplitFeed, arguments: argparse.Namespace) -> str | None:
    return next((f"{without_secrets(arguments.output)}/{file.path}" for file in split.record.beside), None)


def _text(split: SplitFeed, arguments: argparse.Namespace) -> str:
    record = split.record
    partitions = split.partitions
    lines = [f"split {record.commit.run} by {record.by}", ""]
    width = max((len(name) for name in [*partitions, *(file.name for file in record.files)]), default=0)
    for file in record.files:
        rejected = f", {file.rejected:,} rejected" if file.rejected else ""
        ignored = f", {counted(file.ignored, 'blank or header line')}" if file.ignored else ""
        lines.append(f"{file.name:<{width}}{counted(file.rows, 'row'):>17}{rejected}{ignored}")
    lines.append("")
    lines += [f"{name:<{width}}{rows:>12,}" for name, rows in list(partitions.items())[:_SHOWN]]
    if len(partitions) > _SHOWN:
        lines.append(f"and {counted(len(partitions) - _SHOWN, 'more partition')}")
    lines.append("")
    lines += [f"rejected: {reject.path}: {reject.position}: {reject.reason}" for reject in split.rejects]
    if record.beside:
        lines.append(f"all rejected rows: {_rejected_file(split, arguments)}")
    lines += [f"ignored, hidden or unfinished: {path}" for path in split.ignored]
    lines += [f"removed, left by a killed run: {path}" for path in split.litter]
    total = sum(partitions.values())
    files = sum(len(file.parts) for file in record.files)
    number = counted(len(record.rows_by_partition()), "partition")
    size = f"{counted(total, 'row')} in {counted(files, 'file')} of {number}"
    lines.append(f"wrote {size}; {split.seconds:.1f} s")
    return text_of(lines)


def _runs(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.workflow.partitions.runs import run_partitions

    config = options.loaded(arguments)
    with ExitStack() as stack:
        open_spark = options.spark("mutator partition-runs", arguments)
        spark = cache(lambda: stack.enter_context(open_spark()))  # one for all runs
        report = run_partitions(
            config,
            options.merge_on(config.effort.runner, lambda: nullcontext(spark()), arguments),
            master=arguments.master,
            feed=arguments.feed,
            output=arguments.output,
            engine=arguments.engine,
        )
    yield CommandReport(options.shown(report, arguments), report.warnings)


PARTITION = Command(
    "partition",
    "split feed files by partitions, into Hive-style directories",
    (
        options.FEED_FILES,
        option(
            "--partitioned-by",
            old="--by",
            dest="by",
            type=option_type(parse_fields),
            required=True,
            metavar="FIELDS",
            help="partition fields, such as store_id,day=date(ts) or bucket(0,16)",
        ),
        options.new_directory(old="--to"),
        *options.CONFIG,
        options.RUNNER,
        options.JSON,
    ),
    _partition,
    examples=(
        "mutator partition --feed incr --partitioned-by store_id,create_date --output split --config sales.toml",
        "mutator partition --feed incr --partitioned-by 'day=date(2)' --output split",
    ),
)
PARTITION_RUNS = Command(
    "partition-runs",
    "merge a split feed into a partitioned master, one run per partition",
    (
        option("--master", required=True, metavar="DIR", help="directory of partition directories"),
        option("--feed", required=True, metavar="DIR", help="output of mutator partition"),
        options.new_directory("output directory, new or left unfinished by an earlier call"),
        *options.CONFIG,
        options.ENGINE,
        options.RUNNER,
        options.JSON,
    ),
    _runs,
    "finished partitions are kept for the next call with the same options",
    ("mutator partition-runs --config sales.toml --master sales --feed split --output new",),
)
