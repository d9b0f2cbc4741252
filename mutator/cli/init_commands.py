"""The command ``mutator init``: propose a configuration from the data.

mutator init                                 a master and a feed that are the only directories here
mutator init --master DIR --feed PATH… [-o FILE] [-D key=value …]
mutator init --feed PATH                     there is no master yet

Exit codes: 0 the file can be used; 3 the data leave a decision without which no run is possible, or a dry run with the
proposed settings stopped. The file is written in each of these cases.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutator.cli import options
from mutator.cli.command import Answer, Command, CommandReport, option
from mutator.cli.config_file import NAME
from mutator.config import parse
from mutator.config.definitions import published
from mutator.config.sources import in_directory_of, parse_overrides, settings_in
from mutator.errors import MutatorError, error
from mutator.errors.display import command, counted, text_of, without_secrets

if TYPE_CHECKING:
    from mutator.pipeline.trial import Example, Trial
    from mutator.plan.proposal.choices import Proposal

_FEED_NAME = re.compile("incr|feed|delta|chang|updat|mutation|cdc", re.IGNORECASE)


def _init(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.plan.proposal.choices import in_words, listing, toml_text
    from mutator.plan.proposal.propose import propose

    printed = arguments.output == "-"
    if not printed:
        _check_target(Path(arguments.output), force=arguments.force)
    if arguments.feed is None:
        arguments.master, arguments.feed = _inputs_here(arguments.master)
    given = parse_overrides(options.settings_of(arguments))
    settings = {published(key): value for key, value in given.items()}
    found = propose(arguments.master, arguments.feed, settings)
    proposal = found.proposal
    master = arguments.master or _unused("master")
    output = _unused("merged", beside=master)
    file = NAME if printed else arguments.output
    merge = command("run", *(() if os.path.normpath(file) == NAME else ("--config", file)))
    text = toml_text(proposal, found.inputs, _places(file, master, arguments.feed, output), merge)
    trial = _trial(proposal, text, master, arguments.feed, output)
    if not printed:
        _write(Path(arguments.output), text, force=arguments.force)
    code = 0 if proposal.usable and trial is not None and trial.fault is None else 3
    warnings = () if trial is None or trial.report is None else trial.report.warnings
    if arguments.json:
        path = None if printed else arguments.output
        yield CommandReport(_json(proposal, found.inputs, trial, path, merge), warnings, code)
    elif printed:
        stopped = () if not code else (f"not ready to run: {_obstacle(proposal)}", *_trial_lines(trial, arguments))
        yield Answer(text.removesuffix("\n"), (*warnings, *stopped), code)
    else:
        questions = [f"  {number}. {in_words(text)}" for number, text in enumerate(proposal.questions, 1)]
        lines = [*found.inputs, *(f"note    {in_words(note)}" for note in proposal.notes), "", *listing(proposal), ""]
        lines += [*_trial_lines(trial, arguments), "", *(["please decide", *questions, ""] if questions else [])]
        following = "decide the questions above, then" if questions else "next"
        following = f"not ready to run: {_obstacle(proposal)}, then" if code else following
        again = "a run merges once; for feed files that keep arriving, make a workflow: mutator workflow --help"
        lines += [again, f"wrote {arguments.output}; {following}:", merge]
        yield CommandReport(text_of(lines), warnings, code)


def _obstacle(proposal: Proposal) -> str:
    """Return what the user has to do before a run."""
    if not proposal.usable:
        return "decide the questions above"
    return "correct what stopped the dry run"


def _check_target(path: Path, *, force: bool) -> None:
    """Raise ConfigError for a file that exists, and for a directory that does not."""
    if path.is_dir() or (path.exists() and not force):
        raise error("init.exists", path=path)
    if not path.absolute().parent.is_dir():
        raise error("path.missing", path=path.parent, what="directory")


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write a whole file: with force over another one, otherwise only where there is none."""
    from mutator.storage.local import LocalStorage, remove_leftovers

    target, storage = str(path.absolute()), LocalStorage()
    remove_leftovers(target)
    if force:
        storage.replace(target, text.encode())
        return
    try:
        with storage.create_new(target) as stream:
            stream.write(text.encode())
    except MutatorError as fault:
        raise (error("init.exists", path=path) if fault.kind == "storage.exists" else fault) from None


def _unused(name: str, beside: str = "") -> str:
    """Return a path that nothing has: in the working directory, or beside a path that has a scheme."""
    from mutator.storage import located

    directory = beside.rstrip("/").rpartition("/")[0] if "://" in beside else ""
    base = f"{directory}/{name}" if directory else name
    for number in count(1):
        storage, path = located(found := base if number == 1 else f"{base}-{number}")
        if storage.stat(path) is None:
            return found
    raise AssertionError("there are more numbers than paths")


def _inputs_here(master: str | None) -> tuple[str, list[str]]:
    """Return the master and the feed, if the current directory has no other directories. Raises ConfigError."""
    names: list[str] = []
    with suppress(OSError):  # of a directory that cannot be listed
        names = sorted(entry.name for entry in os.scandir() if entry.is_dir() and entry.name[0] not in "._")
    feeds = [name for name in names if _FEED_NAME.search(name)]
    if master is None and len(names) == 2 and len(feeds) == 1:
        (other,) = set(names).difference(feeds)
        return other, feeds
    seen = ", ".join(names) or "none"
    what = f"--feed: required; the directories here do not show which of them it is: {seen}"
    raise error("usage", what=what if master is None else "--feed: required beside --master")


def _places(file: str, master: str, feed: Sequence[str], output: str) -> dict[str, Any]:
    """Return the places as a file names them: relative to it."""
    directory = os.path.dirname(file)

    def from_file(path: str) -> str:
        is_relative = in_directory_of(Path("x/y"), path) != path
        return os.path.relpath(path, directory) if directory and is_relative else path

    first, *more = map(from_file, feed)
    return {"master": from_file(master), "feed": [first, *more] if more else first, "output": from_file(output)}


def _trial(proposal: Proposal, text: str, master: str, feed: Sequence[str], output: str) -> Trial | None:
    """Try the file out as it is written; return None if it lacks a decision."""
    from mutator.pipeline.trial import try_out

    if not proposal.usable:
        return None
    return try_out(parse(settings_in(text), NAME), master, feed, output)


def _trial_lines(trial: Trial | None, arguments: argparse.Namespace) -> list[str]:
    if trial is None:
        return ["no dry run: a decision is missing"]
    if trial.fault is not None:
        return f"the dry run stopped: {trial.fault}".split("\n")
    if trial.report is None:
        size = counted(trial.bytes, "byte")
        return [f"no dry run: the inputs have {size}; mutator run --dry-run counts what would become of them"]
    _, _, counts = options.text_of(trial.report, arguments).partition("\n\n")
    lines = ["dry run", *counts.split("\n")]
    if trial.examples:
        lines += ["", "some rows of the feed", *(line for one in trial.examples for line in _example_lines(one))]
    return lines


def _example_lines(example: Example) -> Iterator[str]:
    what = "a delete" if example.is_delete else "an upsert"
    yield f"  {example.row}"
    yield f"    {what} in {example.file} -> {example.outcome}"
    if example.before is not None and example.outcome != "superseded":
        yield f"    the master has {example.before}"


def _json(proposal: Proposal, inputs: Sequence[str], trial: Trial | None, path: str | None, command: str) -> str:
    from mutator.plan.proposal.choices import in_words, short

    settings: list[dict[str, Any]] = [
        {
            "key": short(choice.key),
            "value": choice.value,
            "why": in_words(choice.why),
            "alternatives": [{"value": value, "why": why} for value, why in choice.alternatives],
            "question": None if choice.question is None else in_words(choice.question),
        }
        for choice in proposal.choices
    ]
    report = None if trial is None or trial.report is None else json.loads(trial.report.json())
    members = {
        "file": path,
        "usable": proposal.usable,
        "inputs": [without_secrets(line) for line in inputs],
        "settings": settings,
        "questions": [in_words(question) for question in proposal.questions],
        "notes": [in_words(note) for note in proposal.notes],
        "dry_run": report,
        "fault": None if trial is None or trial.fault is None else str(trial.fault),
        "rows": [] if trial is None else [vars(example) for example in trial.examples],
        "command": command,
    }
    return json.dumps(members, indent=1)


INIT = Command(
    "init",
    "propose a commented configuration for a master and a feed",
    (
        option("--master", metavar="DIR", help="master directory; leave it out if there is none yet"),
        options.FEED_OF_INIT,
        option("-o", "--output", default=NAME, metavar="FILE", help=f"file to write (default {NAME}); - prints it"),
        option("--force", action="store_true", help="overwrite the file"),
        *options.COMMON,
        options.setting("the proposal"),
        options.JSON,
    ),
    _init,
    when_stopped="nothing was written",
    examples=(
        "mutator init",
        "mutator init --master master --feed incr",
        "mutator init --master master --feed incr --key order_id,line -o orders.toml",
        "mutator init --feed first.csv -o -",
    ),
)
