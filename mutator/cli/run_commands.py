"""The commands ``mutator run`` and ``mutator verify``, and the call of the original MapReduce job.

mutator run --config FILE --master DIR --feed PATH… --output DIR
mutator verify [--repair] DIR
bulk_mutate.py -Dconf.path=FILE MASTER,FEED[,FEED…] OUTPUT
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.after_commit import making_answer, stopped_at_end
from mutator.cli.command import Command, CommandReport, option
from mutator.cli.config_file import place
from mutator.cli.lineage_events import LineageEvents
from mutator.cli.report_files import FILES, ReportFiles
from mutator.cli.stdin_feed import reading_stdin
from mutator.cli.table_output_commands import verification_of
from mutator.cli.workflow_target import table_in
from mutator.errors import MutatorError, error
from mutator.errors.display import command, text_of, without_secrets
from mutator.storage import located, located_to_write, storage_for

if TYPE_CHECKING:
    from mutator.pipeline.merge import Prepared


@reading_stdin
def _run(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.pipeline.master_settings import chained_settings
    from mutator.pipeline.merge import carry_out, prepare
    from mutator.pipeline.runners import begin_processes_for
    from mutator.pipeline.version_point import seconds_of

    later = "run the command again with another --output"
    inputs = (("master", arguments.master), *(("feed", path) for path in arguments.feed))
    events = LineageEvents(arguments, f"mutator run {arguments.master}", inputs)
    places = [*inputs, *_output_of(arguments)]
    files = ReportFiles(arguments, arguments.master, places, events=events, later=later)
    with stopped_at_end(arguments), files.watch() as observed:
        files.start()
        if arguments.changes is not None:
            arguments.settings = [*arguments.settings, "changes=true"]
        # Before Spark starts, which takes seconds
        config = options.config_of(arguments, partial(chained_settings, arguments.master))
        _check_changes(arguments)
        begin_processes_for(config.effort.runner, [arguments.master, *arguments.feed])
        prepared = prepare(config, arguments.master, arguments.feed, arguments.output, engine=arguments.engine)
        merge = options.merge_on(config.effort.runner, options.spark("mutator run", arguments), arguments)
        try:
            with making_answer(arguments):
                made, report = carry_out(prepared, merge, dry_run=arguments.dry_run)
                observed.report = report
                observed.known = {} if arguments.dry_run else {"committed": seconds_of(made.commit.committed)}
            if arguments.changes is not None and not arguments.dry_run:
                from mutator.pipeline.kept_changes import put_changes

                put_changes(prepared.output, made, located_to_write(arguments.changes)[1])
        except KeyboardInterrupt:
            if not arguments.dry_run and _is_committed(prepared):
                files.note_commit(_command_of_changes(arguments))
            raise
    yield CommandReport(options.shown(report, arguments), (*report.warnings, *files.warnings))


def _output_of(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the role and the path of the output; nothing for a dry run without one."""
    return [] if arguments.output is None else [("output", arguments.output)]


def _is_committed(prepared: Prepared) -> bool:
    """Return whether the output of a run is published, as far as the storage says so."""
    from mutator.dataset.commit.staging import published

    with suppress(MutatorError):
        made = published(storage_for(prepared.output), prepared.output)
        return made is not None and made.commit.run == prepared.plan.run
    return False


def _command_of_changes(arguments: argparse.Namespace) -> str | None:
    """Return the command that puts changed rows into their directory; None if they are there, or not asked for."""
    from mutator.pipeline.kept_changes import read_kept_changes

    if arguments.changes is None:
        return None
    with suppress(MutatorError):
        if read_kept_changes(located_to_write(arguments.changes)[1]) is not None:
            return None
    output, directory = map(without_secrets, (arguments.output, arguments.changes))
    return command("changes", output, "--changes", directory)


def _check_changes(arguments: argparse.Namespace) -> None:
    """Raise the error of a directory that cannot get the changed rows."""
    from mutator.dataset.commit.publish import check_apart

    if arguments.changes is None:
        return
    storage, path = located_to_write(arguments.changes)
    if storage.stat(path) is not None:
        raise error("output.exists", path=arguments.changes)
    others = (*_output_of(arguments), ("master", arguments.master), *(("feed", one) for one in arguments.feed))
    for role, given in others:
        check_apart(path, located(given)[1], role="directory of changed rows", other_role=role)


def _original_job(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    """Translate ``-Dconf.path=FILE IN_PATHS OUT_PATH`` into the options of ``mutator run``, and run."""
    path = "conf.path="
    configs = [setting.removeprefix(path) for setting in arguments.settings if setting.startswith(path)]
    if len(set(configs)) > 1:
        raise error("usage", what=f"conf.path is set to '{configs[0]}' and '{configs[-1]}': keep one of them")
    master, *feed = arguments.in_paths.split(",")
    if not feed or "" in (master, *feed):
        raise error("usage", what=f"IN_PATHS is {arguments.in_paths}: write master,feed[,feed…], the master first")
    arguments.config = configs[-1] if configs else None
    arguments.settings = [setting for setting in arguments.settings if not setting.startswith(path)]
    arguments.master, arguments.feed = master, feed
    arguments.engine, arguments.changes = "auto", None
    return _run(arguments)


def _verify(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.dataset.directory import is_base, is_table
    from mutator.pipeline.verify import repair_dataset, verify
    from mutator.workflow.directory.verification import repair_base, verify_base

    storage, path = located_to_write(arguments.directory)
    if storage.stat(path) is None:
        raise error("path.missing", path=path, what="directory")
    whole_base = is_base(path)
    table = table_in(path)
    if table is not None or is_table(path):
        yield verification_of(table or path, arguments, None if table is None else arguments.directory)
        return
    repaired: dict[str, list[str]] = {}
    if arguments.repair:
        done, problems = repair_base(path) if whole_base else repair_dataset(path)
        repaired = {"repaired": done, "not_repaired": problems}
        lines = [*(f"repaired: {text}" for text in done), *(f"not repaired: {text}" for text in problems)]
        if not arguments.json:
            yield CommandReport(text_of(lines or ["nothing to repair"]))
    with options.open_runner(arguments.runner or "auto", [path], "mutator verify", arguments) as (runner, _):
        found = (
            verify_base(arguments.directory, lambda path: verify(runner, path))
            if whole_base
            else verify(runner, arguments.directory)
        )
    text = (
        json.dumps({**found.members(), **repaired}, indent=1) if arguments.json else options.text_of(found, arguments)
    )
    yield CommandReport(text, code=3 if found.problems else 0)


_MASTER = place("--master", metavar="DIR", help="master directory")
_OUTPUT = place("-o", "--output", metavar="DIR", help="output directory, which must not exist; a dry run needs none")
RUN = Command(
    "run",
    "merge feed files into a master",
    (
        *options.CONFIG,
        _MASTER,
        options.FEED_PLACE,
        _OUTPUT,
        option("--changes", metavar="DIR", help="new directory for the rows that the run changes, before and after"),
        options.PARTITIONED_BY,
        *options.INSERT_OVERWRITE,
        options.ENGINE,
        options.RUNNER,
        options.DRY_RUN,
        options.JSON,
        *FILES,
    ),
    _run,
    examples=(
        "mutator run",
        "mutator run --config product.toml --master master --feed incr --output new",
        "mutator run --config product.toml --master master --feed 'incr/*.csv.gz' --output new --dry-run",
        "mutator run --key id --order-by updated_at --op op --master master --feed incr --output new",
        "mutator run --config product.toml --master master --feed incr --output new --html report.html",
        "mutator run --config product.toml --master s3://lake/master --feed s3://lake/incr --output s3://lake/new",
    ),
)
VERIFY = Command(
    "verify",
    "read a dataset back and report where it differs from its manifest",
    (
        option("directory", metavar="DIR", help="output of mutator run, base of a workflow, or table"),
        option("--repair", action="store_true", help="first put damaged manifests back from their copies"),
        options.RUNNER,
        options.JSON,
    ),
    _verify,
    examples=("mutator verify new", "mutator verify /data/base --repair"),
)
ORIGINAL_JOB = Command(
    "bulk_mutate.py",
    "merge feed files into a master; --help shows the long form of this call",
    (
        option("in_paths", metavar="IN_PATHS", help="master,feed[,feed...]: the first path is the master"),
        option("output", metavar="OUT_PATH", help="output directory, which must not exist"),
        options.setting(),
        options.DRY_RUN,
        options.JSON,
    ),
    _original_job,
    examples=("bulk_mutate.py -Dconf.path=bumu.properties master,incr new",),
)
