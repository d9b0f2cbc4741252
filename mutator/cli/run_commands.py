"""The commands ``mutator run`` and ``mutator verify``, and the call of the original MapReduce job.

mutator run --config FILE --master DIR --feed PATH [--feed PATH …] --output DIR
mutator verify DIR
bulk_mutate.py -Dconf.path=FILE MASTER,FEED[,FEED…] OUTPUT
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mutator.cli.options import (
    Answer,
    Command,
    config_options,
    dry_run_option,
    engine_option,
    feed_option,
    is_quiet,
    json_option,
    output_option,
    partitioned_by_option,
    setting_option,
    settings_of,
    shown,
)
from mutator.config import load
from mutator.errors import error


def _run_options(parser: argparse.ArgumentParser) -> None:
    config_options(parser)
    parser.add_argument("--master", required=True, metavar="DIR", help="master directory")
    feed_option(parser)
    output_option(parser)
    partitioned_by_option(parser)
    engine_option(parser)
    dry_run_option(parser)
    json_option(parser)


def _run(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.engine.spark.progress import show_progress
    from mutator.engine.spark.session import spark_context
    from mutator.pipeline.merge import carry_out, on_spark, prepare

    config = load(arguments.config, settings_of(arguments))  # before Spark starts, which takes seconds
    quiet = is_quiet(arguments)
    prepared = prepare(config, arguments.master, arguments.feed, arguments.output, engine=arguments.engine)
    merge_on = on_spark(lambda: spark_context("mutator run"), None if quiet else show_progress)
    _, report = carry_out(prepared, merge_on, dry_run=arguments.dry_run)
    yield Answer(shown(report, arguments), warnings=() if quiet else report.warnings)


def _original_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("in_paths", metavar="IN_PATHS", help="master,feed[,feed...]: the first path is the master")
    parser.add_argument("output", metavar="OUT_PATH", help="output directory, which must not exist")
    setting_option(parser)
    dry_run_option(parser)
    json_option(parser)


def _original_job(arguments: argparse.Namespace) -> Iterator[Answer]:
    """Translate ``-Dconf.path=FILE IN_PATHS OUT_PATH`` into the options of ``mutator run``, and run."""
    path = "conf.path="
    configs = [setting.removeprefix(path) for setting in arguments.settings if setting.startswith(path)]
    master, *feed = arguments.in_paths.split(",")
    if not feed or "" in (master, *feed):
        raise error("usage", what=f"IN_PATHS is {arguments.in_paths}: write master,feed[,feed…], the master first")
    arguments.config = configs[-1] if configs else None
    arguments.settings = [setting for setting in arguments.settings if not setting.startswith(path)]
    arguments.master, arguments.feed = master, feed
    arguments.partitioned_by, arguments.engine = None, "auto"
    return _run(arguments)


def _verify_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="output of mutator run, or the base of a workflow")


def _verify(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.engine.spark.session import spark_context
    from mutator.pipeline.verify import verify
    from mutator.storage import absolute
    from mutator.workflow.directory.verification import is_base, verify_base

    whole_base = is_base(absolute(arguments.directory))
    with spark_context("mutator verify") as sc:
        found = (
            verify_base(arguments.directory, lambda path: verify(sc, path))
            if whole_base
            else verify(sc, arguments.directory)
        )
    yield Answer(found.text(), code=3 if found.problems else 0)


RUN = Command("run", "merge feed files into a master", _run_options, _run)
VERIFY = Command(
    "verify", "read a dataset back and report where it differs from its manifest", _verify_options, _verify
)
ORIGINAL_JOB = Command(
    "bulk_mutate.py",
    "merge feed files into a master; --help shows the long form of this call",
    _original_options,
    _original_job,
)
