"""The options that several commands share, and the values that commands get from them."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from mutator.cli.command import Option, option
from mutator.cli.config_file import NAME, NONE, place
from mutator.cli.messages import notify, warn
from mutator.cli.stdin_feed import check_runner
from mutator.config import load
from mutator.config.audience import SWITCHES, Audience
from mutator.config.definitions import SETTINGS, SHORT, published
from mutator.config.definitions.setting import Setting
from mutator.config.sources import read_settings
from mutator.plan.runner_choice import RUNNERS

if TYPE_CHECKING:
    from pyspark import SparkContext

    from mutator.config import Config
    from mutator.config.reader import Recorded
    from mutator.engine.receipts import Receipts
    from mutator.engine.runner import Runner
    from mutator.pipeline.reports.printed import PrintedReport
    from mutator.pipeline.runners import Engine
    from mutator.plan.run_plan import Plan
    from mutator.plan.runner_choice import RunnerChoice

_log = logging.getLogger(__name__)


def setting(overrides: str = "the configuration file") -> Option:
    """Return the option for single settings."""
    text = f"a setting, which overrides {overrides}; repeatable"
    more: dict[str, Any] = {
        "action": "append",
        "default": [],
        "type": _assignment,
        "metavar": "KEY=VALUE",
        "help": text,
    }
    return option("-D", dest="settings", **more)


def _assignment(text: str) -> str:
    """Return the value of -D. Raises the error of a word that is no ``key=value``: the shell splits at blanks."""
    key, mark, _ = text.partition("=")
    if mark and key.strip():
        return text
    cure = f"-D {key}=VALUE, without blanks" if key.strip() else "-D KEY=VALUE, such as -D num.reducer=8"
    raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE; write {cure}")


def new_directory(text: str = "output directory, which must not exist", old: str | None = None) -> Option:
    """Return the option that names a new directory. old: as for ``option``."""
    return option("-o", "--output", old=old, required=True, metavar="DIR", help=text)


_FLAGS = [found.flag for found in SETTINGS.values() if found.flag is not None]


def _of_setting(setting: Setting) -> Option:
    """Return the option of a setting with a short name."""
    metavar, meaning = setting.help
    default = f" (default {setting.default})" if setting.default else ""
    return option(str(setting.flag), metavar=metavar, help=f"{meaning}{default}")


# The settings that nearly every run needs, so that it needs no file.
COMMON = tuple(map(_of_setting, SHORT.values()))
_CONFIG_HELP = f"configuration file, .properties or .toml (default {NAME} of this directory; {NONE}: no file)"
CONFIG = (option("--config", metavar="FILE", help=_CONFIG_HELP), *COMMON, setting())
_ORDER = ("order_by", "order_type")
_OTHERS = (_of_setting(one) for name, one in SHORT.items() if name not in _ORDER)
CONFIG_WITHOUT_ORDER = (CONFIG[0], *_OTHERS, setting())


def _no_stdin(path: str) -> str:
    if path in ("", "-"):
        what = "the path is empty" if not path else "this command does not read stdin: write it to a file"
        raise argparse.ArgumentTypeError(what)
    return path


_PATHS: dict[str, Any] = {"action": "extend", "nargs": "+", "metavar": "PATH"}
_OR_STDIN = {**_PATHS, "help": "feed directories, files or patterns, or - for stdin; repeatable"}
_FILES = {**_PATHS, "type": _no_stdin, "help": "feed directories, files or patterns; repeatable"}
FEED, FEED_PLACE = option("--feed", required=True, **_OR_STDIN), place("--feed", **_OR_STDIN)
FEED_FILES, FEED_OF_INIT = option("--feed", required=True, **_FILES), option("--feed", **_FILES)
PARTITIONED_BY = option(
    "--partitioned-by",
    metavar="FIELDS",
    help="partition fields of the master, such as store_id,day=date(ts); the same as -D partitioned.by=FIELDS",
)


def _overwrite(operation: str, what: str) -> Option:
    """Return the option that chooses an operation."""
    text = f"replace {what}; the same as -D write.operation={operation}"
    name = f"--{operation.replace('_', '-')}"
    return option(name, action="append_const", dest="settings", const=f"write.operation={operation}", help=text)


def _allowed(name: str, what: str) -> Option:
    """Return the option that sets a flag."""
    return option(name, action="store_const", const="true", help=what)


ALLOW_EMPTY = _allowed(
    "--allow-empty", "accept a feed without rows for an insert overwrite of everything, which then deletes every record"
)
REPLACE_DAMAGED = _allowed("--replace-damaged", "let an insert overwrite replace files that cannot be read")
INSERT_OVERWRITE = (
    _overwrite("insert_overwrite", "the partitions of the feed's winners"),
    _overwrite("insert_overwrite_table", "everything"),
    ALLOW_EMPTY,
    REPLACE_DAMAGED,
)
ENGINE = option(
    "--engine",
    choices=("auto", "blocks", "records"),
    default="auto",
    help="merge blocks of rows, or row by row (default auto: blocks wherever possible)",
)
RUNNER = option(
    "--runner",
    choices=RUNNERS,
    help="run the tasks in processes of this machine, or on Spark (default auto: whichever is faster)",
)
DRY_RUN = option("--dry-run", action="store_true", help="report what the run would do, and write nothing")
JSON = option("--json", action="store_true", help="print JSON on stdout")


def settings_of(arguments: argparse.Namespace) -> list[str]:
    """Return the settings of a command line, including those that have an option of their own."""
    given = ((flag, getattr(arguments, flag[2:].replace("-", "_"), None)) for flag in _FLAGS)
    return [*arguments.settings, *(f"{flag}={value}" for flag, value in given if value is not None)]


def config_of(arguments: argparse.Namespace, recorded: Recorded | None = None) -> Config:
    """Read the configuration of a command that merges, and print its warnings. recorded: as for ``config.load``."""
    config = loaded(arguments, recorded=recorded)
    warn(arguments, config.wording.warnings)
    return config


def loaded(
    arguments: argparse.Namespace,
    settings: Sequence[str] | None = None,
    recorded: Recorded | None = None,
    **source: str,
) -> Config:
    """Read the configuration of a command line.

    settings: instead of those that were given. recorded, source: as for ``config.load``.
    """
    given = settings_of(arguments)
    words = [one if one.startswith("--") else f"-D {one}" for one in given]
    _log.info("settings: %s", " ".join([arguments.config or "no file", *words]))
    config = load(arguments.config, given if settings is None else settings, recorded, **source)
    check_runner(arguments, config)
    switches = {name: flag for name, flag in SWITCHES.items() if hasattr(arguments, flag[2:].replace("-", "_"))}
    paths = getattr(arguments, "shown_path", str)
    return config.read_by(Audience({**switches, **config.wording.audience.names}, paths=paths))


def config_without_id(arguments: argparse.Namespace) -> Config:
    """Read the configuration of a command that merges nothing, and so needs no record ID."""
    settings = settings_of(arguments)
    has_id = "id.field.ordinals" in map(published, read_settings(arguments.config, settings))
    return loaded(arguments, settings if has_id else ["--key=0", *settings])


def merge_on(
    runner: str, spark: Callable[[], AbstractContextManager[SparkContext]], arguments: argparse.Namespace
) -> Engine:
    """Return the engine of a run, with warnings on stderr.

    runner: one of ``runner_choice.RUNNERS``. spark: returns the context, once it is needed.
    """

    def merge(plan: Plan, staging: str | None) -> Receipts:
        from mutator.pipeline.runners import engine_on  # loads the engine, which a run without a feed never needs

        return engine_on(runner, spark)(plan, staging)

    return warn_before(merge, arguments)


def warn_before(merge: Engine, arguments: argparse.Namespace) -> Engine:
    """Return an engine that first prints the warnings of the plan."""

    def warn_and_merge(plan: Plan, staging: str | None) -> Receipts:
        warn(arguments, map(plan.audience, plan.warnings))
        return merge(plan, staging)

    return warn_and_merge


@contextmanager
def open_runner(
    wanted: str, paths: Iterable[str], name: str, arguments: argparse.Namespace
) -> Iterator[tuple[Runner, RunnerChoice]]:
    """Yield the runner of a command that reads some paths. wanted: one of ``runner_choice.RUNNERS``."""
    from mutator.pipeline import runners

    choice = runners.choice_for_paths(wanted, paths)
    with runners.open_runner(choice, spark(name, arguments)) as runner:
        yield runner, choice


def spark(name: str, arguments: argparse.Namespace) -> Callable[[], AbstractContextManager[SparkContext]]:
    """Return a function that opens the running Spark session, or a new one. name: of its application."""

    def open_context() -> AbstractContextManager[SparkContext]:
        from mutator.engine.spark.session import spark_context

        return spark_context(name, starting(arguments))

    return open_context


def starting(arguments: argparse.Namespace) -> Callable[[], None]:
    """Return a function to call before Spark starts, which takes seconds."""
    return lambda: notify(arguments, "starting Spark ...")


def shown(report: PrintedReport, arguments: argparse.Namespace) -> str:
    """Return a report as JSON or as text, as the user asked for."""
    return report.json() if arguments.json else text_of(report, arguments)


def text_of(report: PrintedReport, arguments: argparse.Namespace) -> str:
    """Return a report as text, with all lines if the user asked for them."""
    return report.text(verbose=arguments.verbose > 0)
